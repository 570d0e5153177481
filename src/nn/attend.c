/* SPDX-License-Identifier: MIT
 *
 * attend.c - from points to the heads' outputs, the same for every geometry and representation:
 *
 *     score = a <q_i, k_j> - a/2 norm(k_j) + p(i - j)
 *             + ra_alpha (a <q_j, k_i> - a/2 (norm(q_j) + norm(k_i)))     for 0 < i - j <= ra_window
 *     o = softmax(score) v, gated by the layer before (M1) and by the input (output_gate), then projected
 *
 * norm(q_i) is the same for all j and cancels in the softmax, except in the second line, which only the window gets.
 */
#include "nn/nn.h"

static void add_both_ways(struct weft_build *b, struct weft_attention *a, const struct weft_attend *what)
{
    struct weft_points q = what->back_q.vectors ? what->back_q : what->q;
    a->ra_alpha = b->spec->ra_alpha;
    a->ra_window = b->spec->ra_window;
    a->q_store = weft_build_keep(b, "q", WEFT_WINDOW, q.vectors);
    struct weft_value *norms = weft_build_keep(b, "q_norms", WEFT_WINDOW, q.norms);
    a->q_bias = norms ? weft_head_bias(b->g, norms, a->scale) : NULL;
    a->q_tiles = b->net->ring_tiles;
    a->k_own = what->back_k;
}

struct weft_value *weft_build_attend(struct weft_build *b, const struct weft_attend *what)
{
    const struct weft_variant *geom = b->spec->part[WEFT_GEOM], *pos = b->spec->part[WEFT_POS];
    struct weft_attention *a = &b->attention;
    *a = (struct weft_attention){.q = what->q.vectors,
                                 .k = what->k.vectors,
                                 .v = what->v,
                                 .rows = b->rows,
                                 .heads = b->spec->heads,
                                 .kv_heads = what->kv_heads,
                                 .dropout = b->dropout,
                                 .layer = b->layer,
                                 .site = WEFT_SITE_SCORES};
    a->scale = geom->scale(b);
    if (what->k.norms)
        a->key_bias = weft_head_bias(b->g, what->k.norms, a->scale);
    if (pos->bias)
        a->pos_bias = pos->bias(b);
    if (weft_build_both_ways(b))
        add_both_ways(b, a, what);
    struct weft_value *o = weft_attention(b->g, a);
    b->lse = o ? weft_sibling(o, 1) : NULL;
    if (b->use == WEFT_WATCH) {
        weft_build_watch(b, "attn_entropy", weft_entropy(b->g, a, b->lse));
        weft_build_watch(b, "reciprocity", weft_reciprocity(b->g, a, b->spec->ra_window));
    }
    return o;
}

void weft_build_latent(struct weft_build *b, struct weft_value *x, struct weft_value **c)
{
    for (int i = 0; i < WEFT_RECIP_COUNT; i++)
        if (b->spec->recip[i] && b->spec->recip[i]->latent)
            b->spec->recip[i]->latent(b, x, c);
}

struct weft_value *weft_build_keys(struct weft_build *b, struct weft_value *k, const char *name)
{
    for (int i = 0; i < WEFT_RECIP_COUNT; i++)
        if (b->spec->recip[i] && b->spec->recip[i]->keys)
            k = b->spec->recip[i]->keys(b, k, name);
    return k;
}
