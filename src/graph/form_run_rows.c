/* SPDX-License-Identifier: MIT
 *
 * form_run_rows.c - runs the atoms that depend on the sequence and position of rows: sources, whose rows may lie in the
 * pages of a store, and the atoms that combine rows of a sequence.
 */
#include "graph/form_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sets the dimensions of the output from its type, and allocates it. */
static bool begin(struct run *r)
{
    weft_array_set(r->frame, r->out, &r->atom->type);
    return weft_run_alloc(r);
}

static int64_t rows(const struct run *r) { return r->frame->batch * r->frame->fresh; }

/* Returns the number of elements of a row of x, which has `leading` dimensions that count rows. */
static int64_t width_of(const struct weft_array *x, int leading)
{
    int64_t n = 1;
    for (int i = leading; i < x->ndim; i++)
        n *= x->dim[i];
    return n;
}

static bool is_column(const struct weft_type *t)
{
    return t->ndim > 1 && (t->dim[1].size == WEFT_ALL || t->dim[1].size == WEFT_RING);
}

/* Returns the row of a store that has column j of a sequence; -1: none. */
static int64_t stored_row(const struct weft_form_frame *f, bool ring, int64_t seq, int64_t j)
{
    const int32_t *tiles = ring ? f->ring_tiles : f->tiles;
    if (!tiles)
        return j;
    if (j / f->tile >= f->tile_count)
        return -1;
    int64_t first = tiles[seq * f->tile_count + j / f->tile];
    return first < 0 ? -1 : first + j % f->tile;
}

/* Writes the columns of every batch, from the rows of a store. */
static void gather(struct run *r, const double *store, int64_t count)
{
    const struct weft_form_frame *f = r->frame;
    bool ring = r->atom->type.dim[1].size == WEFT_RING;
    int64_t width = width_of(r->out, 2);
    for (int64_t b = 0; b < f->batch; b++)
        for (int64_t j = 0; j < f->all; j++) {
            int64_t row = stored_row(f, ring, f->seq[b * f->fresh], j);
            if (row >= 0 && (row + 1) * width <= count)
                memcpy(r->out->data + (b * f->all + j) * width, store + row * width, (size_t)width * sizeof(double));
        }
}

static const double *read(struct run *r, const struct weft_atom *source, int64_t *count)
{
    const double *data = r->frame->read(r->frame->context, source, count);
    if (!data && r->status == WEFT_OK)
        r->status = FAIL(WEFT_INVALID, "there are no values of %s", source->name);
    return data;
}

static void source(struct run *r)
{
    int64_t count;
    const double *data = read(r, r->atom, &count);
    if (!data || !begin(r))
        return;
    if (is_column(&r->atom->type))
        gather(r, data, count);
    else if (count == weft_array_count(r->out))
        memcpy(r->out->data, data, (size_t)count * sizeof(double));
    else
        r->status = FAIL(WEFT_INVALID, "%s has %lld elements; %s has %lld", r->atom->name, (long long)count,
                         weft_type_text(&r->atom->type).text, (long long)weft_array_count(r->out));
}

static void store(struct run *r)
{
    struct weft_atom index = {.kind = WEFT_ATOM_input, .name = r->atom->name};
    int64_t count, indices;
    const double *before = read(r, r->atom->in[0], &count), *at = read(r, &index, &indices);
    struct weft_array all = {.ndim = 1, .dim = {before ? count : 0}};
    struct run copy = {.out = &all, .status = r->status};
    if (r->status != WEFT_OK || !begin(r) || !weft_run_alloc(&copy)) {
        r->status = r->status == WEFT_OK ? copy.status : r->status;
        return;
    }
    bool columns = is_column(&r->atom->type);
    int64_t width = width_of(r->out, columns ? 2 : 1);
    memcpy(all.data, before, (size_t)count * sizeof(double));
    for (int64_t i = 0; i < indices; i++)
        if (at[i] >= 0 && ((int64_t)at[i] + 1) * width <= count)
            memcpy(all.data + (int64_t)at[i] * width, r->in[1]->data + i * width, (size_t)width * sizeof(double));
    if (columns)
        gather(r, all.data, count);
    else
        memcpy(r->out->data, all.data, (size_t)count * sizeof(double));
    free(all.data);
}

