/* SPDX-License-Identifier: MIT
 *
 * info_nce - a contrastive loss between the contexts of a micro-batch, for z [M, heads * w].
 *
 * Each (sequence, head) has one vector, the mean of z's head over the T rows of the sequence (`self`), or two, the
 * means over pos < floor(T/2) and over the rest (`halves`). Vectors u_i shorter than 1e-6 are dropped, in `halves`
 * together with their partner; n vectors remain. With the cosines s_ij = <u_i, u_j> / (|u_i| |u_j|) and l_ij = s_ij /
 * tau:
 *
 *     lse_i = log sum_j exp l_ij     nll_i = lse_i - l_i,pos     loss = lambda / n * sum_i nll_i
 *
 * In `self`, pos is i itself and j runs over all vectors, which is pure repulsion. In `halves`, pos is the other half
 * and j != i. The loss is 0 with fewer than two vectors.
 *
 * Output 0 is the loss, f32 [1]. The other outputs are saved for backward and have no gradients; they have one row per
 * vector, ordered by sequence, head and half; the rows of dropped vectors are 0. They are 1 unit, f32 [*, w] = u / |u|,
 * 2 norm = |u|, 3 nll and 4 lse, f32 [*]. z itself is not saved.
 *
 * Backward, with p_ij = exp(l_ij - lse_i) and e_ij = 1 where j is i's positive:
 *     c_ij = p_ij - e_ij + p_ji - e_ji     g_i = sum_j c_ij unit_j     du_i = (g_i - <g_i, unit_i> unit_i) / |u_i|
 * times dloss lambda / (n tau); du is divided evenly among the rows of z that the vector averages. Cosines are
 * recomputed row by row, so nothing of size n x n is stored. 1 - p_i,pos is computed from nll as -expm1(-nll), because
 * p is too close to 1 when the loss is small.
 */
#include "base/vmath_inl.h"
#include "ops/info_nce_reference_inl.h"

enum { ROWS = 16 }; /* rows of z per tile of dz */

/* ---- as atoms. Vectors are [SEQUENCES, heads, views, w], or [N, w] with N = SEQUENCES * heads * views */

/* Returns the means of z over the rows that `in` selects: [SEQUENCES, heads, 1, w]. */
static struct weft_atom *form_mean(struct weft_form *f, const struct weft_node *node, struct weft_atom *in)
{
    const struct attr *attr = node->attr;
    struct weft_atom *zero = weft_real_of(f, 0), *one = weft_real_of(f, 1);
    struct weft_atom *count = weft_pool_of(f, weft_choose_of(f, in, one, zero), WEFT_POOL_SUM);
    struct weft_atom *sum = weft_pool_of(f, weft_choose_of(f, in, weft_form_in(f, Z), zero), WEFT_POOL_SUM);
    return weft_unit_of(f, weft_heads_of(f, weft_div_of(f, sum, weft_max_of(f, count, one)), attr->heads), 2);
}

static struct weft_atom *form_means(struct weft_form *f, const struct weft_node *node)
{
    struct weft_atom *pos = weft_unit_of(f, weft_to_of(f, weft_form_in(f, POS), WEFT_REAL), 2);
    struct weft_atom *every = weft_less_of(f, weft_real_of(f, -1), pos);
    if (views(node->attr) == 1)
        return form_mean(f, node, every);
    struct weft_atom *length = weft_pool_of(f, weft_to_of(f, every, WEFT_REAL), WEFT_POOL_SUM);
    length = weft_spread_of(f, length);
    struct weft_atom *middle = weft_plus_of(f, weft_times_of(f, pos, 2), 1); /* of the row, in halves of a row */
    struct weft_atom *first = weft_less_of(f, middle, length);
    struct weft_atom *second = weft_less_of(f, weft_plus_of(f, length, -1), middle);
    return weft_concat_of(f, form_mean(f, node, first), form_mean(f, node, second), 2);
}

static void fill_count(const void *context, double *to)
{
    for (int64_t i = 0; i < *(const int64_t *)context; i++)
        to[i] = (double)i;
}

/* Returns a number for each vector, [SEQUENCES, heads * views], by which to tell it from the others. Sequences without
 * rows have the number of sequence 0, but their vectors are dropped. */
