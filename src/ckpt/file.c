/* SPDX-License-Identifier: MIT
 *
 * file.c - files that appear whole: written beside their place, synced, renamed, and the folder synced.
 */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 26 }; /* of one write: a signal or a full disk is noticed within it */

/* The name until the file is complete. One that a kill left is overwritten. */
struct beside {
    char path[sizeof((struct weft_file *)0)->path + 16];
};
static struct beside beside(const struct weft_file *f)
{
    struct beside b;
    snprintf(b.path, sizeof b.path, "%s.writing", f->path);
    return b;
}

enum weft_status weft_file_begin(struct weft_file *f, const char *path)
{
    if (strlen(path) >= sizeof f->path)
        return FAIL(WEFT_INVALID, "a path of %zu bytes is too long", strlen(path));
    snprintf(f->path, sizeof f->path, "%s", path);
    f->fd = open(beside(f).path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (f->fd < 0)
        return FAIL(WEFT_IO, "%s cannot be created: %s", beside(f).path, strerror(errno));
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

static enum weft_status place(const struct weft_file *f)
{
    if (rename(beside(f).path, f->path))
        return FAIL(WEFT_IO, "%s cannot be renamed: %s", beside(f).path, strerror(errno));
    TRY(sync_parent(f->path));
    return WEFT_OK;
}

enum weft_status weft_file_end(struct weft_file *f, enum weft_status so_far)
{
    if (so_far == WEFT_OK && fsync(f->fd))
        so_far = FAIL(WEFT_IO, "%s could not be brought to disk: %s", f->path, strerror(errno));
    if (close(f->fd) && so_far == WEFT_OK)
        so_far = FAIL(WEFT_IO, "%s could not be closed: %s", f->path, strerror(errno));
    if (so_far == WEFT_OK)
        so_far = place(f);
    if (so_far != WEFT_OK)
        unlink(beside(f).path);
    return so_far;
}

enum weft_status weft_file_replace(const char *path, const void *data, size_t bytes)
{
    struct weft_file f;
    TRY(weft_file_begin(&f, path));
    TRY(weft_file_end(&f, weft_file_add(&f, data, bytes)));
    return WEFT_OK;
}
