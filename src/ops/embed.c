/* SPDX-License-Identifier: MIT
 *
 * embed - y [M, C] = rows ids [M] of table [V, C]; f32, since it starts the residual stream.
 *
 * Backward: dtable[id] += dy row, in row order, and in parallel over columns, so that no two threads share a sum. The
 * host checks ids; an id outside 0 to V-1 gives a row of zeros and has no gradient.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { ROWS = 16, COLUMNS = 64 }; /* rows per forward tile, columns per backward tile */

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_value *table = node->in[0], *ids = node->in[1];
    if (table->dtype != WEFT_F32 || table->shape.ndim != 2)
        return weft_node_fail(node, "the table must be f32 [V, C]");
    if (ids->dtype != WEFT_I32 || ids->shape.ndim != 1)
        return weft_node_fail(node, "the ids must be i32 [M]");
    return weft_node_output(node, 0, WEFT_F32, WEFT_SHAPE(ids->shape.dim[0], table->shape.dim[1]));
}

static void ref(const struct weft_call *call)
{
    const double *table = call->in[0]->data;
    const int32_t *ids = call->in[1]->data;
    double *y = call->out[0]->data;
    int64_t rows = weft_tensor_rows(call->out[0]), width = weft_tensor_width(call->out[0]);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++)
            y[r * width + i] = ids[r] >= 0 && ids[r] < call->in[0]->dim[0] ? table[ids[r] * width + i] : 0;
}

static void bwd_ref(const struct weft_call *call)
{
    const int32_t *ids = call->in[1]->data;
    const double *dy = call->gout[0]->data;
    double *dtable = call->gin[0]->data;
    int64_t rows = weft_tensor_rows(call->gout[0]), width = weft_tensor_width(call->gout[0]);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width && ids[r] >= 0 && ids[r] < call->gin[0]->dim[0]; i++)
            dtable[ids[r] * width + i] += dy[r * width + i];
}

/* The form does not define rows of ids outside the table. */
static void lower(struct weft_form *f, const struct weft_node *node)
{
    if (node->in[0]->shape.dim[0].symbol)
        weft_form_fail(f, "the table consists of rows");
    weft_form_out(f, 0, weft_take_of(f, weft_form_in(f, 0), weft_form_in(f, 1), 0));
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const float *table = call->in[0]->data;
    const int32_t *ids = call->in[1]->data;
    float *y = call->out[0]->data;
    int64_t width = weft_tensor_width(call->out[0]);
    for (int64_t r = first; r < rows; r++) {
        if (ids[r] >= 0 && ids[r] < call->in[0]->dim[0])
            memcpy(y + r * width, table + ids[r] * width, (size_t)width * sizeof *y);
        else
            memset(y + r * width, 0, (size_t)width * sizeof *y);
    }
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->out[0]), ROWS, run_tile); }

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t last)
{
    const struct weft_tensor *dy = call->gout[0];
    const int32_t *ids = call->in[1]->data;
    int64_t rows = weft_tensor_rows(dy), width = weft_tensor_width(dy);
    for (int64_t r = 0; r < rows; r++) {
        if (ids[r] < 0 || ids[r] >= call->gin[0]->dim[0])
            continue;
        float *sum = (float *)call->gin[0]->data + ids[r] * width;
        for (int64_t i = first; i < last; i += VLANES) {
            vf more = vload(dy->data, dy->dtype, r * width + i, r * width + last);
            vstore_f32(sum + i, last - i, vload_f32(sum + i, last - i) + more);
        }
    }
}

static void bwd(const struct weft_call *call)
{
    weft_tiles_run(call, weft_tensor_width(call->gout[0]), COLUMNS, bwd_tile);
}

/* Entries of n: rows, width, vocabulary */
static const struct weft_case cases[] = {
    {"one", {1, 1, 1}, {0}},
    {"one row", {1, 37, 50}, {0}},
    {"odd", {7, 5, 3}, {0}},
    {"one id", {40, 17, 1}, {0}},
    {"tile-1", {ROWS - 1, COLUMNS - 1, 11}, {0}},
    {"tile", {ROWS, COLUMNS, 11}, {0}},
    {"tile+1", {ROWS + 1, COLUMNS + 1, 11}, {0}},
    {"tiles", {100, 200, 64}, {0}},
    {"mostly unseen", {9, 96, 300}, {0}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *table = weft_graph_param(g, "table", WEFT_SHAPE(weft_fixed(c->n[2]), weft_fixed(c->n[1])));
    struct weft_value *ids = weft_case_input(g, "ids", WEFT_I32, c->n[0], 0);
    weft_graph_output(g, weft_embed(g, table, ids));
}

/* Fills ids with repeated values. */
static bool fill(const struct weft_case *c, const char *input, struct weft_tensor *t)
{
    (void)input;
    int32_t *ids = t->data;
    if (t->dtype != WEFT_I32)
        return false;
    for (int64_t r = 0; r < weft_tensor_count(t); r++)
        ids[r] = (int32_t)weft_below(1, (uint64_t)r, (uint64_t)c->n[2]);
    return true;
}

const struct weft_op WEFT_OP(embed) = {
    .name = "embed",
    .summary = "y = table[ids]",
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.run = bwd, .ref = bwd_ref},
    .bwd_reads_in = 2,
    .differentiable = 1,
    .accumulates = 1,
    .lower = lower,
    WEFT_CASES(cases, build),
    .fill = fill,
};

struct weft_value *weft_embed(struct weft_graph *g, struct weft_value *table, struct weft_value *ids)
{
    return weft_emit(g, WEFT_SELF(embed), NULL, 2, (struct weft_value *[]){table, ids});
}
