/* SPDX-License-Identifier: MIT
 *
 * file.c - opens, maps and reads files, whole or by lines, and closes written ones.
 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Without O_NONBLOCK, opening a named pipe that has no writer would block. */
static enum weft_status open_regular(const char *path, int *fd, size_t *bytes)
{
    struct stat st = {0};
    *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0)
        return FAIL(WEFT_IO, "%s cannot be read: %s", path, strerror(errno));
    *bytes = fstat(*fd, &st) == 0 ? (size_t)st.st_size : 0;
    if (S_ISREG(st.st_mode))
        return WEFT_OK;
    close(*fd);
    return FAIL(WEFT_IO, "%s cannot be read: it is a %s, not a regular file", path,
                S_ISDIR(st.st_mode) ? "folder" : "pipe or a device");
}

static enum weft_status open_stream(const char *path, FILE **file, size_t *bytes)
{
    int fd;
    TRY(open_regular(path, &fd, bytes));
    *file = fdopen(fd, "rb");
    if (*file)
        return WEFT_OK;
    close(fd);
    return FAIL(WEFT_NOMEM, "not enough memory to read %s", path);
}

enum weft_status weft_input_open(const char *path, FILE **file)
{
    size_t bytes;
    TRY(open_stream(path, file, &bytes));
    return WEFT_OK;
}

enum weft_status weft_input_map(const char *path, void **map, size_t *bytes)
{
    int fd;
    *map = NULL;
    TRY(open_regular(path, &fd, bytes));
    void *mapped = *bytes ? mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    int error = errno;
    close(fd);
    if (mapped == MAP_FAILED)
        return FAIL(WEFT_IO, "%s cannot be memory-mapped: %s", path, strerror(error));
    *map = mapped;
    return WEFT_OK;
}

static enum weft_status slurp(const char *path, FILE *file, size_t limit, char **text, size_t *bytes)
{
    if (*bytes > limit)
        return FAIL(WEFT_FORMAT, "%s is larger than %zu bytes, the limit for files of this kind", path, limit);
    *text = malloc(*bytes + 1);
    if (!*text)
        return FAIL(WEFT_NOMEM, "not enough memory for the %zu bytes of %s", *bytes, path);
    *bytes = fread(*text, 1, *bytes, file);
    (*text)[*bytes] = '\0';
    return ferror(file) ? FAIL(WEFT_IO, "%s cannot be read: %s", path, strerror(errno)) : WEFT_OK;
}

enum weft_status weft_slurp(const char *path, size_t limit, char **text, size_t *bytes)
{
    FILE *file;
    *text = NULL;
    TRY(open_stream(path, &file, bytes));
    enum weft_status status = slurp(path, file, limit, text, bytes);
    fclose(file);
    return status;
}

/* ---- lines */

static enum weft_status grow(struct weft_lines *l)
{
    size_t room = l->room ? 2 * l->room : 4096;
    char *more = realloc(l->text, room);
    if (!more)
        return FAIL(WEFT_NOMEM, "not enough memory for a line of %zu bytes of %s", room, l->path);
    l->text = more;
    l->room = room;
    return WEFT_OK;
}

enum weft_status weft_lines_next(struct weft_lines *l)
{
    int c = 0;
    l->bytes = 0;
    l->number++;
    errno = 0;
    while (c != '\n' && (c = getc_unlocked(l->file)) != EOF) {
        if (l->bytes == WEFT_MAX_LINE)
            return FAIL(WEFT_FORMAT, "%s:%lld: the line is longer than %d bytes", l->path, (long long)l->number,
                        WEFT_MAX_LINE);
        if (l->bytes + 2 > l->room)
            TRY(grow(l));
        l->text[l->bytes++] = (char)c;
    }
    if (ferror(l->file))
        return FAIL(WEFT_IO, "%s cannot be read: %s", l->path, strerror(errno));
    if (l->bytes)
        l->text[l->bytes] = 0;
    return WEFT_OK;
}

void weft_lines_release(struct weft_lines *l) { free(l->text); }

bool weft_output_close(FILE *file)
{
    bool failed = ferror(file);
    return fclose(file) == 0 && !failed;
}

bool weft_ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}
