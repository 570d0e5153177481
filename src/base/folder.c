/* SPDX-License-Identifier: MIT
 *
 * folder.c - creates folders and their parents. The parent of a new folder is synced: otherwise the folder and all
 * files in it, even synced ones, could be lost in a power failure.
 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum weft_status weft_path_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return FAIL(WEFT_IO, "%s cannot be opened: %s", path, strerror(errno));
    /* EINVAL: the file system cannot sync folders. */
    int error = fsync(fd) && errno != EINVAL ? errno : 0;
    close(fd);
    if (error)
        return FAIL(WEFT_IO, "%s cannot be synced to disk: %s", path, strerror(error));
    return WEFT_OK;
}

static enum weft_status make(const char *path)
{
    char parent[PATH_MAX + 8];
    if (mkdir(path, 0777)) {
        if (errno == EEXIST)
            return WEFT_OK;
        return FAIL(WEFT_IO, "the folder %s cannot be created: %s", path, strerror(errno));
    }
    snprintf(parent, sizeof parent, "%s/..", path);
    TRY(weft_path_sync(parent));
    return WEFT_OK;
}

enum weft_status weft_folder_make_parents(const char *path)
{
    char parent[PATH_MAX];
    for (const char *slash = path; (slash = strchr(slash + 1, '/'));) {
        int n = (int)(slash - path);
        if (n >= PATH_MAX)
            return FAIL(WEFT_INVALID, "a path of %zu bytes is too long", strlen(path));
        snprintf(parent, sizeof parent, "%.*s", n, path);
        TRY(make(parent));
    }
    return WEFT_OK;
}

enum weft_status weft_folder_make(const char *path)
{
    TRY(weft_folder_make_parents(path));
    TRY(make(path));
    return WEFT_OK;
}
