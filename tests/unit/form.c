/* SPDX-License-Identifier: MIT
 *
 * form.c - forms: every atom on small arrays, compared with numbers written by hand.
 *
 * run-tests: 1 s, asan 2 s
 */
#include "form_stage.h"

/* ---- sources */

static void sources(void **state)
{
    (void)state;
    int n = 4;
    struct weft_atom *squares = weft_array_of(&s.f, FIXED(2, 2), "squares", fill_squares, &n);
    expect(squares, 0, 1, 4, 9);
    assert_ptr_equal(weft_array_of(&s.f, FIXED(2, 2), "squares", fill_squares, &n), squares);
    expect(weft_number_of(&s.f, 7, WEFT_WHOLE), 7);
    expect(weft_weight_of(&s.f, supply(NUMBERS(3, 5)), FIXED(2)), 3, 5);
    expect(weft_constant_of(&s.f, 2.5, FIXED(1, 3)), 2.5, 2.5, 2.5);
    expect_failure(weft_weight_of(&s.f, "nowhere", FIXED(2)), "there are no values of nowhere");
    expect_failure(weft_weight_of(&s.f, supply(NUMBERS(3, 5)), FIXED(3)), "has 2 elements; real [3] has 3");
}

/* ---- elementwise */

static void broadcasting(void **state)
{
    (void)state;
    struct weft_atom *column = real(FIXED(2, 1), NUMBERS(10, 20)), *row = real(FIXED(3), NUMBERS(1, 2, 4));
    expect(weft_add_of(&s.f, column, row), 11, 12, 14, 21, 22, 24);
    expect(weft_sub_of(&s.f, row, column), -9, -8, -6, -19, -18, -16);
    expect(weft_mul_of(&s.f, column, row), 10, 20, 40, 20, 40, 80);
    expect(weft_div_of(&s.f, column, row), 10, 5, 2.5, 20, 10, 5);
    expect(weft_max_of(&s.f, row, weft_real_of(&s.f, 2)), 2, 2, 4);
    expect(weft_min_of(&s.f, row, weft_real_of(&s.f, 2)), 1, 2, 2);
    struct weft_atom *blocks = real(FIXED(2, 1, 2), NUMBERS(1, 2, 3, 4));
    expect(weft_add_of(&s.f, blocks, column), 11, 12, 21, 22, 13, 14, 23, 24);
    expect(weft_mul_of(&s.f, weft_whole_of(&s.f, 3), whole(FIXED(2), NUMBERS(5, -1))), 15, -3);
}

static void functions(void **state)
{
    (void)state;
    struct weft_atom *x = real(FIXED(3), NUMBERS(0, 1, -2));
    expect(weft_exp_of(&s.f, x), 1, 2.718281828459045, 0.1353352832366127);
    expect(weft_log_of(&s.f, real(FIXED(2), NUMBERS(1, 10))), 0, 2.302585092994046);
    expect(weft_sqrt_of(&s.f, real(FIXED(2), NUMBERS(9, 2))), 3, 1.4142135623730951);
    expect(weft_tanh_of(&s.f, x), 0, 0.7615941559557649, -0.9640275800758169);
    expect(weft_sigmoid_of(&s.f, x), 0.5, 0.7310585786300049, 0.11920292202211755);
    expect(weft_softplus_of(&s.f, real(FIXED(3), NUMBERS(0, 800, -2))), 0.6931471805599453, 800, 0.12692801104297252);
}

