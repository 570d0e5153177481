/* SPDX-License-Identifier: MIT
 *
 * tokenizer_read.h - a tokenizer while it is read from a file: its vocabulary as a JSON object of names, and its
 * merges.
 */
#ifndef WEFT_TEXT_TOKENIZER_READ_H
#define WEFT_TEXT_TOKENIZER_READ_H

#include "text/bpe.h"

#include <jansson.h>

struct weft_reading {
    const char *path;    /* for messages */
    const json_t *vocab; /* numbers by names */
    struct weft_tokenizer *t;
};

/* A name from a file, for a message: control characters become question marks, and long ones end early. */
struct weft_shown {
    char text[48];
};
struct weft_shown weft_name_show(const char *name);

/* Makes the tokenizer, with every token of the vocabulary and of `added` and room for the merges. An entry of `added`
 * has a text as its content and a number as its id. */
enum weft_status weft_reading_vocab(struct weft_reading *r, enum weft_tokenizer_kind kind, const json_t *added,
                                    size_t merges);

/* Merge i, of two names; or of "left right", which is taken apart. */
enum weft_status weft_reading_merge(const struct weft_reading *r, size_t i, const char *left, const char *right);
enum weft_status weft_reading_merge_line(const struct weft_reading *r, size_t i, char *line);

/* The whole of a JSON text, which the caller lets go. */
enum weft_status weft_reading_json(const char *path, const char *json, size_t bytes, json_t **value);

#endif
