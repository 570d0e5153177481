/* SPDX-License-Identifier: MIT
 *
 * oracle.c - compares Weft's own GEMM kernels with oneDNN: the same job with both engines; and oneDNN's bare matmuls.
 */
#include "dnn/engine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 128, DEPTH = 768, WIDTH = 256 };

static void *numbers(uint64_t key, enum weft_dtype dtype, int64_t n)
{
    float *f = malloc((size_t)n * sizeof *f);
    void *to = malloc((size_t)n * weft_dtype_bytes(dtype));
    for (int64_t i = 0; i < n; i++)
        f[i] = (float)weft_normal(key, (uint64_t)i);
    weft_convert(to, dtype, f, WEFT_F32, n);
    free(f);
    return to;
}

/* out [ROWS, WIDTH] = a [ROWS, DEPTH] w [WIDTH, DEPTH]^t, as the door would have it computed, on this thread. */
static void multiply(const struct weft_dnn_engine *e, enum weft_dtype dtype, const void *a, const void *w, float *out)
{
    struct weft_dnn_plan plan = {.dtype = dtype, .depth = DEPTH, .width = WIDTH};
    assert_int_equal(e->plan(&plan), WEFT_OK);
    int64_t panels = weft_div_up(WIDTH, e->panel);
    char *b = aligned_alloc(64, (size_t)panels * plan.panel_bytes), *local = aligned_alloc(64, plan.local_bytes);
    const struct weft_dnn_matrix matrix = {w, dtype, DEPTH, true};
    for (int64_t p = 0; p < panels; p++)
        for (int64_t d = 0, step = e->pack_depth ? e->pack_depth : DEPTH; d < DEPTH; d += step)
            assert_int_equal(e->pack(&plan, &matrix, d, weft_min(d + step, DEPTH), p * e->panel,
                                     weft_min(e->panel, WIDTH - p * e->panel), b + (size_t)p * plan.panel_bytes),
                             WEFT_OK);
    struct weft_dnn_job job = {.plan = &plan,
                               .rows = ROWS,
                               .depth = DEPTH,
                               .width = WIDTH,
                               .a = {a, dtype, DEPTH, false},
                               .b = b,
                               .out = out,
                               .out_dtype = WEFT_F32,
                               .out_stride = WIDTH};
    for (int64_t row = 0, rows = e->block * e->blocks; row < ROWS; row += rows)
        for (int64_t p = 0; p < panels; p += e->panels)
            assert_int_equal(e->tile(&job, row, weft_min(row + rows, ROWS), p, weft_min(p + e->panels, panels), local),
                             WEFT_OK);
    free(b);
    free(local);
}

/* Nothing promises that the bits agree: how often they do not is only printed. */
static void compare(const struct weft_dnn_engine *own, enum weft_dtype dtype)
{
    void *a = numbers(43, dtype, ROWS * DEPTH), *w = numbers(47, dtype, WIDTH * DEPTH);
    static float mine[ROWS * WIDTH], theirs[ROWS * WIDTH];
    multiply(own, dtype, a, w, mine);
    multiply(weft_dnn_rival->engine, dtype, a, w, theirs);
    int differ = 0;
    for (int i = 0; i < ROWS * WIDTH; i++) {
        differ += memcmp(&mine[i], &theirs[i], sizeof *mine) != 0;
        assert_true(fabsf(mine[i] - theirs[i]) < 1e-3f);
    }
    print_message("# %s, %s: %d of %d sums differ from oneDNN's in their bits\n", own->name, weft_dtype_name(dtype),
                  differ, ROWS * WIDTH);
    free(a);
    free(w);
}

static void own_loops_agree_with_onednn(void **state)
{
    (void)state;
    compare(&weft_dnn_loop, WEFT_F32);
#ifndef WEFT_BASE_ONLY
    if (weft_isa() >= WEFT_ISA_V3)
        compare(&weft_dnn_loop_v3, WEFT_F32);
    if (weft_isa() >= WEFT_ISA_V4)
        compare(&weft_dnn_loop_v4, WEFT_F32);
#endif
    if (weft_isa() >= WEFT_ISA_V4)
        compare(&weft_dnn_loop, WEFT_BF16);
    if (weft_isa() >= WEFT_ISA_AMX)
        compare(&weft_dnn_amx, WEFT_BF16);
}

static void bare_products_run(void **state)
{
    (void)state;
    assert_string_equal(weft_dnn_bare_whose(), "onednn");
    for (int kind = 0; kind < 3; kind++)
        for (int64_t batch = 1; batch < 4; batch += 2) {
            int made = 0;
            for (int how = 0; how < 6; how++) {
                struct weft_product p = {(enum weft_bare_product)kind, 33, 48, 40, batch, 1};
                struct weft_dnn_bare *bare;
                if (weft_dnn_bare_create(&bare, &p, how, WEFT_F32) != WEFT_OK)
                    continue;
                made++;
                assert_true(how < 5);
                assert_int_equal(bare->run(bare), WEFT_OK);
                assert_true(strlen(bare->name) > 0);
                bare->free(bare);
            }
            assert_int_equal(made, batch == 1 ? 5 : 3);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(own_loops_agree_with_onednn),
                                       cmocka_unit_test(bare_products_run)};
    return cmocka_run_group_tests_name("oracle", tests, NULL, NULL);
}
