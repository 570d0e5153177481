/* SPDX-License-Identifier: MIT
 *
 * logits_cases_inl.h - test cases of the ops that compute attention's logits: the meaning of their entries, and the
 * inputs of the logits.
 */
#ifndef WEFT_LOGITS_CASES_H
#define WEFT_LOGITS_CASES_H

#include "ops/attention/logits_reference_inl.h"

/* n: number of sequences, positions of the first, decrease with each further sequence, heads, key heads, width of k,
 * width of v or u, options, offsets of pos_bias, number of last positions that are queries (0: all; otherwise the key
 * store is separate, with pages in a different order), window of the reciprocal term, and one entry specific to the
 * op. */
enum { SEQUENCES, LONGEST, SHORTER, HEADS, KV_HEADS, WIDTH_K, WIDTH_V, OPTIONS, OFFSETS, LAST, WINDOW, CHOICE };
enum { DROPOUT, ALPHA }; /* indices into x */

/* With Q_TILES, the queries are in a ring of pages; with K_OWN or K_OWNS, own keys have a different width, per key head
 * or per query head. */
enum {
    WITH_SCALE = 1,
    WITH_KEY_BIAS = 2,
    WITH_POS_BIAS = 4,
    WITH_ALL = 7,
    WITH_Q_BIAS = 8,
    WITH_Q_TILES = 16,
    WITH_K_OWN = 32,
    WITH_K_OWNS = 64,
    OPTION = 128 /* first option specific to the op */
};

static int64_t case_length(const struct weft_case *c, int64_t seq)
{
    return weft_max(1, c->n[LONGEST] - seq * c->n[SHORTER]);
}

static int64_t case_queries(const struct weft_case *c, int64_t seq)
{
    return c->n[LAST] ? weft_min(c->n[LAST], case_length(c, seq)) : case_length(c, seq);
}

static int64_t case_tiles(const struct weft_case *c) { return weft_div_up(c->n[LONGEST], WEFT_KEY_TILE); }

/* Returns the number of pages in a sequence's ring: enough for the window and the queries at any alignment. */
static int64_t case_ring(const struct weft_case *c)
{
    return weft_div_up(c->n[WINDOW] + c->n[LAST], WEFT_KEY_TILE) + 1;
}

static struct weft_dim case_symbol(struct weft_graph *g, const char *name, int64_t max)
{
    return weft_times(weft_graph_symbol(g, name, max), 1);
}

static struct weft_dim case_sequences(struct weft_graph *g, const struct weft_case *c)
{
    return case_symbol(g, "sequences", c->n[SEQUENCES]);
}

/* case_rows returns the number of rows of the call, and case_keys of the key store. With `counted`, there can be fewer
 * rows; a row's results must not depend on their number. */
static struct weft_dim case_rows(struct weft_graph *g, const struct weft_case *c, bool counted)
{
    int64_t rows = 0;
    for (int64_t s = 0; s < c->n[SEQUENCES]; s++)
        rows += case_queries(c, s);
    return case_symbol(g, counted ? "rows" : "all rows", rows);
}

static struct weft_dim case_keys(struct weft_graph *g, const struct weft_case *c, struct weft_dim rows)
{
    return c->n[LAST] ? case_symbol(g, "store", c->n[SEQUENCES] * case_tiles(c) * WEFT_KEY_TILE) : rows;
}

static void case_reciprocal(struct weft_graph *g, const struct weft_case *c, struct weft_dim M,
                            struct weft_attention *a)
{
    const int64_t *n = c->n;
    bool owned = n[OPTIONS] & (WITH_K_OWN | WITH_K_OWNS);
    int64_t width = owned ? n[WIDTH_K] / 2 + 3 : n[WIDTH_K];
    struct weft_dim rows = case_keys(g, c, M);
    enum weft_dtype compute = weft_graph_compute(g);
    a->ra_window = n[WINDOW];
    a->ra_alpha = c->x[ALPHA];
    if (n[OPTIONS] & WITH_Q_TILES) {
        a->q_tiles = weft_graph_input(g, "q_tiles", WEFT_I32, a->rows.tiles->shape);
        rows = case_symbol(g, "ring", n[SEQUENCES] * case_ring(c) * WEFT_KEY_TILE);
    }
    a->q_store =
        n[LAST] ? weft_graph_input(g, "q_store", compute, WEFT_SHAPE(rows, weft_fixed(n[HEADS] * width))) : a->q;
    if (n[OPTIONS] & WITH_Q_BIAS)
        a->q_bias = weft_graph_input(g, "q_bias", WEFT_F32, WEFT_SHAPE(rows, weft_fixed(n[HEADS])));
    if (owned)
        a->k_own = weft_graph_input(g, "k_own", compute,
                                    WEFT_SHAPE(M, weft_fixed(n[n[OPTIONS] & WITH_K_OWNS ? HEADS : KV_HEADS] * width)));
}

