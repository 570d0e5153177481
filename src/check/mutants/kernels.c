/* SPDX-License-Identifier: MIT
 *
 * kernels.c - mutants of kernels: the cache, threads, derivatives, memory, late positions, single dtypes.
 */
#include "check/mutants/mutants.h"

#include <stdlib.h>

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

static void store_late_run(const struct weft_call *call) { store_late(call, weft_sound_op(WEFT_OP_store)->fwd.run); }
static void store_late_ref(const struct weft_call *call) { store_late(call, weft_sound_op(WEFT_OP_store)->fwd.ref); }
static void shift_cache(void)
{
    struct weft_op *op = weft_break_op(WEFT_OP_store);
    op->fwd.run = store_late_run;
    op->fwd.ref = store_late_ref;
}

static void scale_by(struct weft_tensor *t, double factor)
{
    for (int64_t i = 0; t && i < weft_tensor_count(t); i++)
        weft_tensor_set(t, i, factor * weft_tensor_get(t, i));
}

/* Simulates a sum whose order, and therefore rounding, depends on the number of threads. */
static void depend_on_threads(const struct weft_call *call)
{
    weft_sound_op(WEFT_OP_gelu)->fwd.run(call);
    scale_by(call->out[0], 1 + 1e-6 * weft_threads());
}

static void unorder(void) { weft_break_op(WEFT_OP_gelu)->fwd.run = depend_on_threads; }

/* The same defect as above, but only with many rows and, in the second variant, only in the derivative. */
enum { MANY_ROWS = 1500, MORE_ROWS = 1100 };

static void depend_on_many(const struct weft_call *call)
{
    weft_sound_op(WEFT_OP_gelu)->fwd.run(call);
    if (weft_tensor_rows(call->out[0]) > MANY_ROWS)
        scale_by(call->out[0], 1 + 1e-6 * weft_threads());
}

static void unorder_many(void) { weft_break_op(WEFT_OP_gelu)->fwd.run = depend_on_many; }

static void depend_on_more(const struct weft_call *call)
{
    weft_sound_op(WEFT_OP_swiglu)->bwd.run(call);
    if (call->gin[0] && weft_tensor_rows(call->gin[0]) > MORE_ROWS)
        scale_by(call->gin[0], 1 + 1e-6 * (weft_threads() > 1));
}

static void unorder_more(void) { weft_break_op(WEFT_OP_swiglu)->bwd.run = depend_on_more; }

/* Simulates a kernel that is written separately for each instruction-set level and gives different bits at each. */
static void depend_on_level(const struct weft_call *call)
{
    weft_sound_op(WEFT_OP_gelu)->fwd.run(call);
    scale_by(call->out[0], 1 + 1e-6 * (double)weft_isa());
}

static void divide_levels(void) { weft_break_op(WEFT_OP_gelu)->fwd.run = depend_on_level; }

static void almost_gradient_run(const struct weft_call *call)
{
    weft_sound_op(WEFT_OP_gelu)->bwd.run(call);
    scale_by(call->gin[0], 0.999);
}

static void almost_gradient_ref(const struct weft_call *call)
{
    weft_sound_op(WEFT_OP_gelu)->bwd.ref(call);
    scale_by(call->gin[0], 0.999);
}

static void misderive(void)
{
    struct weft_op *op = weft_break_op(WEFT_OP_gelu);
    op->bwd.run = almost_gradient_run;
    op->bwd.ref = almost_gradient_ref;
}

/* Allocates memory that was not planned and keeps it until the process ends. */
static void hoard(const struct weft_call *call)
{
    static void *hoarded;
    enum { BYTES = 8 << 20 };
    weft_sound_op(WEFT_OP_embed)->fwd.run(call);
    if (!hoarded)
        hoarded = weft_pages_alloc(BYTES);
}

static void book_nothing(void) { weft_break_op(WEFT_OP_embed)->fwd.run = hoard; }

