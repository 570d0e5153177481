/* SPDX-License-Identifier: MIT
 *
 * file.c - files that appear whole: written beside their place, synced, renamed, and the folder synced.
 */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 26 }; /* of one write: a signal or a full disk is noticed within it */

/* A name beside the file's: .writing until it is complete, .old for the one it replaces. What a kill left under such a
 * name is overwritten. */
struct beside {
    char path[sizeof((struct weft_file *)0)->path + 16];
};
static struct beside beside(const struct weft_file *f, const char *ending)
{
    struct beside b;
    snprintf(b.path, sizeof b.path, "%s%s", f->path, ending);
    return b;
}

enum weft_status weft_file_begin(struct weft_file *f, const char *path)
{
    if (strlen(path) >= sizeof f->path)
        return FAIL(WEFT_INVALID, "a path of %zu bytes is too long", strlen(path));
    snprintf(f->path, sizeof f->path, "%s", path);
    f->fd = open(beside(f, ".writing").path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (f->fd < 0)
        return FAIL(WEFT_IO, "%s cannot be created: %s", beside(f, ".writing").path, strerror(errno));
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

/* ---- ending */

static enum weft_status close_synced(const struct weft_file *f, enum weft_status so_far)
{
    if (so_far == WEFT_OK && fsync(f->fd))
        so_far = FAIL(WEFT_IO, "%s could not be synced to disk: %s", f->path, strerror(errno));
    if (close(f->fd) && so_far == WEFT_OK)
        so_far = FAIL(WEFT_IO, "%s could not be closed: %s", f->path, strerror(errno));
    return so_far;
}

static bool is_regular(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Gives the file that is about to be replaced a second name, or that name alone where there are no hard links. */
static enum weft_status keep(const struct weft_file *f)
{
    const struct beside kept = beside(f, ".old");
    unlink(kept.path);
    if (link(f->path, kept.path) == 0 || errno == ENOENT)
        return WEFT_OK;
    int error = errno;
    if (is_regular(f->path) && rename(f->path, kept.path) == 0)
        return WEFT_OK;
    return FAIL(WEFT_IO, "%s cannot be replaced: %s", f->path, strerror(error));
}

/* The file as it was before `keep`. */
static void restore(const struct weft_file *f)
{
    if (rename(beside(f, ".old").path, f->path) && errno == ENOENT)
        unlink(f->path);
}

/* The last of several files needs no copy of the old one: nothing can fail after it. */
static enum weft_status replace(const struct weft_file *f, bool last)
{
    if (!last)
        TRY(keep(f));
    if (rename(beside(f, ".writing").path, f->path) == 0)
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
        unlink(beside(&f[i], ".old").path);
    return status;
}

enum weft_status weft_files_end(const struct weft_file *f, int count, enum weft_status so_far)
{
    for (int i = 0; i < count; i++)
        so_far = close_synced(&f[i], so_far);
    if (so_far == WEFT_OK)
        so_far = replace_all(f, count);
    for (int i = 0; i < count && so_far != WEFT_OK; i++)
        unlink(beside(&f[i], ".writing").path);
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
