/* SPDX-License-Identifier: MIT
 *
 * dnn.c - compares matmuls with triple loops in double precision, and checks that their bits depend on neither the
 * number of rows nor the number of threads.
 *
 * run-tests: 3 s, asan 24 s, emulated 100 s, tsan 60 s
 */
#include "dnn/dnn.h"
#include "test.h"

#include <math.h>

static const int64_t sizes[] = {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))

static void *numbers(uint64_t key, enum weft_dtype dtype, int64_t n)
{
    float *f = malloc((size_t)n * sizeof *f + 1);
    void *to = malloc((size_t)n * weft_dtype_bytes(dtype) + 1);
    for (int64_t i = 0; i < n; i++)
        f[i] = (float)weft_normal(key, (uint64_t)i);
    weft_convert(to, dtype, f, WEFT_F32, n);
    free(f);
    return to;
}

static double at(const void *p, enum weft_dtype dtype, int64_t i)
{
    return dtype == WEFT_BF16 ? weft_f32_from_bf16(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

/* Returns memory followed by guard bytes that must not change. */
#define GUARD 64
static void *guarded(size_t bytes)
{
    size_t total = (bytes + GUARD + 63) / 64 * 64;
    char *p = aligned_alloc(64, total);
    memset(p, 0x5a, total);
    return p;
}
static void check_guard(const void *p, size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(((const unsigned char *)p)[bytes + i], 0x5a);
}

/* ---- one matmul, planned, packed and run */

struct product {
    struct weft_dnn_shape shape;
    enum weft_pack how;
    enum weft_dtype out_dtype;
    void *w; /* in the shape's dtype */
    struct weft_arena arena;
    struct weft_dnn_product *plan;
    void *packed, *scratch, *local;
    size_t packed_bytes, scratch_bytes, local_bytes, local_stride;
};

static void product_init(struct product *p, struct weft_dnn_shape shape, enum weft_pack how, enum weft_dtype out)
{
    *p = (struct product){.shape = shape, .how = how, .out_dtype = out};
    p->w = numbers(7, shape.dtype, shape.groups * shape.depth * shape.width);
    assert_int_equal(weft_dnn_pack_bytes(&shape, &p->packed_bytes), WEFT_OK);
    p->packed = guarded(p->packed_bytes);
    weft_dnn_pack(&shape, how, p->w, shape.dtype, p->packed);
    check_guard(p->packed, p->packed_bytes);
    assert_int_equal(weft_dnn_product_plan(&shape, out, &p->arena, &p->plan, &p->scratch_bytes, &p->local_bytes),
                     WEFT_OK);
    p->local_stride = (p->local_bytes + 63) / 64 * 64;
    p->scratch = guarded(p->scratch_bytes);
    p->local = guarded(p->local_stride * (size_t)weft_threads());
}

static void product_release(struct product *p)
{
    check_guard(p->scratch, p->scratch_bytes);
    check_guard(p->local, p->local_stride * (size_t)weft_threads());
    free(p->w);
    free(p->packed);
    free(p->scratch);
    free(p->local);
    weft_arena_release(&p->arena);
}

static void product_run(struct product *p, int64_t rows, const void *a, const float *bias, const void *addend,
                        enum weft_dtype addend_dtype, void *out)
{
    weft_dnn_product_run(p->plan, rows, a, p->packed, bias, addend, addend_dtype, out, p->scratch, p->local,
                         p->local_stride);
}

/* Element (row, column) of group g, and how large its terms are together. */
static double expect(const struct product *p, int64_t rows, const void *a, int64_t g, int64_t row, int64_t column,
                     double *size)
{
    const struct weft_dnn_shape *s = &p->shape;
    double sum = 0;
    for (int64_t d = 0; d < s->depth; d++) {
        int64_t ia = s->batched ? (g * rows + row) * s->depth + d : (row * s->groups + g) * s->depth + d;
        int64_t iw =
            p->how == WEFT_PACK_Y ? (g * s->width + column) * s->depth + d : (g * s->depth + d) * s->width + column;
        double term = at(a, s->dtype, ia) * at(p->w, s->dtype, iw);
        sum += term;
        *size += fabs(term);
    }
    return sum;
}

enum add { ADD_NONE, ADD_F32, ADD_BF16, ADD_IN_PLACE };

static void check_product(struct weft_dnn_shape shape, enum weft_pack how, enum weft_dtype out, bool with_bias,
                          enum add add)
{
    struct product p;
    int64_t rows = shape.max_rows, count = rows * shape.groups * shape.width;
    size_t bytes = (size_t)count * weft_dtype_bytes(out);
    product_init(&p, shape, how, out);
    enum weft_dtype add_dtype = add == ADD_IN_PLACE ? out : add == ADD_BF16 ? WEFT_BF16 : WEFT_F32;
    void *a = numbers(11, shape.dtype, rows * shape.groups * shape.depth), *addend = numbers(13, add_dtype, count);
    float *bias = with_bias ? numbers(17, WEFT_F32, shape.groups * shape.width) : NULL;
    void *y = guarded(bytes);
    if (add == ADD_IN_PLACE)
        memcpy(y, addend, bytes);
    product_run(&p, rows, a, bias, add == ADD_IN_PLACE ? y : add ? addend : NULL, add_dtype, y);
    check_guard(y, bytes);
    for (int64_t g = 0; g < shape.groups; g++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < shape.width; j++) {
                int64_t to =
                    shape.batched ? (g * rows + i) * shape.width + j : (i * shape.groups + g) * shape.width + j;
                double size = 1, want = expect(&p, rows, a, g, i, j, &size);
                want += bias ? bias[g * shape.width + j] : 0;
                want += add ? at(addend, add_dtype, to) : 0;
                double slack = size * 1e-6 + (out == WEFT_BF16 ? fabs(want) / 256 : 0);
                assert_true(fabs(at(y, out, to) - want) <= slack);
            }
    free(y);
    free(a);
    free(addend);
    free(bias);
    product_release(&p);
}

/* The definition below is a hundred times as slow under ThreadSanitizer. */
static int some_sizes(void) { return THREADS_SANITIZED ? one_of(3) : 1; }

static void test_odd_sizes(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int r = 0; r < SIZES; r += some_sizes())
            for (int d = 0; d < SIZES; d++)
                for (int w = (r + d) % 3; w < SIZES; w += 3) {
                    struct weft_dnn_shape s = {t ? WEFT_BF16 : WEFT_F32, sizes[d], sizes[w], 1, false, sizes[r]};
                    int mix = r + d + w;
                    check_product(s, mix % 2 ? WEFT_PACK_Y : WEFT_PACK_DX, mix % 4 < 2 ? s.dtype : WEFT_F32,
                                  mix % 5 < 2, (enum add)(mix % 4));
                }
}

static void test_long_depth(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int d = 0; d < 4; d++) {
            static const int64_t depths[] = {1023, 1024, 1025, 2500};
            struct weft_dnn_shape s = {t ? WEFT_BF16 : WEFT_F32, depths[d], 70, 1, false, 37};
            check_product(s, d % 2 ? WEFT_PACK_Y : WEFT_PACK_DX, WEFT_F32, true, ADD_F32);
        }
}

