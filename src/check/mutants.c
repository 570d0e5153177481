/* SPDX-License-Identifier: MIT
 *
 * mutants.c - models broken on purpose, most of them as published code was: each must be detected by its gate.
 *
 * A mutant replaces a part or an op by a copy with one defect while a gate checks a model that uses it. Ops are
 * broken in both their fast and reference kernels. Two mutants have an op of their own, in plain loops, without a
 * derivative: their gate only runs forward.
 */
#include "check/check.h"
#include "nn/build.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- replacing */

static const struct weft_op *right; /* the sound op that was replaced last */
static struct weft_op broken_op[WEFT_OP_COUNT];
static const struct weft_part *right_part;
static union {
    struct weft_part part;
    struct weft_attn attn;
    struct weft_pos pos;
    struct weft_ffn ffn;
    struct weft_mechanism mechanism;
} broken_part;

static struct weft_op *break_op(enum weft_op_id id)
{
    right = weft_op(id);
    broken_op[id] = *right;
    weft_op_replace(id, &broken_op[id]);
    return &broken_op[id];
}

/* A copy of the part in its place, to be changed. */
#define BREAK(kind, whole) (break_part(&(whole).part), broken_part.kind = (whole), &broken_part.kind)

static void break_part(const struct weft_part *part)
{
    right_part = part;
    weft_part_replace(part, &broken_part.part);
}

static void restore(void)
{
    for (int id = 0; id < WEFT_OP_COUNT; id++)
        weft_op_replace((enum weft_op_id)id, NULL);
    weft_part_replace(right_part, NULL);
    right_part = NULL;
}

/* ---- not wired in: weights are declared and counted, and nothing happens */

static void unwire(const struct weft_mechanism *wired)
{
    struct weft_mechanism *m = BREAK(mechanism, *wired);
    m->hidden = NULL;
    m->reads = NULL;
    m->heads = NULL;
    m->latent = NULL;
    m->keys = NULL;
}

static void unwire_m1(void) { unwire(&weft_recip_m1); }
static void unwire_m2(void) { unwire(&weft_recip_m2); }
static void unwire_m3(void) { unwire(&weft_recip_m3); }

static void one_weight_more(struct weft_params *p, const struct weft_spec *spec, const void *options)
{
    right_part->params(p, spec, options);
    weft_params_matrix(p, "spare", spec->width, spec->width, WEFT_DEVIATION);
}

static void declare_spare(void) { BREAK(ffn, weft_ffn_gelu)->part.params = one_weight_more; }

static struct weft_value *rotate_keys_only(struct weft_build *b, const void *options, struct weft_value *x,
                                           int64_t heads, enum weft_side side)
{
    return side == WEFT_KEY ? weft_pos_rope.rotate(b, options, x, heads, side) : x;
}

static void leave_queries(void) { BREAK(pos, weft_pos_rope)->rotate = rotate_keys_only; }

/* per_head_scalar as it was published: zeros. */
static void zero(struct weft_tensor *t)
{
    memset(t->data, 0, (size_t)weft_tensor_count(t) * weft_dtype_bytes(t->dtype));
}

static void give_zeros(const struct weft_call *call) { zero(call->out[0]); }

static void give_zero_gradients(const struct weft_call *call) /* the other one is added to */
{
    if (call->gin[0])
        zero(call->gin[0]);
}

static void zero_buckets(void)
{
    static const enum weft_op_id ids[] = {WEFT_OP_bucket_mean, WEFT_OP_bucket_spread};
    for (int i = 0; i < 2; i++) {
        struct weft_op *op = break_op(ids[i]);
        op->fwd.run = op->fwd.ref = give_zeros;
        op->bwd.run = op->bwd.ref = give_zero_gradients;
    }
}

/* The z-loss is reported, but computed from logits without gradient. */
static void forget_z(const struct weft_call *call, void (*kernel)(const struct weft_call *))
{
    static const double none = 0;
    struct weft_call gradients = *call, reported = *call;
    assert(right->attr_bytes == sizeof none); /* the factor alone */
    gradients.attr = &none;
    memset(reported.gin, 0, sizeof reported.gin);
    kernel(&gradients);
    kernel(&reported);
}

static void forget_z_run(const struct weft_call *call) { forget_z(call, right->bwd.run); }
static void forget_z_ref(const struct weft_call *call) { forget_z(call, right->bwd.ref); }
static void detach_z(void)
{
    struct weft_op *op = break_op(WEFT_OP_cross_entropy);
    op->bwd.run = forget_z_run;
    op->bwd.ref = forget_z_ref;
}

/* ---- depends on later tokens */

