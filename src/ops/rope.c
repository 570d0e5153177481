/* SPDX-License-Identifier: MIT
 *
 * rope - rotary positions: in each head of x [M, H D], rotates the pair (i, i + D/2) by the angle pos f_i:
 *
 *     y[i] = x[i] cos - x[i+D/2] sin       y[i+D/2] = x[i+D/2] cos + x[i] sin       i < D/2
 *
 * f_i = base^(-2i/D), or less for a model with an extended context (enum weft_rope_scaling). Backward rotates dy by the
 * opposite angle and needs only pos. The cosines and sines of a row are computed once for all its heads, in double
 * without libm, and rounded to f32. They depend only on (pos, i, D) and the attributes, need no table that would limit
 * positions, and cost little compared with reading x.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { ROWS = 16, DLANES = 8 }; /* rows per tile, doubles per vector */

typedef double vd __attribute__((vector_size(64)));
typedef int64_t vl __attribute__((vector_size(64)));
typedef float vf8 __attribute__((vector_size(32)));

struct attr {
    int64_t heads;
    struct weft_rope_turns turns;
};

/* Linear scaling slows down every pair by `factor`. As in Llama 3.1, llama3 scaling slows down pairs with fewer than
 * `low` rotations within the original context, leaves pairs with more than `high` rotations unchanged, and interpolates
 * in between. */
double weft_rope_slowed(const struct weft_rope_turns *t, double frequency)
{
    const double pi = 3.14159265358979323846;
    double turns = (double)t->original * frequency / (2 * pi), share = (turns - t->low) / (t->high - t->low);
    if (t->scaling == WEFT_ROPE_LINEAR)
        return frequency / t->factor;
    if (t->scaling != WEFT_ROPE_LLAMA3 || share >= 1)
        return frequency;
    share = share > 0 ? share : 0;
    return frequency * (share + (1 - share) / t->factor);
}

double weft_rope_frequency(const struct weft_rope_turns *t, int64_t i, int64_t width)
{
    return weft_rope_slowed(t, weft_pow(t->base, -2 * (double)i / (double)width));
}

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *attr = node->attr;
    const struct weft_value *x = node->in[0], *pos = node->in[1];
    struct weft_shape rows = WEFT_SHAPE(weft_shape_rows(&x->shape));
    long long width = weft_shape_width(&x->shape), heads = attr->heads;
    TRY(weft_node_float(node, 0, "x"));
    if (heads < 1 || width % (2 * heads) != 0)
        return weft_node_fail(node, "%lld columns cannot be divided into %lld heads of even width", width, heads);
    if (!(attr->turns.base > 0))
        return weft_node_fail(node, "base = %g; it must be positive", attr->turns.base);
    if (pos->dtype != WEFT_I32 || !weft_shape_same(&pos->shape, &rows))
        return weft_node_fail(node, "pos must be i32, one element per row of x");
    return weft_node_output(node, 0, x->dtype, x->shape);
}

static double exact_frequency(const struct weft_rope_turns *turns, int64_t i, int64_t width)
{
    return weft_rope_slowed(turns, pow(turns->base, -2 * (double)i / (double)width));
}

/* `sign` is +1 forward and -1 backward. */
static void rotate_ref(const struct weft_call *call, const double *from, double *to, int64_t width, double sign)
{
    const struct attr *attr = call->attr;
    const int32_t *pos = call->in[1]->data;
    int64_t rows = weft_tensor_count(call->in[1]), wide = width / attr->heads;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < attr->heads; h++)
            for (int64_t i = 0; i < wide / 2; i++) {
                int64_t a = r * width + h * wide + i, b = a + wide / 2;
                double angle = sign * pos[r] * exact_frequency(&attr->turns, i, wide);
                double x = from[a], y = from[b]; /* `to` may be `from` */
                to[a] = x * cos(angle) - y * sin(angle);
                to[b] = y * cos(angle) + x * sin(angle);
            }
}

static void ref(const struct weft_call *call)
{
    rotate_ref(call, call->in[0]->data, call->out[0]->data, weft_tensor_width(call->in[0]), 1);
}

static void bwd_ref(const struct weft_call *call)
{
    rotate_ref(call, call->gout[0]->data, call->gin[0]->data, weft_tensor_width(call->gin[0]), -1);
}

/* The cosines or sines of all positions, [positions, D/2]. */
struct table {
    struct weft_rope_turns turns;
    int64_t positions, half;
    double (*of)(double angle);
};

static void fill_table(const void *context, double *to)
{
    const struct table *t = context;
    for (int64_t i = 0; i < t->half; i++) {
        double frequency = exact_frequency(&t->turns, i, 2 * t->half);
        for (int64_t pos = 0; pos < t->positions; pos++)
            to[pos * t->half + i] = t->of((double)pos * frequency);
    }
}

