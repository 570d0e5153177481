/* SPDX-License-Identifier: MIT
 *
 * units.h - heads, channels of the feed-forward and ranks of mechanisms: which weights they are made of, which of them
 * matter least (units.c), and a model without those (cut.c).
 *
 * Invariant: what is left out is a function of the weights alone. So weights that were set to 0 for whole units, as
 * pruning in training does, are those that a cut leaves out.
 */
#ifndef WEFT_UNITS_H
#define WEFT_UNITS_H

#include "nn/net.h"

enum weft_units { WEFT_UNITS_HEADS, WEFT_UNITS_CHANNELS, WEFT_UNITS_M1, WEFT_UNITS_M2, WEFT_UNITS_M3, WEFT_UNITS };

/* Of a layer; heads that share a key and value are one unit, unless all do. 0: a mechanism has no ranks here. */
int64_t weft_nn_units(const struct weft_nn *model, enum weft_units what);
/* How many units a share of them is: the nearest number. */
int64_t weft_units_at(int64_t units, double share);

/* Shares of the units of every layer that are left out or pruned; 0: none. `ranks`: of each mechanism that has some. */
struct weft_shares {
    double heads, channels, ranks;
};
bool weft_shares_any(const struct weft_shares *s);
/* Of one kind; 0 if the model has no such units. */
double weft_shares_of(const struct weft_shares *s, const struct weft_nn *model, enum weft_units what);
/* Refuses ranks where no mechanism has some. */
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
    struct weft_nn *model;       /* of this spec */
    int64_t units, kept, layers; /* the first two in each layer */
    char settings[128];          /* of the spec that are others now: "heads=6 head_width=32" */
    int *layer;                  /* of each weight: the layer whose units it consists of; -1: of none */
    int64_t chosen;              /* by the last choice, in each layer */
    bool *goes;                  /* [layers][units]: which */
    struct weft_unit *list;      /* [layers][units]: after a choice, in the order in which they would go */
};
/* Its sizes, refused where a share of the units cannot be left out; its weights have no memory yet. To be released
 * where it is, also after a failure. */
enum weft_status weft_smaller_init(struct weft_smaller *s, const struct weft_nn *model, enum weft_units what,
                                   double share);
void weft_smaller_release(struct weft_smaller *s);
/* Chooses `count` units of each layer, by the model's weights as they are now. */
void weft_smaller_choose(struct weft_smaller *s, int64_t count);
/* Visits runs of elements of the i-th weight that are part of a chosen unit; twice where a weight has units along two
 * sides and both are chosen. */
void weft_smaller_each(const struct weft_smaller *s, int i, void *context,
                       void (*visit)(void *context, int64_t first, int64_t count));

/* ---- models without these units (cut.c) */

/* Leaves out a share of the units, in each layer those of the least importance. To be released, also after a failure.
 */
enum weft_status weft_nn_cut(struct weft_smaller *s, const struct weft_nn *model, enum weft_units what, double share);

/* All kinds, one after the other: each step is of the model before. */
struct weft_cuts {
    struct weft_smaller steps[WEFT_UNITS]; /* without a model: nothing was asked for */
    const struct weft_nn *model;           /* the last */
};
/* With weights, or only the sizes. To be released where it is, also after a failure. */
enum weft_status weft_cuts_init(struct weft_cuts *c, const struct weft_nn *model, const struct weft_shares *shares,
                                bool weights);
void weft_cuts_release(struct weft_cuts *c);

#endif
