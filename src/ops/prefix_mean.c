/* SPDX-License-Identifier: MIT
 *
 * prefix_mean - y_t = mean of x over positions 0..t of the same sequence, for x [M, G]; y has the shape and type of x.
 *
 * seq and pos give the sequence and position of each row. The sum is accumulated in f32 in the order of positions, one
 * addition per row, so results do not depend on how a sequence is split into calls. The optional `state`, f32 [S, G],
 * is the sum before the call's first row of each slot; without it, sequences start in this call, at position 0. Output
 * 1, f32 [S, G], is the sum after the slot's last row, or the initial sum if the slot has no rows. tiles [S, *] is used
 * only for S.
 *
 * With `whole`, every row gets the mean of its sequence's last row in the call, so a row depends on later rows. This
 * non-causal variant exists to show that the gates detect it; its results depend on how a sequence is split into calls.
 *
 * Backward, with state as a constant: dx_s = sum over t >= s of dy_t / (t+1), accumulated from the call's last row to
 * its first; with `whole`: the sum over all t of dy_t / (last+1), for every s. Nothing is saved. Both directions may
 * run in place: a row is read before it is written and is not read again.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { COLUMNS = 64, VECTORS = COLUMNS / VLANES }; /* a tile is one sequence and this many columns */
enum { X, SEQ, POS, TILES, STATE, INPUTS };
enum { Y, SUM };

struct attr {
    bool whole;
};

static enum weft_status shape(struct weft_node *node)
{
    struct weft_value *const *in = node->in;
    TRY(weft_node_float(node, X, "x"));
    struct weft_shape rows = WEFT_SHAPE(weft_shape_rows(&in[X]->shape));
    for (int i = SEQ; i <= POS; i++)
        if (!in[i] || in[i]->dtype != WEFT_I32 || !weft_shape_same(&in[i]->shape, &rows))
            return weft_node_fail(node, "seq and pos must be i32, one element per row of x");
    if (!in[TILES] || in[TILES]->shape.ndim != 2)
        return weft_node_fail(node, "tiles must be [sequences, tiles]");
    struct weft_shape sums = WEFT_SHAPE(in[TILES]->shape.dim[0], weft_fixed(weft_shape_width(&in[X]->shape)));
    if (in[STATE] && (in[STATE]->dtype != WEFT_F32 || !weft_shape_same(&in[STATE]->shape, &sums)))
        return weft_node_fail(node, "the state must be f32 [sequences, width of x]");
    TRY(weft_node_output(node, Y, in[X]->dtype, in[X]->shape));
    return weft_node_output(node, SUM, WEFT_F32, sums);
}

/* Returns the row that determines the mean of row r: r itself or, with `whole`, the last row of its sequence. */
static int64_t mean_row(const struct weft_call *call, int64_t r)
{
    const struct attr *attr = call->attr;
    const int32_t *seq = call->in[SEQ]->data;
    int64_t last = call->in[SEQ]->dim[0] - 1;
    while (attr->whole && seq[last] != seq[r])
        last--;
    return attr->whole ? last : r;
}

static void ref(const struct weft_call *call)
{
    const double *x = call->in[X]->data, *state = call->in[STATE] ? call->in[STATE]->data : NULL;
    const int32_t *seq = call->in[SEQ]->data, *pos = call->in[POS]->data;
    double *y = call->out[Y]->data, *sum = call->out[SUM]->data;
    int64_t width = weft_tensor_width(call->in[X]);
    for (int64_t i = 0; i < weft_tensor_count(call->out[SUM]); i++)
        sum[i] = state ? state[i] : 0;
    for (int64_t r = 0; r < weft_tensor_rows(call->in[X]); r++)
        for (int64_t i = 0; i < width; i++) {
            sum[seq[r] * width + i] += x[r * width + i];
            y[r * width + i] = sum[seq[r] * width + i] / (pos[r] + 1);
        }
    for (int64_t r = 0; r < weft_tensor_rows(call->in[X]); r++)
        for (int64_t i = 0; i < width; i++)
            y[r * width + i] = y[mean_row(call, r) * width + i];
}

static void bwd_ref(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    const double *dy = call->gout[Y]->data;
    const int32_t *seq = call->in[SEQ]->data, *pos = call->in[POS]->data;
    double *dx = call->gin[X]->data;
    int64_t rows = weft_tensor_rows(call->gin[X]), width = weft_tensor_width(call->gin[X]);
    for (int64_t s = 0; s < rows; s++)
        for (int64_t i = 0; i < width; i++) {
            double sum = 0;
            for (int64_t t = s; t < rows; t++)
                sum += seq[t] == seq[s] ? dy[t * width + i] / (pos[mean_row(call, t)] + 1) : 0;
            dx[s * width + i] = sum;
        }
    for (int64_t s = 0; attr->whole && s < rows; s++) {
        int64_t first = 0;
        while (seq[first] != seq[s])
            first++;
        for (int64_t i = 0; i < width; i++)
            dx[s * width + i] = dx[first * width + i];
    }
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *attr = node->attr;
    struct weft_atom *x = weft_form_in(f, X), *all = weft_pool_of(f, x, WEFT_POOL_SUM);
    struct weft_atom *sum = weft_cumulate_of(f, x), *pos = weft_to_of(f, weft_form_in(f, POS), WEFT_REAL);
    pos = weft_unit_of(f, pos, 2);
    if (node->in[STATE]) {
        all = weft_add_of(f, weft_form_in(f, STATE), all);
        sum = weft_add_of(f, weft_spread_of(f, weft_form_in(f, STATE)), sum);
    }
    struct weft_atom *last = weft_pool_of(f, pos, WEFT_POOL_MAX);
    struct weft_atom *y = attr->whole ? weft_spread_of(f, weft_div_of(f, all, weft_plus_of(f, last, 1)))
                                      : weft_div_of(f, sum, weft_plus_of(f, pos, 1));
    weft_form_out(f, Y, y);
    weft_form_out(f, SUM, all);
}

