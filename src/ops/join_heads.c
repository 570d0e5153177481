/* SPDX-License-Identifier: MIT
 *
 * join_heads - each head of y is a head of a followed by a head of b:
 *
 *     y[m,h] = [a[m, h / (H/Ha)] ; b[m, h / (H/Hb)]]      a [M, Ha Wa], b [M, Hb Wb], y [M, H (Wa+Wb)]
 *
 * Ha and Hb divide H: with Ha = H every head has its own part, with Ha = 1 all heads share it. All three have one type,
 * so forward copies bytes. Backward splits y's gradient; a part that several heads read gets the sum over these heads,
 * in f32 and in the order of heads. Nothing is saved.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { ROWS = 16 }; /* rows per tile */
enum { A, B, PARTS };

struct attr {
    int64_t part_heads[PARTS], heads;
};

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *attr = node->attr;
    const struct weft_value *a = node->in[A], *b = node->in[B];
    struct weft_shape s = a->shape, like = b->shape;
    int64_t wide = 0;
    for (int p = A; p <= B; p++) {
        long long width = weft_shape_width(&node->in[p]->shape), own = attr->part_heads[p], heads = attr->heads;
        if (own < 1 || heads < 1 || heads % own || width % own)
            return weft_node_fail(
                node,
                "%lld columns in %lld heads cannot be joined to %lld heads: the number of columns must be a multiple "
                "of the number of heads, which must divide the number of heads of the result",
                width, own, heads);
        wide += width / own;
    }
    like.dim[like.ndim - 1] = s.dim[s.ndim - 1];
    if (!weft_dtype_is_float(a->dtype) || a->dtype != b->dtype || !weft_shape_same(&s, &like))
        return weft_node_fail(node, "a and b must have the same number of rows and the same float type");
    s.dim[s.ndim - 1] = weft_fixed(attr->heads * wide);
    return weft_node_output(node, 0, a->dtype, s);
}

/* The layout of part p by itself and in y, in elements. */
struct part {
    int64_t heads, readers, width; /* number of heads of the part, heads of y that read each of them, width of each */
    int64_t first, wide;           /* offset in a head of y, and the width of that head */
};

static struct part part_of(const struct weft_call *call, int p, const struct weft_tensor *own,
                           const struct weft_tensor *y)
{
    const struct attr *attr = call->attr;
    int64_t heads = attr->part_heads[p], width = weft_tensor_width(own) / heads;
    int64_t wide = weft_tensor_width(y) / attr->heads;
    return (struct part){heads, attr->heads / heads, width, p == A ? 0 : wide - width, wide};
}

static void ref(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    double *y = call->out[0]->data;
    for (int p = A; p <= B; p++) {
        const double *own = call->in[p]->data;
        struct part part = part_of(call, p, call->in[p], call->out[0]);
        for (int64_t r = 0; r < weft_tensor_rows(call->out[0]); r++)
            for (int64_t h = 0; h < attr->heads; h++)
                for (int64_t i = 0; i < part.width; i++)
                    y[(r * attr->heads + h) * part.wide + part.first + i] =
                        own[(r * part.heads + h / part.readers) * part.width + i];
    }
}

static void bwd_ref(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    const double *dy = call->gout[0]->data;
    for (int p = A; p <= B; p++) {
        if (!call->gin[p])
            continue;
        double *own = call->gin[p]->data;
        struct part part = part_of(call, p, call->gin[p], call->gout[0]);
        for (int64_t i = 0; i < weft_tensor_count(call->gin[p]); i++)
            own[i] = 0;
        for (int64_t r = 0; r < weft_tensor_rows(call->gout[0]); r++)
            for (int64_t h = 0; h < attr->heads; h++)
                for (int64_t i = 0; i < part.width; i++)
                    own[(r * part.heads + h / part.readers) * part.width + i] +=
                        dy[(r * attr->heads + h) * part.wide + part.first + i];
    }
}

/* Returns part p as [.., heads of y, width]. */
static struct weft_atom *part_form(struct weft_form *f, const struct attr *attr, int p)
{
    int64_t heads = attr->part_heads[p];
    struct weft_atom *x = weft_heads_of(f, weft_form_in(f, p), heads);
    return weft_merge_of(f, weft_repeat_of(f, weft_unit_of(f, x, -2), -2, attr->heads / heads), -3);
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *attr = node->attr;
    struct weft_atom *a = part_form(f, attr, A), *b = part_form(f, attr, B);
    weft_form_out(f, 0, weft_flat_of(f, weft_concat_of(f, a, b, -1)));
}

