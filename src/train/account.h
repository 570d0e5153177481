/* SPDX-License-Identifier: MIT
 *
 * account.h - what a model takes in weights, FLOPs, memory and cache (account.c), predicted without running it.
 */
#ifndef WEFT_ACCOUNT_H
#define WEFT_ACCOUNT_H

#include "train/recipe.h"

struct weft_account {
    int64_t params, attn_params, ffn_params;
    int64_t mechanism_params[WEFT_MAX_PARTS];        /* of the spec's mechanisms, in its order */
    int64_t other_params;                            /* embedding, norms */
    double flops_train, flops_prefill, flops_decode; /* per token; the last two at the given length */
    /* The same by what they are for: their sums, but for rounding. */
    double train_groups[WEFT_GROUPS], prefill_groups[WEFT_GROUPS], decode_groups[WEFT_GROUPS];
    int64_t state_bytes;      /* weights, sums of gradients, moments */
    int64_t activation_bytes; /* the one buffer of a training step */
    int64_t recompute_saves_bytes;
    double recompute_flops_ratio;
    int64_t cache_bytes;                  /* a token's, in all layers */
    double cache_bytes_layer;             /* a token's, in one layer */
    double cache_ratio_to_mha;            /* over keys and values of as many heads as there are queries */
    int64_t window_bytes, sequence_bytes; /* besides, whatever its length: a sequence's, in all layers */
    /* Of training that prunes. Where it prunes units and single weights, at least so many: which single ones are in
     * units that go later is not known. */
    int64_t pruned;                   /* weights, by its end */
    int64_t cut_params;               /* of the model without the units that are pruned */
    int64_t weight_bytes, kept_bytes; /* of all weights in f32; of those that are kept, with a bit each for masks of
                                       * single ones */
    double flops_cut, flops_pruned;   /* decoding a token: without these units; without products with any weight that is
                                       * 0 */
};
/* Without a recipe the state is that of one micro-batch a step. */
enum weft_status weft_account(const struct weft_nn *model, const struct weft_recipe *recipe, int64_t length,
                              struct weft_account *account);

/* The share of attention's weights or FLOPs that the feed-forward would have to get for the ratio of 1 to
 * WEFT_FFN_RULE that scaling laws of inference recommend; below 0, the feed-forward has more than that already. */
#define WEFT_FFN_RULE 2.5
double weft_account_shift(double attn, double ffn);

/* FLOPs of training a token, alone. */
enum weft_status weft_account_flops(const struct weft_nn *model, double *flops);

/* Bytes of weights, sums of gradients and moments on one of several ranks: moments are shared out, and two buckets of
 * gradients are on their way. */
int64_t weft_account_state(const struct weft_nn *model, const struct weft_recipe *recipe, int64_t ranks);
/* Refuses, with what to change, a training run of which a rank takes more than the available bytes. */
enum weft_status weft_account_fit(const struct weft_nn *model, const struct weft_recipe *recipe, int64_t ranks,
                                  int64_t available);

#endif
