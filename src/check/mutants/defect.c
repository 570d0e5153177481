/* SPDX-License-Identifier: MIT
 *
 * defect.c - an op that is the identity except for one defect, and parts that use it in one place.
 *
 *     y_i = x_i                           at positions without the defect
 *     y_i = factor x_i                    or, instead of factor, a number that depends on the batch
 *     y_i = x_i + factor x_j              j: the next row, the previous one, or a row of a different sequence
 *
 * Its derivative is the transposed map. With WEFT_IN_FAST only the training kernels have the defect, so the f64
 * reference computes the intended result.
 */
#include "check/mutants/mutants.h"

#include <stdio.h>
#include <string.h>

/* ---- the op */

enum { X, SEQ, POS, INPUTS };

static enum weft_status shape(struct weft_node *node)
{
    return weft_node_output(node, 0, node->in[X]->dtype, node->in[X]->shape);
}

static int32_t at(const struct weft_call *call, int input, int64_t row)
{
    return ((const int32_t *)call->in[input]->data)[row];
}

/* Returns the row that is added to row i, or -1. */
static int64_t other_row(const struct weft_call *call, const struct weft_defect *d, int64_t i)
{
    int64_t rows = weft_tensor_count(call->in[SEQ]), j = d->kind == WEFT_SEES_LATER ? i + 1 : i - 1;
    if (d->kind == WEFT_SEES_LATER || d->kind == WEFT_SEES_BEFORE)
        return j >= 0 && j < rows && at(call, SEQ, j) == at(call, SEQ, i) ? j : -1;
    for (j = 0; d->kind == WEFT_SEES_OTHER && j < rows; j++)
        if (at(call, SEQ, j) != at(call, SEQ, i) && at(call, POS, j) == at(call, POS, i))
            return j;
    return -1;
}

static double factor_of(const struct weft_call *call, const struct weft_defect *d, int64_t i)
{
    switch (d->kind) {
    case WEFT_SCALES:
        return d->factor;
    case WEFT_SEES_PLACE:
        return 1 + d->factor * at(call, SEQ, i);
    case WEFT_SEES_ROWS:
        return 1 + d->factor * (double)weft_tensor_count(call->in[SEQ]);
    default:
        return 1;
    }
}

/* Computes y = A x or, if `transposed` is set, y = A^T x. */
static void apply(const struct weft_call *call, const struct weft_tensor *x, struct weft_tensor *y, bool transposed)
{
    const struct weft_defect *d = call->attr;
    int64_t rows = weft_tensor_rows(x), width = weft_tensor_width(x);
    memmove(y->data, x->data, (size_t)(rows * width) * weft_dtype_bytes(x->dtype));
    for (int64_t i = 0; i < rows; i++) {
        int64_t pos = at(call, POS, i), j = other_row(call, d, i);
        if (pos < d->from || (d->until && pos >= d->until))
            continue;
        for (int64_t c = 0; c < width; c++) {
            int64_t to = transposed && j >= 0 ? j : i, from = !transposed && j >= 0 ? j : i;
            double add = j >= 0 ? d->factor * weft_tensor_get(x, from * width + c) : 0;
            weft_tensor_set(y, to * width + c, factor_of(call, d, i) * weft_tensor_get(y, to * width + c) + add);
        }
    }
}

static void copy(const struct weft_tensor *x, struct weft_tensor *y)
{
    if (y->data != x->data)
        memcpy(y->data, x->data, (size_t)weft_tensor_count(x) * weft_dtype_bytes(x->dtype));
}

static enum weft_defect_in in_of(const struct weft_call *call) { return ((const struct weft_defect *)call->attr)->in; }

static void run(const struct weft_call *call)
{
    if (in_of(call) == WEFT_IN_BACKWARD || in_of(call) == WEFT_IN_FAST_BACKWARD)
        copy(call->in[X], call->out[0]);
    else
        apply(call, call->in[X], call->out[0], false);
}

