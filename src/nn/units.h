/* SPDX-License-Identifier: MIT
 *
 * units.h - heads, feed-forward channels and ranks of mechanisms: the weights that form them, their importance
 * (units.c), and models without the least important ones (cut.c).
 *
 * Invariant: the choice of units is a function of the weights alone. So a cut removes exactly those units whose weights
 * were set to 0, as pruning in training does.
 */
#ifndef WEFT_UNITS_H
#define WEFT_UNITS_H

#include "nn/net.h"

enum weft_units { WEFT_UNITS_HEADS, WEFT_UNITS_CHANNELS, WEFT_UNITS_M1, WEFT_UNITS_M2, WEFT_UNITS_M3, WEFT_UNITS };

/* Returns the number of units in a layer; heads that share a key and value are one unit, unless all heads share one. 0:
 * no mechanism has ranks here. */
int64_t weft_nn_units(const struct weft_nn *model, enum weft_units what);
/* Returns the number of units closest to this fraction of them. */
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
    int64_t units, kept, layers; /* `units` and `kept` per layer */
    char settings[128];          /* settings of the spec that changed: "heads=6 head_width=32" */
    int *layer;                  /* for each weight, the layer to whose units it belongs; -1: none */
    int64_t chosen;              /* number of units chosen last, in each layer */
    bool *goes;                  /* [layers][units]: whether the unit is chosen */
    struct weft_unit *list;      /* [layers][units]: after a choice, sorted by the order of removal */
};
/* Sets the sizes; fails if this fraction of the units cannot be removed. Does not allocate weights. Release it even
 * after a failure, and do not move it. */
enum weft_status weft_smaller_init(struct weft_smaller *s, const struct weft_nn *model, enum weft_units what,
                                   double share);
void weft_smaller_release(struct weft_smaller *s);
/* Chooses `count` units in each layer, by the model's current weights. */
void weft_smaller_choose(struct weft_smaller *s, int64_t count);
/* Visits runs of elements of the i-th weight that belong to a chosen unit; twice if the weight has units along both
 * sides and both are chosen. */
void weft_smaller_each(const struct weft_smaller *s, int i, void *context,
                       void (*visit)(void *context, int64_t first, int64_t count));

/* ---- models without these units (cut.c) */

/* Removes a fraction of the units of each layer, the least important ones. Release it even after a failure. */
enum weft_status weft_nn_cut(struct weft_smaller *s, const struct weft_nn *model, enum weft_units what, double share);

/* Cuts of all kinds, one after the other; each step cuts the model of the previous one. */
struct weft_cuts {
    struct weft_smaller steps[WEFT_UNITS]; /* steps without a model remove nothing */
    const struct weft_nn *model;           /* the last step's */
};
/* Cuts the weights, or only the sizes. Release it even after a failure, and do not move it. */
enum weft_status weft_cuts_init(struct weft_cuts *c, const struct weft_nn *model, const struct weft_shares *shares,
                                bool weights);
void weft_cuts_release(struct weft_cuts *c);

#endif