static struct weft_atom *form_numbers(struct weft_form *f, const struct attr *attr)
{
    int64_t count = attr->heads * views(attr);
    const char *recipe = weft_arena_print(&f->arena, "count n=%lld", (long long)count);
    struct weft_atom *seq = weft_unit_of(f, weft_to_of(f, weft_form_in(f, SEQ), WEFT_REAL), 2);
    struct weft_atom *slot = weft_times_of(f, weft_pool_of(f, seq, WEFT_POOL_MAX), (double)count);
    return weft_add_of(f, slot, weft_array_of(f, WEFT_FIXED_TYPE(count), recipe, fill_count, &count));
}

/* Returns <unit_i, unit_pos> / tau, [SEQUENCES, heads, views, 1]. */
static struct weft_atom *form_hits(struct weft_form *f, const struct attr *attr, struct weft_atom *unit)
{
    int64_t n = views(attr);
    struct weft_atom *a = weft_slice_of(f, unit, 2, 0, 1), *b = weft_slice_of(f, unit, 2, n - 1, 1);
    return weft_repeat_of(f, weft_times_of(f, weft_sum_of(f, weft_mul_of(f, a, b), 3), 1 / attr->tau), 2, n);
}

/* Returns nll [N, 1], for hit and norm [N, 1], unit [N, w]. */
static struct weft_atom *form_nll(struct weft_form *f, const struct attr *attr, struct weft_atom *hit,
                                  struct weft_atom *unit, struct weft_atom *norm)
{
    struct weft_atom *zero = weft_real_of(f, 0), *kept = weft_less_of(f, zero, norm);
    struct weft_atom *logits = weft_times_of(f, weft_matmul_of(f, unit, unit, true), 1 / attr->tau);
    struct weft_atom *none = weft_choose_of(f, kept, weft_real_of(f, -INFINITY), zero); /* so that the sum is not 0 */
    logits = weft_choose_of(f, weft_swap_of(f, kept, 0, 1), weft_sub_of(f, logits, hit), none);
    if (views(attr) == 2) {
        struct weft_extent one = {WEFT_FIXED, 1};
        struct weft_atom *number = weft_reshape_of(f, form_numbers(f, attr), weft_type_with(norm, 1, one));
        logits = weft_choose_of(f, weft_equal_of(f, number, weft_swap_of(f, number, 0, 1)), none, logits);
    }
    return weft_choose_of(f, kept, weft_logsumexp_of(f, logits, 1), zero);
}

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *attr = node->attr;
    struct weft_type column = weft_type_of(f, node->out[NORM]);
    column.dim[column.ndim++] = (struct weft_extent){WEFT_FIXED, 1};
    struct weft_atom *zero = weft_real_of(f, 0), *least = weft_real_of(f, SHORTEST * SHORTEST);
    struct weft_atom *mean = form_means(f, node), *square = weft_sum_of(f, weft_mul_of(f, mean, mean), 3);
    struct weft_atom *is_short = weft_to_of(f, weft_less_of(f, square, least), WEFT_REAL);
    struct weft_atom *kept = weft_equal_of(f, weft_largest_of(f, is_short, 2), zero);
    struct weft_atom *norm = weft_sqrt_of(f, weft_max_of(f, square, least));
    struct weft_atom *unit = weft_choose_of(f, kept, weft_div_of(f, mean, norm), zero);
    struct weft_atom *hit = weft_reshape_of(f, form_hits(f, attr, unit), column);
    norm = weft_reshape_of(f, weft_choose_of(f, kept, norm, zero), column);
    unit = weft_reshape_of(f, unit, weft_type_of(f, node->out[UNIT]));
    struct weft_atom *nll = form_nll(f, attr, hit, unit, norm), *is_kept = weft_less_of(f, zero, norm);
    struct weft_atom *lse = weft_choose_of(f, is_kept, weft_add_of(f, nll, hit), zero);
    struct weft_atom *count = weft_sum_of(f, weft_to_of(f, is_kept, WEFT_REAL), 0);
    struct weft_atom *loss = weft_div_of(f, weft_sum_of(f, nll, 0), weft_max_of(f, count, weft_real_of(f, 1)));
    struct weft_atom *const out[] = {weft_times_of(f, loss, attr->lambda), unit, norm, nll, lse};
    for (int o = LOSS; o <= LSE; o++)
        weft_form_out(f, o, out[o]);
}

