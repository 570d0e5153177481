/* SPDX-License-Identifier: MIT
 *
 * logits_form_inl.h - attention's logits as atoms (see logits_reference_inl.h for the formulas), for the ops that
 * compute them. Ops with the same inputs and attributes get the same atoms.
 */
#ifndef WEFT_LOGITS_FORM_H
#define WEFT_LOGITS_FORM_H

#include "ops/attention/logits_reference_inl.h"

/* Returns the heads of rows or columns: [BATCH, NEW, heads * width] as [BATCH, heads, NEW, width]. */
static struct weft_atom *form_heads(struct weft_form *f, struct weft_atom *x, int64_t heads)
{
    return weft_swap_of(f, weft_heads_of(f, x, heads), 1, 2);
}

/* Returns the heads of all columns of an input. */
static struct weft_atom *form_columns(struct weft_form *f, int i, int64_t heads)
{
    return form_heads(f, weft_keys_of(f, weft_form_in(f, i)), heads);
}

/* Multiplies [BATCH, H, NEW, m] by a matrix of each key head: query heads that share a key head become further rows. */
static struct weft_atom *form_shared(struct weft_form *f, const struct geometry *a, struct weft_atom *x,
                                     struct weft_atom *matrix, bool transposed, struct weft_extent width)
{
    struct weft_atom *rows = weft_merge_of(f, weft_split_of(f, x, 1, a->heads / a->kv_heads), 2);
    return weft_reshape_of(f, weft_matmul_of(f, rows, matrix, transposed), weft_type_with(x, 3, width));
}

/* Returns <x[i,h], k[j,kv]> for x [BATCH, H, NEW, Dk], as [BATCH, H, NEW, ALL]. */
static struct weft_atom *form_products(struct weft_form *f, const struct weft_node *node, struct weft_atom *x)
{
    const struct geometry *a = node->attr;
    return form_shared(f, a, x, form_columns(f, K, a->kv_heads), true, (struct weft_extent){WEFT_ALL, 1});
}

/* Returns own[i,h], repeated for the query heads that share it: [BATCH, H, NEW, width]. */
static struct weft_atom *form_own(struct weft_form *f, const struct weft_node *node)
{
    const struct geometry *a = node->attr;
    int i = node->in[K_OWN] ? K_OWN : K;
    int64_t width = weft_shape_width(&node->in[Q_STORE]->shape) / a->heads;
    int64_t heads = weft_shape_width(&node->in[i]->shape) / width;
    struct weft_atom *own = form_heads(f, weft_own_of(f, weft_keys_of(f, weft_form_in(f, i))), heads);
    return weft_merge_of(f, weft_repeat_of(f, weft_unit_of(f, own, 2), 2, a->heads / heads), 1);
}

/* Returns <q_store[j,h], x[i,h]>. */
static struct weft_atom *form_stored(struct weft_form *f, const struct weft_node *node, struct weft_atom *x)
{
    return weft_matmul_of(f, x, form_columns(f, Q_STORE, ((const struct geometry *)node->attr)->heads), true);
}

/* Returns the pairs with 0 < i-j <= window that the row sees. */
static struct weft_atom *form_window(struct weft_form *f, const struct geometry *a)
{
    struct weft_atom *distance = weft_distance_of(f);
    struct weft_atom *earlier = weft_less_of(f, weft_whole_of(f, 0), distance);
    struct weft_atom *near = weft_less_of(f, distance, weft_whole_of(f, a->ra_window + 1));
    return weft_unit_of(f, weft_both_of(f, weft_visible_of(f), weft_both_of(f, earlier, near)), 1);
}

static struct weft_atom *form_scaled(struct weft_form *f, const struct weft_node *node, struct weft_atom *x)
{
    const struct geometry *a = node->attr;
    int64_t width = weft_shape_width(&node->in[Q]->shape) / a->heads;
    if (!node->in[SCALE])
        return weft_times_of(f, x, 1 / sqrt((double)width));
    return weft_mul_of(f, x, weft_reshape_of(f, weft_form_in(f, SCALE), WEFT_FIXED_TYPE(a->heads, 1, 1)));
}

/* Adds a bias per column and head, if there is one. */
static struct weft_atom *form_add_columns(struct weft_form *f, const struct weft_node *node, struct weft_atom *x, int i)
{
    if (!node->in[i])
        return x;
    struct weft_atom *bias = weft_swap_of(f, weft_keys_of(f, weft_form_in(f, i)), 1, 2);
    return weft_add_of(f, x, weft_unit_of(f, bias, 2));
}

static struct weft_atom *form_reciprocal(struct weft_form *f, const struct weft_node *node)
{
    const struct geometry *a = node->attr;
    struct weft_atom *x = form_stored(f, node, form_scaled(f, node, form_own(f, node)));
    x = form_add_columns(f, node, x, Q_BIAS);
    if (node->in[KEY_BIAS]) {
        struct weft_atom *own = weft_own_of(f, weft_keys_of(f, weft_form_in(f, KEY_BIAS)));
        x = weft_add_of(f, x, weft_unit_of(f, weft_swap_of(f, own, 1, 2), 3));
    }
    return weft_choose_of(f, form_window(f, a), weft_times_of(f, x, a->ra_alpha), weft_real_of(f, 0));
}

/* Returns pos_bias by distance; invisible columns get any of its values. */
static struct weft_atom *form_pos_bias(struct weft_form *f, const struct weft_node *node)
{
    int64_t offsets = weft_shape_width(&node->in[POS_BIAS]->shape);
    struct weft_atom *distance = weft_max_of(f, weft_distance_of(f), weft_whole_of(f, 0));
    struct weft_atom *index = weft_min_of(f, distance, weft_whole_of(f, offsets - 1));
    return weft_swap_of(f, weft_take_of(f, weft_form_in(f, POS_BIAS), index, 1), 0, 1);
}

/* Returns the logits [BATCH, H, NEW, ALL], -inf for invisible columns. */
SHARED struct weft_atom *form_logits(struct weft_form *f, const struct weft_node *node)
{
    const struct geometry *a = node->attr;
    struct weft_atom *q = form_scaled(f, node, form_heads(f, weft_form_in(f, Q), a->heads));
    struct weft_atom *x = form_add_columns(f, node, form_products(f, node, q), KEY_BIAS);
    if (node->in[POS_BIAS])
        x = weft_add_of(f, x, form_pos_bias(f, node));
    if (node->in[Q_STORE])
        x = weft_add_of(f, x, form_reciprocal(f, node));
    return weft_choose_of(f, weft_unit_of(f, weft_visible_of(f), 1), x, weft_real_of(f, -INFINITY));
}

/* Returns logit - lse, for lse [BATCH, NEW, H] of an input. */
SHARED struct weft_atom *form_log_p(struct weft_form *f, const struct weft_node *node, int lse)
{
    struct weft_atom *sums = weft_unit_of(f, weft_swap_of(f, weft_form_in(f, lse), 1, 2), 3);
    return weft_sub_of(f, form_logits(f, node), sums);
}

/* Returns [BATCH, H, NEW, width] as [BATCH, NEW, H * width]. */
SHARED struct weft_atom *form_rows(struct weft_form *f, struct weft_atom *x)
{
    return weft_flat_of(f, weft_swap_of(f, x, 1, 2));
}

#endif
