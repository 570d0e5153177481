/* SPDX-License-Identifier: MIT
 *
 * items.h - the cost of each item of a test, stored in a run's folder to compute the noise of the test set
 * (docs/runs.md).
 *
 * An item is a document if the data has documents, else a sample or a window of a text; in multiple choice, a question.
 * In tests with very many items, neighbouring items are merged.
 */
#ifndef WEFT_ITEMS_H
#define WEFT_ITEMS_H

#include "train/recipe.h"

#define WEFT_ITEMS_FILE "items.safetensors"
enum { WEFT_MOST_ITEMS = 65536, WEFT_LEAST_DOCUMENTS = 20 };

struct weft_items {
    int64_t count;
    double *nll;           /* cost of all scored tokens of an item; for a question: 1 if the answer is wrong, else 0 */
    double *norm;          /* for a question: the same by cost per byte; else NULL */
    int32_t *tokens;       /* number of scored tokens, at least one; for a question: 1 */
    const char *kind;      /* name of the items, one plural word */
    char items_sha256[65]; /* hash of the samples and their assignment to items; equal hashes mean equal items */
    /* Used while items are added: */
    struct weft_sha256 sha;
    int64_t per_item;  /* number of documents or samples that count as one item */
    int64_t *document; /* document of the first target of every sample; NULL: a sample is an item */
    int32_t end;       /* the last target of a document */
    int64_t sample;    /* index of the next sample; for a growing list, the number of documents, windows or questions */
    bool overflow;     /* whether an item has too many tokens */
};

/* Initialises the items for this number of samples of the recipe's test. */
enum weft_status weft_items_init(struct weft_items *t, const struct weft_recipe *r, int64_t samples);
void weft_items_release(struct weft_items *t);
/* Adds the next `samples` samples of `length` tokens, in order. */
void weft_items_add(struct weft_items *t, int64_t samples, int64_t length, const int32_t *tokens,
                    const int32_t *targets, const float *nll);
/* Drops items without scored tokens, and computes the hash. Call it after all samples are added. */
enum weft_status weft_items_finish(struct weft_items *t);

/* Create a growing list and append an item to it, instead of init and add. `norm`: the items have the second cost. The
 * caller adds the data that identifies the items to `sha`. */
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
/* Loads and checks a file, trusting nothing in it. Release the items even after a failure. */
enum weft_status weft_items_load(struct weft_items *t, const char *path);
/* Returns the mean over all scored tokens, which is the test loss. */
double weft_items_loss(const struct weft_items *t);
/* Returns whether both contain the same items (items_noise.c). */
bool weft_items_same(const struct weft_items *a, const struct weft_items *b);
/* Computes the noise of the loss or, with `base`, of the difference from the base's loss, item by item; a base with
 * different items is an error. `norm`: uses the second cost. */
struct weft_item_noise;
enum weft_status weft_items_noise(const struct weft_items *t, const struct weft_items *base, bool norm,
                                  struct weft_item_noise *noise);

/* Writes the items into the run's folder or, in a replay, compares them with those in the folder. */
struct weft_record;
enum weft_status weft_items_record(const struct weft_items *t, const struct weft_record *record);

#endif
