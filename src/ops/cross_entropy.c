/* SPDX-License-Identifier: MIT
 *
 * cross_entropy - fuses the matmul with the vocabulary matrix and the loss, without storing all logits.
 *
 *     logit[m,v] = sum_c x[m,c] W[v,c]        lse[m] = log sum_v exp(logit[m,v])
 *     nll[m]     = lse[m] - logit[m, target[m]]
 *     loss       = weight * sum over m of (nll[m] + z_lambda lse[m]^2)
 *     pred[m]    = arg max_v logit[m,v], the smallest v on ties
 *
 * over the scored rows, those with target[m] >= 0. Other rows cost nothing; their nll and lse are 0, and their pred is
 * -1.
 *
 * x [M,C] in the compute dtype, W [V,C] an f32 parameter (a head or the tied embedding) read in its packed forms,
 * targets i32 [M], weight f32 [1] (1 / number of scored tokens in the whole batch, which only the host knows; if
 * absent, 1 / number of scored rows, so that the loss is the mean over these rows). Outputs: 0 loss f32 [1]; 1 nll f32
 * [M], 2 lse f32 [M] and 3 pred i32 [M], without gradients.
 *
 * Scored rows are processed in chunks; if other rows lie between them, they are gathered first. For each chunk, the op
 * computes logits in f32, then the statistics of each row, and then for the derivative dlogit[m,v] = dloss weight ((1 +
 * 2 z_lambda lse[m]) softmax[m,v] - [v = target[m]]) in the compute dtype, dX = dlogit W and dW += dlogit^t X. So the
 * backward node also computes the forward outputs (bwd_writes_out), no matmul is done twice, and one kernel serves
 * both. Nothing is saved.
 */
#include "base/vmath_inl.h"
#include "ops/cross_entropy_reference_inl.h"

/* Scored rows per chunk. Every chunk reads W and updates dW once, and every row of a chunk needs scratch. With V =
 * 50304 and C = 768, chunks of 512 took 5/6 of the processor time of chunks of 256; chunks of 1024 took 9/10 of the
 * time of 512 but need twice the scratch. The size is a constant because it determines the summation order of dW. */
enum { CHUNK = 512, ROW_TILE = 4 };

static void lower(struct weft_form *f, const struct weft_node *node)
{
    const struct attr *a = node->attr;
    struct weft_atom *zero = weft_real_of(f, 0), *none = weft_whole_of(f, -1);
    struct weft_atom *target = weft_unit_of(f, weft_form_in(f, TARGETS), 2), *scored = weft_less_of(f, none, target);
    struct weft_atom *logits = weft_matmul_of(f, weft_form_in(f, X), weft_form_in(f, W), true);
    struct weft_atom *hit = weft_pick_of(f, logits, weft_max_of(f, target, weft_whole_of(f, 0)), 2);
    struct weft_atom *lse = weft_logsumexp_of(f, logits, 2);
    struct weft_atom *nll = weft_choose_of(f, scored, weft_sub_of(f, lse, hit), zero), *loss = nll;
    lse = weft_choose_of(f, scored, lse, zero);
    if (a->z_lambda != 0)
        loss = weft_add_of(f, nll, weft_times_of(f, weft_mul_of(f, lse, lse), a->z_lambda));
    loss = weft_sum_of(f, weft_sum_of(f, loss, 1), 0);
    if (node->in[WEIGHT]) {
        loss = weft_mul_of(f, loss, weft_form_in(f, WEIGHT));
    } else {
        struct weft_atom *count = weft_sum_of(f, weft_sum_of(f, weft_to_of(f, scored, WEFT_REAL), 1), 0);
        loss = weft_div_of(f, loss, weft_max_of(f, count, weft_real_of(f, 1)));
    }
    weft_form_out(f, LOSS, loss);
    weft_form_out(f, NLL, nll);
    weft_form_out(f, LSE, lse);
    weft_form_out(f, PRED, weft_choose_of(f, scored, weft_argmax_of(f, logits, 2), none));
}

/* ---- plan */

