/* SPDX-License-Identifier: MIT
 *
 * form_built.c - building forms: atoms that are one, builders and graphs that are rejected, damages for tests.
 *
 * run-tests: 1 s, asan 2 s
 */
#include "form_stage.h"

/* ---- atoms that are one */

static void equal_atoms_are_one(void **state)
{
    (void)state;
    struct weft_atom *x = real(FIXED(2, 6), NUMBERS(0)), *y = real(FIXED(2, 6), NUMBERS(0));
    int before;
    struct weft_atom *sum = weft_add_of(&s.f, x, y), *part = weft_slice_of(&s.f, x, 1, 1, 2);
    struct weft_atom *half = weft_real_of(&s.f, 0.5);
    before = s.f.count;
    assert_ptr_equal(weft_add_of(&s.f, x, y), sum);
    assert_ptr_equal(weft_slice_of(&s.f, x, -1, 1, 2), part);
    assert_ptr_equal(weft_real_of(&s.f, 0.5), half);
    assert_int_equal(s.f.count, before);
    assert_ptr_not_equal(weft_add_of(&s.f, y, x), sum);
    assert_ptr_not_equal(weft_slice_of(&s.f, x, 1, 2, 2), part);
    assert_ptr_not_equal(weft_number_of(&s.f, 0.5, WEFT_WHOLE), half);
    assert_ptr_not_equal(weft_matmul_of(&s.f, weft_slice_of(&s.f, x, 1, 0, 2), part, true),
                         weft_matmul_of(&s.f, weft_slice_of(&s.f, x, 1, 0, 2), part, false));
}

static void atoms_without_effect_are_left_out(void **state)
{
    (void)state;
    struct weft_atom *x = real(FIXED(2, 6), NUMBERS(0)), *split = weft_split_of(&s.f, x, 1, 3);
    assert_ptr_equal(weft_merge_of(&s.f, split, 1), x);
    struct weft_atom *again = weft_reshape_of(&s.f, split, FIXED(12));
    assert_int_equal(again->kind, WEFT_ATOM_reshape);
    assert_ptr_equal(again->in[0], x);
    assert_ptr_equal(weft_slice_of(&s.f, x, 1, 0, 6), x);
    assert_ptr_equal(weft_permute_of(&s.f, x, (const int[]){0, 1, 2, 3, 4, 5}), x);
    assert_ptr_equal(weft_expand_of(&s.f, x, FIXED(2, 6)), x);
    assert_ptr_equal(weft_to_of(&s.f, x, WEFT_REAL), x);
    assert_ptr_equal(weft_plus_of(&s.f, x, 0), x);
    assert_ptr_equal(weft_times_of(&s.f, x, 1), x);
}

/* ---- refusals */

#define refuses(atom, words) refuses_at((atom), (words), __FILE__, __LINE__)

static void refuses_at(struct weft_atom *a, const char *words, const char *file, int line)
{
    if (a)
        _fail(file, line);
    check_error_at(s.f.status, WEFT_INVALID, words, file, line);
    s.f.status = WEFT_OK;
}

