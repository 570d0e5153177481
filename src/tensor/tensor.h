/* SPDX-License-Identifier: MIT
 *
 * tensor.h - element types, and tensors, which are the views of memory that kernels work on.
 *
 * Invariant: a tensor is contiguous and row-major. There are no strides; slicing is an op that copies.
 */
#ifndef WEFT_TENSOR_H
#define WEFT_TENSOR_H

#include "base/base.h"

#define WEFT_MAX_DIMS 4

struct weft_tensor {
    void *data;
    enum weft_dtype dtype;
    int ndim;
    int64_t dim[WEFT_MAX_DIMS]; /* outermost first */
};

/* A matmul that a kernel computes, for comparing a training step with its matmuls alone: y = x w^t, dx = dy w, or dw =
 * dy^t x, with x [m,k], w [n,k], y [m,n], `batch` times. `share` is the fraction of the result that is needed (half for
 * causal scores). */
enum weft_bare_product { WEFT_BARE_Y, WEFT_BARE_DX, WEFT_BARE_DW };
struct weft_product {
    enum weft_bare_product kind;
    int64_t m, n, k, batch;
    double share;
};

size_t weft_dtype_bytes(enum weft_dtype dtype);
const char *weft_dtype_name(enum weft_dtype dtype);
bool weft_dtype_is_float(enum weft_dtype dtype);

/* Return the number of elements, the number of rows (the product of all dimensions but the last), and the number of
 * elements per row. */
int64_t weft_tensor_count(const struct weft_tensor *t);
int64_t weft_tensor_rows(const struct weft_tensor *t);
static inline int64_t weft_tensor_width(const struct weft_tensor *t) { return t->ndim ? t->dim[t->ndim - 1] : 1; }
enum weft_status weft_tensor_bytes(const struct weft_tensor *t, size_t *bytes);

/* Rounds to nearest even. Magnitudes below WEFT_BF16_FLOOR become 0 with x's sign; all NaNs become the same NaN. */
uint16_t weft_bf16_from_f32(float x);
float weft_f32_from_bf16(uint16_t x);
/* Convert to and from IEEE half precision, which is used only in files, never by kernels. Values are rounded to nearest
 * even; values that are out of range become infinite. */
uint16_t weft_f16_from_f32(float x);
float weft_f32_from_f16(uint16_t x);

/* Converts n elements between any two float types (F64 to BF16 via F32). */
void weft_convert(void *to, enum weft_dtype to_dtype, const void *from, enum weft_dtype from_dtype, int64_t n);

/* Read and write element i as a double. For tests, references and printing. */
double weft_tensor_get(const struct weft_tensor *t, int64_t i);
void weft_tensor_set(struct weft_tensor *t, int64_t i, double x);
double weft_tensor_rms(const struct weft_tensor *x); /* root mean square; 0 if there are no elements */

#endif