static void drop(struct run *r)
{
    const struct weft_drop *d = &r->atom->drop;
    const struct weft_array *x = r->in[0];
    *r->out = *x;
    if (!weft_run_alloc(r))
        return;
    int64_t heads = d->scores ? x->dim[1] : 1, fresh = r->frame->fresh, columns = x->dim[x->ndim - 1], e = 0;
    for (int64_t b = 0; b < x->dim[0]; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t t = 0; t < fresh; t++)
                for (int64_t c = 0; c < columns; c++, e++) {
                    bool drops = r->frame->drops(r->frame->context, d, b * fresh + t, h, c);
                    r->out->data[e] = drops ? 0 : x->data[e] / (1 - d->p);
                }
}

/* distance and visible */
static void pairs(struct run *r)
{
    if (!begin(r))
        return;
    const int32_t *pos = r->frame->pos;
    for (int64_t row = 0, e = 0; row < rows(r); row++)
        for (int64_t j = 0; j < r->frame->all; j++, e++)
            r->out->data[e] = r->atom->kind == WEFT_ATOM_distance ? (double)(pos[row] - j) : j <= pos[row];
}

static void keys(struct run *r)
{
    if (!begin(r))
        return;
    if (r->atom->in[0]->type.dim[1].size == WEFT_NEW)
        gather(r, r->in[0]->data, weft_array_count(r->in[0]));
    else
        memcpy(r->out->data, r->in[0]->data, (size_t)weft_array_count(r->out) * sizeof(double));
}

static void own(struct run *r)
{
    const struct weft_form_frame *f = r->frame;
    if (!begin(r))
        return;
    int64_t width = width_of(r->out, 2);
    for (int64_t row = 0; row < rows(r); row++)
        memcpy(r->out->data + row * width, r->in[0]->data + (row / f->fresh * f->all + f->pos[row]) * width,
               (size_t)width * sizeof(double));
}

/* Adds rows to the sums of their sequences, one after another; with `each`, every row gets the sum so far. */
static void add_up(struct run *r, double *sums, int64_t width, double *each)
{
    for (int64_t row = 0; row < rows(r); row++) {
        double *sum = sums + r->frame->seq[row] * width;
        for (int64_t i = 0; i < width; i++) {
            double x = r->in[0]->data[row * width + i];
            sum[i] =
                r->atom->kind == WEFT_ATOM_pool && r->atom->pooling == WEFT_POOL_MAX ? fmax(sum[i], x) : sum[i] + x;
        }
        if (each)
            memcpy(each + row * width, sum, (size_t)width * sizeof(double));
    }
}

static void cumulate(struct run *r)
{
    struct weft_array sums = {.ndim = 1};
    struct run scratch = {.out = &sums};
    if (!begin(r))
        return;
    int64_t width = width_of(r->out, 2);
    sums.dim[0] = r->frame->sequences * width;
    if (weft_run_alloc(&scratch))
        add_up(r, sums.data, width, r->out->data);
    r->status = scratch.status;
    free(sums.data);
}

/* The maximum starts at 0 only for sequences without rows. */
static void pool(struct run *r)
{
    if (!begin(r))
        return;
    int64_t width = width_of(r->out, 1);
    for (int64_t row = 0; r->atom->pooling == WEFT_POOL_MAX && row < rows(r); row++)
        for (int64_t i = 0; i < width; i++)
            r->out->data[r->frame->seq[row] * width + i] = -INFINITY;
    add_up(r, r->out->data, width, NULL);
}

static void spread(struct run *r)
{
    if (!begin(r))
        return;
    int64_t width = width_of(r->out, 2);
    for (int64_t row = 0; row < rows(r); row++)
        memcpy(r->out->data + row * width, r->in[0]->data + r->frame->seq[row] * width, (size_t)width * sizeof(double));
}

void weft_run_rows(struct run *r)
{
    static void (*const run[WEFT_ATOMS])(struct run * r) = {
        [WEFT_ATOM_weight] = source,     [WEFT_ATOM_input] = source,   [WEFT_ATOM_state] = source,
        [WEFT_ATOM_drop] = drop,         [WEFT_ATOM_distance] = pairs, [WEFT_ATOM_visible] = pairs,
        [WEFT_ATOM_keys] = keys,         [WEFT_ATOM_own] = own,        [WEFT_ATOM_store] = store,
        [WEFT_ATOM_cumulate] = cumulate, [WEFT_ATOM_pool] = pool,      [WEFT_ATOM_spread] = spread,
    };
    run[r->atom->kind](r);
}
