/* SPDX-License-Identifier: MIT
 *
 * units.h - heads, feed-forward channels and ranks of mechanisms: their weights, their importance (units.c), and models
 * without the least important units (cut.c).
 *
 * Invariant: the choice of units is a function of the weights alone. So a cut removes exactly the units whose weights
 * pruning set to 0 during training.
 */
#ifndef WEFT_UNITS_H
#define WEFT_UNITS_H

#include "nn/net.h"

enum weft_units { WEFT_UNITS_HEADS, WEFT_UNITS_CHANNELS, WEFT_UNITS_M1, WEFT_UNITS_M2, WEFT_UNITS_M3, WEFT_UNITS };

/* Returns the number of units in a layer; heads that share a key and value are one unit, unless all heads share one.
 * Returns 0 if the model has no units of this kind. */
int64_t weft_nn_units(const struct weft_nn *model, enum weft_units what);
/* Returns this fraction of the number of units, rounded to the nearest integer. */
int64_t weft_units_at(int64_t units, double share);

/* Fractions of the units of every layer to remove or prune; 0: none. `ranks` applies to each mechanism that has ranks.
 */
struct weft_shares {
    double heads, channels, ranks;
};
bool weft_shares_any(const struct weft_shares *s);
/* Returns the fraction for one kind; 0 if the model has no such units. */
double weft_shares_of(const struct weft_shares *s, const struct weft_nn *model, enum weft_units what);
/* Returns an error if `ranks` is set and no mechanism has ranks. */
enum weft_status weft_shares_check(const struct weft_shares *s, const struct weft_nn *model);

/* ---- a model with fewer units of one kind */

struct weft_unit {
    int64_t number;
    double importance;
};

struct weft_smaller {
    const struct weft_nn *from;
    enum weft_units what;
    struct weft_spec spec;
    struct weft_nn *model;       /* a model of this spec */
    int64_t units, kept, layers; /* `units` and `kept` count units per layer */
    char settings[128];          /* settings of the spec that changed, such as "heads=6 head_width=32" */
    int *layer;                  /* for each weight, the layer whose units it belongs to; -1: none */
    int64_t chosen;              /* number of units chosen in each layer by the last choice */
    bool *goes;                  /* [layers][units]: whether the unit is chosen */
    struct weft_unit *list;      /* [layers][units]: after a choice, sorted in the order of removal */
};
/* Sets the sizes without allocating weights; fails if this fraction of the units cannot be removed. Must be released
 * even after a failure, and must not be moved. */
enum weft_status weft_smaller_init(struct weft_smaller *s, const struct weft_nn *model, enum weft_units what,
                                   double share);
void weft_smaller_release(struct weft_smaller *s);
/* Chooses `count` units in each layer for removal, based on the model's current weights. */
void weft_smaller_choose(struct weft_smaller *s, int64_t count);
/* Visits the runs of elements in the i-th weight that belong to chosen units. Elements that belong to chosen units
 * along both sides of the weight are visited twice. */
void weft_smaller_each(const struct weft_smaller *s, int i, void *context,
                       void (*visit)(void *context, int64_t first, int64_t count));

/* ---- models without the chosen units (cut.c) */

/* Removes a fraction of the units of each layer, the least important first. *s must be released even after a
 * failure. */
enum weft_status weft_nn_cut(struct weft_smaller *s, const struct weft_nn *model, enum weft_units what, double share);

/* Cuts of all kinds of units, one after another; each step cuts the model that the previous step produced. */
struct weft_cuts {
    struct weft_smaller steps[WEFT_UNITS]; /* steps without a model remove nothing */
    const struct weft_nn *model;           /* the model of the last step */
};
/* Cuts the sizes and, with `weights`, also the weights. *c must be released even after a failure, and must not be
 * moved. */
enum weft_status weft_cuts_init(struct weft_cuts *c, const struct weft_nn *model, const struct weft_shares *shares,
                                bool weights);
void weft_cuts_release(struct weft_cuts *c);

#endif
