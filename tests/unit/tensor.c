/* SPDX-License-Identifier: MIT
 *
 * tensor.c - sizes without overflow, rounding to bf16 and f16, and conversion between types.
 *
 * run-tests: 1 s, aarch64 1 s, asan 1 s
 */
#include "tensor/tensor.h"
#include "test.h"

#include <math.h>

static void sizes(void **state)
{
    (void)state;
    struct weft_tensor t = {.dtype = WEFT_BF16, .ndim = 3, .dim = {2, 3, 5}};
    size_t bytes;
    assert_int_equal(weft_tensor_count(&t), 30);
    assert_int_equal(weft_tensor_rows(&t), 6);
    assert_int_equal(weft_tensor_width(&t), 5);
    assert_int_equal(weft_tensor_bytes(&t, &bytes), WEFT_OK);
    assert_int_equal(bytes, 60);

    struct weft_tensor scalar = {.dtype = WEFT_F64};
    assert_int_equal(weft_tensor_count(&scalar), 1);
    assert_int_equal(weft_tensor_width(&scalar), 1);
    assert_int_equal(weft_tensor_bytes(&scalar, &bytes), WEFT_OK);
    assert_int_equal(bytes, 8);

    struct weft_tensor huge = {.dtype = WEFT_F32, .ndim = 3, .dim = {1ll << 31, 1ll << 31, 4}};
    assert_int_equal(weft_tensor_bytes(&huge, &bytes), WEFT_NOMEM);
    huge.dim[2] = 1; /* 2^64 bytes exactly */
    assert_int_equal(weft_tensor_bytes(&huge, &bytes), WEFT_NOMEM);
    huge.dim[1] = 1ll << 30; /* 2^63: fits size_t, but no signed offset */
    assert_int_equal(weft_tensor_bytes(&huge, &bytes), WEFT_NOMEM);
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(weft_dtype_name(WEFT_BF16), "bf16");
    assert_int_equal(weft_dtype_bytes(WEFT_I32), 4);
    assert_true(weft_dtype_is_float(WEFT_F64) && !weft_dtype_is_float(WEFT_I32));
}

/* The nearer of the two neighbours, found by comparing distances; the even one if they are equal. Below the floor, 0.
 */
static uint16_t nearest(float x)
{
    if (fabsf(x) < 0x1p-56f)
        return signbit(x) ? 0x8000 : 0;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint16_t low = (uint16_t)(bits >> 16), high = (uint16_t)(low + 1);
    double below = fabs((double)x - weft_f32_from_bf16(low)), above = fabs(weft_f32_from_bf16(high) - (double)x);
    if (isinf(weft_f32_from_bf16(high))) /* 2^128, the next number if the exponent had a larger range */
        above = 0x1p128 - fabs((double)x);
    if (below == above)
        return low & 1 ? high : low;
    return below < above ? low : high;
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint64_t b = 0; b < 1ull << 32; b += 4099) {
        uint32_t bits = (uint32_t)b;
        float x;
        memcpy(&x, &bits, sizeof x);
        if (isfinite(x))
            assert_int_equal(weft_bf16_from_f32(x), nearest(x));
    }
    for (uint32_t h = 0; h < 1 << 16; h++) { /* bf16 numbers that are not below the floor are unchanged */
        float x = weft_f32_from_bf16((uint16_t)h);
        bool small = fabsf(x) < 0x1p-56f;
        assert_int_equal(weft_bf16_from_f32(x), x != x ? 0x7fc0 : small ? h & 0x8000 : h);
    }
    assert_int_equal(weft_bf16_from_f32(1.00390625f), 0x3f80);   /* a tie, to even */
    assert_int_equal(weft_bf16_from_f32(1.01171875f), 0x3f82);   /* a tie, to even */
    assert_int_equal(weft_bf16_from_f32(3.4028235e38f), 0x7f80); /* past the largest: inf */
    assert_int_equal(weft_bf16_from_f32(INFINITY), 0x7f80);
    assert_true(isnan(weft_f32_from_bf16(weft_bf16_from_f32(NAN))));
}

/* Every half converts back to itself; other values round to the nearest half, and halfway values to the one that is
 * even. */
static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h <= 0x7c00; h++)
        for (int sign = 0; sign < 2; sign++) {
            uint16_t half = (uint16_t)(h | (uint32_t)sign << 15);
            float low = weft_f32_from_f16(half), high = h < 0x7bff ? weft_f32_from_f16((uint16_t)(half + 1)) : 65536;
            float middle = (float)(((double)fabsf(low) + fabsf(high)) / 2);
            middle = sign ? -middle : middle;
            assert_int_equal(weft_f16_from_f32(low), half);
            assert_true(!signbit(low) == !sign);
            if (h == 0x7c00)
                continue;
            assert_int_equal(weft_f16_from_f32(middle), half + (h & 1));
            assert_int_equal(weft_f16_from_f32(nextafterf(middle, low)), half);
            assert_int_equal(weft_f16_from_f32(nextafterf(middle, sign ? -65536 : 65536)), half + 1);
        }
    assert_true(weft_f32_from_f16(1) == 0x1p-24f && weft_f32_from_f16(0x3c00) == 1 &&
                weft_f32_from_f16(0x7bff) == 65504);
    assert_int_equal(weft_f16_from_f32(INFINITY), 0x7c00);
    assert_int_equal(weft_f16_from_f32(-1e30f), 0xfc00);
    assert_true(isnan(weft_f32_from_f16(weft_f16_from_f32(NAN))) && isinf(weft_f32_from_f16(0xfc00)));
}

static void conversion(void **state)
{
    (void)state;
    static const enum weft_dtype types[] = {WEFT_F32, WEFT_BF16, WEFT_F64};
    enum { N = 37 };
    double values[N];
    for (int i = 0; i < N; i++) /* representable in all three types, so that every conversion is exact */
        values[i] = weft_f32_from_bf16(weft_bf16_from_f32((float)weft_normal(1, (uint64_t)i)));
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            double first[N], second[N], last[N];
            weft_convert(first, types[a], values, WEFT_F64, N);
            weft_convert(second, types[b], first, types[a], N);
            weft_convert(last, WEFT_F64, second, types[b], N);
            assert_memory_equal(last, values, sizeof values);
            struct weft_tensor t = {.data = second, .dtype = types[b], .ndim = 1, .dim = {N}};
            assert_true(weft_tensor_get(&t, 5) == values[5]);
            weft_tensor_set(&t, 5, -2.5);
            assert_true(weft_tensor_get(&t, 5) == -2.5 && weft_tensor_get(&t, 6) == values[6]);
        }
    int32_t ids[2] = {7, -8};
    struct weft_tensor t = {.data = ids, .dtype = WEFT_I32, .ndim = 1, .dim = {2}};
    weft_tensor_set(&t, 0, 9);
    assert_true(weft_tensor_get(&t, 0) == 9 && weft_tensor_get(&t, 1) == -8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(names),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(conversion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
