/* SPDX-License-Identifier: MIT
 *
 * shard.c - maps a token file into memory and validates its header.
 *
 * llm.c's files start with 256 int32: 20240520, version 1, count (uint16 tokens follow), or 20240801, version 7, count
 * (uint32). nanoGPT's files are uint16 tokens without a header. Read as tokens, llm.c's magic numbers would be 55432 or
 * 55713, then 308: the first is above GPT-2's vocabulary, so the formats cannot be confused.
 */
#include "text/tokens/internal.h"

#include <string.h>
#include <sys/mman.h>

static enum weft_status map_file(struct weft_shard *f)
{
    void *map;
    TRY(weft_input_map(f->path, &map, &f->bytes));
    f->map = map;
    return map ? WEFT_OK : FAIL(WEFT_FORMAT, "%s is empty: it has no tokens", f->path);
}

static enum weft_status check_header(struct weft_shard *f, const int32_t *header)
{
    bool narrow = header[0] == WEFT_SHARD_MAGIC16;
    int32_t version = narrow ? WEFT_SHARD_VERSION16 : WEFT_SHARD_VERSION32;
    f->width = narrow ? 2 : 4;
    f->header = WEFT_SHARD_HEADER;
    f->count = header[2];
    if (header[1] != version)
        return FAIL(WEFT_FORMAT, "%s, byte 4: version %d is not supported, only %d", f->path, header[1], version);
    if (f->count < 0)
        return FAIL(WEFT_FORMAT, "%s, byte 8: %d is not a number of tokens: the header is damaged", f->path, header[2]);
    if (f->bytes != WEFT_SHARD_HEADER + (size_t)f->count * (size_t)f->width)
        return FAIL(WEFT_FORMAT,
                    "%s, byte 8: the header declares %d tokens of %d bytes, but %zu bytes follow: the file is "
                    "truncated or damaged",
                    f->path, header[2], f->width, f->bytes - WEFT_SHARD_HEADER);
    return WEFT_OK;
}

/* Checks a file without a known magic number. A file with 506 zero tokens at this position is not text, but has a
 * header with a bad magic number. */
static enum weft_status check_raw(struct weft_shard *f)
{
    const char *bytes = f->map;
    size_t zeros = 12;
    while (zeros < f->bytes && zeros < WEFT_SHARD_HEADER && bytes[zeros] == 0)
        zeros++;
    if (zeros == WEFT_SHARD_HEADER)
        return FAIL(WEFT_FORMAT, "%s, byte 0: the header has an unknown magic number", f->path);
    if (f->bytes % 2)
        return FAIL(WEFT_FORMAT,
                    "%s has no header and an odd number of bytes, %zu, so it does not contain uint16 tokens", f->path,
                    f->bytes);
    f->width = 2;
    f->header = 0;
    f->count = (int64_t)(f->bytes / 2);
    return WEFT_OK;
}

enum weft_status weft_shard_open(struct weft_shard *f)
{
    TRY(map_file(f));
    const int32_t *header = f->map;
    bool known = f->bytes >= sizeof *header && (header[0] == WEFT_SHARD_MAGIC16 || header[0] == WEFT_SHARD_MAGIC32);
    if (known && f->bytes < WEFT_SHARD_HEADER)
        return FAIL(WEFT_FORMAT, "%s ends at byte %zu, inside its header of %d bytes: the file is truncated", f->path,
                    f->bytes, WEFT_SHARD_HEADER);
    TRY(known ? check_header(f, header) : check_raw(f));
    return WEFT_OK;
}

void weft_shard_close(struct weft_shard *f)
{
    if (f->map)
        munmap(f->map, f->bytes);
    f->map = NULL;
    weft_tree_free(f->tree);
    f->tree = NULL;
}
