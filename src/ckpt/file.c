/* SPDX-License-Identifier: MIT
 *
 * file.c - replaces files atomically: writes to a temporary name, syncs, renames, and syncs the folder.
 */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 26 }; /* bytes per write call; small, so that signals and a full disk are noticed early */

/* A path with a suffix: .writing for the file being written, .old for the file that it replaces. Leftovers of a killed
 * process are overwritten. */
struct suffixed {
    char path[sizeof((struct weft_file *)0)->path + 16];
};
static struct suffixed suffixed(const struct weft_file *f, const char *suffix)
{
    struct suffixed b;
    snprintf(b.path, sizeof b.path, "%s%s", f->path, suffix);
    return b;
}

enum weft_status weft_file_begin(struct weft_file *f, const char *path)
{
    if (strlen(path) >= sizeof f->path)
        return FAIL(WEFT_INVALID, "a path of %zu bytes is too long", strlen(path));
    snprintf(f->path, sizeof f->path, "%s", path);
    f->fd = open(suffixed(f, ".writing").path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (f->fd < 0)
        return FAIL(WEFT_IO, "%s cannot be created: %s", suffixed(f, ".writing").path, strerror(errno));
    return WEFT_OK;
}

enum weft_status weft_file_add(struct weft_file *f, const void *data, size_t bytes)
{
    const char *from = data;
    while (bytes) {
        ssize_t n = write(f->fd, from, (size_t)weft_min((int64_t)bytes, PIECE));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return FAIL(WEFT_IO, "%s cannot be written: %s", f->path, strerror(errno));
        from += n;
        bytes -= (size_t)n;
    }
    return WEFT_OK;
}

static enum weft_status sync_parent(const char *path)
{
    char parent[sizeof((struct weft_file *)0)->path];
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(parent, sizeof parent, ".");
    else
        snprintf(parent, sizeof parent, "%.*s", (int)weft_max(1, slash - path), path);
    TRY(weft_path_sync(parent));
    return WEFT_OK;
}

/* ---- finishing */

static enum weft_status close_synced(const struct weft_file *f, enum weft_status so_far)
{
    if (so_far == WEFT_OK && fsync(f->fd))
        so_far = FAIL(WEFT_IO, "%s cannot be synced to disk: %s", f->path, strerror(errno));
    if (close(f->fd) && so_far == WEFT_OK)
        so_far = FAIL(WEFT_IO, "%s cannot be closed: %s", f->path, strerror(errno));
    return so_far;
}

static bool is_regular(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Links the file that will be replaced to PATH.old, or renames it if the file system has no hard links. */
static enum weft_status keep(const struct weft_file *f)
{
    const struct suffixed kept = suffixed(f, ".old");
    unlink(kept.path);
    if (link(f->path, kept.path) == 0 || errno == ENOENT)
        return WEFT_OK;
    int error = errno;
    if (is_regular(f->path) && rename(f->path, kept.path) == 0)
        return WEFT_OK;
    return FAIL(WEFT_IO, "%s cannot be replaced: %s", f->path, strerror(error));
}

/* Undoes keep() and a rename. */
static void restore(const struct weft_file *f)
{
    if (rename(suffixed(f, ".old").path, f->path) && errno == ENOENT)
        unlink(f->path);
}

/* The old version of the last file is not kept, because nothing can fail after it. */
static enum weft_status replace(const struct weft_file *f, bool last)
{
    if (!last)
        TRY(keep(f));
    if (rename(suffixed(f, ".writing").path, f->path) == 0)
        return WEFT_OK;
    enum weft_status status = FAIL(WEFT_IO, "%s cannot be replaced: %s", f->path, strerror(errno));
    if (!last)
        restore(f);
    return status;
}

static enum weft_status replace_all(const struct weft_file *f, int count)
{
    enum weft_status status = WEFT_OK;
    int replaced = 0;
    while (replaced < count && (status = replace(&f[replaced], replaced == count - 1)) == WEFT_OK)
        replaced++;
    for (int i = 0; i < replaced && status != WEFT_OK; i++)
        restore(&f[i]);
    for (int i = 0; i < count - 1; i++)
        unlink(suffixed(&f[i], ".old").path);
    return status;
}

enum weft_status weft_files_end(const struct weft_file *f, int count, enum weft_status so_far)
{
    for (int i = 0; i < count; i++)
        so_far = close_synced(&f[i], so_far);
    if (so_far == WEFT_OK)
        so_far = replace_all(f, count);
    for (int i = 0; i < count && so_far != WEFT_OK; i++)
        unlink(suffixed(&f[i], ".writing").path);
    for (int i = 0; i < count && so_far == WEFT_OK; i++)
        so_far = sync_parent(f[i].path);
    return so_far;
}

enum weft_status weft_file_end(struct weft_file *f, enum weft_status so_far) { return weft_files_end(f, 1, so_far); }

enum weft_status weft_file_replace(const char *path, const void *data, size_t bytes)
{
    struct weft_file f;
    TRY(weft_file_begin(&f, path));
    TRY(weft_file_end(&f, weft_file_add(&f, data, bytes)));
    return WEFT_OK;
}
