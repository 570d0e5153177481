/* SPDX-License-Identifier: MIT
 *
 * bare.c - oneDNN's matmuls for benchmarks: one matmul in one of oneDNN's formulations, with all threads and in any
 * order of summation.
 *
 * Weights have the layout of a model, W [n,k]; activations X [m,k] and gradients dY [m,n] are row-major. Formulations:
 *   0  matmul, every operand in its own layout   Y = X W^t     dX = dY W     dW = dY^t X
 *   1  matmul, second operand in oneDNN's preferred format
 *   2  inner product, all operands in plain formats
 *   3  inner product, all operands in oneDNN's preferred formats
 *   4  matmul, the transposed operand first copied to row-major order (for dX: W to column-major order)
 * A run includes the overhead of each matmul in a training step: reordering activations and gradients. Weights are
 * reordered at creation, because a step reorders them only once. dW stays in oneDNN's preferred layout, because sums
 * over micro-batches may be kept in that layout. Y and dX have the operands' dtype, dW is f32. With batch > 1
 * (attention) both operands are activations, and there is no inner product.
 */
#include "dnn/onednn/onednn.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_STEPS = 4, MAX_MEMORIES = 12 };

struct step {
    dnnl_primitive_t primitive;
    int count;
    dnnl_exec_arg_t args[3];
};

struct bare {
    struct weft_dnn_bare face;
    enum weft_bare_product product;
    int how;
    dnnl_data_type_t type;
    int64_t m, n, k, batch;
    int threads;
    dnnl_engine_t cpu;
    dnnl_stream_t stream;
    struct step steps[MAX_STEPS];
    int step_count;
    dnnl_memory_t memories[MAX_MEMORIES];
    int memory_count;
};

/* ---- memory */

static enum weft_status memory(struct bare *b, const dnnl_memory_desc_t *md, dnnl_memory_t *mem)
{
    DNNL(dnnl_memory_create(mem, md, b->cpu, DNNL_MEMORY_ALLOCATE));
    b->memories[b->memory_count++] = *mem;
    return WEFT_OK;
}

/* Creates a plain matrix [batch, rows, columns], stored transposed if `across`, filled with values in (-1, 1). */
static enum weft_status operand(struct bare *b, int64_t rows, int64_t columns, bool across, dnnl_memory_desc_t *md,
                                dnnl_memory_t *mem)
{
    int64_t row = across ? 1 : columns, column = across ? rows : 1;
    int skip = b->batch == 1;
    dnnl_dims_t dims = {b->batch, rows, columns}, strides = {rows * columns, row, column};
    DNNL(dnnl_memory_desc_init_by_strides(md, 3 - skip, dims + skip, b->type, strides + skip));
    TRY(memory(b, md, mem));
    void *data;
    DNNL(dnnl_memory_get_data_handle(*mem, &data));
    for (int64_t i = 0; i < b->batch * rows * columns; i++) {
        float x = (float)((uint32_t)i * 2654435761u >> 8) / 8388608.0f - 1.0f;
        if (b->type == dnnl_bf16)
            ((uint16_t *)data)[i] = weft_bf16_from_f32(x);
        else
            ((float *)data)[i] = x;
    }
    return WEFT_OK;
}

static enum weft_status add_step(struct bare *b, dnnl_primitive_desc_t pd, int count, const dnnl_exec_arg_t *args)
{
    struct step *s = &b->steps[b->step_count];
    DNNL(dnnl_primitive_create(&s->primitive, pd));
    s->count = count;
    for (int i = 0; i < count; i++)
        s->args[i] = args[i];
    b->step_count++;
    return WEFT_OK;
}

static enum weft_status execute(struct bare *b, const struct step *s)
{
    DNNL(dnnl_primitive_execute(s->primitive, b->stream, s->count, s->args));
    DNNL(dnnl_stream_wait(b->stream));
    return WEFT_OK;
}

/* Reorders `mem` to the format `want`: in every run or, for weights, immediately and only once. */
static enum weft_status reorder(struct bare *b, dnnl_memory_t *mem, const dnnl_memory_desc_t *have,
                                const dnnl_memory_desc_t *want, bool weights)
{
    if (dnnl_memory_desc_equal(have, want))
        return WEFT_OK;
    dnnl_memory_t from = *mem;
    TRY(memory(b, want, mem));
    dnnl_primitive_desc_t pd;
    DNNL(dnnl_reorder_primitive_desc_create(&pd, have, b->cpu, want, b->cpu, NULL));
    enum weft_status status = add_step(b, pd, 2, (dnnl_exec_arg_t[]){{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, *mem}});
    dnnl_primitive_desc_destroy(pd);
    TRY(status);
    if (weights) {
        TRY(execute(b, &b->steps[--b->step_count]));
        dnnl_primitive_destroy(b->steps[b->step_count].primitive);
    }
    return WEFT_OK;
}

