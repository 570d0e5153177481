/* SPDX-License-Identifier: MIT
 *
 * off_block - the fraction of a square matrix that lies outside `blocks` equal blocks on its diagonal: f32 [1],
 *
 *     y = sum of w^2 outside the blocks / sum of all w^2                     0 if all w are 0
 *
 * Each row writes its sums to scratch, in double; these are then added in order. As a diagnostic, it has no derivative.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

struct attr {
    int64_t blocks;
};

struct sums {
    double outside, inside;
};

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *attr = node->attr;
    const struct weft_value *w = node->in[0];
    int64_t n = weft_shape_width(&w->shape);
    if (w->dtype != WEFT_F32 || w->shape.ndim != 2 || !weft_dim_same(w->shape.dim[0], weft_fixed(n)))
        return weft_node_fail(node, "w must be a square f32 matrix");
    if (attr->blocks < 1 || n % attr->blocks)
        return weft_node_fail(node, "%lld rows are not a multiple of %lld blocks", (long long)n,
                              (long long)attr->blocks);
    return weft_node_output(node, 0, WEFT_F32, WEFT_SHAPE(weft_fixed(1)));
}

static double share(struct sums s)
{
    double all = s.outside + s.inside;
    return all > 0 ? s.outside / all : 0;
}

static void ref(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    const double *w = call->in[0]->data;
    int64_t n = weft_tensor_width(call->in[0]), block = n / attr->blocks;
    struct sums s = {0};
    for (int64_t i = 0; i < n * n; i++)
        *(i / n / block == i % n / block ? &s.inside : &s.outside) += w[i] * w[i];
    *(double *)call->out[0]->data = share(s);
}

struct mask {
    int64_t n, blocks;
};

/* 1 outside the blocks, 0 inside. */
static void fill_mask(const void *context, double *to)
{
    const struct mask *m = context;
    int64_t block = m->n / m->blocks;
    for (int64_t i = 0; i < m->n * m->n; i++)
        to[i] = i / m->n / block != i % m->n / block;
}

/* Returns the sum of all elements of a matrix, [1]. */
static struct weft_atom *total(struct weft_form *f, struct weft_atom *x)
{
    return weft_reshape_of(f, weft_sum_of(f, weft_sum_of(f, x, 0), 1), WEFT_FIXED_TYPE(1));
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *attr = node->attr;
    struct mask mask = {weft_shape_width(&node->in[0]->shape), attr->blocks};
    const char *recipe =
        weft_arena_print(&f->arena, "outside of blocks, n=%lld blocks=%lld", (long long)mask.n, (long long)mask.blocks);
    struct weft_atom *w = weft_form_in(f, 0), *squares_of_w = weft_mul_of(f, w, w);
    struct weft_atom *outside = weft_array_of(f, weft_type_of(f, node->in[0]), recipe, fill_mask, &mask);
    struct weft_atom *part = total(f, weft_mul_of(f, squares_of_w, outside)), *all = total(f, squares_of_w);
    struct weft_atom *zero = weft_real_of(f, 0), *tiny = weft_real_of(f, 1e-300);
    struct weft_atom *share_of_part = weft_div_of(f, part, weft_max_of(f, all, tiny));
    weft_form_out(f, 0, weft_choose_of(f, weft_less_of(f, zero, all), share_of_part, zero));
}

static enum weft_status plan(const struct weft_call *max, struct weft_booking *booking)
{
    return weft_size_mul((size_t)weft_tensor_rows(max->in[0]), sizeof(struct sums), &booking->scratch);
}

static float squares(const float *w, int64_t n)
{
    vf sum = vset(0);
    for (int64_t i = 0; i < n; i += VLANES) {
        vf x = vload_f32(w + i, n - i);
        sum = vfma(x, x, sum);
    }
    return vsum(sum);
}

static void sum_row(void *context, int64_t row, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    const struct attr *attr = call->attr;
    int64_t n = weft_tensor_width(call->in[0]), block = n / attr->blocks, first = row / block * block;
    const float *w = (const float *)call->in[0]->data + row * n;
    double before = squares(w, first), after = squares(w + first + block, n - first - block);
    ((struct sums *)call->scratch)[row] = (struct sums){before + after, squares(w + first, block)};
}

static void run(const struct weft_call *call)
{
    const struct sums *rows = (const struct sums *)call->scratch;
    struct sums s = {0};
    weft_parallel(weft_tensor_rows(call->in[0]), sum_row, (void *)call);
    for (int64_t row = 0; row < weft_tensor_rows(call->in[0]); row++) {
        s.outside += rows[row].outside;
        s.inside += rows[row].inside;
    }
    *(float *)call->out[0]->data = (float)share(s);
}

/* Entries of n: rows, blocks, content: any, only inside the blocks, or all 0 */
enum { ANY, DIAGONAL, EMPTY };
static const struct weft_case cases[] = {
    {"one number", {1, 1}, {0}},    {"one block", {20, 1}, {0}},
    {"two", {2, 2}, {0}},           {"odd", {21, 3}, {0}},
    {"lanes", {64, 4}, {0}},        {"lanes+1", {68, 4}, {0}},
    {"diagonal", {300, 300}, {0}},  {"block-diagonal", {48, 4, DIAGONAL}, {0}},
    {"empty", {12, 2, EMPTY}, {0}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_dim n = weft_fixed(c->n[0]);
    weft_graph_output(g, weft_off_block(g, weft_graph_param(g, "w", WEFT_SHAPE(n, n)), c->n[1]));
}

static bool fill(const struct weft_case *c, const char *input, struct weft_tensor *t)
{
    int64_t n = c->n[0], block = n / c->n[1];
    for (int64_t i = 0; i < n * n; i++) {
        bool inside = i / n / block == i % n / block;
        bool filled = c->n[2] == ANY || (c->n[2] == DIAGONAL && inside);
        weft_tensor_set(t, i, filled ? (float)weft_normal(weft_key_name(1, input), (uint64_t)i) : 0);
    }
    return true;
}

const struct weft_op WEFT_OP(off_block) = {
    .name = "off_block",
    .summary = "y = fraction of the sum of w^2 outside the blocks on the diagonal",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.plan = plan, .run = run, .ref = ref},
    .lower = lower,
    WEFT_CASES(cases, build),
    .fill = fill,
};

struct weft_value *weft_off_block(struct weft_graph *g, struct weft_value *w, int64_t blocks)
{
    return weft_emit(g, WEFT_SELF(off_block), &(struct attr){blocks}, 1, &w);
}