/* Positions are the second i32 vector with a number per row; sequences are the first. */
static int positions_of(const struct weft_call *call)
{
    int vectors = 0;
    for (int i = 1; i < WEFT_MAX_ARGS; i++) {
        const struct weft_tensor *t = call->in[i];
        if (t && t->dtype == WEFT_I32 && t->ndim == 1 && t->dim[0] == call->in[0]->dim[0] && vectors++ == 1)
            return i;
    }
    assert(!"an op without positions");
    return 0;
}

/* The kernel gets the position of a row plus one, where there is one: so it sees one later key. */
static void look_ahead(const struct weft_call *call, void (*kernel)(const struct weft_call *))
{
    struct weft_call ahead = *call;
    int at = positions_of(call);
    struct weft_tensor later = *call->in[at];
    int64_t n = weft_tensor_count(&later);
    const int32_t *now = later.data;
    int32_t *copy = malloc((size_t)n * sizeof *copy + 1);
    for (int64_t i = 0; copy && i < n; i++)
        copy[i] = now[i] + (i + 1 < n && now[i + 1] == now[i] + 1);
    later.data = copy;
    ahead.in[at] = &later;
    if (copy)
        kernel(&ahead);
    free(copy);
}

static void look_ahead_run(const struct weft_call *call) { look_ahead(call, right->fwd.run); }
static void look_ahead_ref(const struct weft_call *call) { look_ahead(call, right->fwd.ref); }

static void break_mask(enum weft_op_id id)
{
    struct weft_op *op = break_op(id);
    op->fwd.run = look_ahead_run;
    op->fwd.ref = look_ahead_ref;
}

static void shift_mask(void) { break_mask(WEFT_OP_attention); }
static void shift_routes(void) { break_mask(WEFT_OP_route); }

/* Attention in plain loops: in q, k [M, H D], v or (routes) u [M, any], then seq, pos, and (routes) lse [M, H]. */
enum { Q, K, V, SEQ, POS, LSE };

static bool same_sequence(const struct weft_call *call, int64_t i, int64_t j)
{
    const int32_t *seq = call->in[SEQ]->data;
    return seq[i] == seq[j];
}

static bool is_later(const struct weft_call *call, int64_t j, int64_t i)
{
    const int32_t *pos = call->in[POS]->data;
    return pos[j] > pos[i];
}

static double score(const struct weft_call *call, int64_t h, int64_t i, int64_t j)
{
    int64_t width = weft_tensor_width(call->in[Q]), D = width / *(const int64_t *)call->attr;
    double sum = 0;
    for (int64_t d = h * D; d < (h + 1) * D; d++)
        sum += weft_tensor_get(call->in[Q], i * width + d) * weft_tensor_get(call->in[K], j * width + d);
    return sum / sqrt((double)D);
}

/* As wide as v. */
static enum weft_status plain_shape(struct weft_node *node)
{
    return weft_node_output(node, 0, node->in[V]->dtype, node->in[V]->shape);
}

static double masked_score(const struct weft_call *call, int64_t h, int64_t i, int64_t j)
{
    return score(call, h, i, j) + (is_later(call, j, i) ? -1e4 : 0); /* should be -inf */
}

static void attend_head(const struct weft_call *call, int64_t h, int64_t i)
{
    int64_t rows = call->in[Q]->dim[0], width = weft_tensor_width(call->in[V]),
            D = width / *(const int64_t *)call->attr;
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < rows; j++)
        if (same_sequence(call, i, j))
            top = fmax(top, masked_score(call, h, i, j));
    double o[64] = {0};
    assert(D <= 64);
    for (int64_t j = 0; j < rows; j++) {
        double p = same_sequence(call, i, j) ? exp(masked_score(call, h, i, j) - top) : 0;
        sum += p;
        for (int64_t d = 0; p > 0 && d < D; d++)
            o[d] += p * weft_tensor_get(call->in[V], j * width + h * D + d);
    }
    for (int64_t d = 0; d < D; d++)
        weft_tensor_set(call->out[0], i * width + h * D + d, o[d] / sum);
}

static void attend_with_constant(const struct weft_call *call)
{
    for (int64_t i = 0; i < call->in[Q]->dim[0]; i++)
        for (int64_t h = 0; h < *(const int64_t *)call->attr; h++)
            attend_head(call, h, i);
}

static const struct weft_op finite_mask = {
    .name = "finite_mask",
    .attr_bytes = sizeof(int64_t),
    .shape = plain_shape,
    .fwd = {.run = attend_with_constant, .ref = attend_with_constant},
};

static struct weft_value *build_finite_mask(struct weft_build *b, const void *options, struct weft_value *x)
{
    struct weft_value *in[] = {weft_build_linear(b, x, "wq"), weft_build_linear(b, x, "wk"),
                               weft_build_linear(b, x, "wv"), b->rows.seq, b->rows.pos};
    struct weft_node *node = weft_graph_emit(b->g, &finite_mask, &b->spec->heads, 5, in);
    return node ? node->out[0] : NULL;
}

