/* SPDX-License-Identifier: MIT
 *
 * mul - y = a * b, elementwise, f32 or bf16 each; y is f32 if either input is. May run in place on a.
 *
 * The gradients, dy * b and dy * a, are nodes of this op.
 */
#include "base/vmath_inl.h"
#include "ops/ops.h"

static double exact(double a, double b) { return a * b; }
VINLINE vf value(vf a, vf b) { return a * b; }
static struct weft_atom *form(struct weft_form *f, struct weft_atom *a, struct weft_atom *b)
{
    return weft_mul_of(f, a, b);
}

#define BUILDER weft_mul
#include "ops/binary_inl.h"

static void grad(struct weft_graph *g, struct weft_node *node, struct weft_grads *grads)
{
    for (int i = 0; i < 2; i++)
        if (weft_grad_wanted(grads, i)) {
            struct weft_value *product = weft_mul(g, weft_grad_out(grads, 0), node->in[1 - i]);
            weft_grad_add(grads, i, weft_cast(g, product, weft_grad_dtype(grads, i)));
        }
}

const struct weft_op WEFT_OP(mul) = {
    .name = "mul",
    .summary = "y = a * b",
    .grad = grad,
    BINARY_FIELDS,
};

struct weft_value *weft_mul(struct weft_graph *g, struct weft_value *a, struct weft_value *b)
{
    return weft_emit(g, WEFT_SELF(mul), NULL, 2, (struct weft_value *[]){a, b});
}
