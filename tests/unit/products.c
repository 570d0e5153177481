/* SPDX-License-Identifier: MIT
 *
 * products.c - bf16 matmuls have the bits of their definition, written here in plain C, for ordinary, tiny, huge and
 * infinite values, at every level of the processor. PRODUCTS=N compares at least N million results of each kind instead
 * of a hundred thousand.
 *
 * run-tests: 1 s, aarch64 12 s, asan 7 s, emulated 100 s
 */
#include "dnn/dnn.h"
#include "test.h"

#include <math.h>

enum kind { ORDINARY, MIXED, SMALL, HUGE_ONES, ANY, KINDS };
static const char *const kinds[] = {"ordinary", "mixed", "small", "huge", "any"};

static uint64_t drawn;

static uint64_t draw(uint64_t n) { return weft_below(20, drawn++, n); }

/* A bf16 number of an exponent in a range, as operands are: 0, or not below the floor. */
static uint16_t exponent(int low, int high)
{
    return (uint16_t)(draw(2) << 15 | (uint64_t)(low + (int)draw((uint64_t)(high - low + 1)) + 127) << 7 | draw(128));
}

static uint16_t number(enum kind kind)
{
    uint16_t x = 0;
    if (draw(16) == 0)
        return (uint16_t)(draw(2) << 15); /* 0 or -0 */
    switch (kind) {
    case ORDINARY:
        return exponent(-3, 1);
    case MIXED:
        return exponent(-40, 40);
    case SMALL:
        return exponent(-56, -50);
    case HUGE_ONES:
        return exponent(60, 65);
    default:
        x = (uint16_t)draw(1 << 16);
        return weft_bf16_from_f32(weft_f32_from_bf16(x));
    }
}

static uint16_t *numbers(enum kind kind, int64_t n)
{
    uint16_t *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = number(kind);
    return x;
}

/* c + sum over d of a[d * a_step] b[d * b_step], in steps of 32 whose even and odd elements are summed separately. */
static float defined_sum(float c, int64_t depth, const uint16_t *a, int64_t a_step, const uint16_t *b, int64_t b_step)
{
    for (int64_t d = 0; d < depth; d += 32) {
        float sum[2] = {0, 0};
        for (int64_t i = d; i < d + 32 && i < depth; i++)
            sum[i % 2] = fmaf(weft_f32_from_bf16(a[i * a_step]), weft_f32_from_bf16(b[i * b_step]), sum[i % 2]);
        c = c + (sum[0] + sum[1]);
    }
    return c;
}

static bool same(float a, float b) { return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b)); }

static int64_t wanted(void)
{
    const char *millions = getenv("PRODUCTS");
    return millions ? atoll(millions) * 1000000 : 100000;
}

static void expect(float got, float c, int64_t i, const char *what, enum kind kind)
{
    if (!same(got, c))
        fail_msg("%s of %s numbers: element %lld is %a and not %a", what, kinds[kind], (long long)i, got, c);
}

/* ---- whole products: y = x w^t, and dw += dy^t x */

static int64_t compare_product(enum kind kind)
{
    int64_t rows = 1 + (int64_t)draw(70), depth = 1 + (int64_t)draw(600), width = 1 + (int64_t)draw(70);
    struct weft_dnn_shape shape = {WEFT_BF16, depth, width, 1, false, rows};
    struct weft_arena arena = {0};
    struct weft_dnn_product *product;
    size_t packed_bytes, scratch_bytes, local_bytes;
    uint16_t *x = numbers(kind, rows * depth), *w = numbers(kind, width * depth);
    float *y = malloc((size_t)(rows * width) * sizeof *y);
    assert_int_equal(weft_dnn_pack_bytes(&shape, &packed_bytes), WEFT_OK);
    assert_int_equal(weft_dnn_product_plan(&shape, WEFT_F32, &arena, &product, &scratch_bytes, &local_bytes), WEFT_OK);
    local_bytes = (local_bytes + 63) / 64 * 64;
    void *packed = weft_arena_alloc(&arena, packed_bytes), *shared = weft_arena_alloc(&arena, scratch_bytes + 1);
    void *local = weft_arena_alloc(&arena, local_bytes * (size_t)weft_threads() + 64);
    weft_dnn_pack(&shape, WEFT_PACK_Y, w, WEFT_BF16, packed);
    weft_dnn_product_run(product, rows, x, packed, NULL, NULL, WEFT_F32, y, shared, local, local_bytes);
    for (int64_t i = 0; i < rows * width; i++)
        expect(y[i], defined_sum(0, depth, x + i / width * depth, 1, w + i % width * depth, 1), i, "a product", kind);
    weft_arena_release(&arena);
    free(x), free(w), free(y);
    return rows * width;
}

