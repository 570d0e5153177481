/* SPDX-License-Identifier: MIT
 *
 * tokenizer_read.h - reading a tokenizer's vocabulary, a JSON object of token names and ids, and its merges.
 */
#ifndef WEFT_TEXT_TOKENIZER_READ_H
#define WEFT_TEXT_TOKENIZER_READ_H

#include "text/bpe.h"

#include <jansson.h>

struct weft_reading {
    const char *path;    /* for messages */
    const json_t *vocab; /* name -> id */
    struct weft_tokenizer *t;
};

/* A name from a file, for a message: long names are truncated. */
struct weft_shown {
    char text[48];
};
struct weft_shown weft_name_show(const char *name);

/* Creates the tokenizer with the tokens of the vocabulary and of `added`, and room for the merges. The entries of
 * `added` must have a string "content" and an integer "id". */
enum weft_status weft_reading_vocab(struct weft_reading *r, enum weft_tokenizer_kind kind, const json_t *added,
                                    size_t merges);

/* Sets merge i from two names, or from a line "left right", which is modified. */
enum weft_status weft_reading_merge(const struct weft_reading *r, size_t i, const char *left, const char *right);
enum weft_status weft_reading_merge_line(const struct weft_reading *r, size_t i, char *line);

/* Parses a JSON text. The caller calls json_decref on the value. */
enum weft_status weft_reading_json(const char *path, const char *json, size_t bytes, json_t **value);

#endif