struct plan {
    struct weft_dnn_product *logits, *dx; /* dx and dw are NULL if they are not needed */
    struct weft_dnn_outer *dw;
    size_t dlogits, rows_x, rows_dx, engine; /* offsets in scratch; the chunk's logits are at 0 */
};

/* Computes the size of a matrix, rounded up to a multiple of 64 bytes. */
static enum weft_status matrix_bytes(int64_t rows, int64_t width, size_t element, size_t *bytes)
{
    TRY(weft_size_mul((size_t)rows, (size_t)width, bytes));
    TRY(weft_size_mul(*bytes, element, bytes));
    TRY(weft_size_add(*bytes, 63, bytes));
    *bytes -= *bytes % 64;
    return WEFT_OK;
}

/* Reserves space for a matrix at *end. */
static enum weft_status book(size_t *end, int64_t rows, int64_t width, enum weft_dtype dtype, size_t *where)
{
    size_t bytes;
    *where = *end;
    TRY(matrix_bytes(rows, width, weft_dtype_bytes(dtype), &bytes));
    return weft_size_add(*end, bytes, end);
}

static enum weft_status plan(const struct weft_call *max, struct weft_booking *booking)
{
    const struct weft_tensor *x = max->in[X], *w = max->in[P];
    struct plan *plan = weft_arena_alloc(booking->arena, sizeof *plan);
    if (!plan)
        return WEFT_NOMEM;
    struct weft_dnn_shape s = {.dtype = x->dtype, .depth = w->dim[1], .width = w->dim[0], .groups = 1};
    s.max_rows = weft_min(weft_tensor_rows(x), CHUNK);
    struct weft_dnn_shape back = s;
    back.depth = s.width;
    back.width = s.depth;
    size_t scratch[3] = {0}, local[3] = {0}, end;
    TRY(weft_dnn_product_plan(&s, WEFT_F32, booking->arena, &plan->logits, &scratch[0], &local[0]));
    if (max->gin[X])
        TRY(weft_dnn_product_plan(&back, max->gin[X]->dtype, booking->arena, &plan->dx, &scratch[1], &local[1]));
    if (max->gin[W])
        TRY(weft_dnn_outer_plan(&s, booking->arena, &plan->dw, &scratch[2], &local[2]));

    TRY(matrix_bytes(s.max_rows, s.width, sizeof(float), &end));
    if (max->gout[LOSS] && x->dtype == WEFT_BF16) /* f32 gradients overwrite the logits instead */
        TRY(book(&end, s.max_rows, s.width, x->dtype, &plan->dlogits));
    TRY(book(&end, s.max_rows, s.depth, x->dtype, &plan->rows_x));
    if (max->gin[X])
        TRY(book(&end, s.max_rows, s.depth, max->gin[X]->dtype, &plan->rows_dx));
    plan->engine = end;
    for (int i = 0; i < 3; i++) { /* the matmuls share scratch, because they run one after another */
        booking->scratch = scratch[i] > booking->scratch ? scratch[i] : booking->scratch;
        booking->local = local[i] > booking->local ? local[i] : booking->local;
    }
    booking->plan = plan;
    return weft_size_add(plan->engine, booking->scratch, &booking->scratch);
}

/* ---- run */

static size_t row_bytes(const struct weft_tensor *t)
{
    return (size_t)weft_tensor_width(t) * weft_dtype_bytes(t->dtype);
}

static char *row_of(const struct weft_tensor *t, int64_t r) { return (char *)t->data + (size_t)r * row_bytes(t); }

/* The rows of a chunk, which are processed together. */
struct chunk {
    const struct weft_call *call;
    int64_t count;
    int64_t row[CHUNK]; /* in ascending order */
    float *logits;
    void *dlogits; /* NULL if no gradient is needed */
    float scale;
};

static const vi lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* Returns sixteen logits starting at i; logits past the end are -inf, which affects neither the maximum nor the sum of
 * exponentials. */
VINLINE vf logits_at(const float *logits, int64_t i, int64_t n)
{
    vf l = vload_f32(logits + i, n - i);
    return n - i < VLANES ? vpick(lanes < vseti((int32_t)(n - i)), l, vset(-INFINITY)) : l;
}