static void conditions(void **state)
{
    (void)state;
    struct weft_atom *a = whole(FIXED(3), NUMBERS(1, 2, 3)), *two = weft_whole_of(&s.f, 2);
    struct weft_atom *below = weft_less_of(&s.f, a, two), *is_two = weft_equal_of(&s.f, a, two);
    expect(below, 1, 0, 0);
    expect(is_two, 0, 1, 0);
    expect(weft_both_of(&s.f, truth(FIXED(2, 1), NUMBERS(0, 5)), is_two), 0, 0, 0, 0, 1, 0);
    expect(weft_choose_of(&s.f, below, real(FIXED(3), NUMBERS(7, NAN, NAN)), real(FIXED(1), NUMBERS(9))), 7, 9, 9);
    expect(
        weft_choose_of(&s.f, truth(FIXED(2, 1), NUMBERS(1, 0)), weft_real_of(&s.f, 5), real(FIXED(2), NUMBERS(1, 2))),
        5, 5, 1, 2);
    expect(weft_to_of(&s.f, real(FIXED(3), NUMBERS(1.9, -1.9, 0)), WEFT_WHOLE), 1, -1, 0);
    expect(weft_to_of(&s.f, real(FIXED(2), NUMBERS(-0.5, 0)), WEFT_TRUTH), 1, 0);
    expect(weft_to_of(&s.f, below, WEFT_REAL), 1, 0, 0);
}

/* ---- matrices and reductions */

static void matrices(void **state)
{
    (void)state;
    struct weft_atom *a = real(FIXED(2, 3), NUMBERS(1, 2, 3, 4, 5, 6)),
                     *b = real(FIXED(3, 2), NUMBERS(1, 0, 2, 1, 0, 3));
    expect(weft_matmul_of(&s.f, a, b, false), 5, 11, 14, 23);
    expect(weft_matmul_of(&s.f, a, a, true), 14, 32, 32, 77);
    /* [2, 1, 1, 2] times [3, 2, 1], as [2, 3, 1, 1] */
    struct weft_atom *rows = real(FIXED(2, 1, 1, 2), NUMBERS(1, 2, 3, 4));
    struct weft_atom *columns = real(FIXED(3, 2, 1), NUMBERS(1, 0, 0, 1, 1, 1));
    struct weft_atom *y = weft_matmul_of(&s.f, rows, columns, false);
    assert_int_equal(y->type.ndim, 4);
    expect(y, 1, 2, 3, 3, 4, 7);
    /* [2, 1, 2] times [2, 1, 2] transposed */
    struct weft_atom *x = real(FIXED(2, 1, 2), NUMBERS(1, 2, 3, 4));
    expect(weft_matmul_of(&s.f, x, x, true), 5, 25);
}

static void reductions(void **state)
{
    (void)state;
    struct weft_atom *x = real(FIXED(2, 3, 2), NUMBERS(1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 9, 10));
    expect(weft_sum_of(&s.f, x, 0), 8, 10, 12, 16, 14, 16);
    expect(weft_sum_of(&s.f, x, 1), 9, 12, 25, 30);
    expect(weft_sum_of(&s.f, x, -1), 3, 7, 11, 15, 21, 19);
    expect(weft_largest_of(&s.f, x, 1), 5, 6, 9, 12);
    expect(weft_argmax_of(&s.f, x, 1), 2, 2, 1, 1); /* the first of equal ones */
    expect(weft_argmax_of(&s.f, x, 0), 1, 1, 1, 1, 1, 1);
    expect(weft_mean_of(&s.f, x, 1), 3, 4, 25 * (1.0 / 3), 10);
    expect(weft_logsumexp_of(&s.f, real(FIXED(2, 2), NUMBERS(0, 0, 1000, 1000)), 1), 0.6931471805599453,
           1000.6931471805599);
}

static void softmax(void **state)
{
    (void)state;
    struct weft_atom *x = real(FIXED(2, 3), NUMBERS(0, -INFINITY, 0, 1000, 1000, -INFINITY));
    expect(weft_softmax_of(&s.f, x, -1), 0.5, 0, 0.5, 0.5, 0.5, 0);
    struct weft_atom *y = real(FIXED(2, 2), NUMBERS(0, -INFINITY, 0, 5));
    expect(weft_softmax_of(&s.f, y, 0), 0.5, 0, 0.5, 1);
}

/* ---- shapes and indices */

