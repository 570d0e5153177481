/* SPDX-License-Identifier: MIT
 *
 * dropout - y = x / (1-p) for kept elements and 0 for dropped ones; each element is dropped with probability p.
 *
 * Whether element c of a row is kept depends only on (seed, step, sample, layer, site, pos, c); see random_bits. So the
 * mask is the same for any split into threads, ranks, micro-batches and chunks, the backward pass recomputes it instead
 * of saving it, and y is linear in x.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

enum { ROWS = 16 }; /* rows per tile */
enum { X, SEQ, POS, SAMPLE, STEP_KEY };

struct attr {
    double p;
    int layer, site;
};

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *attr = node->attr;
    const struct weft_value *x = node->in[X];
    if (!(attr->p > 0 && attr->p < 1))
        return weft_node_fail(node, "p = %g; it must be at least 0 and less than 1", attr->p);
    TRY(weft_node_float(node, X, "x"));
    for (int i = SEQ; i <= STEP_KEY; i++)
        if (!node->in[i] || node->in[i]->dtype != WEFT_I32)
            return weft_node_fail(node, "the rows' seq, pos, sample and step_key must be given, all i32");
    struct weft_shape rows = WEFT_SHAPE(weft_shape_rows(&x->shape));
    if (!weft_shape_same(&node->in[SEQ]->shape, &rows) || !weft_shape_same(&node->in[POS]->shape, &rows))
        return weft_node_fail(node, "seq and pos must have one element per row of x");
    return weft_node_output(node, 0, x->dtype, x->shape);
}

static uint64_t row_key(const struct weft_call *call, int64_t r)
{
    const struct attr *attr = call->attr;
    const int32_t *seq = call->in[SEQ]->data, *sample = call->in[SAMPLE]->data;
    return weft_dropout_key(call->in[STEP_KEY]->data, sample[seq[r]], attr->layer, attr->site);
}

/* Returns the random bits of column c. 64 columns use sixteen Philox blocks of four words: word w of all blocks serves
 * columns 16w to 16w+15, one vector. */
static uint32_t random_bits(uint64_t key, int64_t pos, int64_t c)
{
    return weft_rand(key, (uint64_t)pos, (uint64_t)(c / 64 * 16 + c % 16)).u[c % 64 / 16];
}

/* Returns the threshold below which an element's random bits drop it. */
static uint32_t threshold(const struct attr *attr) { return (uint32_t)(attr->p * 0x1p32); }

/* The reference of both passes: forward (x to y) and backward (dy to dx) are the same map. */
static void apply_ref(const struct weft_call *call, const double *from, double *to, int64_t width)
{
    const struct attr *attr = call->attr;
    const int32_t *pos = call->in[POS]->data;
    int64_t rows = weft_tensor_count(call->in[POS]);
    for (int64_t r = 0; r < rows; r++) {
        uint64_t key = row_key(call, r);
        for (int64_t i = 0; i < width; i++) {
            bool kept = random_bits(key, pos[r], i) >= threshold(attr);
            to[r * width + i] = kept ? from[r * width + i] / (1 - attr->p) : 0;
        }
    }
}

static void ref(const struct weft_call *call)
{
    apply_ref(call, call->in[X]->data, call->out[0]->data, weft_tensor_width(call->in[X]));
}

static void bwd_ref(const struct weft_call *call)
{
    apply_ref(call, call->gout[0]->data, call->gin[X]->data, weft_tensor_width(call->gin[X]));
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *attr = node->attr;
    struct weft_drop drop = {attr->p, attr->layer, attr->site, false};
    weft_form_out(f, 0, weft_drop_of(f, weft_form_in(f, X), drop));
}