/* Returns the inputs of the logits, with gradients in training cases. */
static struct weft_attention case_logits(struct weft_graph *g, const struct weft_case *c, struct weft_dim M)
{
    const int64_t *n = c->n;
    struct weft_dim N = case_keys(g, c, M), H = weft_fixed(n[HEADS]);
    enum weft_dtype compute = weft_graph_compute(g);
    struct weft_attention a = {.heads = n[HEADS], .kv_heads = n[KV_HEADS]};
    a.q = weft_graph_input(g, "q", compute, WEFT_SHAPE(M, weft_fixed(n[HEADS] * n[WIDTH_K])));
    a.k = weft_graph_input(g, "k", compute, WEFT_SHAPE(N, weft_fixed(n[KV_HEADS] * n[WIDTH_K])));
    if (n[OPTIONS] & WITH_SCALE)
        a.scale = weft_graph_input(g, "scale", WEFT_F32, WEFT_SHAPE(H));
    if (n[OPTIONS] & WITH_KEY_BIAS)
        a.key_bias = weft_graph_input(g, "key_bias", WEFT_F32, WEFT_SHAPE(N, H));
    if (n[OPTIONS] & WITH_POS_BIAS)
        a.pos_bias = weft_graph_input(g, "pos_bias", WEFT_F32, WEFT_SHAPE(H, weft_fixed(n[OFFSETS])));
    a.rows.seq = weft_graph_input(g, "seq", WEFT_I32, WEFT_SHAPE(M));
    a.rows.pos = weft_graph_input(g, "pos", WEFT_I32, WEFT_SHAPE(M));
    a.rows.tiles = weft_graph_input(g, "tiles", WEFT_I32, WEFT_SHAPE(case_sequences(g, c), weft_fixed(case_tiles(c))));
    if (n[WINDOW] && a.rows.tiles)
        case_reciprocal(g, c, M, &a);
    struct weft_value *learned[] = {a.q, a.k, a.scale, a.key_bias, a.pos_bias, a.q_bias};
    for (size_t i = 0; i < sizeof learned / sizeof *learned && !n[LAST]; i++)
        if (learned[i])
            learned[i]->wants_grad = true;
    return a;
}

/* Assigns pages to tiles. The pages of the sequences are interleaved in descending order. In a ring, later tiles reuse
 * the pages of earlier ones. */
static void fill_tiles(const struct weft_case *c, int64_t ring, int32_t *tiles)
{
    int64_t S = c->n[SEQUENCES], row = 0;
    for (int64_t s = 0; s < S; row += case_length(c, s++))
        for (int64_t j = 0; j < case_tiles(c); j++) {
            int64_t page = S * ring - 1 - (s + j % ring * S);
            int64_t first = c->n[LAST] ? page * WEFT_KEY_TILE : row + j * WEFT_KEY_TILE;
            bool used = j * WEFT_KEY_TILE < case_length(c, s);
            tiles[s * case_tiles(c) + j] = used ? (int32_t)first : -1;
        }
}

/* Fills an input of the logits if it needs values other than normally distributed ones; returns whether it did. */
static bool fill_logits(const struct weft_case *c, const char *input, struct weft_tensor *t)
{
    if (!strcmp(input, "scale")) {
        for (int64_t h = 0; h < c->n[HEADS]; h++)
            weft_tensor_set(t, h, (float)((1 + 0.25 * (double)h) / sqrt((double)c->n[WIDTH_K])));
    } else if (!strcmp(input, "tiles")) {
        fill_tiles(c, case_tiles(c), t->data);
    } else if (!strcmp(input, "q_tiles")) {
        fill_tiles(c, case_ring(c), t->data);
    } else if (!strcmp(input, "seq") || !strcmp(input, "pos")) {
        int64_t row = 0;
        for (int64_t s = 0; s < c->n[SEQUENCES]; s++)
            for (int64_t i = case_length(c, s) - case_queries(c, s); i < case_length(c, s); i++)
                ((int32_t *)t->data)[row++] = (int32_t)(input[0] == 's' ? s : i);
    } else {
        return false;
    }
    return true;
}

#endif
