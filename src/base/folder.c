/* SPDX-License-Identifier: MIT
 *
 * folder.c - creates, checks and removes folders. The parent of a new folder is synced; otherwise a power failure could
 * lose the folder and all files in it, even synced ones.
 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
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

/* ---- contents of a folder */

/* Ignores entries that have been removed or renamed in the meantime, such as temporary files. */
static enum weft_status check_entry(const FTSENT *e)
{
    bool plain = e->fts_info == FTS_D || e->fts_info == FTS_DP || e->fts_info == FTS_F;
    bool gone = (e->fts_info == FTS_NS || e->fts_info == FTS_DNR || e->fts_info == FTS_ERR) && e->fts_errno == ENOENT;
    if (plain || gone)
        return WEFT_OK;
    if (e->fts_info == FTS_SL || e->fts_info == FTS_SLNONE)
        return FAIL(WEFT_FORMAT, "%s is a symbolic link: records are never read through links. Replace it with a copy",
                    e->fts_path);
    if (e->fts_info == FTS_DEFAULT)
        return FAIL(WEFT_FORMAT, "%s is neither a regular file nor a folder", e->fts_path);
    return FAIL(WEFT_IO, "%s cannot be read: %s", e->fts_path, strerror(e->fts_errno));
}

enum weft_status weft_folder_is_plain(const char *folder)
{
    char *const paths[] = {(char *)folder, NULL};
    enum weft_status status = WEFT_OK;
    FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, NULL);
    if (!fts)
        return FAIL(WEFT_IO, "%s cannot be read: %s", folder, strerror(errno));
    for (const FTSENT *e; status == WEFT_OK && (e = fts_read(fts));)
        status = check_entry(e);
    fts_close(fts);
    return status;
}

static enum weft_status remove_entry(const FTSENT *e)
{
    bool folder = e->fts_info == FTS_DP || e->fts_info == FTS_DNR;
    if (e->fts_info == FTS_D || (folder ? rmdir(e->fts_accpath) : unlink(e->fts_accpath)) == 0 || errno == ENOENT)
        return WEFT_OK;
    return FAIL(WEFT_IO, "%s cannot be removed: %s", e->fts_path, strerror(errno));
}

enum weft_status weft_folder_remove(const char *folder)
{
    char *const paths[] = {(char *)folder, NULL};
    enum weft_status status = WEFT_OK;
    FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
    if (!fts)
        return FAIL(WEFT_IO, "%s cannot be removed: %s", folder, strerror(errno));
    for (const FTSENT *e; status == WEFT_OK && (e = fts_read(fts));)
        status = remove_entry(e);
    fts_close(fts);
    return status;
}
