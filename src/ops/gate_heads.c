/* SPDX-License-Identifier: MIT
 *
 * gate_heads - z[m,h,d] = s[m,h] o[m,h,d], s = 1 - alpha + alpha gate: scales attention's heads by a gate; alpha sets
 * the gate's strength. o [M, H*D] and z f32 or bf16, gate f32 [M,H], alpha f32 [1]. May run in place on o.
 *
 * Backward, with e[m,h] = sum_d dz o:  do = s dz,  dgate = alpha e,  dalpha += sum over m, h of (gate - 1) e. Each
 * block of ROWS rows writes its part of dalpha to scratch; then the blocks are added in order. Reads all three inputs.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { ROWS = 16 }; /* rows per tile; determines the order of the sum */
enum { O, GATE, ALPHA, INPUTS };

static enum weft_status shape(struct weft_node *node)
{
    const struct weft_value *o = node->in[O], *gate = node->in[GATE], *alpha = node->in[ALPHA];
    TRY(weft_node_float(node, O, "o"));
    int64_t heads = weft_shape_width(&gate->shape), width = weft_shape_width(&o->shape);
    if (gate->dtype != WEFT_F32 || !weft_dim_same(weft_shape_rows(&gate->shape), weft_shape_rows(&o->shape)))
        return weft_node_fail(node, "the gate must be f32, one row per row of o");
    if (width % heads)
        return weft_node_fail(node, "the width of o, %lld, is not a multiple of the %lld gates", (long long)width,
                              (long long)heads);
    if (alpha->dtype != WEFT_F32 || !weft_shape_same(&alpha->shape, &WEFT_SHAPE(weft_fixed(1))))
        return weft_node_fail(node, "alpha must be f32 [1]");
    return weft_node_output(node, 0, o->dtype, o->shape);
}

static void ref(const struct weft_call *call)
{
    const double *o = call->in[O]->data, *gate = call->in[GATE]->data, *alpha = call->in[ALPHA]->data;
    double *z = call->out[0]->data;
    int64_t width = weft_tensor_width(call->in[O]) / weft_tensor_width(call->in[GATE]);
    for (int64_t i = 0; i < weft_tensor_count(call->in[O]); i++)
        z[i] = o[i] * (1 - *alpha + *alpha * gate[i / width]);
}

static void bwd_ref(const struct weft_call *call)
{
    const double *o = call->in[O]->data, *gate = call->in[GATE]->data, *alpha = call->in[ALPHA]->data;
    const double *dz = call->gout[0]->data;
    double *d_o = call->gin[O] ? call->gin[O]->data : NULL, *dgate = call->gin[GATE] ? call->gin[GATE]->data : NULL;
    double *dalpha = call->gin[ALPHA] ? call->gin[ALPHA]->data : NULL;
    int64_t width = weft_tensor_width(call->in[O]) / weft_tensor_width(call->in[GATE]);
    for (int64_t h = 0; h < weft_tensor_count(call->in[GATE]); h++) {
        double e = 0;
        for (int64_t i = h * width; i < (h + 1) * width; i++) {
            e += dz[i] * o[i];
            if (d_o)
                d_o[i] = (1 - *alpha + *alpha * gate[h]) * dz[i];
        }
        if (dgate)
            dgate[h] = *alpha * e;
        if (dalpha)
            *dalpha += (gate[h] - 1) * e;
    }
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    struct weft_atom *gate = weft_form_in(f, GATE), *alpha = weft_form_in(f, ALPHA);
    struct weft_atom *rest = weft_sub_of(f, weft_real_of(f, 1), alpha);
    struct weft_atom *s = weft_add_of(f, rest, weft_mul_of(f, alpha, gate));
    struct weft_atom *o = weft_heads_of(f, weft_form_in(f, O), weft_shape_width(&node->in[GATE]->shape));
    weft_form_out(f, 0, weft_flat_of(f, weft_mul_of(f, o, weft_unit_of(f, s, -1))));
}

/* The range of heads in a tile's rows. Heads are numbered across rows, so head h starts at element h * width of o. */
struct heads {
    int64_t first, end, width;
};

static struct heads heads_of(const struct weft_call *call, int64_t first, int64_t rows)
{
    int64_t per_row = weft_tensor_width(call->in[GATE]);
    return (struct heads){first * per_row, rows * per_row, weft_tensor_width(call->in[O]) / per_row};
}

