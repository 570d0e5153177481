/* SPDX-License-Identifier: MIT
 *
 * account.h - the weights, FLOPs, memory and cache of a model, predicted without running it (account.c).
 */
#ifndef WEFT_ACCOUNT_H
#define WEFT_ACCOUNT_H

#include "train/recipe.h"

struct weft_account {
    int64_t params, attn_params, ffn_params;
    int64_t mechanism_params[WEFT_MAX_PARTS];        /* by mechanism, in the spec's order */
    int64_t other_params;                            /* embedding, norms */
    double flops_train, flops_prefill, flops_decode; /* per token; the last two at the given length */
    /* The same FLOPs by group of nodes; the groups add up to the totals, except for rounding. */
    double train_groups[WEFT_GROUPS], prefill_groups[WEFT_GROUPS], decode_groups[WEFT_GROUPS];
    int64_t state_bytes;      /* weights, gradient sums, moments */
    int64_t activation_bytes; /* the buffer of a training step */
    int64_t recompute_saves_bytes;
    double recompute_flops_ratio;
    int64_t cache_bytes;       /* per token, all layers */
    double cache_bytes_layer;  /* per token and layer */
    double cache_ratio_to_mha; /* relative to multi-head attention, with a key and value head per query head */
    int64_t window_bytes, sequence_bytes; /* additional bytes per sequence of any length, all layers */
    /* Results of pruning during training. They are lower bounds if both units and single weights are pruned, because it
     * is unknown which single weights belong to units that are pruned later. */
    int64_t pruned;     /* number of pruned weights at the end of training */
    int64_t cut_params; /* parameters of the model without the pruned units */
    /* Bytes of all weights in f32; bytes of the remaining weights, with a mask of one bit per weight in matrices from
     * which single weights are pruned. */
    int64_t weight_bytes, kept_bytes;
    double flops_cut, flops_pruned; /* per decoded token, without the pruned units; also without other zero weights */
};
/* Fills in the account. Without a recipe, the state is for one micro-batch per step. */
enum weft_status weft_account(const struct weft_nn *model, const struct weft_recipe *recipe, int64_t length,
                              struct weft_account *account);

/* Returns the fraction of attention's weights or FLOPs that would have to move to the feed-forward part to reach the
 * ratio of 1 to WEFT_FFN_RULE that inference scaling laws recommend; negative if the feed-forward part already has
 * more. */
#define WEFT_FFN_RULE 2.5
double weft_account_shift(double attn, double ffn);

/* Computes only the FLOPs of training, per token. */
enum weft_status weft_account_flops(const struct weft_nn *model, double *flops);

/* Returns the bytes of weights, gradient sums and moments on each of several ranks: moments are divided among the
 * ranks, and two buckets of gradients are in transit. */
int64_t weft_account_state(const struct weft_nn *model, const struct weft_recipe *recipe, int64_t ranks);
/* Returns an error that names the settings to change if a rank would need more than the available bytes. */
enum weft_status weft_account_fit(const struct weft_nn *model, const struct weft_recipe *recipe, int64_t ranks,
                                  int64_t available);

#endif