static float highest(const float *logits, int64_t n, int32_t *where)
{
    vf best = vset(-INFINITY);
    vi at = lanes;
    for (int64_t i = 0; i < n; i += VLANES) {
        vf l = logits_at(logits, i, n);
        vi above = l > best;
        best = vpick(above, l, best);
        at = (above & (lanes + (int32_t)i)) | (~above & at);
    }
    float top = vhighest(best);
    *where = INT32_MAX;
    for (int lane = 0; lane < VLANES; lane++)
        if (best[lane] == top && at[lane] < *where)
            *where = at[lane];
    return top;
}

static float sum_exp(const float *logits, int64_t n, float top)
{
    vf sum = vset(0);
    for (int64_t i = 0; i < n; i += VLANES)
        sum += vexp(logits_at(logits, i, n) - vset(top));
    return vsum(sum);
}

static void row(const struct chunk *c, int64_t i)
{
    const struct weft_call *call = c->call;
    enum weft_dtype dtype = call->in[X]->dtype;
    int64_t n = call->in[P]->dim[0], r = c->row[i];
    const float *logits = c->logits + i * n;
    int32_t target = ((const int32_t *)call->in[TARGETS]->data)[r];
    float top = highest(logits, n, (int32_t *)call->out[PRED]->data + r), sum = sum_exp(logits, n, top);
    float lse = top + vlog1(sum), hit = logits[target];
    ((float *)call->out[LSE]->data)[r] = lse;
    ((float *)call->out[NLL]->data)[r] = lse - hit;
    if (!c->dlogits)
        return;
    char *dlogits = (char *)c->dlogits + i * n * (int64_t)weft_dtype_bytes(dtype);
    float z_lambda = (float)((const struct attr *)call->attr)->z_lambda;
    float factor = c->scale * (1 + 2 * z_lambda * lse) / sum;
    for (int64_t v = 0; v < n; v += VLANES)
        vstore(dlogits, dtype, v, n, vexp(logits_at(logits, v, n) - vset(top)) * vset(factor));
    vstore(dlogits, dtype, target, target + 1, vexp(vset(hit - top)) * vset(factor) - vset(c->scale));
}

static void row_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct chunk *c = context;
    for (int64_t i = tile * ROW_TILE; i < weft_min((tile + 1) * ROW_TILE, c->count); i++)
        row(c, i);
}

/* Collects the next scored rows and sets the outputs of the rows it skips. */
static void take_rows(struct chunk *c, int64_t *next)
{
    const struct weft_call *call = c->call;
    const int32_t *targets = call->in[TARGETS]->data;
    const struct weft_tensor *dx = call->gin[X];
    int64_t rows = weft_tensor_rows(call->in[X]), r = *next;
    for (c->count = 0; r < rows && c->count < CHUNK; r++) {
        if (targets[r] >= 0) {
            c->row[c->count++] = r;
            continue;
        }
        ((float *)call->out[NLL]->data)[r] = ((float *)call->out[LSE]->data)[r] = 0;
        ((int32_t *)call->out[PRED]->data)[r] = -1;
        if (dx)
            memset(row_of(dx, r), 0, row_bytes(dx));
    }
    *next = r;
}

static void run_chunk(const struct chunk *c)
{
    const struct weft_call *call = c->call;
    const struct plan *plan = call->plan;
    const struct weft_tensor *x = call->in[X], *dx = call->gin[X], *dw = call->gin[W];
    bool scattered = c->row[c->count - 1] - c->row[0] >= c->count;
    char *from = scattered ? call->scratch + plan->rows_x : row_of(x, c->row[0]),
         *engine = call->scratch + plan->engine;
    char *to = !dx ? NULL : scattered ? call->scratch + plan->rows_dx : row_of(dx, c->row[0]);
    for (int64_t i = 0; scattered && i < c->count; i++)
        memcpy(from + (size_t)i * row_bytes(x), row_of(x, c->row[i]), row_bytes(x));
    weft_dnn_product_run(plan->logits, c->count, from, call->in[P]->data, NULL, NULL, WEFT_F32, c->logits, engine,
                         call->local, call->local_stride);
    weft_parallel(weft_div_up(c->count, ROW_TILE), row_tile, (void *)c);
    if (dx)
        weft_dnn_product_run(plan->dx, c->count, c->dlogits, call->in[P_DX]->data, NULL, NULL, WEFT_F32, to, engine,
                             call->local, call->local_stride);
    for (int64_t i = 0; dx && scattered && i < c->count; i++)
        memcpy(row_of(dx, c->row[i]), to + (size_t)i * row_bytes(dx), row_bytes(dx));
    if (dw)
        weft_dnn_outer_run(plan->dw, c->count, c->dlogits, from, dw->data, engine, call->local, call->local_stride);
}