static float gate_factor(const struct weft_call *call, int64_t h)
{
    float alpha = *(const float *)call->in[ALPHA]->data, gate = ((const float *)call->in[GATE]->data)[h];
    return 1 - alpha + alpha * gate;
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const struct weft_tensor *o = call->in[O], *z = call->out[0];
    struct heads t = heads_of(call, first, rows);
    for (int64_t h = t.first; h < t.end; h++) {
        vf s = vset(gate_factor(call, h));
        for (int64_t i = h * t.width, end = i + t.width; i < end; i += VLANES)
            vstore(z->data, z->dtype, i, end, s * vload(o->data, o->dtype, i, end));
    }
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->in[O]), ROWS, run_tile); }

/* ---- backward; scratch holds one sum per block of rows */

static enum weft_status bwd_plan(const struct weft_call *max, struct weft_booking *booking)
{
    size_t blocks = (size_t)weft_div_up(weft_tensor_rows(max->in[O]), ROWS);
    return weft_size_mul(blocks, sizeof(double), &booking->scratch);
}

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const struct weft_tensor *o = call->in[O], *dz = call->gout[0], *d_o = call->gin[O], *dgate = call->gin[GATE];
    const float *gate = call->in[GATE]->data, alpha = *(const float *)call->in[ALPHA]->data;
    struct heads t = heads_of(call, first, rows);
    double dalpha = 0;
    for (int64_t h = t.first; h < t.end; h++) {
        vf s = vset(gate_factor(call, h)), dot = vset(0);
        for (int64_t i = h * t.width, end = i + t.width; i < end; i += VLANES) {
            vf d = vload(dz->data, dz->dtype, i, end);
            dot = vfma(d, vload(o->data, o->dtype, i, end), dot);
            if (d_o)
                vstore(d_o->data, d_o->dtype, i, end, s * d);
        }
        float e = vsum(dot);
        if (dgate)
            ((float *)dgate->data)[h] = alpha * e;
        dalpha += (gate[h] - 1) * e;
    }
    ((double *)call->scratch)[first / ROWS] = dalpha;
}

static void bwd(const struct weft_call *call)
{
    weft_tiles_run(call, weft_tensor_rows(call->in[O]), ROWS, bwd_tile);
    if (!call->gin[ALPHA])
        return;
    double sum = 0;
    for (int64_t block = 0; block < weft_div_up(weft_tensor_rows(call->in[O]), ROWS); block++)
        sum += ((const double *)call->scratch)[block];
    *(float *)call->gin[ALPHA]->data += (float)sum;
}

/* Entries of n: rows, heads, width of a head, alpha is a constant, inside */
static const struct weft_case cases[] = {
    {.name = "one", .n = {1, 1, 1}},
    {.name = "one row", .n = {1, 3, 7}},
    {.name = "one head", .n = {5, 1, 37}},
    {.name = "odd", .n = {7, 5, 3}},
    {.name = "lanes", .n = {4, 2, 16}},
    {.name = "lanes+1", .n = {4, 2, 17}},
    {.name = "tile-1", .n = {ROWS - 1, 4, 8}},
    {.name = "tile", .n = {ROWS, 4, 8}},
    {.name = "tile+1", .n = {ROWS + 1, 4, 8}},
    {.name = "tiles", .n = {100, 3, 64}},
    {.name = "constant", .n = {20, 5, 10, 1}},
    {.name = "inside", .n = {20, 5, 10, 0, 1}},
    {.name = "constant inside", .n = {20, 5, 10, 1, 1}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *o = weft_case_input(g, "o", weft_graph_compute(g), c->n[0], c->n[1] * c->n[2]);
    struct weft_value *gate = weft_case_input(g, "gate", WEFT_F32, c->n[0], c->n[1]);
    struct weft_shape one = WEFT_SHAPE(weft_fixed(1));
    struct weft_value *alpha = c->n[3] ? weft_fill(g, 0.3, one) : weft_graph_param(g, "alpha", one);
    struct weft_value *z = weft_gate_heads(g, c->n[4] ? weft_silu(g, o) : o, weft_sigmoid(g, gate), alpha);
    weft_graph_output(g, c->n[4] ? weft_scale(g, z, 2) : z);
}

const struct weft_op WEFT_OP(gate_heads) = {
    .name = "gate_heads",
    .summary = "z = o (1 - alpha + alpha gate), one gate per row and head",
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.plan = bwd_plan, .run = bwd, .ref = bwd_ref},
    .bwd_reads_in = 1 << O | 1 << GATE | 1 << ALPHA,
    .differentiable = 1 << O | 1 << GATE | 1 << ALPHA,
    .accumulates = 1 << ALPHA,
    .inplace = 1 + O,
    .inplace_grad = 1,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_gate_heads(struct weft_graph *g, struct weft_value *o, struct weft_value *gate,
                                   struct weft_value *alpha)
{
    struct weft_value *in[INPUTS] = {o, gate, alpha};
    return weft_emit(g, WEFT_SELF(gate_heads), NULL, INPUTS, in);
}