static void mask_by_constant(void) { BREAK(attn, weft_attn_full)->build = build_finite_mask; }

/* Routes by the root mean square over the sequence, padded with zeros to its length: later tokens count. */
static double route(const struct weft_call *call, int64_t i, int64_t j)
{
    int64_t heads = *(const int64_t *)call->attr;
    double sum = 0;
    for (int64_t h = 0; h < heads; h++)
        sum += exp(score(call, h, i, j) - weft_tensor_get(call->in[LSE], i * heads + h));
    return !same_sequence(call, i, j) || is_later(call, j, i) ? 0 : sum / (double)heads;
}

static void gather_row(const struct weft_call *call, int64_t i)
{
    int64_t rows = call->in[Q]->dim[0], width = weft_tensor_width(call->in[V]);
    double squares = 0, length = 0, sum = 0, y[64] = {0};
    assert(width <= 64);
    for (int64_t j = 0; j < rows; j++) {
        squares += same_sequence(call, i, j) ? pow(route(call, i, j), 2) : 0;
        length += same_sequence(call, i, j); /* should be the visible ones */
    }
    for (int64_t j = 0; j < rows; j++) {
        double R = same_sequence(call, i, j) ? route(call, i, j) : 0;
        for (int64_t d = 0; R >= 0.5 * sqrt(squares / length) && d < width; d++)
            y[d] += R * weft_tensor_get(call->in[V], j * width + d);
        sum += R >= 0.5 * sqrt(squares / length) ? R : 0;
    }
    for (int64_t d = 0; d < width; d++)
        weft_tensor_set(call->out[0], i * width + d, y[d] / sum);
}

static void gather_padded(const struct weft_call *call)
{
    for (int64_t i = 0; i < call->in[Q]->dim[0]; i++)
        gather_row(call, i);
}

static const struct weft_op padded_rms = {
    .name = "padded_rms",
    .attr_bytes = sizeof(int64_t),
    .shape = plain_shape,
    .fwd = {.run = gather_padded, .ref = gather_padded},
};

static void hidden_padded_rms(struct weft_build *b, struct weft_instance *m, struct weft_hidden *h)
{
    struct weft_value *in[] = {b->attention.q, b->attention.k, weft_hidden_read(b, h, m),
                               b->rows.seq,    b->rows.pos,    b->lse};
    struct weft_node *node = weft_graph_emit(b->g, &padded_rms, &b->spec->heads, 6, in);
    weft_hidden_add(b, h, node ? node->out[0] : NULL, weft_build_alpha(b, 0.3), "q");
}

static void pad_rms(void) { BREAK(mechanism, weft_recip_m2)->hidden = hidden_padded_rms; }

/* ---- the cache, exactness, derivatives, memory */

static void store_late(const struct weft_call *call, void (*kernel)(const struct weft_call *))
{
    enum { INDEX = 2 };
    struct weft_call late = *call;
    struct weft_tensor index = *call->in[INDEX];
    int64_t n = weft_tensor_count(&index);
    int32_t *copy = malloc((size_t)n * sizeof *copy + 1);
    for (int64_t i = 0; copy && i < n; i++)
        copy[i] = ((const int32_t *)index.data)[i] + 1;
    index.data = copy;
    late.in[INDEX] = &index;
    if (copy)
        kernel(&late);
    free(copy);
}

static void store_late_run(const struct weft_call *call) { store_late(call, right->fwd.run); }
static void store_late_ref(const struct weft_call *call) { store_late(call, right->fwd.ref); }
static void shift_cache(void)
{
    struct weft_op *op = break_op(WEFT_OP_store);
    op->fwd.run = store_late_run;
    op->fwd.ref = store_late_ref;
}

static void scale_by(struct weft_tensor *t, double factor)
{
    for (int64_t i = 0; t && i < weft_tensor_count(t); i++)
        weft_tensor_set(t, i, factor * weft_tensor_get(t, i));
}

/* Like a sum in the order of threads, which rounds differently with other threads. */
static void depend_on_threads(const struct weft_call *call)
{
    right->fwd.run(call);
    scale_by(call->out[0], 1 + 1e-6 * weft_threads());
}

static void unorder(void) { break_op(WEFT_OP_gelu)->fwd.run = depend_on_threads; }

static void almost_gradient_run(const struct weft_call *call)
{
    right->bwd.run(call);
    scale_by(call->gin[0], 0.999);
}

static void almost_gradient_ref(const struct weft_call *call)
{
    right->bwd.ref(call);
    scale_by(call->gin[0], 0.999);
}

static void misderive(void)
{
    struct weft_op *op = break_op(WEFT_OP_gelu);
    op->bwd.run = almost_gradient_run;
    op->bwd.ref = almost_gradient_ref;
}

