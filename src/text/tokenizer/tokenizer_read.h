/* SPDX-License-Identifier: MIT
 *
 * tokenizer_read.h - reads a tokenizer's vocabulary, a JSON object of token names and ids, and its merges.
 */
#ifndef WEFT_TEXT_TOKENIZER_READ_H
#define WEFT_TEXT_TOKENIZER_READ_H

#include "text/tokenizer/bpe.h"

#include <jansson.h>

struct weft_reading {
    const char *path;    /* used in messages */
    const json_t *vocab; /* name -> id */
    const json_t *pre;   /* the pre_tokenizer */
    struct weft_tokenizer *t;
    bool byte_fallback; /* tokens <0xHH> are bytes */
    bool replaces;      /* the normalizer has a REPLACE step */
};

/* Creates the tokenizer, with capacity for the tokens of the vocabulary and of `added`, and for the merges. The entries
 * of `added` must have a string "content" and an integer "id". */
enum weft_status weft_reading_create(struct weft_reading *r, enum weft_tokenizer_kind kind, const json_t *added,
                                     size_t merges);
/* Sets the tokens. */
enum weft_status weft_reading_vocab(struct weft_reading *r, const json_t *added);
/* Rejects a text with far more added tokens than are supported, before parsing, which takes a kilobyte per token. */
enum weft_status weft_reading_count_added(const char *path, const char *json, size_t bytes);
enum weft_status weft_reading_check_added(const char *path, const json_t *added);
/* Sets the tokens that are searched for in a text, before or after normalization (tokenizer_added.c). */
enum weft_status weft_reading_added(struct weft_reading *r, const json_t *added);

/* Parts of a tokenizer.json (tokenizer_parts.c). */
const char *weft_part_type(const json_t *part);
enum weft_status weft_part_unsupported(const char *path, const char *what, const json_t *part);
bool weft_part_byte_level(const json_t *pre); /* the pre_tokenizer is, or ends in, ByteLevel */
enum weft_status weft_reading_normalizer(struct weft_reading *r, const json_t *part);
enum weft_status weft_reading_pre_tokenizer(struct weft_reading *r, const json_t *part);
enum weft_status weft_reading_decoder(struct weft_reading *r, const json_t *part);        /* tokenizer_after.c */
enum weft_status weft_reading_post_processor(struct weft_reading *r, const json_t *part); /* tokenizer_after.c */
enum weft_status weft_reading_text(struct weft_reading *r, const json_t *text, struct weft_token *to);

/* Sets merge i from two names, or from a line "left right", which is modified. */
enum weft_status weft_reading_merge(const struct weft_reading *r, size_t i, const char *left, const char *right);
enum weft_status weft_reading_merge_line(const struct weft_reading *r, size_t i, char *line);

/* Parses a JSON text. The caller calls json_decref on the value. */
enum weft_status weft_reading_json(const char *path, const char *json, size_t bytes, json_t **value);

#endif