static void test_groups(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int batched = 0; batched < 2; batched++)
            for (int add = ADD_NONE; add <= ADD_IN_PLACE; add++) {
                enum weft_dtype dtype = t ? WEFT_BF16 : WEFT_F32;
                check_product((struct weft_dnn_shape){dtype, 40, 33, 5, batched, 19}, WEFT_PACK_Y, dtype, true,
                              (enum add)add);
                check_product((struct weft_dnn_shape){dtype, 64, 48, 3, batched, 35}, WEFT_PACK_DX, WEFT_F32, false,
                              (enum add)add);
            }
}

/* f32 master weights packed for a bf16 matmul are the rounded weights, packed. */
static void test_pack_rounds(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        struct weft_dnn_shape s = {WEFT_BF16, 50, 37, 2, false, 1};
        size_t bytes;
        assert_int_equal(weft_dnn_pack_bytes(&s, &bytes), WEFT_OK);
        void *a = calloc(1, bytes), *b = calloc(1, bytes);
        float *w = numbers(3, WEFT_F32, 2 * 50 * 37);
        uint16_t *rounded = numbers(3, WEFT_BF16, 2 * 50 * 37);
        weft_dnn_pack(&s, (enum weft_pack)how, w, WEFT_F32, a);
        weft_dnn_pack(&s, (enum weft_pack)how, rounded, WEFT_BF16, b);
        assert_memory_equal(a, b, bytes);
        free(a);
        free(b);
        free(w);
        free(rounded);
    }
}