/* Finds a tile: returns its sequence, and sets *first and *end to its columns, *first <= i < *end. */
static int64_t locate_tile(int64_t tile, int64_t width, int64_t *first, int64_t *end)
{
    int64_t across = weft_div_up(width, COLUMNS);
    *first = tile % across * COLUMNS;
    *end = weft_min(width, *first + COLUMNS);
    return tile / across;
}

/* Stores the same values in every row of a sequence. */
static void store_all(const struct weft_tensor *to, const int32_t *seq, int64_t slot, int64_t first, int64_t end,
                      const vf *same)
{
    int64_t width = weft_tensor_width(to);
    for (int64_t r = 0; r < weft_tensor_rows(to); r++)
        for (int64_t i = first, v = 0; seq[r] == slot && i < end; i += VLANES, v++)
            vstore(to->data, to->dtype, r * width + i, r * width + end, same[v]);
}

static void run_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    const struct attr *attr = call->attr;
    const struct weft_tensor *x = call->in[X], *y = call->out[Y], *state = call->in[STATE];
    const int32_t *seq = call->in[SEQ]->data, *pos = call->in[POS]->data;
    int64_t first, end, width = weft_tensor_width(x), slot = locate_tile(tile, width, &first, &end);
    float *after = (float *)call->out[SUM]->data + slot * width;
    vf sum[VECTORS] = {0}, mean[VECTORS] = {0};
    for (int64_t i = first, v = 0; state && i < end; i += VLANES, v++)
        sum[v] = vload_f32((const float *)state->data + slot * width + i, end - i);
    for (int64_t r = 0; r < weft_tensor_rows(x); r++) {
        if (seq[r] != slot)
            continue;
        vf count = vset((float)(pos[r] + 1));
        for (int64_t i = first, v = 0; i < end; i += VLANES, v++) {
            sum[v] += vload(x->data, x->dtype, r * width + i, r * width + end);
            mean[v] = sum[v] / count;
            vstore(y->data, y->dtype, r * width + i, r * width + end, mean[v]);
        }
    }
    if (attr->whole)
        store_all(y, seq, slot, first, end, mean);
    for (int64_t i = first, v = 0; i < end; i += VLANES, v++)
        vstore_f32(after + i, end - i, sum[v]);
}

static void run(const struct weft_call *call)
{
    int64_t across = weft_div_up(weft_tensor_width(call->in[X]), COLUMNS);
    weft_parallel(call->in[TILES]->dim[0] * across, run_tile, (void *)call);
}

static void bwd_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    const struct attr *attr = call->attr;
    const struct weft_tensor *dy = call->gout[Y], *dx = call->gin[X];
    const int32_t *seq = call->in[SEQ]->data, *pos = call->in[POS]->data;
    int64_t first, end, width = weft_tensor_width(dx), slot = locate_tile(tile, width, &first, &end);
    vf sum[VECTORS] = {0}, count = vset(0);
    for (int64_t r = weft_tensor_rows(dx) - 1; r >= 0; r--) {
        if (seq[r] != slot)
            continue;
        vf own = vset((float)(pos[r] + 1));
        count = attr->whole ? vmax(count, own) : own; /* the last row comes first and has the largest count */
        for (int64_t i = first, v = 0; i < end; i += VLANES, v++) {
            sum[v] += vload(dy->data, dy->dtype, r * width + i, r * width + end) / count;
            vstore(dx->data, dx->dtype, r * width + i, r * width + end, sum[v]);
        }
    }
    if (attr->whole)
        store_all(dx, seq, slot, first, end, sum);
}

static void bwd(const struct weft_call *call)
{
    int64_t across = weft_div_up(weft_tensor_width(call->gin[X]), COLUMNS);
    weft_parallel(call->in[TILES]->dim[0] * across, bwd_tile, (void *)call);
}

/* Entries of n: sequences, rows of the first, decrease with each further one (down to none), width, position of the
 * first rows (not 0: with a state), inside, rows of the sequences are interleaved, whole */
enum { SEQUENCES, LONGEST, SHORTER, WIDTH, START, INSIDE, INTERLEAVED, WHOLE };

