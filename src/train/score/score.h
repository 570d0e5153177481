/* SPDX-License-Identifier: MIT
 *
 * score.h - scoring given tokens with a model, in nats: sequences, texts, and items with a right answer.
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
    int64_t batch; /* sequences that run side by side */
    struct weft_waiting {
        int64_t first, count; /* rows */
        double *nll;
    } * waiting;
    int64_t sequences, rows; /* that wait */
    int64_t scored;          /* tokens so far */
    int64_t cut;             /* sequences so far that were longer than the context */
    int64_t not_finite;      /* windows so far whose cost is not finite: then no result can be trusted */
    void (*report)(void *context, int64_t scored); /* called after every run; may be NULL */
    void *context;
    struct weft_items *items; /* NULL, or takes the items of the next stream or file of items, see items.h */
    /* Called with every window in the order they were added; may be NULL. */
    void (*each)(void *context, const int32_t *targets, const float *nll, int64_t count);
    void *each_context;
};

/* With the model's weights as they are now. To be freed even when this fails. */
enum weft_status weft_scorer_create(struct weft_scorer **scorer, const struct weft_nn *model, int64_t batch);
void weft_scorer_free(struct weft_scorer *s);
/* Adds to *nll what tokens[from..count) cost, each after all tokens before it; `from` is at least 1. *nll is complete
 * after weft_scorer_finish. Of a sequence that is longer than the context the beginning is left out; where the scored
 * tokens alone are longer, they are scored in windows of the context, as streams are. */
enum weft_status weft_scorer_add(struct weft_scorer *s, const int32_t *tokens, int64_t count, int64_t from,
                                 double *nll);
enum weft_status weft_scorer_finish(struct weft_scorer *s);

/* ---- streams (score_text.c): windows of the context one behind the other, so that every token but the very first is
 * scored once. Within a window it is scored after the tokens of the window alone: the first of them after one. */

struct weft_items;
struct weft_shards;
struct weft_tokenizer;
enum { WEFT_POSITION_RANGES = 40 };
struct weft_text_score {
    int64_t tokens; /* scored */
    int64_t bytes;  /* of text; 0: not known */
    double nll;     /* of all of them */
    /* By position in the window, from 0: range 0 is position 0, range r the positions 2^(r-1) .. 2^r - 1. */
    struct weft_position_range {
        int64_t tokens;
        double nll;
    } range[WEFT_POSITION_RANGES];
};
enum weft_status weft_score_shards(struct weft_scorer *s, const struct weft_shards *shards,
                                   struct weft_text_score *score);
/* A text file; Zstandard is recognised. */
enum weft_status weft_score_text(struct weft_scorer *s, const struct weft_tokenizer *t, const char *path,
                                 struct weft_text_score *score);

/* ---- items (score_items.c): a JSONL file of {query, choices, gold}, where the choice with the smallest cost after the
 * query should be the golden one, or of BLiMP's pairs, where sentence_good should cost less than sentence_bad. A tie is
 * wrong. Sentences, and choices after an empty query, are scored after the end-of-text token, if there is one. */

struct weft_items_score {
    bool pairs; /* the file is of pairs */
    int64_t items;
    int64_t right;      /* by what the tokens cost together */
    int64_t right_norm; /* of choices: by cost per byte of text */
};
enum weft_status weft_score_items(struct weft_scorer *s, const struct weft_tokenizer *t, const char *path,
                                  struct weft_items_score *score);
/* Wilson's interval of 95 % for the share right/items. */
void weft_wilson(int64_t right, int64_t items, double *low, double *high);

#endif
