/* SPDX-License-Identifier: MIT
 *
 * attend.c - builds the heads' outputs from queries, keys and values, for every geometry and representation:
 *
 *     score = a <q_i, k_j> - a/2 norm(k_j) + p(i - j)
 *             + ra_alpha (a <q_j, k_i> - a/2 (norm(q_j) + norm(k_i)))     for 0 < i - j <= ra_window
 *     o = softmax(score) v, gated by the previous layer (M1) and by the input (output_gate), then projected
 *
 * norm(q_i) is the same for all j and cancels in the softmax, but not in the second line, which applies only within the
 * window.
 */
#include "nn/build.h"
#include "ops/ops.h"

#include <math.h>

static void add_both_ways(struct weft_build *b, struct weft_attention *a, const struct weft_attend *what)
{
    struct weft_qk q = what->back_q.vectors ? what->back_q : what->q;
    a->ra_alpha = b->spec->ra_alpha;
    a->ra_window = b->spec->ra_window;
    a->q_store = weft_build_keep(b, "q", WEFT_WINDOW, q.vectors);
    struct weft_value *norms = weft_build_keep(b, "q_norms", WEFT_WINDOW, q.norms);
    a->q_bias = norms ? weft_head_bias(b->g, norms, a->scale) : NULL;
    a->q_tiles = b->net->ring_tiles;
    a->k_own = what->back_k;
}

static struct weft_value *scale(struct weft_build *b)
{
    const struct weft_geom *geom = weft_spec_geom(b->spec);
    if (geom->scale)
        return geom->scale(b, b->spec->part[WEFT_GEOM].options);
    return weft_fill(b->g, 1 / weft_spec_divisor(b->spec), WEFT_SHAPE(weft_fixed(b->spec->heads)));
}

struct weft_value *weft_build_attend(struct weft_build *b, const struct weft_attend *what)
{
    const struct weft_pos *pos = weft_spec_pos(b->spec);
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
    a->scale = scale(b);
    if (what->k.norms)
        a->key_bias = weft_head_bias(b->g, what->k.norms, a->scale);
    if (pos->bias)
        a->pos_bias = pos->bias(b, b->spec->part[WEFT_POS].options);
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

struct weft_qk weft_build_qk(struct weft_build *b, const struct weft_qk_raw *raw, bool norms)
{
    return weft_spec_geom(b->spec)->qk(b, b->spec->part[WEFT_GEOM].options, raw, norms);
}

/* ---- mechanisms that act on attention */

void weft_build_latent(struct weft_build *b, struct weft_value *x, struct weft_value **c)
{
    for (struct weft_instance *m = NULL; (m = weft_build_next(b, m));) {
        if (!m->mechanism->latent)
            continue;
        struct weft_scope scope = weft_build_enter(b, m);
        m->mechanism->latent(b, m, x, c);
        weft_build_leave(b, scope);
    }
}

struct weft_value *weft_build_keys(struct weft_build *b, struct weft_value *k, const char *name)
{
    for (struct weft_instance *m = NULL; (m = weft_build_next(b, m));) {
        if (!m->mechanism->keys)
            continue;
        struct weft_scope scope = weft_build_enter(b, m);
        k = m->mechanism->keys(b, m, k, name);
        weft_build_leave(b, scope);
    }
    return k;
}

struct weft_value *weft_build_heads(struct weft_build *b, struct weft_value *o)
{
    for (struct weft_instance *m = NULL; (m = weft_build_next(b, m));) {
        if (!m->mechanism->heads)
            continue;
        struct weft_scope scope = weft_build_enter(b, m);
        o = m->mechanism->heads(b, m, o);
        weft_build_leave(b, scope);
    }
    return o;
}
