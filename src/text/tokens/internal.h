/* SPDX-License-Identifier: MIT
 *
 * internal.h - declarations shared by the files that read texts and write token files; private to src/text.
 */
#ifndef WEFT_TEXT_INTERNAL_H
#define WEFT_TEXT_INTERNAL_H

#include "text/text.h"

/* ---- sources (source.c): the bytes of a file or pipe, decompressed if it is Zstandard */

struct weft_source;

enum weft_status weft_source_open(struct weft_source **s, const char *path); /* "-": standard input */
/* Takes ownership of an open stream. `name` is used in messages and must outlive the source. */
enum weft_status weft_source_from(struct weft_source **s, FILE *file, const char *name);
void weft_source_close(struct weft_source *s);
const char *weft_source_name(const struct weft_source *s);
/* Fills `to`; returns less than `room` bytes only at the end of the input. */
enum weft_status weft_source_read(struct weft_source *s, char *to, size_t room, size_t *got);

/* ---- documents (documents.c) */

/* A JSONL line must be shorter than WEFT_LINE_BYTES, a power of two. Text is encoded WEFT_PIECE_BYTES at a time. */
enum { WEFT_LINE_BYTES = 16 << 20, WEFT_PIECE_BYTES = 4 << 20 };

/* Calls `text` with the value of `field` of every line. */
enum weft_status weft_documents_jsonl(struct weft_source *s, const char *field, weft_text_fn *text, void *context);
/* Calls `text` with consecutive pieces of plain text. */
enum weft_status weft_documents_plain(struct weft_source *s, weft_text_fn *text, void *context);
/* Returns the number of bytes of a text to encode in one piece: all of them, or up to a gap (bpe.h). */
size_t weft_piece_bytes(const char *text, size_t bytes);

/* ---- one token file (shard.c) in llm.c's format: 256 int32 (magic, version, count, zeros), then the tokens */

enum { WEFT_SHARD_HEADER = 1024, WEFT_SHARD_MAGIC16 = 20240520, WEFT_SHARD_MAGIC32 = 20240801 };
enum { WEFT_SHARD_VERSION16 = 1, WEFT_SHARD_VERSION32 = 7, WEFT_SHARD_MAX_FILES = 1000000 };

struct weft_shard {
    char *path;
    void *map;
    size_t bytes;
    struct weft_tree *tree; /* NULL: none */
    int64_t first;          /* index of its first token in the stream */
    int64_t count;
    int width, header; /* bytes per token; bytes before the first token */
};

/* Maps the file at `path`. It must be closed even after a failure. */
enum weft_status weft_shard_open(struct weft_shard *f);
void weft_shard_close(struct weft_shard *f);

static inline uint32_t weft_shard_token(const struct weft_shard *f, int64_t i)
{
    const char *tokens = (const char *)f->map + f->header;
    return f->width == 2 ? ((const uint16_t *)tokens)[i] : ((const uint32_t *)tokens)[i];
}

/* ---- writing (writer.c): writes a stream of tokens as numbered files */

struct weft_writer {
    const char *folder, *split;
    int width;        /* bytes per token, 2 or 4 */
    int64_t limit;    /* tokens in every file but the last */
    int64_t tokens;   /* in all files */
    FILE *file;       /* the last file, while it is not full */
    char path[4096];  /* path of the file used last, for messages */
    uint32_t *buffer; /* WEFT_WRITER_BUFFER tokens of either width */
};
enum { WEFT_WRITER_BUFFER = 1 << 16 };

enum weft_status weft_writer_init(struct weft_writer *w, const char *folder, const char *split, int width,
                                  int64_t limit);
enum weft_status weft_writer_put(struct weft_writer *w, const int32_t *tokens, int64_t count);
/* Reads back at most WEFT_WRITER_BUFFER written tokens. */
enum weft_status weft_writer_get(struct weft_writer *w, int64_t first, int64_t count, int32_t *tokens);
/* Truncates the stream to its first `tokens` tokens. */
enum weft_status weft_writer_truncate(struct weft_writer *w, int64_t tokens);
enum weft_status weft_writer_finish(struct weft_writer *w); /* writes and syncs everything to disk */
int64_t weft_writer_files(const struct weft_writer *w);
void weft_writer_release(struct weft_writer *w);

#endif