/* Copies a head, which is short and usually a multiple of 64 bytes. A memcpy of fixed size compiles to vector moves
 * instead of a call. */
VINLINE void copy(char *to, const char *from, int64_t bytes)
{
    for (; bytes >= 64; bytes -= 64, to += 64, from += 64)
        memcpy(to, from, 64);
    if (bytes)
        memcpy(to, from, (size_t)bytes);
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const struct weft_tensor *y = call->out[0];
    int64_t size = (int64_t)weft_dtype_bytes(y->dtype);
    for (int p = A; p <= B; p++) {
        struct part part = part_of(call, p, call->in[p], y);
        int64_t own_bytes = part.width * size, y_bytes = part.wide * size, head = first * part.heads;
        const char *from = (const char *)call->in[p]->data + head * own_bytes;
        char *to = (char *)y->data + head * part.readers * y_bytes + part.first * size;
        for (; head < rows * part.heads; head++, from += own_bytes)
            for (int64_t reader = 0; reader < part.readers; reader++, to += y_bytes)
                copy(to, from, own_bytes);
    }
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->out[0]), ROWS, run_tile); }

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const struct weft_tensor *dy = call->gout[0];
    for (int p = A; p <= B; p++) {
        const struct weft_tensor *own = call->gin[p];
        if (!own)
            continue;
        struct part part = part_of(call, p, own, dy);
        for (int64_t head = first * part.heads; head < rows * part.heads; head++) {
            int64_t to = head * part.width, from = head * part.readers * part.wide + part.first;
            for (int64_t i = 0; i < part.width; i += VLANES) {
                vf sum = vset(0);
                for (int64_t reader = 0, at = from; reader < part.readers; reader++, at += part.wide)
                    sum += vload(dy->data, dy->dtype, at + i, at + part.width);
                vstore(own->data, own->dtype, to + i, to + part.width, sum);
            }
        }
    }
}

static void bwd(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->gout[0]), ROWS, bwd_tile); }

/* Entries of n: rows, heads, heads and width of a, heads and width of b, inside */
static const struct weft_case cases[] = {
    {"one", {1, 1, 1, 1, 1, 1}, {0}},
    {"one row", {1, 3, 3, 37, 3, 20}, {0}},
    {"odd", {7, 3, 3, 5, 3, 3}, {0}},
    {"lanes", {5, 4, 4, 32, 4, 16}, {0}},
    {"square", {5, 4, 4, 4, 4, 4}, {0}},
    {"square groups", {5, 4, 2, 2, 2, 2}, {0}},
    {"shared b", {9, 3, 3, 17, 1, 8}, {0}},
    {"shared a", {9, 5, 1, 33, 5, 1}, {0}},
    {"shared both", {6, 4, 1, 16, 1, 31}, {0}},
    {"groups", {8, 6, 2, 7, 3, 19}, {0}},
    {"tile-1", {ROWS - 1, 2, 2, 12, 2, 12}, {0}},
    {"tile", {ROWS, 2, 2, 12, 2, 12}, {0}},
    {"tile+1", {ROWS + 1, 2, 2, 12, 1, 12}, {0}},
    {"tiles", {100, 3, 3, 32, 1, 32}, {0}},
    {"inside", {20, 3, 3, 24, 1, 40, 1}, {0}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *a = weft_case_input(g, "a", weft_graph_compute(g), c->n[0], c->n[2] * c->n[3]);
    struct weft_value *b = weft_case_input(g, "b", weft_graph_compute(g), c->n[0], c->n[4] * c->n[5]);
    struct weft_value *y = weft_join_heads(g, c->n[6] ? weft_scale(g, a, 2) : a, c->n[2], b, c->n[4], c->n[1]);
    weft_graph_output(g, c->n[6] ? weft_scale(g, y, 2) : y);
}

const struct weft_op WEFT_OP(join_heads) = {
    .name = "join_heads",
    .summary = "y = [a, b] in each head; heads can share parts of a or b",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.run = bwd, .ref = bwd_ref},
    .differentiable = 1 << A | 1 << B,
    .lower = lower,
    WEFT_CASES(cases, build),
};

struct weft_value *weft_join_heads(struct weft_graph *g, struct weft_value *a, int64_t a_heads, struct weft_value *b,
                                   int64_t b_heads, int64_t heads)
{
    struct attr attr = {{a_heads, b_heads}, heads};
    return weft_emit(g, WEFT_SELF(join_heads), &attr, 2, (struct weft_value *[]){a, b});
}
