/* SPDX-License-Identifier: MIT
 *
 * hidden.c - computes the feed-forward's hidden activation while mechanisms act on it: a wide base and narrow terms,
 *
 *     h = base + sum over i of x_i W_i^t        base [M, F], x_i [M, r_i], W_i [F, r_i]
 *
 * Mechanisms read h through matrices and add such terms. Because all of this is linear, h is computed only once, at the
 * end, by one matmul over all terms. The base is also read only once, by one matmul with the matrices of all
 * mechanisms; a term's contribution to a read is a product of narrow matrices, R h = R base + sum of (R W_i) x_i. Each
 * additional pass over a wide array would cost about a tenth of the feed-forward.
 */
#include "nn/build.h"
#include "ops/ops.h"

/* Stacks matrices: returns the rows of a, followed by the rows of b. */
static struct weft_value *stack(struct weft_graph *g, struct weft_value *a, struct weft_value *b)
{
    int64_t width = weft_shape_width(&a->shape), up = a->shape.dim[0].times, down = b->shape.dim[0].times;
    struct weft_value *flat_a = weft_view(g, a, WEFT_SHAPE(weft_fixed(1), weft_fixed(up * width)));
    struct weft_value *flat_b = weft_view(g, b, WEFT_SHAPE(weft_fixed(1), weft_fixed(down * width)));
    return weft_view(g, weft_concat(g, flat_a, flat_b), WEFT_SHAPE(weft_fixed(up + down), weft_fixed(width)));
}

static struct weft_value *matrix_of(struct weft_build *b, struct weft_instance *m)
{
    struct weft_scope scope = weft_build_enter(b, m);
    struct weft_value *matrix = m->mechanism->reads ? m->mechanism->reads(b, m) : NULL;
    weft_build_leave(b, scope);
    return matrix;
}

/* Splits x by columns, with one split op if it can have that many outputs. */
static void cut(struct weft_graph *g, struct weft_value *x, int count, const int64_t *widths, struct weft_value **part)
{
    bool splits = count > 1 && count <= WEFT_MAX_SPLIT;
    struct weft_value *first = splits ? weft_split(g, x, count, widths) : x;
    int64_t at = 0;
    for (int i = 0; i < count; at += widths[i++])
        part[i] = splits ? weft_sibling(first, i) : count > 1 ? weft_slice(g, x, at, widths[i]) : x;
}

/* Multiplies the base by the matrices of this mechanism and of all later ones, in one matmul. */
static void read_base(struct weft_build *b, struct weft_hidden *h, struct weft_instance *first)
{
    struct weft_value *all = NULL;
    int64_t rows[WEFT_MAX_PARTS];
    int parts = 0;
    for (struct weft_instance *m = first; m; m = weft_build_next(b, m)) {
        m->matrix = matrix_of(b, m);
        if (m->matrix) {
            rows[parts++] = m->matrix->shape.dim[0].times;
            all = all ? stack(b->g, all, m->matrix) : m->matrix;
        }
    }
    struct weft_value *read = weft_linear(b->g, h->base, all, NULL, NULL, b->spec->compute), *part[WEFT_MAX_PARTS];
    cut(b->g, read, parts, rows, part);
    int at = 0;
    for (struct weft_instance *m = first; m; m = weft_build_next(b, m))
        m->read = m->matrix ? part[at++] : NULL;
}

struct weft_value *weft_hidden_read(struct weft_build *b, struct weft_hidden *h, struct weft_instance *m)
{
    if (!m->read)
        read_base(b, h, m);
    struct weft_value *y = m->read;
    for (const struct weft_hidden_term *t = h->terms; t; t = t->next) {
        struct weft_value *narrow = weft_linear(b->g, t->across, m->matrix, NULL, NULL, WEFT_F32);
        y = weft_linear(b->g, t->x, weft_transpose(b->g, narrow), NULL, y, b->spec->compute);
    }
    return y;
}

void weft_hidden_add(struct weft_build *b, struct weft_hidden *h, struct weft_value *x, struct weft_value *alpha,
                     const char *name)
{
    struct weft_hidden_term **end = &h->terms, *term = weft_graph_alloc(b->g, sizeof *term);
    struct weft_value *w = weft_build_weight(b, name), *weighed = weft_mix(b->g, NULL, x, alpha);
    weft_graph_mark_recompute(weighed);
    struct weft_value *across = weft_cast(b->g, weft_transpose(b->g, w), b->spec->compute);
    while (*end)
        end = &(*end)->next;
    if (term) /* NULL if the graph has failed */
        *term = (struct weft_hidden_term){weighed, w, across, NULL};
    *end = term;
}

void weft_hidden_change(struct weft_build *b, struct weft_hidden *h, struct weft_value *base)
{
    for (struct weft_instance *m = NULL; (m = weft_build_next(b, m));)
        m->read = NULL;
    weft_graph_mark_recompute(base); /* only one of the two wide arrays is kept; this one is cheaper to recompute */
    h->base = base;
}

struct weft_value *weft_hidden_whole(struct weft_build *b, struct weft_hidden *h)
{
    if (!h->terms)
        return h->base;
    int group = weft_graph_group(b->g, WEFT_GROUP_RECIP);
    struct weft_value *x = h->terms->x, *w = h->terms->w;
    for (const struct weft_hidden_term *t = h->terms->next; t; t = t->next) {
        x = weft_concat(b->g, x, t->x);
        weft_graph_mark_recompute(x);
        w = weft_concat(b->g, w, t->w);
    }
    weft_hidden_change(b, h, weft_linear(b->g, x, w, NULL, h->base, b->spec->compute));
    weft_graph_group(b->g, group);
    h->terms = NULL;
    return h->base;
}
