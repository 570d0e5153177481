/* SPDX-License-Identifier: MIT
 *
 * masks.c - mutants whose attention or routes see later tokens.
 */
#include "check/mutants/mutants.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* Returns the index of the input that contains the positions. It is the second i32 vector with one element per row; the
 * first contains the sequences. */
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

/* Adds one to a row's position, if the sequence has such a position, so that the kernel lets the row see one later
 * key. */
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

static enum weft_op_id looking;

static void look_ahead_run(const struct weft_call *call) { look_ahead(call, weft_sound_op(looking)->fwd.run); }
static void look_ahead_ref(const struct weft_call *call) { look_ahead(call, weft_sound_op(looking)->fwd.ref); }

static void break_mask(enum weft_op_id id)
{
    struct weft_op *op = weft_break_op(looking = id);
    op->fwd.run = look_ahead_run;
    op->fwd.ref = look_ahead_ref;
}

static void shift_mask(void) { break_mask(WEFT_OP_attention); }
static void shift_routes(void) { break_mask(WEFT_OP_route); }

/* Attention in plain loops. Inputs: q, k [M, H D], v or (routes) u [M, any], then seq, pos, and (routes) lse [M, H]. */
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

/* Makes the output as wide as v. */
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

static void mask_by_constant(void) { WEFT_BREAK_PART(weft_attn, weft_attn_full)->build = build_finite_mask; }

/* Routes are selected by their root mean square over the whole sequence, padded with zeros, which depends on later
 * tokens. */
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
        length += same_sequence(call, i, j); /* should count only visible tokens */
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

static void pad_rms(void) { WEFT_BREAK_PART(weft_mechanism, weft_recip_m2)->hidden = hidden_padded_rms; }

const struct weft_mutant weft_mutants_masks[] = {
    {"M1 reads the mean of the whole sequence", "m1=yes", "m1_mode=sequence", .gate = WEFT_GATE_CAUSAL,
     .check = "when later tokens change"},
    {"the mask is off by one", "attn=full", .gate = WEFT_GATE_CAUSAL, .check = "when later tokens change",
     .install = shift_mask},
    {"the mask is a finite number", "attn=full", .gate = WEFT_GATE_CAUSAL,
     .check = "when later tokens change, matrices x 1000", .install = mask_by_constant, .twin_only = true},
    {"the k largest of one key too many", "m2=yes m2_select=topk", .gate = WEFT_GATE_CAUSAL,
     .check = "when later tokens change", .install = shift_routes},
    {"a root mean square over later weights", "m2=yes m2_select=rms", .gate = WEFT_GATE_CAUSAL,
     .check = "when later tokens are missing", .install = pad_rms, .twin_only = true},
    {0},
};
