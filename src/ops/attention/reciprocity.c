/* SPDX-License-Identifier: MIT
 *
 * reciprocity - how symmetrically two tokens attend to each other: f32 [H], the Pearson correlation of
 *
 *     x = <q[i,h], k[j,kv]>  and  y = <q[j,h], k[i,kv]>                0 < i-j <= window
 *
 * over all such pairs of all sequences. The result is 0 if x or y is constant or if there are no pairs.
 *
 * q [M, H*D] and k [M, K*D] belong to one attention node; the products are taken before scale, biases and softmax. They
 * are computed tile by tile and never stored; x and y are summed in double, in the order of rows and keys. As a
 * diagnostic, it has no derivative.
 *
 * The op uses attention's tiles (logits_tile_inl.h); y is the product in their reciprocal term.
 */
#include "ops/attention/logits_cases_inl.h"
#include "ops/attention/logits_form_inl.h"
#include "ops/attention/logits_tile_inl.h"

enum { INPUTS = LOGIT_INPUTS };

struct attr {
    struct geometry logits;
};

static enum weft_status shape(struct weft_node *node)
{
    const struct attr *a = node->attr;
    TRY(check_logits(node));
    return weft_node_output(node, 0, WEFT_F32, WEFT_SHAPE(weft_fixed(a->logits.heads)));
}

/* Sums over pairs, in double, so that subtracting the means at the end loses no significant precision. */
struct sums {
    double n, x, y, xx, yy, xy;
};

static void add_pair(struct sums *s, double x, double y)
{
    s->n += 1;
    s->x += x;
    s->y += y;
    s->xx += x * x;
    s->yy += y * y;
    s->xy += x * y;
}