/* Returns the rows of a table at the positions of the rows, as [.., 1, D/2]. */
static struct weft_atom *table_of_rows(struct weft_form *f, const struct table *t, const char *name)
{
    const struct weft_rope_turns *turns = &t->turns;
    const char *recipe = weft_arena_print(
        &f->arena, "%s positions=%lld half=%lld base=%.17g scaling=%d factor=%.17g low=%.17g high=%.17g original=%lld",
        name, (long long)t->positions, (long long)t->half, turns->base, turns->scaling, turns->factor, turns->low,
        turns->high, (long long)turns->original);
    struct weft_atom *table = weft_array_of(f, WEFT_FIXED_TYPE(t->positions, t->half), recipe, fill_table, t);
    return weft_unit_of(f, weft_take_of(f, table, weft_form_in(f, 1), 0), -2);
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *attr = node->attr;
    int64_t half = weft_shape_width(&node->in[0]->shape) / attr->heads / 2;
    struct table table = {attr->turns, f->positions, half, cos};
    struct weft_atom *c = table_of_rows(f, &table, "cos");
    table.of = sin;
    struct weft_atom *s = table_of_rows(f, &table, "sin");
    struct weft_atom *x = weft_heads_of(f, weft_form_in(f, 0), attr->heads);
    struct weft_atom *a = weft_slice_of(f, x, -1, 0, half), *b = weft_slice_of(f, x, -1, half, half);
    struct weft_atom *left = weft_sub_of(f, weft_mul_of(f, a, c), weft_mul_of(f, b, s));
    struct weft_atom *right = weft_add_of(f, weft_mul_of(f, b, c), weft_mul_of(f, a, s));
    weft_form_out(f, 0, weft_flat_of(f, weft_concat_of(f, left, right, -1)));
}

/* ---- the plan holds the D/2 frequencies, padded to whole vectors; the scratch of a thread holds the cosines of a row,
 * then its sines */

static int64_t padded_half(const struct weft_call *call, const struct weft_tensor *x)
{
    const struct attr *attr = call->attr;
    return weft_round_up(weft_tensor_width(x) / attr->heads / 2, VLANES);
}

static enum weft_status plan_for(const struct weft_call *max, const struct weft_tensor *x, struct weft_booking *booking)
{
    const struct attr *attr = max->attr;
    int64_t padded = padded_half(max, x), wide = weft_tensor_width(x) / attr->heads;
    double *frequency = weft_arena_alloc(booking->arena, (size_t)padded * sizeof *frequency);
    if (!frequency)
        return WEFT_NOMEM;
    for (int64_t i = 0; i < wide / 2; i++)
        frequency[i] = weft_rope_frequency(&attr->turns, i, wide);
    booking->plan = frequency;
    booking->local = 2 * (size_t)padded * sizeof(float);
    return WEFT_OK;
}

static enum weft_status plan(const struct weft_call *max, struct weft_booking *booking)
{
    return plan_for(max, max->in[0], booking);
}

static enum weft_status bwd_plan(const struct weft_call *max, struct weft_booking *booking)
{
    return plan_for(max, max->gin[0], booking);
}

/* ---- run */

VINLINE vd pick(vl mask, vd a, vd b) { return (vd)((mask & (vl)a) | (~mask & (vl)b)); }

/* Computes the cosine and sine of eight angles. Subtracts the nearest multiple of pi/2 in two parts, which is exact for
 * a million positions; the Taylor series of the remainder (at most pi/4) has an error below 2e-10 before rounding to
 * f32. */
VINLINE void cos_sin(vd angle, float *cosine, float *sine)
{
    const double shift = 0x1.8p52; /* adding this leaves the nearest integer in the low bits */
    vd shifted = angle * 0x1.45f306dc9c883p-1 + shift, quarters = shifted - shift;
    vl q = (vl)shifted;
    vd r = angle - quarters * 0x1.921fb544p0 - quarters * 0x1.0b4611a626331p-34, z = r * r;
    vd s = r * (1 + z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880 - z * (1.0 / 39916800))))));
    vd c = 1 + z * (-1.0 / 2 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 - z * (1.0 / 3628800)))));
    vl odd = (q & 1) == 1;
    vd cos_q = (vd)((vl)pick(odd, s, c) ^ ((q + 1) & 2) << 62), sin_q = (vd)((vl)pick(odd, c, s) ^ (q & 2) << 62);
    vf8 cos_f = __builtin_convertvector(cos_q, vf8), sin_f = __builtin_convertvector(sin_q, vf8);
    memcpy(cosine, &cos_f, sizeof cos_f);
    memcpy(sine, &sin_f, sizeof sin_f);
}

