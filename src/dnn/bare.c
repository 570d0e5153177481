/* SPDX-License-Identifier: MIT
 *
 * bare.c - creates bare matmuls for benchmarks on the engine that models use, and selects the yardstick.
 *
 * Weights have the layout of a model, W [n,k], and are packed at creation. With batch > 1 (attention), both operands
 * are activations and packing is part of a run.
 */
#include "dnn/engine.h"

#include <stdio.h>
#include <stdlib.h>

struct own {
    struct weft_dnn_bare bare;
    struct weft_arena arena;
    struct weft_dnn_shape shape;
    enum weft_pack pack;
    int64_t rows;
    struct weft_dnn_product *product; /* exactly one of product and outer is set */
    struct weft_dnn_outer *outer;
    void *a, *b, *packed, *out, *scratch, *local;
    size_t local_stride;
    int threads;
};

static enum weft_status allocate(struct own *o, int64_t elements, enum weft_dtype dtype, void **to)
{
    size_t bytes;
    TRY(weft_size_mul((size_t)elements, weft_dtype_bytes(dtype), &bytes));
    *to = weft_arena_alloc(&o->arena, bytes);
    return *to ? WEFT_OK : WEFT_NOMEM;
}

/* Allocates an operand filled with values in (-1, 1). */
static enum weft_status operand(struct own *o, int64_t elements, void **to)
{
    TRY(allocate(o, elements, o->shape.dtype, to));
    for (int64_t i = 0; i < elements; i++)
        weft_tensor_set(&(struct weft_tensor){.data = *to, .dtype = o->shape.dtype}, i,
                        (double)((uint32_t)i * 2654435761u >> 8) * 0x1p-23 - 1);
    return WEFT_OK;
}

static enum weft_status run(struct weft_dnn_bare *bare)
{
    struct own *o = (struct own *)bare;
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, o->threads);
    if (o->product && o->shape.groups > 1)
        weft_dnn_pack(&o->shape, o->pack, o->b, o->shape.dtype, o->packed);
    if (o->product)
        weft_dnn_product_run(o->product, o->rows, o->a, o->packed, NULL, NULL, WEFT_F32, o->out, o->scratch, o->local,
                             o->local_stride);
    else
        weft_dnn_outer_run(o->outer, o->rows, o->a, o->b, o->out, o->scratch, o->local, o->local_stride);
    weft_threads_leave(&scope);
    return weft_deferred();
}

static void release(struct weft_dnn_bare *bare)
{
    weft_arena_release(&((struct own *)bare)->arena);
    free(bare);
}

static enum weft_status open(struct own *o, const struct weft_product *p, enum weft_dtype dtype)
{
    bool dx = p->kind == WEFT_BARE_DX, dw = p->kind == WEFT_BARE_DW;
    struct weft_dnn_shape *s = &o->shape;
    size_t scratch, local, packed;
    *s = (struct weft_dnn_shape){dtype, dx ? p->n : p->k, dx ? p->k : p->n, p->batch, p->batch > 1, p->m};
    o->pack = dx ? WEFT_PACK_DX : WEFT_PACK_Y;
    o->rows = p->m;
    TRY(operand(o, p->batch * p->m * (p->kind == WEFT_BARE_Y ? p->k : p->n), &o->a));
    TRY(operand(o, p->batch * p->k * (dw ? p->m : p->n), &o->b));
    TRY(allocate(o, p->batch * s->width * (dw ? s->depth : p->m), dw ? WEFT_F32 : dtype, &o->out));
    if (dw)
        TRY(weft_dnn_outer_plan(s, &o->arena, &o->outer, &scratch, &local));
    else
        TRY(weft_dnn_product_plan(s, dtype, &o->arena, &o->product, &scratch, &local));
    TRY(weft_dnn_pack_bytes(s, &packed));
    o->local_stride = (local + 63) / 64 * 64;
    o->packed = weft_arena_alloc(&o->arena, packed);
    o->scratch = weft_arena_alloc(&o->arena, scratch);
    o->local = weft_arena_alloc(&o->arena, o->local_stride * (size_t)o->threads);
    if (!o->packed || !o->scratch || !o->local)
        return WEFT_NOMEM;
    if (!dw)
        weft_dnn_pack(s, o->pack, o->b, dtype, o->packed);
    return weft_deferred();
}

enum weft_status weft_dnn_bare_own(struct weft_dnn_bare **bare, const struct weft_product *p, int how,
                                   enum weft_dtype dtype)
{
    if (how != 0)
        return FAIL(WEFT_UNSUPPORTED, "the engine's own matmuls have only one formulation");
    struct own *o = calloc(1, sizeof *o);
    if (!o)
        return FAIL(WEFT_NOMEM, "not enough memory for a bare matmul");
    o->bare = (struct weft_dnn_bare){.run = run, .free = release};
    o->threads = weft_threads();
    snprintf(o->bare.name, sizeof o->bare.name, "own (%s)", weft_dnn_describe());
    enum weft_status status = open(o, p, dtype);
    if (status != WEFT_OK) {
        release(&o->bare);
        return status;
    }
    *bare = &o->bare;
    return WEFT_OK;
}

enum weft_status weft_dnn_bare_create(struct weft_dnn_bare **bare, const struct weft_product *p, int how,
                                      enum weft_dtype dtype)
{
    return weft_dnn_rival ? weft_dnn_rival->bare(bare, p, how, dtype) : weft_dnn_bare_own(bare, p, how, dtype);
}

bool weft_dnn_bare_is_own(void) { return !weft_dnn_rival; }

const char *weft_dnn_bare_whose(void) { return weft_dnn_rival ? weft_dnn_rival->name : "own"; }
