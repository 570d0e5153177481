/* SPDX-License-Identifier: MIT
 *
 * distances.c - mutants of w2 whose scores are not squared distances.
 */
#include "check/mutants/mutants.h"

/* The factor of the norms of queries and keys that a score subtracts, and the first layer in which it applies. */
static double times;
static int from_layer;

static struct weft_qk wrong_norms(struct weft_build *b, const void *options, const struct weft_qk_raw *r, bool norms)
{
    struct weft_qk qk = weft_geom_w2.qk(b, options, r, norms);
    if (qk.norms && b->layer >= from_layer)
        qk.norms = weft_scale(b->g, qk.norms, times);
    return qk;
}

static void break_norms(double factor, int layer)
{
    times = factor;
    from_layer = layer;
    WEFT_BREAK_PART(weft_geom, weft_geom_w2)->qk = wrong_norms;
}

static void lose_norms(void) { break_norms(0, 0); }
static void double_norms(void) { break_norms(2, 0); }
static void lose_some(void) { break_norms(0.9, 1); }

/* Uses the norms of the means only, without spreads. */
static struct weft_qk norms_of_means(struct weft_build *b, const void *options, const struct weft_qk_raw *r, bool norms)
{
    struct weft_qk qk = weft_geom_w2.qk(b, options, r, norms);
    if (qk.norms)
        qk.norms = weft_square_sum(b->g, weft_build_rotate(b, r->mean, r->heads, r->side), r->heads);
    return qk;
}

static void leave_spreads(void) { WEFT_BREAK_PART(weft_geom, weft_geom_w2)->qk = norms_of_means; }

#define DISTANCE .gate = WEFT_GATE_LIVE, .check = "minus squared distances"
#define LLAMA "bias=no norm=rmsnorm ffn=swiglu pos=rope geom=w2 "
const struct weft_mutant weft_mutants_distances[] = {
    {"w2 without its norms", LLAMA "layers=4 context=40", DISTANCE, .install = lose_norms},
    {"w2 with norms counted twice", LLAMA "kv_heads=1 batch=5", DISTANCE, .install = double_norms},
    {"w2 with norms a tenth too small above layer 0", LLAMA "pos=none layers=3", DISTANCE, .install = lose_some},
    {"w2 whose norms leave out the spreads", LLAMA "spread=full context=70", DISTANCE, .install = leave_spreads},
    {0},
};