static void shapes(void **state)
{
    (void)state;
    struct weft_atom *x = real(FIXED(2, 3), NUMBERS(1, 2, 3, 4, 5, 6));
    expect(weft_swap_of(&s.f, x, 0, 1), 1, 4, 2, 5, 3, 6);
    expect(weft_slice_of(&s.f, x, 1, 1, 2), 2, 3, 5, 6);
    expect(weft_slice_of(&s.f, x, 0, 1, 1), 4, 5, 6);
    expect(weft_pad_of(&s.f, x, 1, 1, 0), 0, 1, 2, 3, 0, 4, 5, 6);
    expect(weft_pad_of(&s.f, x, 0, 0, 1), 1, 2, 3, 4, 5, 6, 0, 0, 0);
    expect(weft_concat_of(&s.f, x, real(FIXED(2, 1), NUMBERS(8, 9)), -1), 1, 2, 3, 8, 4, 5, 6, 9);
    expect(weft_concat_of(&s.f, x, real(FIXED(1, 3), NUMBERS(7, 8, 9)), 0), 1, 2, 3, 4, 5, 6, 7, 8, 9);
    expect(weft_expand_of(&s.f, real(FIXED(2, 1), NUMBERS(1, 2)), FIXED(2, 2, 2)), 1, 1, 2, 2, 1, 1, 2, 2);
    expect(weft_repeat_of(&s.f, weft_unit_of(&s.f, real(FIXED(2), NUMBERS(1, 2)), 1), 1, 3), 1, 1, 1, 2, 2, 2);
    /* [1, 2, 3, 2] as [3, 2, 2, 1]: out[i][j][k][0] = x[0][k][i][j] */
    struct weft_atom *four = real(FIXED(1, 2, 3, 2), NUMBERS(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    expect(weft_permute_of(&s.f, four, (const int[]){2, 3, 1, 0, 4, 5}), 0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11);
}

static void indices(void **state)
{
    (void)state;
    struct weft_atom *x = real(FIXED(2, 3), NUMBERS(1, 2, 3, 4, 5, 6)), *index = whole(FIXED(2), NUMBERS(2, 0));
    expect(weft_take_of(&s.f, x, index, 1), 3, 1, 6, 4);
    expect(weft_take_of(&s.f, x, whole(FIXED(3), NUMBERS(1, 1, 0)), 0), 4, 5, 6, 4, 5, 6, 1, 2, 3);
    struct weft_atom *each = whole(FIXED(2, 2), NUMBERS(2, 0, 1, 1));
    expect(weft_pick_of(&s.f, x, each, 1), 3, 1, 5, 5);
    expect(weft_pick_of(&s.f, x, whole(FIXED(1, 3), NUMBERS(1, 0, 1)), 0), 4, 2, 6);
    struct weft_atom *by = real(FIXED(2, 1), NUMBERS(8, 9));
    expect(weft_put_of(&s.f, x, whole(FIXED(2, 1), NUMBERS(2, 0)), by, 1), 1, 2, 8, 9, 5, 6);
    expect_failure(weft_take_of(&s.f, x, whole(FIXED(1), NUMBERS(3)), 1), "take: index 3 is not below 3");
    expect_failure(weft_pick_of(&s.f, x, whole(FIXED(2, 1), NUMBERS(0, -1)), 1), "pick: index -1 is not below 3");
}

static void top(void **state)
{
    (void)state;
    struct weft_atom *x = real(FIXED(2, 4), NUMBERS(3, 7, 7, 1, -2, -1, -1, -3));
    expect(weft_top_of(&s.f, x, 1, 2), 1, 2, 1, 2);
    expect(weft_top_of(&s.f, x, 1, 3), 1, 2, 0, 1, 2, 0);
    struct weft_atom *all = weft_top_of(&s.f, x, 1, 9);
    assert_int_equal(all->type.dim[1].times, 4);
    expect(all, 1, 2, 0, 3, 1, 2, 0, 3);
    expect(weft_top_of(&s.f, x, 0, 1), 0, 0, 0, 0);
    expect(weft_pick_of(&s.f, x, weft_top_of(&s.f, x, 1, 2), 1), 7, 7, -1, -1);
}

/* ---- training */

static void training(void **state)
{
    (void)state;
    s.frame.batch = 2;
    struct weft_drop half = {.p = 0.5, .layer = 3};
    expect(weft_drop_of(&s.f, real(ROWS_OF(3), NUMBERS(1, 2, 3, 4, 5, 6)), half), 0, 4, 0, 8, 0, 12);
    struct weft_type scores = {WEFT_REAL, 4, {{WEFT_BATCH, 1}, {WEFT_FIXED, 2}, {WEFT_NEW, 1}, {WEFT_ALL, 1}}};
    struct weft_drop of_scores = {.p = 0.75, .layer = 3, .scores = true};
    s.frame.all = 2;
    expect(weft_drop_of(&s.f, real(scores, NUMBERS(1, 2, 3, 4, 5, 6, 7, 8)), of_scores), 0, 8, 12, 0, 20, 0, 0, 32);
    struct weft_atom *x = real(FIXED(2), NUMBERS(1, 2));
    expect(weft_stop_of(&s.f, x), 1, 2);
    assert_ptr_equal(weft_drop_of(&s.f, x, (struct weft_drop){0}), x);
    s.f.training = false;
    assert_ptr_equal(weft_stop_of(&s.f, x), x);
    assert_ptr_equal(weft_drop_of(&s.f, x, half), x);
}

/* Later runs keep the values of stop. */
static void stop(void **state)
{
    (void)state;
    struct weft_form_results r;
    double x[2] = {1, 2};
    struct weft_atom *source = real(FIXED(2), x, 2), *y = weft_mul_of(&s.f, source, weft_stop_of(&s.f, source));
    check(weft_form_results_init(&r, &s.f));
    r.wanted[y->id] = true;
    for (int run = 0; run < 2; run++, x[0] = 10) {
        check(weft_form_run(&s.f, &s.frame, &r));
        assert_true(r.of[y->id][0] == x[0] && r.of[y->id][1] == 4);
    }
    weft_form_results_release(&r);
}

/* ---- rows */

/* Four rows: positions 1 and 2 of sequence 0, position 0 of sequence 1, position 3 of sequence 0. */
static const int32_t seq[] = {0, 0, 1, 0}, pos[] = {1, 2, 0, 3};

static void open_ragged(void)
{
    static const int32_t tiles[] = {4, 0, 2, -1}; /* sequence 0: rows 4 5, 0 1; sequence 1: rows 2 3 */
    static const int32_t ring_tiles[] = {2, 0, 4, -1};
    s.frame.batch = 4;
    s.frame.all = 4;
    s.frame.sequences = 3;
    s.frame.seq = seq;
    s.frame.pos = pos;
    s.frame.tiles = tiles;
    s.frame.ring_tiles = ring_tiles;
    s.frame.tile_count = 2;
}

static void pairs_of_rows(void **state)
{
    (void)state;
    open_ragged();
    expect(weft_distance_of(&s.f), 1, 0, -1, -2, 2, 1, 0, -1, 0, -1, -2, -3, 3, 2, 1, 0);
    expect(weft_visible_of(&s.f), 1, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 1);
}

static void columns_in_pages(void **state)
{
    (void)state;
    open_ragged();
    struct weft_atom *x = held(COLUMNS_OF(1), NUMBERS(10, 11, 12, 13, 14, 15));
    expect(x, 14, 15, 10, 11, 14, 15, 10, 11, 12, 13, 0, 0, 14, 15, 10, 11);
    assert_ptr_equal(weft_keys_of(&s.f, x), x);
    expect(weft_own_of(&s.f, x), 15, 10, 12, 11);
    struct weft_atom *ring = held(RING_OF(1), NUMBERS(10, 11, 12, 13, 14, 15));
    expect(ring, 12, 13, 10, 11, 12, 13, 10, 11, 14, 15, 0, 0, 12, 13, 10, 11);
    expect(weft_keys_of(&s.f, ring), 12, 13, 10, 11, 12, 13, 10, 11, 14, 15, 0, 0, 12, 13, 10, 11);
    expect(weft_own_of(&s.f, weft_keys_of(&s.f, ring)), 13, 10, 14, 11);
}

/* The keys of a call are its rows: two sequences of two rows, one batch each. */
static void columns_of_the_call(void **state)
{
    (void)state;
    static const int32_t two_seq[] = {0, 0, 1, 1}, two_pos[] = {0, 1, 0, 1}, tiles[] = {0, 2};
    s.frame.batch = s.frame.fresh = s.frame.all = s.frame.sequences = 2;
    s.frame.seq = two_seq;
    s.frame.pos = two_pos;
    s.frame.tiles = tiles;
    s.frame.tile_count = 1;
    struct weft_atom *x = real(ROWS_OF(2), NUMBERS(1, 2, 3, 4, 5, 6, 7, 8)), *keys = weft_keys_of(&s.f, x);
    expect(keys, 1, 2, 3, 4, 5, 6, 7, 8);
    assert_ptr_equal(weft_own_of(&s.f, keys), x);
    expect(weft_distance_of(&s.f), 0, -1, 1, 0, 0, -1, 1, 0);
    /* The same rows, each a batch of its own */
    s.frame.batch = 4;
    s.frame.fresh = 1;
    expect(keys, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8);
}

static void store(void **state)
{
    (void)state;
    open_ragged();
    struct weft_atom *before = held(COLUMNS_OF(1), NUMBERS(10, 11, 12, 13, 14, 15));
    struct weft_atom *x = real(ROWS_OF(1), NUMBERS(21, 22, 23, 24));
    struct weft_atom *after = weft_store_of(&s.f, before, x, supply(NUMBERS(5, -1, 2, 1)));
    expect(after, 14, 21, 10, 24, 14, 21, 10, 24, 23, 13, 0, 0, 14, 21, 10, 24);
    expect(before, 14, 15, 10, 11, 14, 15, 10, 11, 12, 13, 0, 0, 14, 15, 10, 11);
    assert_ptr_equal(weft_own_of(&s.f, after), x);
    struct weft_atom *lanes = held(LANES_OF(2), NUMBERS(1, 2, 3, 4, 5, 6));
    struct weft_atom *now = real(LANES_OF(2), NUMBERS(10, 20, 30, 40, 50, 60));
    expect(weft_store_of(&s.f, lanes, now, supply(NUMBERS(2, -1, 0))), 50, 60, 3, 4, 10, 20);
}

/* Rows of sequences 0 and 2 alternate; sequence 1 has none. */
static void rows_of_sequences(void **state)
{
    (void)state;
    static const int32_t mixed[] = {0, 2, 0, 2}, at[] = {0, 0, 1, 1};
    s.frame.batch = 4;
    s.frame.sequences = 3;
    s.frame.seq = mixed;
    s.frame.pos = at;
    struct weft_atom *x = real(ROWS_OF(2), NUMBERS(1, -1, 10, -10, 2, -2, 20, -20));
    expect(weft_cumulate_of(&s.f, x), 1, -1, 10, -10, 3, -3, 30, -30);
    expect(weft_pool_of(&s.f, x, WEFT_POOL_SUM), 3, -3, 0, 0, 30, -30);
    struct weft_atom *most = weft_pool_of(&s.f, x, WEFT_POOL_MAX);
    expect(most, 2, -1, 0, 0, 20, -10);
    expect(weft_spread_of(&s.f, most), 2, -1, 20, -10, 2, -1, 20, -10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sources),
        TEST(broadcasting),
        TEST(functions),
        TEST(conditions),
        TEST(matrices),
        TEST(reductions),
        TEST(softmax),
        TEST(shapes),
        TEST(indices),
        TEST(top),
        TEST(training),
        TEST(stop),
        TEST(pairs_of_rows),
        TEST(columns_in_pages),
        TEST(columns_of_the_call),
        TEST(store),
        TEST(rows_of_sequences),
    };
    return cmocka_run_group_tests_name("form", tests, NULL, NULL);
}