static void builders_refuse_types(void **state)
{
    (void)state;
    struct weft_atom *x = real(FIXED(2, 3), NUMBERS(0)), *n = whole(FIXED(2, 3), NUMBERS(0)),
                     *rows = real(ROWS_OF(4), NUMBERS(0));
    struct weft_atom *is = weft_less_of(&s.f, n, n), *four = real(FIXED(4), NUMBERS(0));
    refuses(weft_add_of(&s.f, x, n), "add cannot have inputs real [2, 3] and whole [2, 3]");
    refuses(weft_mul_of(&s.f, x, four), "mul cannot have inputs real [2, 3] and real [4]");
    refuses(weft_less_of(&s.f, rows, x), "less cannot have inputs real [BATCH, NEW, 4] and real [2, 3]");
    refuses(weft_both_of(&s.f, is, x), "both cannot have inputs truth [2, 3] and real [2, 3]");
    refuses(weft_exp_of(&s.f, n), "exp cannot have inputs whole [2, 3]");
    refuses(weft_choose_of(&s.f, is, x, n), "choose cannot have inputs real [2, 3] and whole [2, 3]");
    refuses(weft_matmul_of(&s.f, x, x, false), "matmul cannot have inputs real [2, 3] and real [2, 3]");
    refuses(weft_sum_of(&s.f, x, 2), "sum cannot have inputs real [2, 3]");
    refuses(weft_softmax_of(&s.f, n, 0), "softmax cannot have inputs whole [2, 3]");
    refuses(weft_permute_of(&s.f, x, (const int[]){0, 0, 2, 3, 4, 5}), "permute cannot have inputs real [2, 3]");
    refuses(weft_reshape_of(&s.f, x, FIXED(4)), "real [2, 3] cannot become real [4]");
    refuses(weft_reshape_of(&s.f, rows, FIXED(4)), "real [BATCH, NEW, 4] cannot become real [4]");
    refuses(weft_expand_of(&s.f, x, FIXED(2, 4)), "real [2, 3] cannot be expanded to real [2, 4]");
    refuses(weft_concat_of(&s.f, x, four, 0), "concat cannot have inputs real [2, 3] and real [4]");
    refuses(weft_slice_of(&s.f, x, 1, 2, 2), "slice cannot have inputs real [2, 3]");
    refuses(weft_slice_of(&s.f, rows, 1, 0, 1), "slice cannot have inputs real [BATCH, NEW, 4]");
    refuses(weft_pad_of(&s.f, x, 1, -1, 0), "pad cannot have inputs real [2, 3]");
}

static void builders_refuse_indices_and_rows(void **state)
{
    (void)state;
    struct weft_atom *x = real(FIXED(2, 3), NUMBERS(0)), *n = whole(FIXED(2, 3), NUMBERS(0)),
                     *rows = real(ROWS_OF(4), NUMBERS(0));
    struct weft_atom *columns = held(COLUMNS_OF(4), NUMBERS(0)), *four = whole(FIXED(4), NUMBERS(0));
    refuses(weft_take_of(&s.f, x, x, 0), "take cannot have inputs real [2, 3] and real [2, 3]");
    refuses(weft_pick_of(&s.f, x, four, 0), "pick cannot have inputs real [2, 3] and whole [4]");
    refuses(weft_put_of(&s.f, x, n, n, 1), "put cannot have inputs real [2, 3] and whole [2, 3]");
    refuses(weft_top_of(&s.f, x, 1, 0), "top cannot have inputs real [2, 3]");
    refuses(weft_keys_of(&s.f, x), "keys cannot have inputs real [2, 3]");
    refuses(weft_own_of(&s.f, x), "own cannot have inputs real [2, 3]");
    refuses(weft_store_of(&s.f, rows, rows, "at"),
            "store cannot have inputs real [BATCH, NEW, 4] and real [BATCH, NEW, 4]");
    refuses(weft_store_of(&s.f, columns, x, "at"), "store cannot have inputs real [BATCH, ALL, 4] and real [2, 3]");
    refuses(weft_cumulate_of(&s.f, columns), "cumulate cannot have inputs real [BATCH, ALL, 4]");
    refuses(weft_pool_of(&s.f, x, WEFT_POOL_SUM), "pool cannot have inputs real [2, 3]");
    refuses(weft_spread_of(&s.f, rows), "spread cannot have inputs real [BATCH, NEW, 4]");
    refuses(weft_drop_of(&s.f, x, (struct weft_drop){.p = 0.5}), "drop cannot have inputs real [2, 3]");
    refuses(weft_split_of(&s.f, x, 1, 2), "dimension 1 of real [2, 3] cannot be divided by 2");
    refuses(weft_merge_of(&s.f, rows, 0), "dimensions 0 and 1 of real [BATCH, NEW, 4] cannot be merged");
    refuses(weft_array_of(&s.f, ROWS_OF(4), "rows", fill_squares, NULL), "an array must have fixed dimensions");
}