/* Returns the weight input or, if absent, 1 / number of scored rows. */
static float weight_of(const struct weft_call *call)
{
    const int32_t *targets = call->in[TARGETS]->data;
    int64_t rows = weft_tensor_rows(call->in[X]), scored = 0;
    if (call->in[WEIGHT])
        return *(const float *)call->in[WEIGHT]->data;
    for (int64_t r = 0; r < rows; r++)
        scored += targets[r] >= 0;
    return 1 / (float)weft_max(1, scored);
}

static void run(const struct weft_call *call)
{
    const struct attr *a = call->attr;
    const struct plan *plan = call->plan;
    const float *nll = call->out[NLL]->data, *lse = call->out[LSE]->data;
    float weight = weight_of(call);
    int64_t rows = weft_tensor_rows(call->in[X]), next = 0;
    struct chunk c = {.call = call, .logits = (float *)call->scratch};
    if (call->gout[LOSS]) {
        c.dlogits = call->scratch + plan->dlogits;
        c.scale = *(const float *)call->gout[LOSS]->data * weight;
    }
    for (take_rows(&c, &next); c.count; take_rows(&c, &next))
        run_chunk(&c);
    double sum = 0;
    for (int64_t r = 0; r < rows; r++)
        sum += nll[r] + a->z_lambda * lse[r] * lse[r];
    *(float *)call->out[LOSS]->data = (float)(sum * weight);
}

static int products(const struct weft_call *call, struct weft_product *list)
{
    int64_t rows = weft_tensor_rows(call->in[X]), vocab = call->in[P]->dim[0], width = call->in[P]->dim[1];
    int n = 0;
    list[n++] = (struct weft_product){WEFT_BARE_Y, rows, vocab, width, 1, 1};
    if (call->gin[X])
        list[n++] = (struct weft_product){WEFT_BARE_DX, rows, vocab, width, 1, 1};
    if (call->gin[W])
        list[n++] = (struct weft_product){WEFT_BARE_DW, rows, vocab, width, 1, 1};
    return n;
}

static double flops(const struct weft_call *call)
{
    int products = 1 + (call->gin[X] != NULL) + (call->gin[W] != NULL);
    return 2.0 * products * (double)weft_tensor_rows(call->in[X]) * (double)weft_tensor_count(call->in[P]);
}

/* ---- cases. Entries of n: rows, V, C, which rows are scored (see below), whether the loss is a mean; of x:
 * z_lambda */

enum { ALL, SOME, NONE, LATER };

static const struct weft_case cases[] = {
    {.name = "one", .n = {1, 1, 1}},
    {.name = "two words", .n = {3, 2, 5}},
    {.name = "tile", .n = {16, 64, 32}},
    {.name = "odd", .n = {7, 131, 33, SOME}},
    {.name = "wide", .n = {5, 300, 100, SOME}},
    {.name = "z-loss", .n = {9, 50, 24, SOME}, .x = {1e-2}},
    {.name = "large z-loss", .n = {6, 37, 16, ALL}, .x = {0.5}},
    {.name = "later rows", .n = {9, 70, 33, LATER}},
    {.name = "none scored", .n = {6, 40, 16, NONE}, .x = {1e-2}},
    {.name = "mean", .n = {9, 70, 33, SOME, 1}, .x = {1e-2}},
    {.name = "mean of none", .n = {3, 20, 16, NONE, 1}},
    {.name = "mean of two chunks", .n = {2 * CHUNK, 18, 8, LATER, 1}},
    {.name = "a chunk", .n = {CHUNK, 20, 8, SOME}},
    {.name = "some of three chunks", .n = {3 * CHUNK, 18, 8, SOME}},
    {.name = "a chunk and one row", .n = {CHUNK + 1, 19, 9, SOME}, .x = {1e-4}},
};

