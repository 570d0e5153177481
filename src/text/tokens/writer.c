/* SPDX-License-Identifier: MIT
 *
 * writer.c - writes a stream of tokens as numbered files of equal size. A token's position follows from its index, so
 * the end of the stream can be read back and truncated.
 */
#include "text/tokens/internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t weft_writer_files(const struct weft_writer *w) { return weft_div_up(w->tokens, w->limit); }

enum weft_status weft_writer_init(struct weft_writer *w, const char *folder, const char *split, int width,
                                  int64_t limit)
{
    *w = (struct weft_writer){.folder = folder, .split = split, .width = width, .limit = limit};
    w->buffer = malloc(WEFT_WRITER_BUFFER * sizeof *w->buffer);
    if (!w->buffer)
        return FAIL(WEFT_NOMEM, "not enough memory to write %s", folder);
    return WEFT_OK;
}

void weft_writer_release(struct weft_writer *w)
{
    if (w->file)
        fclose(w->file);
    free(w->buffer);
}

static enum weft_status failed(const struct weft_writer *w)
{
    return FAIL(WEFT_IO, "%s cannot be written: %s", w->path, strerror(errno));
}

static enum weft_status set_path(struct weft_writer *w, int64_t number)
{
    if (number >= WEFT_SHARD_MAX_FILES)
        return FAIL(WEFT_INVALID, "the output needs more than %d files of %lld tokens: increase --shard-tokens",
                    WEFT_SHARD_MAX_FILES, (long long)w->limit);
    int n = snprintf(w->path, sizeof w->path, "%s/%s_%06lld.bin", w->folder, w->split, (long long)number);
    if (n < 0 || (size_t)n >= sizeof w->path)
        return FAIL(WEFT_INVALID, "the path %s is too long", w->folder);
    return WEFT_OK;
}

static enum weft_status open_file(struct weft_writer *w, int64_t number, const char *mode, FILE **f)
{
    TRY(set_path(w, number));
    *f = fopen(w->path, mode);
    return *f ? WEFT_OK : failed(w);
}

/* Writes the header of the last file for `count` tokens and seeks to the end of the tokens. */
static enum weft_status write_header(struct weft_writer *w, int64_t count)
{
    int32_t header[WEFT_SHARD_HEADER / sizeof(int32_t)] = {
        w->width == 2 ? WEFT_SHARD_MAGIC16 : WEFT_SHARD_MAGIC32,
        w->width == 2 ? WEFT_SHARD_VERSION16 : WEFT_SHARD_VERSION32,
        (int32_t)count,
    };
    if (fseeko(w->file, 0, SEEK_SET) || fwrite(header, sizeof header, 1, w->file) != 1 ||
        fseeko(w->file, WEFT_SHARD_HEADER + count * w->width, SEEK_SET))
        return failed(w);
    return WEFT_OK;
}

static enum weft_status close_file(struct weft_writer *w, int64_t count)
{
    if (!w->file)
        return WEFT_OK;
    TRY(write_header(w, count));
    bool whole = !fflush(w->file) && !fsync(fileno(w->file));
    bool closed = !fclose(w->file);
    w->file = NULL;
    return whole && closed ? WEFT_OK : failed(w);
}

enum weft_status weft_writer_finish(struct weft_writer *w)
{
    TRY(close_file(w, w->tokens % w->limit));
    return WEFT_OK;
}

static enum weft_status write_tokens(struct weft_writer *w, const int32_t *tokens, size_t count)
{
    uint16_t *narrow = (uint16_t *)w->buffer;
    for (size_t i = 0; i < count; i++)
        if (w->width == 2)
            narrow[i] = (uint16_t)tokens[i];
        else
            w->buffer[i] = (uint32_t)tokens[i];
    if (fwrite(w->buffer, (size_t)w->width, count, w->file) != count)
        return failed(w);
    return WEFT_OK;
}

enum weft_status weft_writer_put(struct weft_writer *w, const int32_t *tokens, int64_t count)
{
    while (count > 0) {
        int64_t within = w->tokens % w->limit;
        if (within == 0) {
            TRY(open_file(w, w->tokens / w->limit, "w+b", &w->file));
            TRY(write_header(w, 0));
        }
        int64_t n = weft_min(weft_min(count, w->limit - within), WEFT_WRITER_BUFFER);
        TRY(write_tokens(w, tokens, (size_t)n));
        w->tokens += n;
        tokens += n;
        count -= n;
        if (w->tokens % w->limit == 0)
            TRY(close_file(w, w->limit));
    }
    return WEFT_OK;
}

static enum weft_status read_file(struct weft_writer *w, int64_t first, int64_t count, int32_t *tokens)
{
    FILE *f;
    const uint16_t *narrow = (const uint16_t *)w->buffer;
    TRY(open_file(w, first / w->limit, "rb", &f));
    bool read = !fseeko(f, WEFT_SHARD_HEADER + first % w->limit * w->width, SEEK_SET) &&
                fread(w->buffer, (size_t)w->width, (size_t)count, f) == (size_t)count;
    fclose(f);
    if (!read)
        return FAIL(WEFT_IO, "%s cannot be read back", w->path);
    for (int64_t i = 0; i < count; i++)
        tokens[i] = w->width == 2 ? narrow[i] : (int32_t)w->buffer[i];
    return WEFT_OK;
}

enum weft_status weft_writer_get(struct weft_writer *w, int64_t first, int64_t count, int32_t *tokens)
{
    assert(count <= WEFT_WRITER_BUFFER && first + count <= w->tokens);
    if (w->file && fflush(w->file))
        return failed(w);
    while (count > 0) {
        int64_t n = weft_min(count, w->limit - first % w->limit);
        TRY(read_file(w, first, n, tokens));
        first += n;
        tokens += n;
        count -= n;
    }
    return WEFT_OK;
}

enum weft_status weft_writer_truncate(struct weft_writer *w, int64_t tokens)
{
    int64_t had = weft_writer_files(w), keep = weft_div_up(tokens, w->limit), rest = tokens % w->limit;
    TRY(weft_writer_finish(w));
    w->tokens = tokens;
    for (int64_t i = keep; i < had; i++) {
        TRY(set_path(w, i));
        if (unlink(w->path))
            return failed(w);
    }
    if (rest == 0)
        return WEFT_OK;
    TRY(open_file(w, keep - 1, "r+b", &w->file));
    if (ftruncate(fileno(w->file), WEFT_SHARD_HEADER + rest * w->width))
        return failed(w);
    TRY(write_header(w, rest));
    return WEFT_OK;
}