static void name(struct bare *b, const_dnnl_primitive_desc_t pd)
{
    static const char *const formulations[] = {"matmul plain", "matmul packed", "inner product plain",
                                               "inner product any", "matmul transposed first"};
    const char *implementation = "?";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &implementation);
    snprintf(b->face.name, sizeof b->face.name, "%s (%s)", formulations[b->how], implementation);
}

/* ---- formulations */

static enum weft_status relaid(const dnnl_memory_desc_t *md, bool across, dnnl_memory_desc_t *want)
{
    int n = md->ndims;
    dnnl_dims_t strides = {md->dims[n - 2] * md->dims[n - 1], 0, 0};
    strides[n - 2] = across ? 1 : md->dims[n - 1];
    strides[n - 1] = across ? md->dims[n - 2] : 1;
    DNNL(dnnl_memory_desc_init_by_strides(want, n, md->dims, md->data_type, strides));
    return WEFT_OK;
}

/* Creates dst [rows, columns] = a [rows, depth] w [depth, columns]. The operand w is a weight matrix unless the matmul
 * is batched or computes dW. */
static enum weft_status create_matmul(struct bare *b)
{
    bool y = b->product == WEFT_BARE_Y, dw = b->product == WEFT_BARE_DW, weights = !dw && b->batch == 1;
    int64_t rows = dw ? b->n : b->m, depth = y ? b->k : dw ? b->m : b->n, columns = y ? b->n : b->k;
    dnnl_memory_desc_t a_md, w_md, dst_md;
    dnnl_memory_t a, w, dst;
    TRY(operand(b, rows, depth, dw, &a_md, &a));
    TRY(operand(b, depth, columns, y, &w_md, &w));
    int skip = b->batch == 1;
    dnnl_dims_t dims = {b->batch, rows, columns};
    DNNL(dnnl_memory_desc_init_by_tag(&dst_md, 3 - skip, dims + skip, dw ? dnnl_f32 : b->type,
                                      skip ? dnnl_ab : dnnl_abc));
    TRY(memory(b, &dst_md, &dst));
    dnnl_memory_desc_t a_want = a_md, w_want = w_md;
    if (b->how == 1)
        DNNL(dnnl_memory_desc_init_by_tag(&w_want, w_md.ndims, w_md.dims, b->type, dnnl_format_tag_any));
    if (b->how == 4)
        TRY(dw ? relaid(&a_md, false, &a_want) : relaid(&w_md, !y, &w_want));
    dnnl_matmul_desc_t desc;
    DNNL(dnnl_matmul_desc_init(&desc, &a_want, &w_want, NULL, &dst_md));
    dnnl_primitive_desc_t pd;
    DNNL(dnnl_primitive_desc_create(&pd, &desc, NULL, b->cpu, NULL));
    enum weft_status status = reorder(b, &a, &a_md, &a_want, false);
    if (status == WEFT_OK)
        status = reorder(b, &w, &w_md, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), weights);
    if (status == WEFT_OK)
        status = add_step(b, pd, 3, (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, dst}});
    name(b, pd);
    dnnl_primitive_desc_destroy(pd);
    return status;
}

static enum weft_status create_inner_desc(struct bare *b, const dnnl_memory_desc_t md[3], dnnl_primitive_desc_t *pd)
{
    dnnl_memory_desc_t want[3] = {md[0], md[1], md[2]};
    for (int i = 0; b->how == 3 && i < 3; i++)
        DNNL(dnnl_memory_desc_init_by_tag(&want[i], 2, md[i].dims, md[i].data_type, dnnl_format_tag_any));
    dnnl_inner_product_desc_t forward, desc;
    dnnl_primitive_desc_t hint;
    dnnl_memory_desc_t plain_weights = want[1];
    plain_weights.data_type = b->type; /* because the forward inner product does not accept an f32 weight gradient */
    DNNL(dnnl_inner_product_forward_desc_init(&forward, dnnl_forward_training, &want[0], &plain_weights, NULL,
                                              &want[2]));
    DNNL(dnnl_primitive_desc_create(&hint, &forward, NULL, b->cpu, NULL));
    if (b->product == WEFT_BARE_Y) {
        *pd = hint;
        return WEFT_OK;
    }
    dnnl_status_t status =
        b->product == WEFT_BARE_DX
            ? dnnl_inner_product_backward_data_desc_init(&desc, &want[0], &want[1], &want[2])
            : dnnl_inner_product_backward_weights_desc_init(&desc, &want[0], &want[1], NULL, &want[2]);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(pd, &desc, NULL, b->cpu, hint);
    dnnl_primitive_desc_destroy(hint);
    DNNL(status);
    return WEFT_OK;
}

