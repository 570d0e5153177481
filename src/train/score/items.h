/* SPDX-License-Identifier: MIT
 *
 * items.h - what each item of a test costs a model: kept in a run's folder, for the noise of the test set
 * (docs/runs.md).
 *
 * An item is a document where the data have documents, else a sample or a window of a text; of multiple choice a
 * question. Of tests with very many items, neighbours count as one.
 */
#ifndef WEFT_ITEMS_H
#define WEFT_ITEMS_H

#include "train/recipe.h"

#define WEFT_ITEMS_FILE "items.safetensors"
enum { WEFT_MOST_ITEMS = 65536, WEFT_LEAST_DOCUMENTS = 20 };

struct weft_items {
    int64_t count;
    double *nll;           /* of all scored tokens of an item; of a question: 1 if the answer is wrong, else 0 */
    double *norm;          /* NULL, or of a question: the same by cost per byte */
    int32_t *tokens;       /* how many these are: at least one; of a question: 1 */
    const char *kind;      /* in one word, in the plural */
    char items_sha256[65]; /* of the samples and of what belongs to which item: equal hashes, equal items */
    /* While they are counted: */
    struct weft_sha256 sha;
    int64_t per_item;  /* documents or samples that count as one item */
    int64_t *document; /* of the first target of every sample; NULL: a sample is an item */
    int32_t end;       /* the last target of a document */
    int64_t sample;    /* the next one; of a list that grows, how many documents, windows or questions there are */
    bool overflow;     /* an item has too many tokens */
};

/* Room for so many samples of the recipe's test. */
enum weft_status weft_items_init(struct weft_items *t, const struct weft_recipe *r, int64_t samples);
void weft_items_release(struct weft_items *t);
/* The next `samples` samples of `length` tokens, in order. */
void weft_items_add(struct weft_items *t, int64_t samples, int64_t length, const int32_t *tokens,
                    const int32_t *targets, const float *nll);
/* After all samples: drops items without a token, and makes the hash. */
enum weft_status weft_items_finish(struct weft_items *t);

/* Instead of init and add, a list that grows: one item after the other. `norm`: with the second cost. What identifies
 * the items is added to `sha`. */
enum weft_items_kind {
    WEFT_ITEMS_SAMPLES,
    WEFT_ITEMS_DOCUMENTS,
    WEFT_ITEMS_WINDOWS,
    WEFT_ITEMS_CHOICES,
    WEFT_ITEMS_PAIRS
};
enum weft_status weft_items_begin(struct weft_items *t, enum weft_items_kind kind, bool norm);
void weft_items_append(struct weft_items *t, double nll, double norm, int64_t tokens);

enum weft_status weft_items_save(const struct weft_items *t, const char *path);
/* Trusts nothing in the file. Release also after a failure. */
enum weft_status weft_items_load(struct weft_items *t, const char *path);
/* The mean over all of them, which is the test loss. */
double weft_items_loss(const struct weft_items *t);
/* Whether both are of the same items (items_noise.c). */
bool weft_items_same(const struct weft_items *a, const struct weft_items *b);
/* The noise of the loss or, with `base`, of the difference from it, item by item: refuses a base with other items.
 * `norm`: by the second cost. */
struct weft_item_noise;
enum weft_status weft_items_noise(const struct weft_items *t, const struct weft_items *base, bool norm,
                                  struct weft_item_noise *noise);

/* Writes them into the run's folder or, of a run that is repeated, compares them with those that are there. */
struct weft_record;
enum weft_status weft_items_record(const struct weft_items *t, const struct weft_record *record);

#endif