static int64_t compare_outer(enum kind kind)
{
    int64_t rows = 1 + (int64_t)draw(300), n = 1 + (int64_t)draw(70), k = 1 + (int64_t)draw(70);
    struct weft_dnn_shape shape = {WEFT_BF16, k, n, 1, false, rows};
    struct weft_arena arena = {0};
    struct weft_dnn_outer *outer;
    size_t scratch_bytes, local_bytes;
    uint16_t *dy = numbers(kind, rows * n), *x = numbers(kind, rows * k);
    float *dw = calloc((size_t)(n * k), sizeof *dw);
    assert_int_equal(weft_dnn_outer_plan(&shape, &arena, &outer, &scratch_bytes, &local_bytes), WEFT_OK);
    local_bytes = (local_bytes + 63) / 64 * 64;
    void *shared = weft_arena_alloc(&arena, scratch_bytes);
    void *local = weft_arena_alloc(&arena, local_bytes * (size_t)weft_threads() + 64);
    weft_dnn_outer_run(outer, rows, dy, x, dw, shared, local, local_bytes);
    for (int64_t i = 0; i < n * k; i++)
        expect(dw[i], defined_sum(0, rows, dy + i / k, n, x + i % k, k), i, "an outer product", kind);
    weft_arena_release(&arena);
    free(dy), free(x), free(dw);
    return n * k;
}

/* At the processor's level and at each below it. */
static void compare_levels(int64_t (*compare)(enum kind kind), const char *what)
{
    for (int below = 0; below <= (int)weft_isa(); below++) {
        struct weft_threads_scope scope;
        int64_t count = 0;
        weft_threads_enter(&scope, 0);
        weft_isa_lower(below);
        while (count < wanted())
            for (enum kind kind = 0; kind < KINDS; kind++)
                count += compare(kind);
        weft_threads_leave(&scope);
        print_message("# %lld results of %s, %d levels below %s\n", (long long)count, what, below,
                      weft_isa_name(weft_isa()));
    }
}

static int64_t compare_whole(enum kind kind) { return compare_product(kind) + compare_outer(kind); }

static void whole_products(void **state) { compare_levels(compare_whole, "whole products"); }

/* ---- small blocks */

static int64_t compare_tiles(enum kind kind)
{
    const struct weft_dnn_tiles *tiles = weft_dnn_tiles();
    int64_t rows = 16 * (1 + (int64_t)draw(4)), columns = 32 * (1 + (int64_t)draw(2));
    int64_t depth = 32 * (1 + (int64_t)draw(4));
    bool add = draw(2), turned = draw(2);
    uint16_t *a = numbers(kind, rows * depth), *b = numbers(kind, depth * columns);
    uint16_t *packed = malloc((size_t)(depth * columns) * sizeof *packed);
    float *c = malloc((size_t)(rows * columns) * sizeof *c), *before = malloc((size_t)(rows * columns) * sizeof *c);
    for (int64_t i = 0; i < rows * columns; i++)
        c[i] = before[i] = (float)weft_normal(3, draw(1 << 20));
    (turned ? tiles->pack_transposed : tiles->pack)(depth, columns, b, packed);
    tiles->begin();
    tiles->product(rows, columns, depth, a, packed, c, add);
    tiles->end();
    for (int64_t i = 0; i < rows * columns; i++) {
        int64_t column = i % columns;
        expect(c[i],
               defined_sum(add ? before[i] : 0, depth, a + i / columns * depth, 1,
                           b + (turned ? column * depth : column), turned ? 1 : columns),
               i, "a small block", kind);
    }
    free(a), free(b), free(packed), free(c), free(before);
    return rows * columns;
}

static void small_blocks(void **state) { compare_levels(compare_tiles, "small blocks"); }

static void turns_blocks(void **state)
{
    (void)state;
    for (int64_t rows = 32; rows <= 96; rows += 32)
        for (int64_t width = 32; width <= 96; width += 32) {
            uint16_t *x = numbers(ANY, rows * width), *a = malloc((size_t)(rows * width) * sizeof *a);
            weft_dnn_tiles()->transpose(rows, width, x, a);
            for (int64_t i = 0; i < rows * width; i++)
                assert_int_equal(a[i], x[i % rows * width + i / rows]);
            free(x), free(a);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_products),
        cmocka_unit_test(small_blocks),
        cmocka_unit_test(turns_blocks),
    };
    return cmocka_run_group_tests_name("products", tests, NULL, NULL);
}