static enum weft_status add_inner(struct bare *b, dnnl_primitive_desc_t pd, dnnl_memory_t mem[3],
                                  const dnnl_memory_desc_t md[3])
{
    static const dnnl_query_t queries[3][3] = {{dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
                                               {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
                                               {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}};
    static const int names[3][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                    {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                    {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
    static const int results[3] = {2, 0, 1};
    int result = results[b->product];
    dnnl_exec_arg_t args[3];
    const dnnl_memory_desc_t *likes[3];
    for (int i = 0; i < 3; i++) {
        likes[i] = dnnl_primitive_desc_query_md(pd, queries[b->product][i], 0);
        if (i == result)
            TRY(memory(b, likes[i], &mem[i]));
        else
            TRY(reorder(b, &mem[i], &md[i], likes[i], i == 1));
        args[i] = (dnnl_exec_arg_t){names[b->product][i], mem[i]};
    }
    TRY(add_step(b, pd, 3, args));
    if (result != 1)
        TRY(reorder(b, &mem[result], likes[result], &md[result], false));
    name(b, pd);
    return WEFT_OK;
}

static enum weft_status create_inner(struct bare *b)
{
    if (b->batch > 1)
        return FAIL(WEFT_UNSUPPORTED, "a batched matmul has no inner-product formulation");
    dnnl_memory_desc_t md[3]; /* x, w, y, or their gradients */
    dnnl_memory_t mem[3];
    TRY(operand(b, b->m, b->k, false, &md[0], &mem[0]));
    TRY(operand(b, b->n, b->k, false, &md[1], &mem[1]));
    TRY(operand(b, b->m, b->n, false, &md[2], &mem[2]));
    if (b->product == WEFT_BARE_DW)
        md[1].data_type = dnnl_f32;
    dnnl_primitive_desc_t pd = NULL;
    TRY(create_inner_desc(b, md, &pd));
    enum weft_status status = add_inner(b, pd, mem, md);
    dnnl_primitive_desc_destroy(pd);
    return status;
}

/* ---- the interface */

static enum weft_status create(struct bare *b)
{
    if (b->how < 0 || b->how > 4)
        return FAIL(WEFT_UNSUPPORTED, "there is no formulation %d: expected 0 to 4", b->how);
    TRY(weft_dnn_onednn_cpu(&b->cpu));
    DNNL(dnnl_stream_create(&b->stream, b->cpu, dnnl_stream_default_flags));
    return b->how == 2 || b->how == 3 ? create_inner(b) : create_matmul(b);
}

static enum weft_status run(struct weft_dnn_bare *face)
{
    struct bare *b = (struct bare *)face;
    omp_set_num_threads(b->threads);
    for (int i = 0; i < b->step_count; i++)
        TRY(execute(b, &b->steps[i]));
    return WEFT_OK;
}

static void release(struct weft_dnn_bare *face)
{
    struct bare *b = (struct bare *)face;
    for (int i = 0; i < b->step_count; i++)
        dnnl_primitive_destroy(b->steps[i].primitive);
    for (int i = 0; i < b->memory_count; i++)
        dnnl_memory_destroy(b->memories[i]);
    dnnl_stream_destroy(b->stream);
    free(b);
}

enum weft_status weft_dnn_onednn_bare(struct weft_dnn_bare **bare, const struct weft_product *p, int how,
                                      enum weft_dtype dtype)
{
    struct bare *b = calloc(1, sizeof *b);
    if (!b)
        return FAIL(WEFT_NOMEM, "not enough memory for a bare matmul");
    *b = (struct bare){.face = {.run = run, .free = release},
                       .product = p->kind,
                       .how = how,
                       .type = weft_dnn_onednn_type(dtype),
                       .m = p->m,
                       .n = p->n,
                       .k = p->k,
                       .batch = p->batch,
                       .threads = weft_threads()};
    omp_set_num_threads(b->threads);
    enum weft_status status = create(b);
    if (status != WEFT_OK) {
        release(&b->face);
        return status;
    }
    *bare = &b->face;
    return WEFT_OK;
}