/* Reduces positions, the second i32 vector of attention, modulo the tile, so that a row reads at most one tile. */
static void read_one_tile(const struct weft_call *call)
{
    struct weft_call few = *call;
    int at = 0, vectors = 0;
    for (int i = 1; i < WEFT_MAX_ARGS && !at; i++)
        if (call->in[i] && call->in[i]->dtype == WEFT_I32 && call->in[i]->ndim == 1 && vectors++ == 1)
            at = i;
    struct weft_tensor pos = *call->in[at];
    int64_t n = weft_tensor_count(&pos);
    int32_t *copy = malloc((size_t)n * sizeof *copy + 1);
    for (int64_t i = 0; copy && i < n; i++)
        copy[i] = ((const int32_t *)pos.data)[i] % WEFT_KEY_TILE;
    pos.data = copy;
    few.in[at] = &pos;
    if (copy)
        weft_sound_op(WEFT_OP_attention)->fwd.run(&few);
    free(copy);
}

static void forget_tiles(void) { weft_break_op(WEFT_OP_attention)->fwd.run = read_one_tile; }

static double half_flops(const struct weft_call *call) { return weft_sound_op(WEFT_OP_linear)->fwd.flops(call) / 2; }
static void declare_half(void) { weft_break_op(WEFT_OP_linear)->fwd.flops = half_flops; }

static void multiply_twice(const struct weft_call *call)
{
    weft_sound_op(WEFT_OP_linear)->fwd.run(call);
    if (!call->in[3]) /* an addend may share the memory of the result */
        weft_sound_op(WEFT_OP_linear)->fwd.run(call);
}
static void work_twice(void) { weft_break_op(WEFT_OP_linear)->fwd.run = multiply_twice; }

/* Never predicts a token of 256 or more. Predictions are the fourth output. */
static void predict_few(const struct weft_call *call, void (*kernel)(const struct weft_call *))
{
    enum { PREDICTION = 3, TOKENS = 256 };
    const struct weft_tensor *out = call->out[PREDICTION];
    kernel(call);
    for (int64_t i = 0; i < weft_tensor_count(out); i++)
        ((int32_t *)out->data)[i] %= TOKENS;
}
static void predict_few_run(const struct weft_call *call)
{
    predict_few(call, weft_sound_op(WEFT_OP_cross_entropy)->fwd.run);
}
static void predict_few_back(const struct weft_call *call)
{
    predict_few(call, weft_sound_op(WEFT_OP_cross_entropy)->bwd.run);
}
static void forget_tokens(void)
{
    struct weft_op *op = weft_break_op(WEFT_OP_cross_entropy);
    op->fwd.run = predict_few_run;
    op->bwd.run = predict_few_back;
}

const struct weft_mutant weft_mutants_kernels[] = {
    {"attention reads only one tile of keys", "context=200", .gate = WEFT_GATE_GRADIENT,
     .check = "against f64 (2 layers", .install = forget_tiles},
    {"products declare half of their FLOPs", "ffn=gelu", .gate = WEFT_GATE_ACCOUNTED, .check = "beside these",
     .install = declare_half},
    {"products are computed twice", "ffn=gelu", .gate = WEFT_GATE_ACCOUNTED,
     .check = "multiply-adds of products, counted", .install = work_twice},
    {"token ids above 255 are never predicted", "vocab=300", .gate = WEFT_GATE_CAUSAL, .check = "EVAL's predictions",
     .install = forget_tokens},
    {"the cache is written one row late", "attn=full", .gate = WEFT_GATE_CACHED, .check = "rows that differ",
     .install = shift_cache},
    {"a sum in the order of threads", "ffn=gelu", .gate = WEFT_GATE_EXACT, .check = "tensors that differ",
     .install = unorder},
    {"a sum of more than 1500 rows in the order of threads", "ffn=gelu context=40 batch=72", .gate = WEFT_GATE_EXACT,
     .check = "of the model itself that differ with", .install = unorder_many},
    {"a derivative of more than 1100 rows in the order of threads", "ffn=swiglu context=24 batch=64",
     .gate = WEFT_GATE_EXACT, .check = "of the model itself that differ with", .install = unorder_more},
    {"a sum that depends on the instruction set", "ffn=gelu", .gate = WEFT_GATE_EXACT, .check = "differ at level",
     .install = divide_levels, .levels = true},
    {"a derivative is off by a thousandth", "ffn=gelu", .gate = WEFT_GATE_GRADIENT, .check = "against differences",
     .install = misderive},
    {"memory that was not planned", "ffn=gelu", .gate = WEFT_GATE_ACCOUNTED, .check = "memory of a step",
     .install = book_nothing},
    {0},
};