static double correlation(const struct sums *s)
{
    double xx = s->xx - s->x * s->x / s->n, yy = s->yy - s->y * s->y / s->n, xy = s->xy - s->x * s->y / s->n;
    return s->n > 0 && xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

static void ref(const struct weft_call *call)
{
    struct sizes n = logit_sizes(call);
    for (int64_t h = 0; h < n.heads; h++) {
        struct sums sums = {0};
        for (int64_t row = 0; row < n.rows; row++) {
            struct query q = {call, call->attr, n, row, h, ints(call, SEQ)[row], ints(call, POS)[row]};
            for (int64_t j = weft_max(0, q.i - n.window); j < q.i; j++)
                add_pair(&sums, dot(ref_q(&q), ref_k(&q, j), n.k),
                         dot((const double *)call->in[Q_STORE]->data + ref_stored(&q, j, n.k), ref_own(&q), n.k));
        }
        ((double *)call->out[0]->data)[h] = correlation(&sums);
    }
}

/* Returns the sums of [BATCH, H, NEW, ALL] per head. */
static struct weft_atom *form_sum(struct weft_form *f, struct weft_atom *x)
{
    return weft_sum_of(f, weft_sum_of(f, weft_sum_of(f, x, 3), 2), 0);
}

/* Returns x minus its mean over the pairs, and 0 elsewhere. */
static struct weft_atom *form_centred(struct weft_form *f, struct weft_atom *x, struct weft_atom *pairs)
{
    struct weft_atom *zero = weft_real_of(f, 0), *one = weft_real_of(f, 1);
    struct weft_atom *count = weft_max_of(f, form_sum(f, weft_to_of(f, pairs, WEFT_REAL)), one);
    struct weft_atom *mean = weft_div_of(f, form_sum(f, weft_choose_of(f, pairs, x, zero)), count);
    return weft_choose_of(f, pairs, weft_sub_of(f, x, mean), zero);
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *a = node->attr;
    struct weft_atom *pairs = form_window(f, &a->logits), *zero = weft_real_of(f, 0), *one = weft_real_of(f, 1);
    struct weft_atom *x = form_products(f, node, form_heads(f, weft_form_in(f, Q), a->logits.heads));
    struct weft_atom *y = form_stored(f, node, form_own(f, node));
    x = form_centred(f, x, pairs);
    y = form_centred(f, y, pairs);
    struct weft_atom *xx = form_sum(f, weft_mul_of(f, x, x)), *yy = form_sum(f, weft_mul_of(f, y, y));
    struct weft_atom *both = weft_mul_of(f, xx, yy); /* if it is 0, so is the numerator */
    struct weft_atom *norm = weft_sqrt_of(f, weft_choose_of(f, weft_less_of(f, zero, both), both, one));
    struct weft_atom *r = weft_div_of(f, form_sum(f, weft_mul_of(f, x, y)), norm);
    weft_form_out(f, 0, r);
}

/* ---- a unit of work is a head */

struct forward {
    float *q, *k, *s; /* queries of the rows; the key tile, transposed; the tile of products */
    struct reciprocal ra;
};

static struct forward lay_forward(const struct sizes *n, struct space *s)
{
    return (struct forward){
        .q = take_floats(s, ROW_TILE, n->k_padded),
        .k = take_floats(s, n->k_padded, WEFT_KEY_TILE),
        .s = take_floats(s, ROW_TILE, WEFT_KEY_TILE),
        .ra = lay_reciprocal(n, 1, s),
    };
}

static enum weft_status plan(const struct weft_call *max, struct weft_booking *booking)
{
    struct sizes n = logit_sizes(max);
    struct space scratch = {0}, local = {0};
    (void)take(&scratch, n.rows, 1, sizeof(struct span));
    (void)lay_forward(&n, &local);
    return book(booking, &scratch, &local);
}

static void add_tile(const struct tile *t, const float *s, struct sums *sums)
{
    for (int64_t r = 0; r < t->rows; r++) {
        int64_t i = t->i + r - t->j, at = r * WEFT_KEY_TILE; /* i is relative to the tile's first key */
        for (int64_t c = weft_max(0, i - t->window); c < weft_min(i, t->keys); c++)
            add_pair(sums, s[at + c], t->reciprocal[at + c]);
    }
}

static void add_span(const struct job *job, const struct forward *f, struct span span, int64_t h, struct sums *sums)
{
    const struct sizes *n = &job->n;
    struct tile t = {0};
    set_rows(job, &t, span);
    widen(f->q, n->k_padded, head_of(job->call->in[Q], t.row, h, n->heads), t.rows);
    start_reciprocal(job, &t, &f->ra, h, 1);
    int64_t first = weft_max(0, t.i - n->window) / WEFT_KEY_TILE * WEFT_KEY_TILE;
    for (int64_t j = first; j < t.i + t.rows; j += WEFT_KEY_TILE) {
        set_keys(job, &t, j);
        set_head(job, &t, h);
        widen_transposed(f->k, head_of(job->call->in[K], t.key_row, h / n->group, n->kv_heads), t.keys);
        scores(&t, f->q, n->k, n->k_padded, f->k, f->s);
        load_reciprocal(job, &t, &f->ra, 0);
        add_tile(&t, f->s, sums);
    }
}

static void run_head(void *context, int64_t h, int thread)
{
    const struct job *job = context;
    struct space local = {.base = job->call->local + (size_t)thread * job->call->local_stride};
    struct forward f = lay_forward(&job->n, &local);
    struct sums sums = {0};
    for (int64_t i = 0; i < job->span_count; i++)
        add_span(job, &f, job->spans[i], h, &sums);
    ((float *)job->call->out[0]->data)[h] = (float)correlation(&sums);
}

static void run(const struct weft_call *call)
{
    struct job job = {.call = call, .attr = call->attr, .n = logit_sizes(call), .spans = (struct span *)call->scratch};
    job.span_count = cut_spans(call->in[SEQ], call->in[POS], ROW_TILE, job.spans);
    weft_parallel(job.n.heads, run_head, &job);
}

static double flops(const struct weft_call *call)
{
    struct sizes n = logit_sizes(call);
    return 4.0 * (double)n.heads * window_pairs(call) * (double)n.k;
}

/* n: see logits_cases_inl.h; there are no options */
static const struct weft_case cases[] = {
    {"no pairs", {3, 1, 0, 2, 2, 16, 0, 0, 0, 0, 4}, {0}},   {"neighbours", {1, 20, 0, 1, 1, 8, 0, 0, 0, 0, 1}, {0}},
    {"tile-1", {1, 63, 0, 2, 2, 16, 0, 0, 0, 0, 5}, {0}},    {"tile", {1, 64, 0, 2, 2, 16, 0, 0, 0, 0, 64}, {0}},
    {"tile+1", {1, 65, 0, 2, 2, 16, 0, 0, 0, 0, 63}, {0}},   {"far", {2, 140, 9, 2, 2, 24, 0, 0, 0, 0, 100}, {0}},
    {"all", {2, 200, 50, 1, 1, 17, 0, 0, 0, 0, 1000}, {0}},  {"odd", {2, 37, 4, 3, 3, 17, 0, 0, 0, 0, 7}, {0}},
    {"grouped", {4, 70, 23, 4, 2, 16, 0, 0, 0, 0, 65}, {0}}, {"one key head", {2, 33, 1, 4, 1, 24, 0, 0, 0, 0, 9}, {0}},
    {"square", {2, 37, 4, 6, 6, 6, 0, 0, 0, 0, 7}, {0}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_attention a = case_logits(g, c, case_rows(g, c, false));
    weft_graph_output(g, weft_reciprocity(g, &a, c->n[WINDOW]));
}

const struct weft_op WEFT_OP(reciprocity) = {
    .name = "reciprocity",
    .summary = "y_h = correlation of <q_i, k_j> and <q_j, k_i> over pairs within the window",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.plan = plan, .run = run, .ref = ref, .flops = flops},
    .lower = lower,
    WEFT_CASES(cases, build),
    .fill = fill_logits,
};

struct weft_value *weft_reciprocity(struct weft_graph *g, const struct weft_attention *a, int64_t window)
{
    struct weft_attention both_ways = {.q = a->q,
                                       .k = a->k,
                                       .rows = a->rows,
                                       .heads = a->heads,
                                       .kv_heads = a->kv_heads,
                                       .q_store = a->q,
                                       .ra_window = window};
    struct attr attr = {geometry_of(&both_ways)};
    struct weft_value *in[INPUTS];
    set_logit_inputs(&both_ways, in);
    return weft_emit(g, WEFT_SELF(reciprocity), &attr, INPUTS, in);
}