/* ---- the outer product */

static void outer(struct weft_dnn_shape s, int64_t rows, const void *dy, const void *x, float *dw)
{
    struct weft_arena arena = {0};
    struct weft_dnn_outer *plan;
    size_t shared_bytes, local_bytes;
    assert_int_equal(weft_dnn_outer_plan(&s, &arena, &plan, &shared_bytes, &local_bytes), WEFT_OK);
    size_t stride = (local_bytes + 63) / 64 * 64;
    void *shared = guarded(shared_bytes), *local = guarded(stride * (size_t)weft_threads());
    weft_dnn_outer_run(plan, rows, dy, x, dw, shared, local, stride);
    check_guard(shared, shared_bytes);
    check_guard(local, stride * (size_t)weft_threads());
    free(shared);
    free(local);
    weft_arena_release(&arena);
}

static void check_outer(struct weft_dnn_shape s, int64_t rows)
{
    int64_t n = s.width, k = s.depth;
    size_t bytes = (size_t)(s.groups * n * k) * sizeof(float);
    void *dy = numbers(19, s.dtype, rows * s.groups * n), *x = numbers(23, s.dtype, rows * s.groups * k);
    float *before = numbers(29, WEFT_F32, s.groups * n * k), *dw = guarded(bytes);
    memcpy(dw, before, bytes);
    outer(s, rows, dy, x, dw);
    check_guard(dw, bytes);
    for (int64_t g = 0; g < s.groups; g++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < k; j++) {
                double want = before[(g * n + i) * k + j], size = 1;
                for (int64_t r = 0; r < rows; r++) {
                    int64_t iy = s.batched ? (g * rows + r) * n + i : (r * s.groups + g) * n + i;
                    int64_t ix = s.batched ? (g * rows + r) * k + j : (r * s.groups + g) * k + j;
                    double term = at(dy, s.dtype, iy) * at(x, s.dtype, ix);
                    want += term;
                    size += fabs(term);
                }
                assert_true(fabs(dw[(g * n + i) * k + j] - want) <= size * 1e-6);
            }
    free(dy);
    free(x);
    free(before);
    free(dw);
}

static void test_outer(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        enum weft_dtype dtype = t ? WEFT_BF16 : WEFT_F32;
        for (int r = 0; r < SIZES; r += some_sizes())
            for (int n = 0; n < SIZES; n++) {
                int64_t k = sizes[(3 * r + n) % SIZES];
                check_outer((struct weft_dnn_shape){dtype, k, sizes[n], 1, false, sizes[r] + r % 2}, sizes[r]);
            }
        check_outer((struct weft_dnn_shape){dtype, 40, 33, 1, false, 1100}, 1100);
        check_outer((struct weft_dnn_shape){dtype, 40, 33, 3, false, 50}, 45);
        check_outer((struct weft_dnn_shape){dtype, 17, 48, 3, true, 50}, 50);
        check_outer((struct weft_dnn_shape){dtype, 1100, 45, 2, false, 40}, 37); /* wide: dy is packed ahead */
        check_outer((struct weft_dnn_shape){dtype, 900, 17, 3, true, 300}, 290);
    }
}

static void test_no_rows(void **state)
{
    (void)state;
    struct weft_dnn_shape s = {WEFT_BF16, 32, 32, 1, false, 4};
    struct product p;
    float dw[32 * 32];
    product_init(&p, s, WEFT_PACK_Y, WEFT_F32);
    product_run(&p, 0, NULL, NULL, NULL, WEFT_F32, NULL);
    memset(dw, 0x11, sizeof dw);
    outer(s, 0, NULL, NULL, dw);
    for (size_t i = 0; i < sizeof dw; i++)
        assert_int_equal(((unsigned char *)dw)[i], 0x11);
    product_release(&p);
}

/* ---- bits */

