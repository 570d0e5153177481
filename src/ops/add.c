/* SPDX-License-Identifier: MIT
 *
 * add - y = a + b, elementwise, f32 or bf16 each. y is f32 if either input is, so the residual stream stays f32 for any
 * type of the addend. May run in place on a. Both inputs get y's gradient unchanged.
 *
 * The backward kernel, da += dy, is not this op's derivative; the graph uses it to add a gradient to a buffer.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

static double exact(double a, double b) { return a + b; }
VINLINE vf value(vf a, vf b) { return a + b; }
static struct weft_atom *form(struct weft_form *f, struct weft_atom *a, struct weft_atom *b)
{
    return weft_add_of(f, a, b);
}

#define BUILDER weft_add
#include "ops/binary_inl.h"

static void bwd_ref(const struct weft_call *call)
{
    const double *dy = call->gout[0]->data;
    double *da = call->gin[0]->data;
    int64_t n = weft_tensor_count(call->gin[0]);
    for (int64_t i = 0; i < n; i++)
        da[i] += dy[i];
}

static void bwd_tile(const struct weft_call *call, int64_t first, int64_t n)
{
    const struct weft_tensor *dy = call->gout[0];
    float *da = call->gin[0]->data;
    for (int64_t i = first; i < n; i += VLANES)
        vstore_f32(da + i, n - i, vload_f32(da + i, n - i) + vload(dy->data, dy->dtype, i, n));
}

static void bwd(const struct weft_call *call)
{
    weft_tiles_run(call, weft_tensor_count(call->gout[0]), TILE, bwd_tile);
}

static void grad(struct weft_graph *g, struct weft_node *node, struct weft_grads *grads)
{
    (void)node;
    for (int i = 0; i < 2; i++)
        if (weft_grad_wanted(grads, i))
            weft_grad_add(grads, i, weft_cast(g, weft_grad_out(grads, 0), weft_grad_dtype(grads, i)));
}

const struct weft_op WEFT_OP(add) = {
    .name = "add",
    .summary = "y = a + b",
    .bwd = {.run = bwd, .ref = bwd_ref},
    .grad = grad,
    .accumulates = 1,
    BINARY_FIELDS,
};

struct weft_value *weft_add(struct weft_graph *g, struct weft_value *a, struct weft_value *b)
{
    return weft_emit(g, WEFT_SELF(add), NULL, 2, (struct weft_value *[]){a, b});
}
