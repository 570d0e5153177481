/* SPDX-License-Identifier: MIT
 *
 * tensor.c - computes sizes of tensors and converts between element types.
 */
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
    bool is_float;
} types[] = {
    [WEFT_F32] = {"f32", 4, true},
    [WEFT_BF16] = {"bf16", 2, true},
    [WEFT_F64] = {"f64", 8, true},
    [WEFT_I32] = {"i32", 4, false},
};

size_t weft_dtype_bytes(enum weft_dtype dtype) { return types[dtype].bytes; }

const char *weft_dtype_name(enum weft_dtype dtype) { return types[dtype].name; }

bool weft_dtype_is_float(enum weft_dtype dtype) { return types[dtype].is_float; }

int64_t weft_tensor_count(const struct weft_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->dim[i];
    return n;
}

int64_t weft_tensor_rows(const struct weft_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i + 1 < t->ndim; i++)
        n *= t->dim[i];
    return n;
}

enum weft_status weft_tensor_bytes(const struct weft_tensor *t, size_t *bytes)
{
    size_t n = weft_dtype_bytes(t->dtype);
    for (int i = 0; i < t->ndim; i++)
        TRY(weft_size_mul(n, (size_t)t->dim[i], &n));
    if (n > INT64_MAX)
        return FAIL(WEFT_NOMEM, "a tensor of %zu bytes is too large to address", n);
    *bytes = n;
    return WEFT_OK;
}

uint16_t weft_bf16_from_f32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (x != x)
        return 0x7fc0;
    if ((u & 0x7fffffff) < WEFT_BF16_FLOOR)
        return (uint16_t)(u >> 16 & 0x8000);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float weft_f32_from_bf16(uint16_t x)
{
    uint32_t u = (uint32_t)x << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Magnitudes below the smallest normal half, 2^-14, become multiples of 2^-24; adding 0.5, whose last bit is 2^-24,
 * rounds them. For larger magnitudes, a carry out of the mantissa correctly increments the exponent. */
uint16_t weft_f16_from_f32(float x)
{
    uint32_t u, sign, round;
    float above;
    memcpy(&u, &x, sizeof u);
    sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (u >= 0x47800000)
        return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000) {
        memcpy(&above, &u, sizeof above);
        above += 0.5f;
        memcpy(&round, &above, sizeof round);
        return (uint16_t)(sign | (round - 0x3f000000));
    }
    return (uint16_t)(sign | (((u + 0xfff + (u >> 13 & 1)) >> 13) - (112 << 10)));
}

float weft_f32_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023, bits;
    float x;
    if (e == 0) {
        x = (float)m / (1 << 24);
        return sign ? -x : x;
    }
    bits = sign | (e == 31 ? 255 : e + 112) << 23 | m << 13;
    memcpy(&x, &bits, sizeof x);
    return x;
}

double weft_tensor_get(const struct weft_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case WEFT_F32:
        return ((const float *)t->data)[i];
    case WEFT_BF16:
        return weft_f32_from_bf16(((const uint16_t *)t->data)[i]);
    case WEFT_F64:
        return ((const double *)t->data)[i];
    case WEFT_I32:
        return ((const int32_t *)t->data)[i];
    }
    return NAN;
}

void weft_tensor_set(struct weft_tensor *t, int64_t i, double x)
{
    switch (t->dtype) {
    case WEFT_F32:
        ((float *)t->data)[i] = (float)x;
        break;
    case WEFT_BF16:
        ((uint16_t *)t->data)[i] = weft_bf16_from_f32((float)x);
        break;
    case WEFT_F64:
        ((double *)t->data)[i] = x;
        break;
    case WEFT_I32:
        ((int32_t *)t->data)[i] = (int32_t)x;
        break;
    }
}

void weft_convert(void *to, enum weft_dtype to_dtype, const void *from, enum weft_dtype from_dtype, int64_t n)
{
    if (to_dtype == from_dtype) {
        memcpy(to, from, (size_t)n * weft_dtype_bytes(to_dtype));
        return;
    }
    struct weft_tensor source = {.data = (void *)(uintptr_t)from, .dtype = from_dtype};
    struct weft_tensor target = {.data = to, .dtype = to_dtype};
    for (int64_t i = 0; i < n; i++)
        weft_tensor_set(&target, i, weft_tensor_get(&source, i));
}

double weft_tensor_rms(const struct weft_tensor *x)
{
    int64_t n = weft_tensor_count(x);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += weft_tensor_get(x, i) * weft_tensor_get(x, i);
    return n ? sqrt(sum / (double)n) : 0;
}