static void build(struct weft_graph *g, const struct weft_case *c)
{
    struct weft_value *x = weft_case_input(g, "x", weft_graph_compute(g), c->n[0], c->n[2]);
    struct weft_value *w = weft_graph_param(g, "w", WEFT_SHAPE(weft_fixed(c->n[1]), weft_fixed(c->n[2])));
    struct weft_value *targets = weft_case_input(g, "targets", WEFT_I32, c->n[0], 0);
    struct weft_value *weight = c->n[4] ? NULL : weft_graph_input(g, "weight", WEFT_F32, WEFT_SHAPE(weft_fixed(1)));
    struct weft_value *loss = weft_cross_entropy(g, x, w, targets, weight, c->x[0]);
    for (int o = LOSS; loss && o <= PRED; o++)
        weft_graph_output(g, weft_sibling(loss, o));
}

/* Scales W like a freshly initialised head, so that logits are of order 1 and every token contributes to the
 * gradient. */
static bool fill(const struct weft_case *c, const char *input, struct weft_tensor *t)
{
    int64_t n = weft_tensor_count(t);
    if (strcmp(input, "targets") == 0)
        for (int64_t i = 0; i < n; i++) {
            bool scored = c->n[3] == ALL || (c->n[3] == SOME && i % 3) || (c->n[3] == LATER && i >= n / 2);
            ((int32_t *)t->data)[i] = scored ? (int32_t)weft_below(1, (uint64_t)i, (uint64_t)c->n[1]) : -1;
        }
    else if (strcmp(input, "weight") == 0)
        weft_tensor_set(t, 0, 0.75);
    else if (strcmp(input, "w") == 0)
        for (int64_t i = 0; i < n; i++)
            weft_tensor_set(t, i, (float)(weft_normal(2, (uint64_t)i) / sqrt((double)c->n[2])));
    else
        return false;
    return true;
}

const struct weft_op WEFT_OP(cross_entropy) = {
    .name = "cross_entropy",
    .summary = "loss = weight * sum over scored rows of (lse - logit[target] + z_lambda lse^2), logits = x W^t",
    .attr_bytes = sizeof(struct attr),
    .shape = shape,
    .fwd = {.plan = plan, .run = run, .ref = ref, .flops = flops, .products = products},
    .bwd = {.plan = plan, .run = run, .ref = bwd_ref, .flops = flops, .products = products},
    .grad_only_in = 1u << P_DX | 1u << W,
    .bwd_reads_in = 1u << X | 1u << P | 1u << P_DX | 1u << TARGETS | 1u << WEIGHT,
    .differentiable = 1u << X | 1u << W,
    .accumulates = 1u << W,
    .no_grad_out = 1u << NLL | 1u << LSE | 1u << PRED,
    .bwd_writes_out = true,
    .lower = lower,
    WEFT_CASES(cases, build),
    .fill = fill,
};

struct weft_value *weft_cross_entropy(struct weft_graph *g, struct weft_value *x, struct weft_value *w,
                                      struct weft_value *targets, struct weft_value *weight, double z_lambda)
{
    struct weft_value *in[INPUTS] = {
        [X] = weft_cast(g, x, weft_graph_compute(g)),
        [P] = weft_pack(g, w, WEFT_PACK_Y),
        [P_DX] = weft_pack(g, w, WEFT_PACK_DX),
        [TARGETS] = targets,
        [WEIGHT] = weight,
        [W] = w,
    };
    return weft_emit(g, WEFT_SELF(cross_entropy), &(struct attr){z_lambda}, INPUTS, in);
}
