/* SPDX-License-Identifier: MIT
 *
 * opform.c - runs the form of an op's case on the values of the reference.
 *
 * Rows go by the inputs called seq, pos, tiles and q_tiles. Cases without them are a single sequence whose rows are at
 * positions 0, 1, ...; their stores are in order.
 */
#include "check/op/opform.h"
#include "check/op/mask.h"
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

/* A case with positions beyond this is not run as a form, whose tables would be too large. */
enum { MOST_POSITIONS = 1 << 21 };

static struct weft_tensor *tensor_at(const struct weft_opform *o, int i)
{
    return weft_exec_tensor(o->t->reference.exec, o->t->filled[i]);
}

/* Returns the index of an input, parameter or state of this name; -1: there is none. */
static int find(const struct weft_opform *o, const char *name)
{
    for (int i = 0; i < o->t->filled_count; i++)
        if (o->t->filled[i]->kind != WEFT_GRAD && strcmp(o->t->filled[i]->name, name) == 0)
            return i;
    return -1;
}

static const int32_t *find_ints(const struct weft_opform *o, const char *name, int64_t *count)
{
    int i = find(o, name);
    *count = i < 0 ? 0 : weft_tensor_count(tensor_at(o, i));
    return i < 0 ? NULL : tensor_at(o, i)->data;
}

static const double *read_value(void *context, const struct weft_atom *source, int64_t *count)
{
    const struct weft_opform *o = context;
    int i = find(o, source->name);
    if (i < 0)
        return NULL;
    const struct weft_tensor *x = tensor_at(o, i);
    *count = weft_tensor_count(x);
    if (x->dtype == WEFT_I32)
        for (int64_t e = 0; e < *count; e++)
            o->whole[i][e] = weft_tensor_get(x, e);
    return x->dtype == WEFT_I32 ? o->whole[i] : x->data;
}

static bool drops(void *context, const struct weft_drop *d, int64_t row, int64_t head, int64_t column)
{
    const struct weft_opform *o = context;
    int64_t count;
    const int32_t *step_key = find_ints(o, "step_key", &count), *sample = find_ints(o, "sample", &count);
    return weft_mask_drops(d, step_key, sample[o->frame.seq[row]], o->frame.pos[row], head, column);
}

static int64_t symbol_max(const struct weft_opform *o, const char *name)
{
    for (int s = 1; s < weft_graph_symbols(o->graph); s++)
        if (strcmp(weft_graph_symbol_name(o->graph, s), name) == 0)
            return weft_graph_symbol_max(o->graph, s);
    return 0;
}

static int64_t rows_of(const struct weft_opform *o)
{
    return weft_max(symbol_max(o, "rows"), symbol_max(o, "all rows"));
}

/* One sequence: the rows of a case without positions. */
static enum weft_status invent_rows(struct weft_opform *o)
{
    int64_t n = weft_max(1, rows_of(o));
    o->seq = calloc((size_t)n, sizeof *o->seq);
    o->pos = calloc((size_t)n, sizeof *o->pos);
    if (!o->seq || !o->pos)
        return FAIL(WEFT_NOMEM, "not enough memory for the op harness");
    for (int64_t i = 0; i < n; i++)
        o->pos[i] = (int32_t)i;
    o->frame.seq = o->seq;
    o->frame.pos = o->pos;
    o->frame.sequences = 1;
    o->frame.all = weft_max(n, symbol_max(o, "store"));
    return WEFT_OK;
}

static enum weft_status find_rows(struct weft_opform *o)
{
    int64_t n, tiles;
    o->frame = (struct weft_form_frame){.read = read_value, .drops = drops, .context = o, .tile = WEFT_KEY_TILE};
    o->frame.seq = find_ints(o, "seq", &n);
    o->frame.pos = find_ints(o, "pos", &n);
    if (!o->frame.seq || !o->frame.pos)
        return invent_rows(o);
    o->frame.sequences = symbol_max(o, "sequences");
    o->frame.tiles = find_ints(o, "tiles", &tiles);
    o->frame.ring_tiles = find_ints(o, "q_tiles", &n);
    o->frame.tile_count = o->frame.sequences ? tiles / o->frame.sequences : 0;
    for (int64_t r = 0; r < rows_of(o); r++)
        o->frame.all = weft_max(o->frame.all, o->frame.pos[r] + 1);
    return WEFT_OK;
}

