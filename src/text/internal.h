/* SPDX-License-Identifier: MIT
 *
 * internal.h - between the files that read texts and write token files; no other room includes it.
 */
#ifndef WEFT_TEXT_INTERNAL_H
#define WEFT_TEXT_INTERNAL_H

#include "text/text.h"

/* ---- sources (source.c): the bytes of a file or pipe, decompressed if they are Zstandard frames */

struct weft_source;

enum weft_status weft_source_open(struct weft_source **s, const char *path); /* "-": standard input */
/* Reads from an open stream, which becomes the source's to close. `name` is for messages and must outlive it. */
enum weft_status weft_source_from(struct weft_source **s, FILE *file, const char *name);
void weft_source_close(struct weft_source *s);
const char *weft_source_name(const struct weft_source *s);
/* Fills `to`; gives less than `room` bytes only at the end. */
enum weft_status weft_source_read(struct weft_source *s, char *to, size_t room, size_t *got);

/* ---- documents (documents.c) */

/* A line of JSONL is shorter, a power of two, and a piece of text that is encoded at once no longer. */
enum { WEFT_LINE_BYTES = 16 << 20, WEFT_PIECE_BYTES = 4 << 20 };

/* Calls `text` with the field's text of every line. */
enum weft_status weft_documents_jsonl(struct weft_source *s, const char *field, weft_text_fn *text, void *context);
/* Calls `text` with pieces of plain text, in order. */
enum weft_status weft_documents_plain(struct weft_source *s, weft_text_fn *text, void *context);
/* How much of a text to encode at once: all, or up to a place where a tokenizer cuts anyway. */
size_t weft_piece_bytes(const char *text, size_t bytes);

/* ---- one token file (shard.c): llm.c's is 256 int32 (magic, version, count, zeros) and then the tokens */

enum { WEFT_SHARD_HEADER = 1024, WEFT_SHARD_MAGIC16 = 20240520, WEFT_SHARD_MAGIC32 = 20240801 };
enum { WEFT_SHARD_VERSION16 = 1, WEFT_SHARD_VERSION32 = 7, WEFT_SHARD_MOST_FILES = 1000000 };

struct weft_shard {
    char *path;
    void *map;
    size_t bytes;
    int64_t first; /* its first token in the whole stream */
    int64_t count;
    int width, header; /* bytes of a token, and before the first */
};

/* Maps the file at `path`. Close also after a failure. */
enum weft_status weft_shard_open(struct weft_shard *f);
void weft_shard_close(struct weft_shard *f);

static inline uint32_t weft_shard_token(const struct weft_shard *f, int64_t i)
{
    const char *tokens = (const char *)f->map + f->header;
    return f->width == 2 ? ((const uint16_t *)tokens)[i] : ((const uint32_t *)tokens)[i];
}

/* ---- writing (writer.c): a stream of tokens as numbered files */

struct weft_writer {
    const char *folder, *split;
    int width;        /* bytes of a token, 2 or 4 */
    int64_t limit;    /* tokens of every file but the last */
    int64_t tokens;   /* in all files */
    FILE *file;       /* the last one, while it is not full */
    char path[4096];  /* of the last one looked at */
    uint32_t *buffer; /* WEFT_WRITER_BUFFER tokens of either width */
};
enum { WEFT_WRITER_BUFFER = 1 << 16 };

enum weft_status weft_writer_init(struct weft_writer *w, const char *folder, const char *split, int width,
                                  int64_t limit);
enum weft_status weft_writer_put(struct weft_writer *w, const int32_t *tokens, int64_t count);
/* Reads back at most WEFT_WRITER_BUFFER tokens that were put. */
enum weft_status weft_writer_get(struct weft_writer *w, int64_t first, int64_t count, int32_t *tokens);
/* Forgets all but the first `tokens`. */
enum weft_status weft_writer_cut(struct weft_writer *w, int64_t tokens);
enum weft_status weft_writer_finish(struct weft_writer *w); /* all is on the disk */
int64_t weft_writer_files(const struct weft_writer *w);
void weft_writer_release(struct weft_writer *w);

#endif
