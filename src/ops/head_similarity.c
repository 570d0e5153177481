/* SPDX-License-Identifier: MIT
 *
 * head_similarity - the similarity of the heads of a row: f32 [M], for z [M, n * w] the mean over pairs of heads of
 *
 *     cos(z_g, z_h) = <u_g, u_h>,  u_h = z_h / |z_h|                     g != h
 *
 * which is (|sum_h u_h|^2 - n) / (n (n - 1)), computed in one pass over heads. Heads with |z_h| < 1e-6 have no
 * direction and are ignored; the result is 0 if fewer than two are left. As a diagnostic, it has no derivative.
 */
#include "ops/attention/tiles_inl.h"

#define LEAST 1e-6f

struct attr {
    int64_t heads;
};

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *attr = node->attr;
    const struct weft_value *z = node->in[0];
    TRY(weft_node_heads(node, 0, "z", attr->heads));
    return weft_node_output(node, 0, WEFT_F32, WEFT_SHAPE(weft_shape_rows(&z->shape)));
}

/* Computes the mean by its definition, pair by pair. */
static void ref(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    int64_t width = weft_tensor_width(call->in[0]), w = width / attr->heads;
    for (int64_t row = 0; row < weft_tensor_rows(call->in[0]); row++) {
        const double *z = (const double *)call->in[0]->data + row * width;
        double sum = 0, pairs = 0;
        for (int64_t g = 0; g < attr->heads; g++)
            for (int64_t h = 0; h < g; h++) {
                double gg = 0, hh = 0, gh = 0;
                for (int64_t d = 0; d < w; d++) {
                    gg += z[g * w + d] * z[g * w + d];
                    hh += z[h * w + d] * z[h * w + d];
                    gh += z[g * w + d] * z[h * w + d];
                }
                bool counts = fmin(gg, hh) >= (double)LEAST * LEAST;
                pairs += counts;
                sum += counts ? gh / sqrt(gg * hh) : 0;
            }
        ((double *)call->out[0]->data)[row] = pairs > 0 ? sum / pairs : 0;
    }
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *attr = node->attr;
    struct weft_atom *zero = weft_real_of(f, 0), *one = weft_real_of(f, 1);
    struct weft_atom *least = weft_real_of(f, (double)LEAST * LEAST);
    struct weft_atom *z = weft_heads_of(f, weft_form_in(f, 0), attr->heads);
    struct weft_atom *square = weft_sum_of(f, weft_mul_of(f, z, z), -1), *ignored = weft_less_of(f, square, least);
    struct weft_atom *unit = weft_div_of(f, z, weft_sqrt_of(f, weft_max_of(f, square, least)));
    struct weft_atom *sum = weft_sum_of(f, weft_choose_of(f, ignored, zero, unit), -2);
    struct weft_atom *n = weft_sum_of(f, weft_choose_of(f, ignored, zero, one), -2);
    struct weft_atom *both = weft_sub_of(f, weft_sum_of(f, weft_mul_of(f, sum, sum), -1), n); /* g h and h g */
    struct weft_atom *pairs = weft_mul_of(f, n, weft_plus_of(f, n, -1));
    struct weft_atom *mean = weft_div_of(f, both, weft_max_of(f, pairs, one));
    struct weft_atom *y = weft_choose_of(f, weft_less_of(f, n, weft_real_of(f, 2)), zero, mean);
    weft_form_out(f, 0, y);
}

static enum weft_status plan(const struct weft_call *max, struct weft_booking *booking)
{
    const struct attr *attr = max->attr;
    struct space scratch = {0}, local = {0};
    (void)take_floats(&local, 1, weft_round_up(weft_tensor_width(max->in[0]) / attr->heads, VLANES));
    return book(booking, &scratch, &local);
}

static float length(struct head h)
{
    vf squares = vset(0);
    for (int64_t d = 0; d < h.width; d += VLANES) {
        vf x = load_part(h, h.at, d);
        squares = vfma(x, x, squares);
    }
    return sqrtf(vsum(squares));
}

/* Each tile of work is one row. */
static void run_row(void *context, int64_t row, int thread)
{
    const struct weft_call *call = context;
    const struct attr *attr = call->attr;
    struct head sum = {call->local + (size_t)thread * call->local_stride, WEFT_F32, 0, 0,
                       weft_tensor_width(call->in[0]) / attr->heads};
    int64_t padded = weft_round_up(sum.width, VLANES);
    float n = 0;
    memset(sum.data, 0, (size_t)padded * sizeof(float));
    for (int64_t h = 0; h < attr->heads; h++) {
        struct head z = head_of(call->in[0], row, h, attr->heads);
        float size = length(z);
        if (size < LEAST)
            continue;
        add_scaled(sum.data, padded, 1 / size, z);
        n++;
    }
    float whole = length(sum);
    ((float *)call->out[0]->data)[row] = n > 1 ? (whole * whole - n) / (n * (n - 1)) : 0;
}

static void run(const struct weft_call *call) { weft_parallel(weft_tensor_rows(call->in[0]), run_row, (void *)call); }

/* Entries of n: rows, heads, width of a head, number of zero heads */
static const struct weft_case cases[] = {
    {"one head", {3, 1, 7}, {0}}, {"two heads", {5, 2, 16}, {0}},   {"numbers", {4, 3, 1}, {0}},
    {"odd", {7, 5, 3}, {0}},      {"lanes", {4, 4, 16}, {0}},       {"lanes+1", {3, 4, 17}, {0}},
    {"many", {33, 32, 40}, {0}},  {"one is 0", {6, 4, 12, 1}, {0}}, {"one is left", {6, 4, 12, 3}, {0}},
    {"wide", {2, 8, 384}, {0}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *z = weft_case_input(g, "z", weft_graph_compute(g), c->n[0], c->n[1] * c->n[2]);
    weft_graph_output(g, weft_head_similarity(g, z, c->n[1]));
}

static bool fill(const struct weft_case *c, const char *input, struct weft_tensor *t)
{
    for (int64_t i = 0; i < weft_tensor_count(t); i++) {
        bool zero = i / c->n[2] % c->n[1] < c->n[3];
        float x = (float)weft_normal(weft_key_name(1, input), (uint64_t)i);
        weft_tensor_set(t, i, zero ? 0 : weft_f32_from_bf16(weft_bf16_from_f32(x)));
    }
    return true;
}

const struct weft_op WEFT_OP(head_similarity) = {
    .name = "head_similarity",
    .summary = "y = mean cosine similarity over pairs of heads",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.plan = plan, .run = run, .ref = ref},
    .lower = lower,
    WEFT_CASES(cases, build),
    .fill = fill,
};

struct weft_value *weft_head_similarity(struct weft_graph *g, struct weft_value *z, int64_t heads)
{
    return weft_emit(g, WEFT_SELF(head_similarity), &(struct attr){heads}, 1, &z);
}