/* Memory that was not planned; it stays until the process ends. */
static void hoard(const struct weft_call *call)
{
    static void *hoarded;
    enum { BYTES = 8 << 20 };
    right->fwd.run(call);
    if (!hoarded)
        hoarded = weft_pages_alloc(BYTES);
}

static void book_nothing(void) { break_op(WEFT_OP_embed)->fwd.run = hoard; }

/* ---- the mutants */

static const struct weft_mutant mutants[] = {
    {"M1 is not wired in", "m1=yes", NULL, WEFT_GATE_LIVE, "m1=yes has an effect", unwire_m1},
    {"M2 is not wired in", "m2=yes", NULL, WEFT_GATE_LIVE, "m2=yes has an effect", unwire_m2},
    {"M3 is not wired in", "attn=latent latent_width=12 m3=yes", NULL, WEFT_GATE_LIVE, "m3=yes has an effect",
     unwire_m3},
    {"a weight that nothing uses", "ffn=gelu", NULL, WEFT_GATE_LIVE, "every weight has a gradient", declare_spare},
    {"per_head_scalar gives zeros", "attn=latent latent_width=12 m3=yes m3_tying=per_head_scalar", NULL, WEFT_GATE_LIVE,
     "every weight has a gradient", zero_buckets},
    {"the z-loss has no gradient", "logits_z=0.01", NULL, WEFT_GATE_LIVE, "logits_z=0.01 has an effect", detach_z},
    {"keys are rotated, queries are not", "pos=rope", NULL, WEFT_GATE_LIVE, "only distances between positions",
     leave_queries},
    {"M1 reads the mean of the whole sequence", "m1=yes", "m1_mode=sequence", WEFT_GATE_CAUSAL,
     "when later tokens change", NULL},
    {"the mask is one off", "attn=full", NULL, WEFT_GATE_CAUSAL, "when later tokens change", shift_mask},
    {"the mask is a finite number", "attn=full", NULL, WEFT_GATE_CAUSAL, "when later tokens change, matrices x 1000",
     mask_by_constant},
    {"the k largest of one more", "m2=yes m2_select=topk", NULL, WEFT_GATE_CAUSAL, "when later tokens change",
     shift_routes},
    {"a root mean square over what comes later", "m2=yes m2_select=rms", NULL, WEFT_GATE_CAUSAL,
     "when later tokens are missing", pad_rms},
    {"the cache is written one row late", "attn=full", NULL, WEFT_GATE_CACHED, "rows that differ", shift_cache},
    {"a sum in the order of threads", "ffn=gelu", NULL, WEFT_GATE_EXACT, "tensors that differ", unorder},
    {"a derivative a thousandth off", "ffn=gelu", NULL, WEFT_GATE_GRADIENT, "against differences", misderive},
    {"memory that was not planned", "ffn=gelu", NULL, WEFT_GATE_ACCOUNTED, "memory of a step", book_nothing},
};

const struct weft_mutant *weft_mutant_at(int i)
{
    return i < (int)(sizeof mutants / sizeof *mutants) ? &mutants[i] : NULL;
}

struct findings {
    const char *check; /* the one that must fail */
    bool found;
    char *message; /* of 400 bytes */
};

static void note(void *context, const struct weft_check *c)
{
    struct findings *f = context;
    if (c->passed || f->found)
        return;
    f->found = strstr(c->name, f->check) != NULL;
    snprintf(f->message, 400, "%s: %s: %.3g, limit %.3g; %s", c->gate, c->name, c->figure, c->limit, c->where);
}

static enum weft_status look(const struct weft_mutant *m, const char *settings, struct weft_gates *report)
{
    struct weft_spec spec;
    enum weft_status status = weft_combination_spec(&spec, settings, WEFT_F32);
    if (status == WEFT_OK)
        status = weft_gates_run(&spec, 1u << m->gate, report);
    weft_spec_release(&spec);
    return status;
}

enum weft_status weft_mutant_run(const struct weft_mutant *m, bool *caught, char message[400])
{
    char settings[256];
    struct findings sound = {.check = m->check, .message = message}, broken = sound;
    struct weft_gates before = {.on_check = note, .context = &sound}, after = {.on_check = note, .context = &broken};
    *caught = false;
    message[0] = '\0';
    TRY(look(m, m->settings, &before));
    if (before.failed)
        return WEFT_OK;
    snprintf(settings, sizeof settings, "%s%s%s", m->settings, m->broken ? " " : "", m->broken ? m->broken : "");
    if (m->install)
        m->install();
    enum weft_status status = look(m, settings, &after);
    restore();
    *caught = broken.found;
    if (status == WEFT_OK && after.failed == 0)
        snprintf(message, 400, "nothing failed");
    return status;
}