static const struct weft_case cases[] = {
    {.name = "one", .n = {1, 1, 0, 1}},
    {.name = "one sequence", .n = {1, 37, 0, 5}},
    {.name = "one row each", .n = {9, 1, 0, 20}},
    {.name = "lanes", .n = {2, 8, 0, 16}},
    {.name = "lanes+1", .n = {2, 8, 3, 17}},
    {.name = "tile", .n = {3, 5, 0, COLUMNS}},
    {.name = "tile+1", .n = {3, 5, 1, COLUMNS + 1}},
    {.name = "tiles", .n = {4, 50, 7, 200}},
    {.name = "without rows", .n = {4, 4, 2, 10}},
    {.name = "long", .n = {1, 1000, 0, 3}},
    {.name = "state", .n = {3, 6, 1, 24, 11}},
    {.name = "state, one row", .n = {5, 1, 0, 70, 300}},
    {.name = "state, without rows", .n = {5, 3, 2, 33, 1}},
    {.name = "inside", .n = {3, 20, 4, 40, 0, 1}},
    {.name = "interleaved", .n = {3, 20, 0, 40, 2, 1, 1}},
    {.name = "whole", .n = {4, 9, 3, 70, 0, 0, 0, 1}},
    {.name = "whole, state", .n = {3, 6, 1, 24, 11, 0, 0, 1}},
    {.name = "whole inside", .n = {3, 20, 0, 40, 2, 1, 1, 1}},
};

static int64_t case_length(const struct weft_case *c, int64_t s)
{
    return weft_max(0, c->n[LONGEST] - s * c->n[SHORTER]);
}

/* With `whole`, rows depend on each other, so the harness must not vary their number. */
static struct weft_value *case_input(struct weft_graph *g, const struct weft_case *c, const char *name,
                                     enum weft_dtype dtype, int64_t rows, int64_t width)
{
    if (!c->n[WHOLE])
        return weft_case_input(g, name, dtype, rows, width);
    struct weft_shape s = WEFT_SHAPE(weft_times(weft_graph_symbol(g, "all rows", rows), 1), weft_fixed(width));
    s.ndim = width ? 2 : 1;
    struct weft_value *v = weft_graph_input(g, name, dtype, s);
    if (v)
        v->wants_grad = weft_dtype_is_float(dtype);
    return v;
}

static void build(struct weft_graph *g, const struct weft_case *c)
{
    int64_t count = 0, sequences = c->n[SEQUENCES];
    for (int64_t s = 0; s < sequences; s++)
        count += case_length(c, s);
    struct weft_value *x = case_input(g, c, "x", weft_graph_compute(g), count, c->n[WIDTH]), *state = NULL;
    struct weft_dim S = weft_times(weft_graph_symbol(g, "sequences", sequences), 1);
    struct weft_rows rows = {
        .seq = case_input(g, c, "seq", WEFT_I32, count, 0),
        .pos = case_input(g, c, "pos", WEFT_I32, count, 0),
        .tiles = weft_graph_input(g, "tiles", WEFT_I32, WEFT_SHAPE(S, weft_fixed(1))),
    };
    if (c->n[START])
        state = weft_graph_input(g, "state", WEFT_F32, WEFT_SHAPE(S, weft_fixed(c->n[WIDTH])));
    struct weft_value *y = weft_prefix_mean(g, c->n[INSIDE] ? weft_silu(g, x) : x, &rows, state, c->n[WHOLE]);
    weft_graph_output(g, c->n[INSIDE] ? weft_scale(g, y, 2) : y);
    weft_graph_output(g, weft_sibling(y, SUM));
}

static bool fill(const struct weft_case *c, const char *input, struct weft_tensor *t)
{
    bool is_seq = strcmp(input, "seq") == 0;
    if (!is_seq && strcmp(input, "pos") != 0)
        return false;
    int32_t *to = t->data;
    int64_t sequences = c->n[SEQUENCES], rows = weft_tensor_count(t);
    for (int64_t r = 0, s = 0, at = 0; r < rows; r++, at++) {
        for (; at == case_length(c, s); at = 0)
            s++;
        int64_t slot = c->n[INTERLEAVED] ? r % sequences : s,
                pos = c->n[START] + (c->n[INTERLEAVED] ? r / sequences : at);
        to[r] = (int32_t)(is_seq ? slot : pos);
    }
    return true;
}

const struct weft_op WEFT_OP(prefix_mean) = {
    .name = "prefix_mean",
    .summary = "y_t = mean of x over positions 0..t of its sequence",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.run = bwd, .ref = bwd_ref},
    .bwd_reads_in = 1 << SEQ | 1 << POS | 1 << TILES,
    .differentiable = 1 << X,
    .no_grad_out = 1 << SUM,
    .inplace = 1 + X,
    .inplace_grad = 1 + Y,
    .lower = lower,
    WEFT_CASES(cases, build),
    .fill = fill,
};

struct weft_value *weft_prefix_mean(struct weft_graph *g, struct weft_value *x, const struct weft_rows *rows,
                                    struct weft_value *state, bool whole)
{
    struct weft_value *in[INPUTS] = {x, rows->seq, rows->pos, rows->tiles, state};
    return weft_emit(g, WEFT_SELF(prefix_mean), &(struct attr){whole}, INPUTS, in);
}
