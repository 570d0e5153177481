/* SPDX-License-Identifier: MIT
 *
 * api.h - shared by the files that implement weft.h: the contents of its objects.
 *
 * Invariants: every function of weft.h checks its arguments here, before it calls other rooms, and computes with the
 * number of threads set for its object.
 */
#ifndef WEFT_API_H
#define WEFT_API_H

#include "train/recipe.h"
#include "train/record/record.h"

/* ---- configs (config.c) */

/* A resolved config: the model, and the recipe if has_recipe. */
struct weft_resolved {
    struct weft_settings settings;
    struct weft_spec spec;
    struct weft_recipe recipe;
    bool has_recipe;
};
/* The caller must release the result even if this function fails. */
enum weft_status weft_config_resolve(const struct weft_config *config, struct weft_resolved *r);
/* Like weft_config_resolve, but accepts a recipe that does not fit the model; has_recipe is then false. */
enum weft_status weft_config_resolve_model(const struct weft_config *config, struct weft_resolved *r);
void weft_resolved_release(struct weft_resolved *r);

/* ---- models (model.c) */

struct weft_model {
    struct weft_resolved resolved;
    struct weft_nn *nn;
    int threads; /* 0: the default */
};
/* Fails if the model has no weights yet. */
enum weft_status weft_model_has_weights(const struct weft_model *model);
/* Describes weight i as a view into `array`, which has the layout of the weights. If `array` is NULL, the view has no
 * values. */
enum weft_status weft_view_weight(const struct weft_params *p, int i, float *array, struct weft_tensor_view *view);
enum weft_status weft_threads_valid(int threads);
/* Fails if a token is outside the vocabulary. `least` is the smallest valid value: 0 for tokens, -1 for targets. */
enum weft_status weft_tokens_valid(const struct weft_model *model, const char *what, const int32_t *tokens,
                                   int64_t count, int32_t least);

/* ---- stopping (train.c) */

struct weft_cancel {
    atomic_int set;
};

#endif