/* Returns one more than the largest integer of the inputs: the number of rows of tables by position. */
static int64_t positions(const struct weft_opform *o)
{
    int64_t most = 0;
    for (int i = 0; i < o->t->filled_count; i++)
        for (int64_t e = 0; o->t->filled[i]->dtype == WEFT_I32 && e < weft_tensor_count(tensor_at(o, i)); e++)
            most = weft_max(most, (int64_t)weft_tensor_get(tensor_at(o, i), e));
    return most + 1;
}

enum weft_status weft_opform_open(struct weft_opform *o, struct weft_optrial *t)
{
    *o = (struct weft_opform){.t = t};
    o->graph = weft_graph_new(WEFT_F32);
    TRY(weft_graph_status(o->graph));
    t->op->build(o->graph, t->c);
    TRY(weft_graph_status(o->graph));
    TRY(find_rows(o));
    for (int i = 0; i < t->filled_count; i++)
        if (t->filled[i]->dtype == WEFT_I32 &&
            !(o->whole[i] = malloc((size_t)weft_tensor_count(tensor_at(o, i)) * sizeof(double) + 1)))
            return FAIL(WEFT_NOMEM, "not enough memory for the op harness");
    if (positions(o) > MOST_POSITIONS)
        return WEFT_OK;
    TRY(weft_form_init(&o->form, o->graph, true, positions(o)));
    TRY(weft_form_results_init(&o->results, &o->form));
    struct weft_value *const *values;
    for (int i = 0, n = weft_graph_values(o->graph, &values); i < n; i++)
        if (values[i]->is_output && o->form.of_value[i])
            o->results.wanted[o->form.of_value[i]->id] = true;
    return WEFT_OK;
}

void weft_opform_close(struct weft_opform *o)
{
    weft_form_results_release(&o->results);
    weft_form_release(&o->form);
    weft_graph_free(o->graph);
    for (int i = 0; i < WEFT_OPTRIAL_VALUES; i++)
        free(o->whole[i]);
    free(o->seq);
    free(o->pos);
    *o = (struct weft_opform){0};
}

/* Returns whether row b * fresh + t is position p + t of sequence b, for one p. */
static bool is_dense(const struct weft_form_frame *f, int64_t rows)
{
    int64_t fresh = f->sequences ? rows / f->sequences : 0;
    bool dense = fresh > 0 && rows % f->sequences == 0;
    for (int64_t r = 0; r < rows && dense; r++)
        dense = f->seq[r] == r / fresh && f->pos[r] == f->pos[0] + r % fresh;
    return dense;
}

enum weft_status weft_opform_run(struct weft_opform *o, bool dense, bool *possible)
{
    int64_t rows = weft_max(1, rows_of(o));
    *possible = (!dense || is_dense(&o->frame, rows)) && o->form.list;
    if (!*possible)
        return WEFT_OK;
    bool one = o->seq != NULL; /* a store without pages is that of one batch */
    o->frame.batch = one ? 1 : dense ? o->frame.sequences : rows;
    o->frame.fresh = rows / o->frame.batch;
    return weft_form_run(&o->form, &o->frame, &o->results);
}

const double *weft_opform_result(const struct weft_opform *o, const struct weft_value *v, int64_t *count)
{
    struct weft_value *const *values;
    if (!o->form.list || v->id >= weft_graph_values(o->graph, &values) || !values[v->id]->is_output)
        return NULL;
    const struct weft_atom *a = o->form.of_value[v->id];
    if (!a)
        return NULL;
    *count = o->results.count[a->id];
    return o->results.of[a->id];
}
