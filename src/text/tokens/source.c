/* SPDX-License-Identifier: MIT
 *
 * source.c - reads the bytes of a file or pipe. Zstandard is recognised by its magic number, not by the file name, and
 * decompressed while reading, with a window of at most 128 MiB in memory.
 */
#include "text/tokens/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { IN_BYTES = 1 << 16 };

struct weft_source {
    FILE *file;
    const char *name;
    ZSTD_DStream *zstd; /* NULL if not compressed */
    bool in_frame;
    int64_t taken;   /* number of bytes of the file consumed so far */
    size_t at, held; /* in[at..held) is unread */
    char in[];       /* IN_BYTES */
};

const char *weft_source_name(const struct weft_source *s) { return s->name; }

void weft_source_close(struct weft_source *s)
{
    if (!s)
        return;
    ZSTD_freeDStream(s->zstd);
    if (s->file != stdin)
        fclose(s->file);
    free(s);
}

/* Reads more once the buffer is used up; `held` is 0 at the end of the file. */
static enum weft_status refill(struct weft_source *s)
{
    if (s->at < s->held)
        return WEFT_OK;
    s->at = 0;
    errno = 0;
    s->held = fread(s->in, 1, IN_BYTES, s->file);
    if (ferror(s->file))
        return FAIL(WEFT_IO, "%s cannot be read after byte %lld: %s", s->name, (long long)s->taken, strerror(errno));
    return WEFT_OK;
}

/* Recognises a Zstandard frame, or a skippable frame, which parallel compressors write first. */
static bool is_zstd(const char *bytes, size_t n)
{
    uint32_t magic;
    if (n < sizeof magic)
        return false;
    memcpy(&magic, bytes, sizeof magic);
    return magic == ZSTD_MAGICNUMBER || (magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
}

enum weft_status weft_source_from(struct weft_source **out, FILE *file, const char *name)
{
    struct weft_source *s = malloc(sizeof *s + IN_BYTES);
    if (!s) {
        fclose(file);
        return FAIL(WEFT_NOMEM, "not enough memory to read %s", name);
    }
    *s = (struct weft_source){.file = file, .name = name};
    enum weft_status status = refill(s);
    if (status == WEFT_OK && is_zstd(s->in, s->held)) {
        s->zstd = ZSTD_createDStream();
        if (!s->zstd)
            status = FAIL(WEFT_NOMEM, "not enough memory to decompress %s", name);
    }
    if (status == WEFT_OK)
        *out = s;
    else
        weft_source_close(s);
    return status;
}

enum weft_status weft_source_open(struct weft_source **s, const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *f = stdin;
    if (!standard)
        TRY(weft_input_open(path, &f));
    TRY(weft_source_from(s, f, standard ? "standard input" : path));
    return WEFT_OK;
}

static enum weft_status decompress(struct weft_source *s, ZSTD_outBuffer *out)
{
    ZSTD_inBuffer in = {s->in, s->held, s->at};
    size_t rest = ZSTD_decompressStream(s->zstd, out, &in);
    s->taken += (int64_t)(in.pos - s->at);
    s->at = in.pos;
    if (ZSTD_isError(rest))
        return FAIL(WEFT_FORMAT, "%s, near byte %lld: the Zstandard data is damaged: %s", s->name, (long long)s->taken,
                    ZSTD_getErrorName(rest));
    s->in_frame = rest != 0;
    return WEFT_OK;
}

static enum weft_status read_zstd(struct weft_source *s, char *to, size_t room, size_t *got)
{
    ZSTD_outBuffer out = {to, room, 0};
    while (out.pos < room) {
        size_t before = out.pos;
        TRY(refill(s));
        bool end = s->held == 0;
        if (end && !s->in_frame)
            break;
        TRY(decompress(s, &out)); /* at the end, this flushes the decompressor */
        if (end && s->in_frame && out.pos == before)
            return FAIL(WEFT_FORMAT, "%s ends at byte %lld, inside a compressed frame: the file is truncated", s->name,
                        (long long)s->taken);
    }
    *got = out.pos;
    return WEFT_OK;
}

enum weft_status weft_source_read(struct weft_source *s, char *to, size_t room, size_t *got)
{
    if (s->zstd) {
        TRY(read_zstd(s, to, room, got));
        return WEFT_OK;
    }
    *got = 0;
    while (*got < room) {
        TRY(refill(s));
        size_t n = (size_t)weft_min((int64_t)(s->held - s->at), (int64_t)(room - *got));
        if (n == 0)
            break;
        memcpy(to + *got, s->in + s->at, n);
        s->at += n;
        s->taken += (int64_t)n;
        *got += n;
    }
    return WEFT_OK;
}
