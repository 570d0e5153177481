/* SPDX-License-Identifier: MIT
 *
 * hidden.c - the feed-forward's hidden activation while mechanisms work on it: a wide base and narrow terms,
 *
 *     h = base + sum over i of x_i W_i^t        base [M, F], x_i [M, r_i], W_i [F, r_i]
 *
 * Mechanisms read h through matrices and add such terms. All is linear, so h itself is made only once, at the end, by
 * one product over all terms; and base is read only once, by one product through the matrices of all mechanisms: what a
 * term adds to such a reading is a product of narrow things, R h = R base + sum of (R W_i) x_i. A wide array that is
 * read or written once more costs as much as a tenth of the feed-forward.
 */
#include "nn/nn.h"

#include <assert.h>

/* Rows of a above rows of b. */
static struct weft_value *stack(struct weft_graph *g, struct weft_value *a, struct weft_value *b)
{
    int64_t width = weft_shape_width(&a->shape), up = a->shape.dim[0].times, down = b->shape.dim[0].times;
    struct weft_value *flat_a = weft_view(g, a, WEFT_SHAPE(weft_fixed(1), weft_fixed(up * width)));
    struct weft_value *flat_b = weft_view(g, b, WEFT_SHAPE(weft_fixed(1), weft_fixed(down * width)));
    return weft_view(g, weft_concat(g, flat_a, flat_b), WEFT_SHAPE(weft_fixed(up + down), weft_fixed(width)));
}

static struct weft_value *matrix_of(struct weft_build *b, int recip)
{
    const struct weft_variant *v = b->spec->recip[recip];
    if (!v || !v->reads)
        return NULL;
    weft_build_scope(b, "blocks.%d.%s", b->layer, v->name);
    return v->reads(b);
}

/* One product through the matrices of this mechanism and all behind it. */
static void read_base(struct weft_build *b, struct weft_hidden *h, int recip)
{
    struct weft_value *all = NULL;
    int64_t rows[WEFT_RECIP_COUNT];
    int part[WEFT_RECIP_COUNT], parts = 0;
    for (int i = recip; i < WEFT_RECIP_COUNT; i++) {
        part[i] = parts;
        h->matrix[i] = matrix_of(b, i);
        if (h->matrix[i]) {
            rows[parts++] = h->matrix[i]->shape.dim[0].times;
            all = all ? stack(b->g, all, h->matrix[i]) : h->matrix[i];
        }
    }
    struct weft_value *read = weft_linear(b->g, h->base, all, NULL, NULL, b->spec->compute);
    if (parts > 1)
        read = weft_split(b->g, read, parts, rows);
    for (int i = recip; read && i < WEFT_RECIP_COUNT; i++)
        h->read[i] = h->matrix[i] ? weft_sibling(read, part[i]) : NULL;
}

struct weft_value *weft_hidden_read(struct weft_build *b, struct weft_hidden *h, int recip)
{
    enum weft_dtype compute = b->spec->compute;
    if (!h->read[recip])
        read_base(b, h, recip);
    struct weft_value *y = h->read[recip];
    for (int i = 0; i < h->terms; i++) {
        struct weft_value *narrow = weft_linear(b->g, h->term[i].across, h->matrix[recip], NULL, NULL, WEFT_F32);
        y = weft_linear(b->g, h->term[i].x, weft_transpose(b->g, narrow), NULL, y, compute);
    }
    weft_build_scope(b, "blocks.%d.%s", b->layer, b->spec->recip[recip]->name);
    return y;
}

void weft_hidden_add(struct weft_build *b, struct weft_hidden *h, struct weft_value *x, struct weft_value *alpha,
                     const char *name)
{
    assert(h->terms < WEFT_RECIP_COUNT);
    struct weft_value *w = weft_build_weight(b, name), *weighed = weft_mix(b->g, NULL, x, alpha);
    weft_graph_remake(weighed);
    h->term[h->terms].x = weighed;
    h->term[h->terms].w = w;
    h->term[h->terms++].across = weft_cast(b->g, weft_transpose(b->g, w), b->spec->compute);
}

void weft_hidden_change(struct weft_build *b, struct weft_hidden *h, struct weft_value *base)
{
    (void)b;
    for (int i = 0; i < WEFT_RECIP_COUNT; i++)
        h->read[i] = NULL;
    weft_graph_remake(base); /* of two wide arrays one is kept; this one costs less to make again */
    h->base = base;
}

struct weft_value *weft_hidden_whole(struct weft_build *b, struct weft_hidden *h)
{
    if (!h->terms)
        return h->base;
    struct weft_value *x = h->term[0].x, *w = h->term[0].w;
    for (int i = 1; i < h->terms; i++) {
        x = weft_concat(b->g, x, h->term[i].x);
        weft_graph_remake(x);
        w = weft_concat(b->g, w, h->term[i].w);
    }
    weft_hidden_change(b, h, weft_linear(b->g, x, w, NULL, h->base, b->spec->compute));
    h->terms = 0;
    return h->base;
}