static void apply_rows(const struct weft_call *call, int64_t first, int64_t rows, const struct weft_tensor *from,
                       const struct weft_tensor *to)
{
    const struct attr *attr = call->attr;
    const int32_t *pos = call->in[POS]->data;
    int64_t width = weft_tensor_width(to);
    vf factor = vset((float)(1 / (1 - attr->p)));
    uint32_t limit = threshold(attr);
    for (int64_t r = first; r < rows; r++) {
        uint64_t key = row_key(call, r);
        vu bits[4];
        for (int64_t i = 0, at = r * width, end = at + width; i < width; i += VLANES) {
            if (i % 64 == 0)
                vrand(key, (uint64_t)pos[r], (uint32_t)(i / 4), bits);
            vf kept = (vf)((vi)(bits[i % 64 / VLANES] >= limit) & (vi)factor);
            vstore(to->data, to->dtype, at + i, end, vload(from->data, from->dtype, at + i, end) * kept);
        }
    }
}

static void run_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    apply_rows(call, first, rows, call->in[X], call->out[0]);
}

static void run(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->in[X]), ROWS, run_tile); }

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    apply_rows(call, first, rows, call->gout[0], call->gin[X]);
}

static void bwd(const struct weft_call *call) { weft_tiles_run(call, weft_tensor_rows(call->gin[X]), ROWS, bwd_tile); }

/* Entries of n: rows, width, sequences, inside; of x: p */
static const struct weft_case cases[] = {
    {"one", {1, 1, 1}, {0.5}},      {"one row", {1, 37, 1}, {0.1}},       {"odd", {7, 5, 2}, {0.5}},
    {"lanes", {3, 16, 1}, {0.9}},   {"lanes+1", {3, 17, 3}, {0.25}},      {"tile-1", {ROWS - 1, 33, 2}, {0.1}},
    {"tile", {ROWS, 33, 2}, {0.1}}, {"tile+1", {ROWS + 1, 33, 2}, {0.1}}, {"tiles", {100, 96, 5}, {0.1}},
    {"none", {5, 20, 1}, {0}},      {"inside", {40, 50, 3, 1}, {0.2}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *x = weft_case_input(g, "x", weft_graph_compute(g), c->n[0], c->n[1]);
    struct weft_rows rows = {
        .seq = weft_case_input(g, "seq", WEFT_I32, c->n[0], 0),
        .pos = weft_case_input(g, "pos", WEFT_I32, c->n[0], 0),
        .sample = weft_graph_input(g, "sample", WEFT_I32, WEFT_SHAPE(weft_fixed(c->n[2]))),
        .step_key = weft_graph_input(g, "step_key", WEFT_I32, WEFT_SHAPE(weft_fixed(4))),
    };
    struct weft_value *y = weft_dropout(g, weft_scale(g, x, 2), &rows, c->x[0], 1, 2);
    weft_graph_output(g, c->n[3] ? weft_scale(g, y, 2) : y);
}

/* Makes row r position r / sequences of sequence r mod sequences. */
static bool fill(const struct weft_case *c, const char *input, struct weft_tensor *t)
{
    if (t->dtype != WEFT_I32)
        return false;
    for (int64_t i = 0; i < weft_tensor_count(t); i++) {
        int64_t x = strcmp(input, "seq") == 0 ? i % c->n[2] : strcmp(input, "pos") == 0 ? i / c->n[2] : 1000 + 7 * i;
        ((int32_t *)t->data)[i] = (int32_t)x;
    }
    return true;
}

const struct weft_op WEFT_OP(dropout) = {
    .name = "dropout",
    .summary = "y = x / (1-p) with probability 1-p, else 0; mask from a counter-based generator",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.run = bwd, .ref = bwd_ref},
    .bwd_reads_in = 1 << SEQ | 1 << POS | 1 << SAMPLE | 1 << STEP_KEY,
    .differentiable = 1 << X,
    .inplace = 1 + X,
    .inplace_grad = 1,
    .lower = lower,
    WEFT_CASES(cases, build),
    .fill = fill,
};

/* Returns x itself if p is 0. */
struct weft_value *weft_dropout(struct weft_graph *g, struct weft_value *x, const struct weft_rows *rows, double p,
                                int layer, int site)
{
    if (p == 0)
        return x;
    struct attr attr = {p, layer, site};
    struct weft_value *in[] = {x, rows->seq, rows->pos, rows->sample, rows->step_key};
    return weft_emit(g, WEFT_SELF(dropout), &attr, 5, in);
}