/* After a failure, builders return NULL, and the form keeps the first error. */
static void nothing_gives_nothing(void **state)
{
    (void)state;
    struct weft_atom *x = real(FIXED(2, 3), NUMBERS(0));
    int before = s.f.count;
    assert_null(weft_add_of(&s.f, x, NULL));
    assert_null(weft_choose_of(&s.f, NULL, x, x));
    assert_null(weft_exp_of(&s.f, NULL));
    assert_null(weft_to_of(&s.f, NULL, WEFT_REAL));
    assert_null(weft_matmul_of(&s.f, NULL, x, true));
    assert_null(weft_mean_of(&s.f, NULL, 0));
    assert_null(weft_reshape_of(&s.f, NULL, FIXED(6)));
    assert_null(weft_swap_of(&s.f, NULL, 0, 1));
    assert_null(weft_split_of(&s.f, NULL, 0, 2));
    assert_null(weft_repeat_of(&s.f, NULL, 0, 2));
    assert_null(weft_concat_of(&s.f, NULL, x, 0));
    assert_null(weft_put_of(&s.f, x, NULL, x, 0));
    assert_null(weft_top_of(&s.f, NULL, 0, 1));
    assert_null(weft_keys_of(&s.f, NULL));
    assert_null(weft_store_of(&s.f, NULL, x, "at"));
    assert_null(weft_spread_of(&s.f, NULL));
    assert_null(weft_plus_of(&s.f, NULL, 2));
    assert_int_equal(s.f.count, before);
    check(s.f.status);
    weft_form_fail(&s.f, "the first failure");
    weft_form_fail(&s.f, "the second failure");
    assert_null(weft_add_of(&s.f, x, x));
    check_error(s.f.status, WEFT_INVALID, "the first failure");
}

/* Lowers a graph that has one op. */
static enum weft_status lower_one(bool differentiated)
{
    struct weft_form f;
    struct weft_graph *g = weft_graph_new(WEFT_F32);
    struct weft_value *x = weft_case_input(g, "x", WEFT_F32, 3, 4), *y = weft_scale(g, x, 2);
    struct weft_value *seed = weft_graph_input(g, "seed", WEFT_F32, y->shape);
    weft_graph_output(g, y);
    if (differentiated)
        check(weft_graph_backward_from(g, 1, &y, &seed));
    check(weft_graph_status(g));
    enum weft_status status = weft_form_init(&f, g, true, 1);
    weft_form_release(&f);
    weft_graph_free(g);
    return status;
}

static void graphs_are_refused(void **state)
{
    (void)state;
    struct weft_op bare = *weft_op(WEFT_OP_scale);
    bare.lower = NULL;
    check(lower_one(false));
    check_error(lower_one(true), WEFT_INVALID, "scale: its form is wrong: the graph is differentiated already");
    weft_op_replace(WEFT_OP_scale, &bare);
    enum weft_status status = lower_one(false);
    weft_op_replace(WEFT_OP_scale, NULL);
    check_error(status, WEFT_INVALID, "scale: its form is wrong: the op has no form");
}

static void negate_number(void *context, struct weft_form *f, struct weft_atom *a)
{
    (void)f;
    *(int *)context += 1;
    a->value = a->kind == WEFT_ATOM_number ? -a->value : a->value;
}

static void damages_are_those_of_the_test(void **state)
{
    (void)state;
    int seen = 0;
    struct weft_atom *x = real(FIXED(1), NUMBERS(3));
    weft_form_damage(negate_number, &seen);
    struct weft_atom *y = weft_times_of(&s.f, x, 2);
    weft_form_damage(NULL, NULL);
    assert_int_equal(seen, 2);
    expect(y, -6);
    expect(weft_times_of(&s.f, x, 2), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(equal_atoms_are_one),           TEST(atoms_without_effect_are_left_out),
        TEST(builders_refuse_types),         TEST(builders_refuse_indices_and_rows),
        TEST(nothing_gives_nothing),         TEST(graphs_are_refused),
        TEST(damages_are_those_of_the_test),
    };
    return cmocka_run_group_tests_name("form_built", tests, NULL, NULL);
}