static void ref(const struct weft_call *call)
{
    if (in_of(call) == WEFT_IN_ALL)
        apply(call, call->in[X], call->out[0], false);
    else
        copy(call->in[X], call->out[0]);
}

static void bwd_run(const struct weft_call *call) { apply(call, call->gout[0], call->gin[X], true); }

static void bwd_ref(const struct weft_call *call)
{
    if (in_of(call) == WEFT_IN_ALL || in_of(call) == WEFT_IN_BACKWARD)
        apply(call, call->gout[0], call->gin[X], true);
    else
        copy(call->gout[0], call->gin[X]);
}

static const struct weft_op defect = {
    .name = "defect",
    .attr_bytes = sizeof(struct weft_defect),
    .shape = shape,
    .fwd = {.run = run, .ref = ref},
    .bwd = {.run = bwd_run, .ref = bwd_ref},
    .bwd_reads_in = 1u << SEQ | 1u << POS,
    .differentiable = 1u << X,
};

/* ---- the place of the defect */

static const struct weft_place *place;

static struct weft_value *spoil(struct weft_build *b, struct weft_value *x, enum weft_defect_site site)
{
    bool here = site == place->site && b->layer >= place->layer && (!place->uses || place->uses >> b->use & 1);
    here = here && (!place->only_bf16 || b->spec->compute == WEFT_BF16);
    here = here && (!place->only_grouped || b->spec->kv_heads != b->spec->heads);
    if (!here || !x)
        return x;
    struct weft_value *in[INPUTS] = {x, b->rows.seq, b->rows.pos};
    struct weft_node *node = weft_graph_emit(b->g, &defect, &place->defect, INPUTS, in);
    return node ? node->out[0] : NULL;
}

static struct weft_value *hidden(struct weft_build *b, const void *options, struct weft_value *x)
{
    return spoil(b, weft_ffn_gelu.build(b, options, x), WEFT_AT_HIDDEN);
}

static struct weft_value *heads(struct weft_build *b, const void *options, struct weft_value *x)
{
    return spoil(b, weft_attn_full.build(b, options, x), WEFT_AT_HEADS);
}

static struct weft_qk qk(struct weft_build *b, const void *options, const struct weft_qk_raw *raw, bool norms)
{
    struct weft_qk made = weft_geom_dot.qk(b, options, raw, norms);
    made.vectors = spoil(b, made.vectors, raw->side == WEFT_QUERY ? WEFT_AT_QUERIES : WEFT_AT_KEYS);
    return made;
}

static struct weft_value *norm(struct weft_build *b, const void *options, struct weft_value *x)
{
    bool last = strcmp(b->scope.text, "norm") == 0;
    return spoil(b, weft_norm_layernorm.build(b, options, x), last ? WEFT_AT_LAST_NORM : WEFT_AT_NORMS);
}

void weft_defect_name(const struct weft_place *where, char text[64])
{
    static const char *const parts[] = {
        [WEFT_AT_HIDDEN] = "ffn=gelu", [WEFT_AT_HEADS] = "attn=full",      [WEFT_AT_QUERIES] = "geom=dot",
        [WEFT_AT_KEYS] = "geom=dot",   [WEFT_AT_NORMS] = "norm=layernorm", [WEFT_AT_LAST_NORM] = "norm=layernorm"};
    if (where->site == WEFT_AT_LAST_NORM)
        snprintf(text, 64, "%s outside the layers", parts[where->site]);
    else
        snprintf(text, 64, "%s in layer %d", parts[where->site], where->layer);
}

void weft_defect_install(const struct weft_place *where)
{
    place = where;
    WEFT_BREAK_PART(weft_ffn, weft_ffn_gelu)->build = hidden;
    WEFT_BREAK_PART(weft_attn, weft_attn_full)->build = heads;
    WEFT_BREAK_PART(weft_geom, weft_geom_dot)->qk = qk;
    WEFT_BREAK_PART(weft_norm, weft_norm_layernorm)->build = norm;
}