/* ---- shared by forward and backward; scratch holds a span per sequence and, in backward, du, shaped like unit; the
 * scratch of each thread holds a row of logits */

struct span { /* the sequence has `length` rows of the call, all between first and end */
    int64_t first, end, length;
};

static int64_t row_room(int64_t n) { return weft_round_up(n, VLANES); }

static enum weft_status plan(const struct weft_call *max, struct weft_booking *booking)
{
    size_t du = 0;
    TRY(weft_size_mul((size_t)max->in[TILES]->dim[0], sizeof(struct span), &booking->scratch));
    if (max->gin[Z])
        TRY(weft_size_mul((size_t)weft_tensor_count(max->out[UNIT]), sizeof(float), &du));
    TRY(weft_size_add(booking->scratch, du, &booking->scratch));
    return weft_size_mul((size_t)row_room(max->out[UNIT]->dim[0]), sizeof(float), &booking->local);
}

static struct span *spans(const struct weft_call *call) { return (struct span *)call->scratch; }

static float *du_of(const struct weft_call *call) { return (float *)(spans(call) + call->in[TILES]->dim[0]); }

static void find_spans(const struct weft_call *call)
{
    struct span *span = spans(call);
    const int32_t *seq = call->in[SEQ]->data;
    memset(span, 0, (size_t)call->in[TILES]->dim[0] * sizeof *span);
    for (int64_t r = 0; r < weft_tensor_count(call->in[SEQ]); r++) {
        struct span *s = &span[seq[r]];
        s->first = s->length ? s->first : r;
        s->end = r + 1;
        s->length++;
    }
}

VINLINE float dot(const float *a, const float *b, int64_t n)
{
    vf sum = vset(0);
    for (int64_t i = 0; i < n; i += VLANES)
        sum = vfma(vload_f32(a + i, n - i), vload_f32(b + i, n - i), sum);
    return vsum(sum);
}

/* Computes l_ij for all j, padded to a multiple of sixteen; l_ij is -inf for padding and for j that are not in i's
 * sum. */
static void logits(const struct weft_call *call, int64_t i, float *l)
{
    const struct attr *attr = call->attr;
    const float *unit = call->out[UNIT]->data, *norm = call->out[NORM]->data;
    int64_t n = call->out[UNIT]->dim[0], w = call->out[UNIT]->dim[1];
    float sharpness = (float)(1 / attr->tau);
    for (int64_t j = 0; j < row_room(n); j++) {
        bool counts = j < n && norm[j] != 0 && in_sum(attr, i, j);
        l[j] = counts ? sharpness * dot(unit + i * w, unit + j * w, w) : -INFINITY;
    }
}

static float *local_row(const struct weft_call *call, int thread)
{
    return (float *)(call->local + (size_t)thread * call->local_stride);
}

/* ---- forward */

static void add_rows(const struct weft_call *call, int64_t slot, int64_t head)
{
    const struct attr *attr = call->attr;
    const struct weft_tensor *z = call->in[Z];
    const int32_t *seq = call->in[SEQ]->data;
    const struct span *span = &spans(call)[slot];
    int64_t w = call->out[UNIT]->dim[1];
    for (int64_t r = span->first; r < span->end; r++) {
        if (seq[r] != slot)
            continue;
        float *sum = (float *)call->out[UNIT]->data + vector_of(call, r, head, span->length) * w;
        int64_t at = (r * attr->heads + head) * w;
        for (int64_t c = 0; c < w; c += VLANES)
            vstore_f32(sum + c, w - c, vload_f32(sum + c, w - c) + vload(z->data, z->dtype, at + c, at + w));
    }
}

static void divide(float *x, int64_t n, float by)
{
    for (int64_t i = 0; i < n; i += VLANES)
        vstore_f32(x + i, n - i, vload_f32(x + i, n - i) / vset(by));
}

