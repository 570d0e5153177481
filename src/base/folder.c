/* SPDX-License-Identifier: MIT
 *
 * folder.c - folders, made with all folders above them; a new name is brought to disk, or a power cut could take the
 * folder away with all that is synced in it.
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
    /* EINVAL: a file system that knows no syncing of folders. */
    int error = fsync(fd) && errno != EINVAL ? errno : 0;
    close(fd);
    if (error)
        return FAIL(WEFT_IO, "%s could not be brought to disk: %s", path, strerror(error));
    return WEFT_OK;
}

static enum weft_status make(const char *path)
{
    char above[PATH_MAX + 8];
    if (mkdir(path, 0777)) {
        if (errno == EEXIST)
            return WEFT_OK;
        return FAIL(WEFT_IO, "the folder %s cannot be made: %s", path, strerror(errno));
    }
    snprintf(above, sizeof above, "%s/..", path);
    TRY(weft_path_sync(above));
    return WEFT_OK;
}

enum weft_status weft_folder_make_above(const char *path)
{
    char above[PATH_MAX];
    for (const char *slash = path; (slash = strchr(slash + 1, '/'));) {
        int n = (int)(slash - path);
        if (n >= PATH_MAX)
            return FAIL(WEFT_INVALID, "a path of %zu bytes is too long", strlen(path));
        snprintf(above, sizeof above, "%.*s", n, path);
        TRY(make(above));
    }
    return WEFT_OK;
}

enum weft_status weft_folder_make(const char *path)
{
    TRY(weft_folder_make_above(path));
    TRY(make(path));
    return WEFT_OK;
}
