/* SPDX-License-Identifier: MIT
 *
 * score.h - scoring given tokens with a model, in nats: sequences, texts, and items with a correct answer.
 *
 * Invariant: no result depends on the batch.
 */
#ifndef WEFT_SCORE_H
#define WEFT_SCORE_H

#include "nn/net.h"

/* ---- sequences (score.c) */

struct weft_scorer {
    const struct weft_nn *model;
    struct weft_net net;
    struct weft_exec *exec;
    int64_t batch; /* number of sequences that run in parallel */
    struct weft_waiting {
        int64_t first, count; /* range of rows */
        double *nll;
    } * waiting;
    int64_t sequences, rows; /* number of waiting sequences and of their rows */
    int64_t scored;          /* number of scored tokens so far */
    int64_t cut;             /* number of sequences so far that were longer than the context */
    int64_t not_finite;      /* number of windows so far with a non-finite cost: if any, no result can be trusted */
    void (*report)(void *context, int64_t scored); /* called after every run; may be NULL */
    void *context;
    struct weft_items *items; /* receives the items of the next stream or items file, see items.h; NULL: not wanted */
    /* Called with every window, in the order in which they were added; may be NULL. */
    void (*each)(void *context, const int32_t *targets, const float *nll, int64_t count);
    void *each_context;
};

/* Creates a scorer with the model's current weights. Free it even after a failure. */
enum weft_status weft_scorer_create(struct weft_scorer **scorer, const struct weft_nn *model, int64_t batch);
void weft_scorer_free(struct weft_scorer *s);
/* Adds to *nll the cost of tokens[from..count), each given all tokens before it; `from` is at least 1. *nll is complete
 * after weft_scorer_finish. If the sequence is longer than the context, its beginning is dropped; if the scored tokens
 * alone are longer, they are scored in windows of the context, like streams. */
enum weft_status weft_scorer_add(struct weft_scorer *s, const int32_t *tokens, int64_t count, int64_t from,
                                 double *nll);
enum weft_status weft_scorer_finish(struct weft_scorer *s);

/* ---- streams (score_text.c): consecutive windows of the context, so that every token but the very first is scored
 * once. Each token is scored given only the tokens before it in the window; for the first scored token, there is only
 * one. */

struct weft_items;
struct weft_shards;
struct weft_tokenizer;
enum { WEFT_POSITION_RANGES = 40 };
struct weft_text_score {
    int64_t tokens; /* number of scored tokens */
    int64_t bytes;  /* bytes of text; 0: unknown */
    double nll;     /* total cost of the scored tokens */
    /* Scores by position in the window, counted from 0. Range 0 is position 0; range r is 2^(r-1) to 2^r - 1. */
    struct weft_position_range {
        int64_t tokens;
        double nll;
    } range[WEFT_POSITION_RANGES];
};
enum weft_status weft_score_shards(struct weft_scorer *s, const struct weft_shards *shards,
                                   struct weft_text_score *score);
/* Scores a text file; Zstandard compression is recognised. */
enum weft_status weft_score_text(struct weft_scorer *s, const struct weft_tokenizer *t, const char *path,
                                 struct weft_text_score *score);

/* ---- items (score_items.c): a JSONL file of {query, choices, gold}, whose gold choice should have the smallest cost
 * after the query, or of BLiMP's pairs, whose sentence_good should cost less than sentence_bad. A tie is wrong.
 * Sentences, and choices after an empty query, are scored after the end-of-text token, if there is one. */

struct weft_items_score {
    bool pairs; /* whether the file contains pairs */
    int64_t items;
    int64_t right;      /* number of items answered correctly, by the total cost of the tokens */
    int64_t right_norm; /* for choices: number of items answered correctly, by the cost per byte of text */
};
enum weft_status weft_score_items(struct weft_scorer *s, const struct weft_tokenizer *t, const char *path,
                                  struct weft_items_score *score);
/* Computes Wilson's 95 % interval of the fraction right/items. */
void weft_wilson(int64_t right, int64_t items, double *low, double *high);

#endif