/* Computes the vectors of one sequence and head: one vector, or the vectors of the two halves. */
static void context_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct weft_call *call = context;
    const struct attr *attr = call->attr;
    int64_t w = call->out[UNIT]->dim[1], v = views(attr), slot = tile / attr->heads;
    float *unit = (float *)call->out[UNIT]->data + tile * v * w, *norm = (float *)call->out[NORM]->data + tile * v;
    memset(unit, 0, (size_t)(v * w) * sizeof *unit);
    add_rows(call, slot, tile % attr->heads);
    for (int64_t i = 0; i < v; i++) {
        int64_t rows = vector_rows(attr, i, spans(call)[slot].length);
        divide(unit + i * w, w, (float)weft_max(1, rows));
        norm[i] = sqrtf(dot(unit + i * w, unit + i * w, w));
    }
    if (norm[0] < (float)SHORTEST || norm[v - 1] < (float)SHORTEST) {
        memset(unit, 0, (size_t)(v * w) * sizeof *unit);
        memset(norm, 0, (size_t)v * sizeof *norm);
        return;
    }
    for (int64_t i = 0; i < v; i++)
        divide(unit + i * w, w, norm[i]);
}

/* Computes nll_i and lse_i. If the loss is small, the sum is close to 1 and its difference from 1 matters, so the sum
 * and its logarithm are computed in double. */
static void row_tile(void *context, int64_t i, int thread)
{
    const struct weft_call *call = context;
    float *l = local_row(call, thread), *nll = call->out[NLL]->data, *lse = call->out[LSE]->data;
    int64_t pos = positive(call->attr, i), room = row_room(call->out[UNIT]->dim[0]);
    nll[i] = lse[i] = 0;
    if (((const float *)call->out[NORM]->data)[i] == 0)
        return;
    logits(call, i, l);
    vf highest = vset(-INFINITY), others = vset(0);
    for (int64_t j = 0; j < room; j += VLANES)
        highest = vmax(highest, vload_f32(l + j, VLANES));
    float top = vhighest(highest), hit = l[pos];
    l[pos] = -INFINITY;
    for (int64_t j = 0; j < room; j += VLANES)
        others += vexp(vload_f32(l + j, VLANES) - vset(top));
    nll[i] = (float)((double)top - hit + weft_log((double)vexp1(hit - top) + vsum(others)));
    lse[i] = hit + nll[i];
}

static int64_t count_kept(const struct weft_call *call)
{
    const float *norm = call->out[NORM]->data;
    int64_t kept = 0;
    for (int64_t i = 0; i < call->out[NORM]->dim[0]; i++)
        kept += norm[i] != 0;
    return kept;
}

static void run(const struct weft_call *call)
{
    const struct attr *attr = call->attr;
    const float *nll = call->out[NLL]->data;
    int64_t n = call->out[UNIT]->dim[0];
    find_spans(call);
    weft_parallel(n / views(attr), context_tile, (void *)call);
    weft_parallel(n, row_tile, (void *)call);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += nll[i];
    *(float *)call->out[LOSS]->data = (float)(attr->lambda * sum / (double)weft_max(1, count_kept(call)));
}

/* ---- backward */

/* Replaces l_ij by c_ij. If j is i's positive, i is j's positive. */
static void coefficients(const struct weft_call *call, int64_t i, float *l)
{
    const float *nll = call->out[NLL]->data, *lse = call->out[LSE]->data;
    int64_t n = call->out[UNIT]->dim[0], pos = positive(call->attr, i);
    for (int64_t j = 0; j < n; j += VLANES) {
        vf logit = vload_f32(l + j, VLANES);
        vstore_f32(l + j, VLANES, vexp(logit - vset(lse[i])) + vexp(logit - vload_f32(lse + j, n - j)));
    }
    l[pos] = (float)(weft_expm1(-nll[i]) + weft_expm1(-nll[pos]));
}

/* Computes the gradient of each row of z that vector i averages, and stores it in dz's type at the start of du's row.
 * Even if that type is narrower, only memory that has already been read is overwritten. */