static void test_rows_bits(void **state)
{
    (void)state;
    static const int64_t depths[] = {33, 100, 768, 1536, 3072};
    static const int64_t some[] = {1, 2, 5, 15, 16, 17, 31, 32, 33, 47, 64, 65, 96, 100, 129};
    for (int t = 0; t < 2; t++)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
            int64_t rows = 130, width = 72;
            struct product p;
            enum weft_dtype dtype = t ? WEFT_BF16 : WEFT_F32;
            product_init(&p, (struct weft_dnn_shape){dtype, depths[d], width, 1, false, rows}, WEFT_PACK_Y, WEFT_F32);
            char *a = numbers(31, dtype, rows * depths[d]);
            float *whole = calloc((size_t)(rows * width), sizeof *whole), *part = calloc((size_t)(rows * width), 4);
            product_run(&p, rows, a, NULL, NULL, WEFT_F32, whole);
            for (size_t i = 0; i < sizeof some / sizeof *some; i++)
                for (int64_t from = 0; from + some[i] <= rows; from += 29) {
                    char *rows_from = a + (size_t)(from * depths[d]) * weft_dtype_bytes(dtype);
                    product_run(&p, some[i], rows_from, NULL, NULL, WEFT_F32, part);
                    assert_memory_equal(part, whole + from * width, (size_t)(some[i] * width) * sizeof *part);
                }
            free(a);
            free(whole);
            free(part);
            product_release(&p);
        }
}

static void test_threads_bits(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 3, 4, 8, 29, 64}; /* thread counts that the output is cut for */
    enum { ROWS = 300, DEPTH = 1100, WIDTH = 200 };
    for (int t = 0; t < 2; t++) {
        enum weft_dtype dtype = t ? WEFT_BF16 : WEFT_F32;
        struct weft_dnn_shape s = {dtype, DEPTH, WIDTH, 1, false, ROWS};
        void *a = numbers(37, dtype, ROWS * DEPTH), *dy = numbers(41, dtype, ROWS * WIDTH);
        float *y[2], *dw[2];
        for (int i = 0; i < 2; i++) {
            y[i] = calloc(ROWS * WIDTH, sizeof(float));
            dw[i] = calloc(WIDTH * DEPTH, sizeof(float));
        }
        for (int i = 0; i < 7; i++) {
            struct product p;
            struct weft_threads_scope scope;
            weft_threads_enter(&scope, threads[i]);
            weft_threads_even();
            product_init(&p, s, WEFT_PACK_Y, WEFT_F32);
            product_run(&p, ROWS, a, NULL, NULL, WEFT_F32, y[i > 0]);
            product_release(&p);
            memset(dw[i > 0], 0, WIDTH * DEPTH * sizeof(float));
            outer(s, ROWS, dy, a, dw[i > 0]);
            weft_threads_leave(&scope);
            if (i > 0) {
                assert_memory_equal(y[0], y[1], ROWS * WIDTH * sizeof(float));
                assert_memory_equal(dw[0], dw[1], WIDTH * DEPTH * sizeof(float));
            }
        }
        for (int i = 0; i < 2; i++) {
            free(y[i]);
            free(dw[i]);
        }
        free(a);
        free(dy);
    }
}

/* Products for benches: each kind, plain and batched. */
static void test_bare(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++)
        for (int64_t batch = 1; batch < 4; batch += 2)
            for (int t = 0; t < 2; t++) {
                struct weft_product p = {(enum weft_bare_product)kind, 33, 48, 40, batch, 1};
                struct weft_dnn_bare *bare;
                assert_int_equal(weft_dnn_bare_own(&bare, &p, 0, t ? WEFT_BF16 : WEFT_F32), WEFT_OK);
                assert_int_equal(bare->run(bare), WEFT_OK);
                assert_true(strlen(bare->name) > 0);
                bare->free(bare);
                assert_int_equal(weft_dnn_bare_own(&bare, &p, 1, WEFT_F32), WEFT_UNSUPPORTED);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_odd_sizes),   cmocka_unit_test(test_long_depth),   cmocka_unit_test(test_groups),
        cmocka_unit_test(test_pack_rounds), cmocka_unit_test(test_outer),        cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_rows_bits),   cmocka_unit_test(test_threads_bits), cmocka_unit_test(test_bare),
    };
    weft_threads_set(2);
    print_message("%s\n", weft_dnn_describe());
    return cmocka_run_group_tests_name("dnn", tests, NULL, NULL);
}