static void rotate_rows(const struct weft_call *call, int64_t tile, int thread, const struct weft_tensor *from,
                        const struct weft_tensor *to, float sign)
{
    const struct attr *attr = call->attr;
    const double *frequency = call->plan;
    const int32_t *pos = call->in[1]->data;
    int64_t rows = weft_min(weft_tensor_rows(to), (tile + 1) * ROWS), width = weft_tensor_width(to);
    int64_t half = width / attr->heads / 2, padded = padded_half(call, to);
    float *cosine = (float *)(call->local + (size_t)thread * call->local_stride), *sine = cosine + padded;
    for (int64_t r = tile * ROWS; r < rows; r++) {
        for (int64_t i = 0; i < padded; i += DLANES) {
            vd f;
            memcpy(&f, frequency + i, sizeof f);
            cos_sin(f * (double)pos[r], cosine + i, sine + i);
        }
        for (int64_t at = r * width; at < (r + 1) * width; at += 2 * half)
            for (int64_t i = 0; i < half; i += VLANES) {
                vf a = vload(from->data, from->dtype, at + i, at + half);
                vf b = vload(from->data, from->dtype, at + half + i, at + 2 * half);
                vf c = vload_f32(cosine + i, VLANES), s = vload_f32(sine + i, VLANES) * sign;
                vstore(to->data, to->dtype, at + i, at + half, a * c - b * s);
                vstore(to->data, to->dtype, at + half + i, at + 2 * half, b * c + a * s);
            }
    }
}

static void run_tile(void *context, int64_t tile, int thread)
{
    const struct weft_call *call = context;
    rotate_rows(call, tile, thread, call->in[0], call->out[0], 1);
}

static void run(const struct weft_call *call)
{
    weft_parallel(weft_div_up(weft_tensor_rows(call->in[0]), ROWS), run_tile, (void *)call);
}

static void bwd_tile(void *context, int64_t tile, int thread)
{
    const struct weft_call *call = context;
    rotate_rows(call, tile, thread, call->gout[0], call->gin[0], -1);
}

static void bwd(const struct weft_call *call)
{
    weft_parallel(weft_div_up(weft_tensor_rows(call->gin[0]), ROWS), bwd_tile, (void *)call);
}

/* Entries of n: rows, heads, head width, first position, inside, scaling; of x: base, factor */
static const struct weft_case cases[] = {
    {"one pair", {1, 1, 2, 1}, {10000}},
    {"one row", {1, 3, 10, 5}, {10000}},
    {"odd", {7, 3, 6, 0}, {10000}},
    {"square", {5, 4, 4, 3}, {10000}},
    {"lanes", {5, 2, 32, 0}, {10000}},
    {"lanes+1", {5, 2, 34, 0}, {10000}},
    {"tile-1", {ROWS - 1, 2, 16, 0}, {10000}},
    {"tile", {ROWS, 2, 16, 0}, {10000}},
    {"tile+1", {ROWS + 1, 2, 16, 0}, {10000}},
    {"tiles", {100, 4, 64, 0}, {10000}},
    {"inside", {40, 3, 20, 7, 1}, {10000}},
    {"far", {20, 2, 64, 1000000}, {500000}},
    {"farthest", {8, 1, 16, INT32_MAX - 8}, {10}},
    {"linear", {20, 2, 16, 100, 0, WEFT_ROPE_LINEAR}, {10000, 4}},
    {"llama3", {20, 2, 32, 5000, 0, WEFT_ROPE_LLAMA3}, {500000, 8}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *x = weft_case_input(g, "x", weft_graph_compute(g), c->n[0], c->n[1] * c->n[2]);
    struct weft_value *pos = weft_case_input(g, "pos", WEFT_I32, c->n[0], 0);
    struct weft_rope_turns turns = {c->x[0], (enum weft_rope_scaling)c->n[5], c->x[1], 1, 4, 4096};
    struct weft_value *y = weft_rope(g, c->n[4] ? weft_scale(g, x, 2) : x, pos, c->n[1], &turns);
    weft_graph_output(g, c->n[4] ? weft_scale(g, y, 2) : y);
}

static bool fill(const struct weft_case *c, const char *input, struct weft_tensor *t)
{
    (void)input;
    if (t->dtype != WEFT_I32)
        return false;
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        ((int32_t *)t->data)[i] = (int32_t)(c->n[3] + i);
    return true;
}

const struct weft_op WEFT_OP(rope) = {
    .name = "rope",
    .summary = "y = x with each pair (i, i+D/2) of a head rotated by pos base^(-2i/D), or less",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.plan = plan, .run = run, .ref = ref},
    .bwd = {.plan = bwd_plan, .run = bwd, .ref = bwd_ref},
    .bwd_reads_in = 2,
    .differentiable = 1,
    .inplace = 1,
    .inplace_grad = 1,
    .lower = lower,
    WEFT_CASES(cases, build),
    .fill = fill,
};

struct weft_value *weft_rope(struct weft_graph *g, struct weft_value *x, struct weft_value *pos, int64_t heads,
                             const struct weft_rope_turns *turns)
{
    struct attr attr = {heads, *turns};
    return weft_emit(g, WEFT_SELF(rope), &attr, 2, (struct weft_value *[]){x, pos});
}