static void du_tile(void *context, int64_t i, int thread)
{
    const struct weft_call *call = context;
    const struct attr *attr = call->attr;
    const float *unit = call->out[UNIT]->data;
    int64_t n = call->out[UNIT]->dim[0], w = call->out[UNIT]->dim[1], slot = i / (attr->heads * views(attr));
    float *l = local_row(call, thread), *du = du_of(call) + i * w, norm = ((const float *)call->out[NORM]->data)[i];
    memset(du, 0, (size_t)w * sizeof *du);
    if (norm == 0)
        return;
    logits(call, i, l);
    coefficients(call, i, l);
    for (int64_t j = 0; j < n; j++)
        for (int64_t c = 0; c < w; c += VLANES)
            vstore_f32(du + c, w - c, vfma(vset(l[j]), vload_f32(unit + j * w + c, w - c), vload_f32(du + c, w - c)));
    double rows = (double)vector_rows(attr, i, spans(call)[slot].length);
    double scale = *(const float *)call->gout[LOSS]->data * attr->lambda / ((double)count_kept(call) * attr->tau);
    vf along = vset(-dot(du, unit + i * w, w)), factor = vset((float)(scale / (norm * rows)));
    for (int64_t c = 0; c < w; c += VLANES) {
        vf across = vfma(along, vload_f32(unit + i * w + c, w - c), vload_f32(du + c, w - c));
        vstore(du, call->gin[Z]->dtype, c, w, across * factor);
    }
}

static void dz_tile(const struct weft_call *call, int64_t first, int64_t rows)
{
    const struct attr *attr = call->attr;
    const struct weft_tensor *dz = call->gin[Z];
    const int32_t *seq = call->in[SEQ]->data;
    int64_t w = call->out[UNIT]->dim[1];
    size_t bytes = (size_t)w * weft_dtype_bytes(dz->dtype);
    for (int64_t r = first; r < rows; r++)
        for (int64_t head = 0; head < attr->heads; head++) {
            const float *du = du_of(call) + vector_of(call, r, head, spans(call)[seq[r]].length) * w;
            memcpy((char *)dz->data + (size_t)(r * attr->heads + head) * bytes, du, bytes);
        }
}

static void bwd(const struct weft_call *call)
{
    find_spans(call);
    weft_parallel(call->out[UNIT]->dim[0], du_tile, (void *)call);
    weft_tiles_run(call, weft_tensor_rows(call->gin[Z]), ROWS, dz_tile);
}

/* Counts the cosines and, in backward, as many operations again for g. */
static double flops(const struct weft_call *call)
{
    return (call->gin[Z] ? 4.0 : 2.0) * (double)call->out[UNIT]->dim[0] * (double)weft_tensor_count(call->out[UNIT]);
}

/* ---- cases. Entries of n: sequences, rows of the first, decrease with each further sequence (down to none), heads,
 * width of a head, positives, which vectors are too short; of x: tau, lambda */

enum { SEQUENCES, LONGEST, SHORTER, HEADS, WIDTH, POSITIVES, SHORT };
enum { NO_VECTOR, HEAD_0, ONE_HALF, ALL_BUT_ONE, ALL };
enum { SELF = WEFT_POSITIVES_SELF, HALVES = WEFT_POSITIVES_HALVES };

static const struct weft_case cases[] = {
    {"one vector", {1, 3, 0, 1, 4, SELF}, {0.5, 1}},
    {"one pair", {1, 4, 0, 1, 4, HALVES}, {0.5, 1}},
    {"width one", {2, 3, 0, 2, 1, SELF}, {0.5, 1}},
    {"self", {2, 5, 0, 3, 8, SELF}, {0.5, 1}},
    {"halves", {2, 5, 0, 3, 8, HALVES}, {0.5, 1}},
    {"self, lanes", {4, 3, 0, 4, 16, SELF}, {0.2, 2}},
    {"halves, lanes+1", {3, 7, 0, 3, 17, HALVES}, {0.2, 2}},
    {"self, sharp", {3, 4, 0, 4, 20, SELF}, {0.07, 1}},
    {"halves, sharp", {3, 4, 0, 4, 20, HALVES}, {0.07, 1}},
    {"self, lengths", {4, 6, 2, 2, 10, SELF}, {0.3, 1}},
    {"halves, lengths", {5, 7, 2, 2, 10, HALVES}, {0.3, 1}},
    {"self, many", {9, 4, 0, 5, 33, SELF}, {0.1, 1}},
    {"halves, many", {9, 4, 0, 5, 33, HALVES}, {0.1, 1}},
    {"long", {2, 150, 9, 2, 6, HALVES}, {0.5, 5e-3}},
    {"self, head short", {3, 4, 0, 3, 8, SELF, HEAD_0}, {0.3, 1}},
    {"halves, head short", {3, 4, 0, 3, 8, HALVES, HEAD_0}, {0.3, 1}},
    {"one half short", {3, 5, 0, 3, 8, HALVES, ONE_HALF}, {0.3, 1}},
    {"one left", {2, 3, 0, 2, 8, SELF, ALL_BUT_ONE}, {0.3, 1}},
    {"none left", {2, 4, 0, 2, 8, HALVES, ALL}, {0.3, 1}},
};

