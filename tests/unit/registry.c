/* SPDX-License-Identifier: MIT
 *
 * registry.c - the registry, and errors of builders: a bad call fails the graph with a message, and later calls return
 * NULL.
 *
 * run-tests: 1 s, asan 1 s
 */
#include "ops/ops.h"
#include "test.h"

static void every_op_has_a_descriptor(void **state)
{
    (void)state;
    static const char *const names[] = {
#define OP(name, parameters) #name,
#include "ops/ops.def"
#undef OP
    };
    for (int id = 0; id < WEFT_OP_COUNT; id++) {
        assert_string_equal(weft_op((enum weft_op_id)id)->name, names[id]);
        assert_true(strlen(weft_op((enum weft_op_id)id)->summary) > 0);
    }
}

static void a_replaced_op_comes_back(void **state)
{
    (void)state;
    const struct weft_op *right = weft_op(WEFT_OP_gelu), *wrong = weft_op(WEFT_OP_silu);
    weft_op_replace(WEFT_OP_gelu, wrong);
    assert_ptr_equal(weft_op(WEFT_OP_gelu), wrong);
    weft_op_replace(WEFT_OP_gelu, NULL);
    assert_ptr_equal(weft_op(WEFT_OP_gelu), right);
}

static void dropout_keys_depend_on_everything(void **state)
{
    (void)state;
    const int32_t step_key[4] = {1, 2, 3, 4};
    uint64_t key = weft_dropout_key(step_key, 5, 6, 7);
    assert_true(key == weft_dropout_key(step_key, 5, 6, 7));
    assert_true(key != weft_dropout_key(step_key, 6, 6, 7));
    assert_true(key != weft_dropout_key(step_key, 5, 7, 7));
    assert_true(key != weft_dropout_key(step_key, 5, 6, 8));
    for (int i = 0; i < 4; i++) {
        int32_t other[4] = {1, 2, 3, 4};
        other[i] = -1;
        assert_true(key != weft_dropout_key(other, 5, 6, 7));
    }
}

static struct weft_graph *graph;
static struct weft_value *x, *narrow, *ids;

static int open_graph(void **state)
{
    (void)state;
    graph = weft_graph_new(WEFT_F32);
    x = weft_case_input(graph, "x", WEFT_F32, 4, 6);
    narrow = weft_case_input(graph, "narrow", WEFT_F32, 4, 5);
    ids = weft_case_input(graph, "ids", WEFT_I32, 4, 0);
    return 0;
}

static int close_graph(void **state)
{
    (void)state;
    weft_graph_free(graph);
    return 0;
}

static void expect_refused(const struct weft_value *y, const char *word)
{
    assert_null(y);
    assert_int_equal(weft_graph_status(graph), WEFT_INVALID);
    assert_non_null(strstr(weft_error(), word));
    assert_null(weft_gelu(graph, weft_add(graph, weft_view(graph, NULL, (struct weft_shape){0}), NULL)));
    assert_null(weft_sibling(NULL, 0));
}

static void add_refuses_other_shapes(void **state)
{
    (void)state;
    expect_refused(weft_add(graph, x, narrow), "shapes");
}

static void slice_refuses_columns_outside(void **state)
{
    (void)state;
    expect_refused(weft_slice(graph, x, 4, 3), "columns");
}

static void view_refuses_another_count(void **state)
{
    (void)state;
    expect_refused(weft_view(graph, x, WEFT_SHAPE(weft_fixed(24))), "elements");
}

static void rope_refuses_odd_heads(void **state)
{
    (void)state;
    expect_refused(weft_rope(graph, x, ids, 2, &(struct weft_rope_turns){.base = 10000}), "even");
}

static void dropout_refuses_to_drop_all(void **state)
{
    (void)state;
    struct weft_rows rows = {.seq = ids, .pos = ids, .sample = ids, .step_key = ids};
    assert_ptr_equal(weft_dropout(graph, x, &rows, 0, 0, 0), x);
    expect_refused(weft_dropout(graph, x, &rows, 1, 0, 0), "p = 1");
}

static void dropout_needs_its_rows(void **state)
{
    (void)state;
    expect_refused(weft_dropout(graph, x, &(struct weft_rows){.seq = ids, .pos = ids}, 0.1, 0, 0), "step_key");
}

static void embed_refuses_floats_as_ids(void **state)
{
    (void)state;
    expect_refused(weft_embed(graph, x, narrow), "ids");
}

int main(void)
{
#define IN_GRAPH(test) cmocka_unit_test_setup_teardown(test, open_graph, close_graph)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_descriptor),
        cmocka_unit_test(a_replaced_op_comes_back),
        cmocka_unit_test(dropout_keys_depend_on_everything),
        IN_GRAPH(add_refuses_other_shapes),
        IN_GRAPH(slice_refuses_columns_outside),
        IN_GRAPH(view_refuses_another_count),
        IN_GRAPH(rope_refuses_odd_heads),
        IN_GRAPH(dropout_refuses_to_drop_all),
        IN_GRAPH(dropout_needs_its_rows),
        IN_GRAPH(embed_refuses_floats_as_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