static int64_t case_length(const struct weft_case *c, int64_t s)
{
    return weft_max(0, c->n[LONGEST] - s * c->n[SHORTER]);
}

/* Multiplies z by an input to make vectors short, so that they stay short under finite differences. */
static void build(struct weft_graph *g, const struct weft_case *c)
{
    int64_t count = 0, width = c->n[HEADS] * c->n[WIDTH];
    for (int64_t s = 0; s < c->n[SEQUENCES]; s++)
        count += case_length(c, s);
    struct weft_value *z = weft_case_input(g, "z", weft_graph_compute(g), count, width);
    struct weft_dim S = weft_times(weft_graph_symbol(g, "sequences", c->n[SEQUENCES]), 1);
    struct weft_rows rows = {
        .seq = weft_case_input(g, "seq", WEFT_I32, count, 0),
        .pos = weft_case_input(g, "pos", WEFT_I32, count, 0),
        .tiles = weft_graph_input(g, "tiles", WEFT_I32, WEFT_SHAPE(S, weft_fixed(1))),
    };
    if (c->n[SHORT])
        z = weft_swiglu(g, z, weft_graph_input(g, "size", weft_graph_compute(g), z->shape));
    struct weft_value *loss =
        weft_info_nce(g, z, &rows, c->n[HEADS], (enum weft_positives)c->n[POSITIVES], c->x[0], c->x[1]);
    for (int o = LOSS; loss && o <= LSE; o++)
        weft_graph_output(g, weft_sibling(loss, o));
}

static bool is_short(const struct weft_case *c, int64_t s, int64_t t, int64_t head)
{
    switch (c->n[SHORT]) {
    case HEAD_0:
        return head == 0;
    case ONE_HALF:
        return s == 1 && head == 1 && t < case_length(c, s) / 2;
    case ALL_BUT_ONE:
        return s > 0 || head > 0;
    default:
        return true;
    }
}

static bool fill(const struct weft_case *c, const char *input, struct weft_tensor *t)
{
    bool is_seq = strcmp(input, "seq") == 0, is_pos = strcmp(input, "pos") == 0;
    if (!is_seq && !is_pos && strcmp(input, "size") != 0)
        return false;
    int64_t width = t->ndim == 2 ? t->dim[1] : 1, r = 0;
    for (int64_t s = 0; s < c->n[SEQUENCES]; s++)
        for (int64_t at = 0; at < case_length(c, s); at++, r++)
            for (int64_t i = 0; i < width; i++)
                if (t->dtype == WEFT_I32)
                    ((int32_t *)t->data)[r] = (int32_t)(is_seq ? s : at);
                else
                    weft_tensor_set(t, r * width + i, is_short(c, s, at, i / c->n[WIDTH]) ? 0x1p-30 : 1);
    return true;
}

const struct weft_op WEFT_OP(info_nce) = {
    .name = "info_nce",
    .summary =
        "loss = lambda * mean over contexts i of (logsumexp_j(s_ij/tau) - s_i,pos/tau), s the cosine similarities",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.plan = plan, .run = run, .ref = ref, .flops = flops},
    .bwd = {.plan = plan, .run = bwd, .ref = bwd_ref, .flops = flops},
    .bwd_reads_in = 1 << SEQ | 1 << POS | 1 << TILES,
    .bwd_reads_out = 1 << UNIT | 1 << NORM | 1 << NLL | 1 << LSE,
    .differentiable = 1 << Z,
    .no_grad_out = 1 << UNIT | 1 << NORM | 1 << NLL | 1 << LSE,
    .lower = lower,
    WEFT_CASES(cases, build),
    .fill = fill,
};

struct weft_value *weft_info_nce(struct weft_graph *g, struct weft_value *z, const struct weft_rows *rows,
                                 int64_t heads, enum weft_positives positives, double tau, double lambda)
{
    struct attr attr = {heads, positives, tau, lambda};
    struct weft_value *in[INPUTS] = {z, rows->seq, rows->pos, rows->tiles};
    return weft_emit(g, WEFT_SELF(info_nce), &attr, INPUTS, in);
}
