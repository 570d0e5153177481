/* SPDX-License-Identifier: MIT
 *
 * graph.c - the graph: states that outlive a run, threads, values without a gradient, and recomputation.
 *
 * run-tests: 1 s, aarch64 1 s, asan 1 s
 */
#include "ops/ops.h"
#include "test.h"

enum { ROWS = 3, WIDTH = 4, SLOTS = 8 };

/* ---- states */

struct cache { /* stores x in a state; before and after are twice the state's content before and after that */
    struct weft_graph *g;
    struct weft_value *x, *index, *state, *stored, *before, *after;
};

static void open_cache(struct cache *c, enum weft_dtype dtype)
{
    c->g = weft_graph_new(dtype);
    c->x = weft_case_input(c->g, "x", dtype, ROWS, WIDTH);
    c->index = weft_case_input(c->g, "index", WEFT_I32, ROWS, 0);
    c->state = weft_graph_state(c->g, "state", dtype, WEFT_SHAPE(weft_fixed(SLOTS), weft_fixed(WIDTH)));
    weft_graph_output(c->g, c->before = weft_scale(c->g, c->state, 2));
    c->stored = weft_store(c->g, c->state, c->x, c->index);
    struct weft_value *flat = weft_view(c->g, c->stored, WEFT_SHAPE(weft_fixed(SLOTS * WIDTH)));
    weft_graph_output(c->g, c->after = weft_scale(c->g, flat, 2));
    assert_int_equal(weft_graph_status(c->g), WEFT_OK);
}

/* Sets every element of x to `value` and the indices of its rows, then runs. */
static void put(const struct cache *c, struct weft_exec *exec, double value, const int32_t index[ROWS])
{
    struct weft_tensor *x = weft_exec_tensor(exec, c->x);
    for (int64_t i = 0; i < weft_tensor_count(x); i++)
        weft_tensor_set(x, i, value);
    memcpy(weft_exec_tensor(exec, c->index)->data, index, ROWS * sizeof *index);
    weft_exec_prepare(exec);
    weft_exec_run(exec);
}

static void expect_rows(struct weft_exec *exec, const struct weft_value *v, double factor, const double rows[SLOTS])
{
    const struct weft_tensor *t = weft_exec_tensor(exec, v);
    for (int64_t i = 0; i < SLOTS * WIDTH; i++)
        assert_true(weft_tensor_get(t, i) == factor * rows[i / WIDTH]);
}

static void a_state_keeps_its_content(void **state)
{
    static const struct {
        enum weft_dtype dtype;
        enum weft_mode mode;
    } ways[] = {{WEFT_F32, WEFT_FAST},
                {WEFT_BF16, WEFT_FAST},
                {WEFT_BF16, WEFT_GUARDED},
                {WEFT_BF16, WEFT_ROUNDED},
                {WEFT_F32, WEFT_REFERENCE}};
    (void)state;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct cache c;
        struct weft_exec *exec;
        double memory[SLOTS * WIDTH] = {0}; /* large enough for any type */
        open_cache(&c, ways[w].dtype);
        assert_int_equal(weft_exec_create(&exec, c.g, ways[w].mode), WEFT_OK);
        weft_exec_bind(exec, c.state, memory);
        assert_ptr_equal(weft_exec_tensor(exec, c.state)->data, memory);
        assert_ptr_equal(weft_exec_tensor(exec, c.stored)->data, memory);
        put(&c, exec, 1, (int32_t[]){0, 7, 3});
        expect_rows(exec, c.before, 2, (double[SLOTS]){0});
        expect_rows(exec, c.after, 2, (double[SLOTS]){1, 0, 0, 1, 0, 0, 0, 1});
        put(&c, exec, 2, (int32_t[]){4, -1, 3});
        expect_rows(exec, c.before, 2, (double[SLOTS]){1, 0, 0, 1, 0, 0, 0, 1});
        expect_rows(exec, c.after, 2, (double[SLOTS]){1, 0, 0, 2, 2, 0, 0, 1});
        expect_rows(exec, c.state, 1, (double[SLOTS]){1, 0, 0, 2, 2, 0, 0, 1});
        weft_exec_free(exec);
        weft_graph_free(c.g);
    }
}

static void a_store_runs_although_nobody_reads_it(void **state)
{
    (void)state;
    float memory[SLOTS * WIDTH] = {0};
    struct cache c = {.g = weft_graph_new(WEFT_F32)};
    struct weft_exec *exec;
    c.x = weft_case_input(c.g, "x", WEFT_F32, ROWS, WIDTH);
    c.index = weft_case_input(c.g, "index", WEFT_I32, ROWS, 0);
    c.state = weft_graph_state(c.g, "state", WEFT_F32, WEFT_SHAPE(weft_fixed(SLOTS), weft_fixed(WIDTH)));
    weft_store(c.g, c.state, c.x, c.index);
    assert_int_equal(weft_exec_create(&exec, c.g, WEFT_FAST), WEFT_OK);
    weft_exec_bind(exec, c.state, memory);
    put(&c, exec, 5, (int32_t[]){1, 2, SLOTS});
    expect_rows(exec, c.state, 1, (double[SLOTS]){0, 5, 5});
    weft_exec_free(exec);
    weft_graph_free(c.g);
}

static void expect_broken(struct cache *c, const struct weft_value *y, const char *word)
{
    assert_null(y);
    assert_int_equal(weft_graph_status(c->g), WEFT_INVALID);
    assert_non_null(strstr(weft_error(), word));
    weft_graph_free(c->g);
}

static void states_are_refused_when_misused(void **state)
{
    (void)state;
    struct cache c;
    open_cache(&c, WEFT_F32);
    expect_broken(&c, weft_scale(c.g, c.state, 2), "before an update"); /* that content was overwritten */
    open_cache(&c, WEFT_F32);
    expect_broken(&c, weft_store(c.g, c.state, c.x, c.index), "before an update");
    open_cache(&c, WEFT_F32);
    assert_non_null(weft_store(c.g, c.stored, c.x, c.index));
    expect_broken(&c, weft_scale(c.g, c.stored, 2), "before an update");
    open_cache(&c, WEFT_F32);
    expect_broken(&c, weft_store(c.g, c.before, c.x, c.index), "only a state");
    open_cache(&c, WEFT_F32);
    expect_broken(&c, weft_store(c.g, c.stored, c.after, c.index), "columns, but the state is");
    open_cache(&c, WEFT_F32);
    expect_broken(&c, weft_store(c.g, c.stored, c.x, c.x), "index");
    open_cache(&c, WEFT_F32);
    expect_broken(&c, weft_graph_state(c.g, "more", WEFT_I32, c.state->shape), "float");
}

/* Differentiation moves the loss, and so the nodes that read it, to the backward pass. The store must stay after them.
 */
static void a_delayed_reader_still_comes_first(void **state)
{
    (void)state;
    float weights[2 * WIDTH] = {1, 0, 0, 0, 0, 1, 0, 0}, sums[2 * WIDTH] = {0}, memory = 7;
    struct cache c = {.g = weft_graph_new(WEFT_F32)};
    struct weft_exec *exec;
    struct weft_shape one = WEFT_SHAPE(weft_fixed(1)), cell = WEFT_SHAPE(weft_fixed(1), weft_fixed(1));
    c.x = weft_case_input(c.g, "x", WEFT_F32, ROWS, WIDTH);
    c.index = weft_case_input(c.g, "index", WEFT_I32, ROWS, 0);
    c.state = weft_graph_state(c.g, "state", WEFT_F32, cell);
    struct weft_value *w = weft_graph_param(c.g, "w", WEFT_SHAPE(weft_fixed(2), weft_fixed(WIDTH)));
    struct weft_value *weight = weft_graph_input(c.g, "weight", WEFT_F32, one);
    struct weft_value *slot = weft_graph_input(c.g, "slot", WEFT_I32, one);
    struct weft_value *next = weft_graph_input(c.g, "next", WEFT_F32, cell);
    struct weft_value *loss = weft_cross_entropy(c.g, c.x, w, c.index, weight, 0);
    struct weft_value *sum = weft_add(c.g, loss, weft_view(c.g, c.state, one));
    weft_store(c.g, c.state, next, slot);
    weft_graph_output(c.g, loss);
    weft_graph_output(c.g, sum);
    assert_int_equal(weft_graph_backward(c.g, loss), WEFT_OK);
    assert_int_equal(weft_exec_create(&exec, c.g, WEFT_FAST), WEFT_OK);
    weft_exec_bind(exec, w, weights);
    weft_exec_bind(exec, weft_graph_gradient(w), sums);
    weft_exec_bind(exec, c.state, &memory);
    *(int32_t *)weft_exec_tensor(exec, slot)->data = 0;
    weft_tensor_set(weft_exec_tensor(exec, next), 0, 9);
    weft_tensor_set(weft_exec_tensor(exec, weight), 0, 1);
    put(&c, exec, 0, (int32_t[]){0, 1, 1});
    double without = weft_tensor_get(weft_exec_tensor(exec, loss), 0);
    assert_true(without > 0);
    assert_true(weft_tensor_get(weft_exec_tensor(exec, sum), 0) == (float)(without + 7));
    assert_true(memory == 9);
    weft_exec_free(exec);
    weft_graph_free(c.g);
}

/* ---- threads */

/* An exec keeps the number of threads it was planned for, whatever the process's default becomes. */
static void threads_are_the_exec_s_own(void **state)
{
    (void)state;
    enum { N = 300, WIDE = 64 };
    struct weft_graph *g = weft_graph_new(WEFT_F32);
    struct weft_value *x = weft_case_input(g, "x", WEFT_F32, N, WIDE);
    struct weft_value *w = weft_graph_param(g, "w", WEFT_SHAPE(weft_fixed(WIDE), weft_fixed(WIDE)));
    struct weft_value *y = weft_linear(g, x, w, NULL, NULL, WEFT_F32);
    weft_graph_output(g, y);
    assert_int_equal(weft_graph_status(g), WEFT_OK);
    struct weft_exec *exec;
    assert_int_equal(weft_threads_set(1), WEFT_OK);
    assert_int_equal(weft_exec_create(&exec, g, WEFT_GUARDED), WEFT_OK);
    float weights[WIDE * WIDE], first[N * WIDE];
    for (int i = 0; i < WIDE * WIDE; i++)
        weights[i] = (float)(i % 7) - 3;
    for (int i = 0; i < N * WIDE; i++)
        weft_tensor_set(weft_exec_tensor(exec, x), i, i % 5 - 2);
    weft_exec_bind(exec, w, weights);
    for (int threads = 1; threads <= 16; threads *= 4) {
        assert_int_equal(weft_threads_set(threads), WEFT_OK);
        assert_int_equal(weft_exec_prepare(exec), WEFT_OK);
        assert_int_equal(weft_exec_run(exec), WEFT_OK);
        assert_int_equal(weft_threads(), threads);
        assert_null(weft_exec_overrun(exec));
        const float *now = weft_exec_tensor(exec, y)->data;
        if (threads == 1)
            memcpy(first, now, sizeof first);
        assert_memory_equal(first, now, sizeof first);
    }
    assert_int_equal(weft_threads_set(0), WEFT_OK);
    weft_exec_free(exec);
    weft_graph_free(g);
}

/* ---- preparing once for two */

struct product {
    struct weft_graph *g;
    struct weft_value *x, *w, *y;
    struct weft_exec *exec;
};

static void open_product(struct product *p, const char *weight, const struct product *other, float *weights)
{
    enum { WIDE = 64 };
    p->g = weft_graph_new(WEFT_BF16);
    p->x = weft_case_input(p->g, "x", WEFT_BF16, other ? 1 : 5, WIDE);
    p->w = weft_graph_param(p->g, weight, WEFT_SHAPE(weft_fixed(WIDE), weft_fixed(WIDE)));
    p->y = weft_linear(p->g, p->x, p->w, NULL, NULL, WEFT_F32);
    weft_graph_output(p->g, p->y);
    assert_int_equal(other ? weft_exec_create_beside(&p->exec, p->g, other->exec)
                           : weft_exec_create(&p->exec, p->g, WEFT_FAST),
                     WEFT_OK);
    weft_exec_bind(p->exec, p->w, weights);
    for (int i = 0; i < WIDE; i++)
        weft_tensor_set(weft_exec_tensor(p->exec, p->x), i, i % 5 - 2);
    assert_int_equal(weft_exec_prepare(p->exec), WEFT_OK);
    assert_int_equal(weft_exec_run(p->exec), WEFT_OK);
}

static void close_product(struct product *p)
{
    weft_exec_free(p->exec);
    weft_graph_free(p->g);
}

static void what_another_has_packed_is_not_packed_again(void **state)
{
    (void)state;
    struct product many, same, other;
    float weights[64 * 64];
    for (int i = 0; i < 64 * 64; i++)
        weights[i] = (float)(i % 7) - 3;
    open_product(&many, "w", NULL, weights);
    open_product(&same, "w", &many, weights);
    open_product(&other, "v", &many, weights);
    assert_memory_equal(weft_exec_tensor(same.exec, same.y)->data, weft_exec_tensor(many.exec, many.y)->data, 64 * 4);
    assert_memory_equal(weft_exec_tensor(other.exec, other.y)->data, weft_exec_tensor(many.exec, many.y)->data, 64 * 4);
    assert_true(weft_exec_bytes(same.exec) + 64 * 64 * 2 <= weft_exec_bytes(other.exec));
    close_product(&other);
    close_product(&same);
    close_product(&many);
}

/* y = 3 (2 w, as a matrix) */
static void what_is_borrowed_can_be_viewed(void **state)
{
    (void)state;
    enum { SIDE = 8 };
    struct weft_graph *g[2];
    struct weft_exec *exec[2];
    float weights[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++)
        weights[i] = (float)i;
    for (int k = 0; k < 2; k++) {
        g[k] = weft_graph_new(WEFT_F32);
        struct weft_value *w = weft_graph_param(g[k], "w", WEFT_SHAPE(weft_fixed(SIDE * SIDE)));
        struct weft_shape matrix = WEFT_SHAPE(weft_fixed(SIDE), weft_fixed(SIDE));
        struct weft_value *v = weft_view(g[k], weft_scale(g[k], w, 2), matrix), *y = weft_scale(g[k], v, 3);
        weft_graph_output(g[k], v); /* so that it is kept */
        weft_graph_output(g[k], y);
        assert_int_equal(k ? weft_exec_create_beside(&exec[k], g[k], exec[0])
                           : weft_exec_create(&exec[k], g[k], WEFT_FAST),
                         WEFT_OK);
        weft_exec_bind(exec[k], w, weights);
        assert_int_equal(weft_exec_prepare(exec[k]), WEFT_OK);
        assert_int_equal(weft_exec_run(exec[k]), WEFT_OK);
        for (int i = 0; i < SIDE * SIDE; i++)
            assert_true(weft_tensor_get(weft_exec_tensor(exec[k], y), i) == 6 * i);
    }
    assert_true(weft_exec_bytes(exec[1]) < weft_exec_bytes(exec[0]));
    for (int k = 1; k >= 0; k--) {
        weft_exec_free(exec[k]);
        weft_graph_free(g[k]);
    }
}

/* ---- detach */

static void what_is_detached_has_no_gradient(void **state)
{
    (void)state;
    struct weft_graph *g = weft_graph_new(WEFT_F32);
    struct weft_exec *exec;
    struct weft_value *x = weft_case_input(g, "x", WEFT_F32, ROWS, WIDTH);
    struct weft_value *lone = weft_case_input(g, "lone", WEFT_F32, ROWS, WIDTH);
    struct weft_value *seed = weft_graph_input(g, "seed", WEFT_F32, x->shape);
    struct weft_value *y = weft_add(g, weft_mul(g, weft_detach(g, x), x), weft_detach(g, lone));
    assert_int_equal(weft_graph_backward_from(g, 1, &y, &seed), WEFT_OK);
    assert_null(weft_graph_gradient(lone));
    assert_int_equal(weft_exec_create(&exec, g, WEFT_FAST), WEFT_OK);
    for (int64_t i = 0; i < ROWS * WIDTH; i++) {
        weft_tensor_set(weft_exec_tensor(exec, x), i, (double)i);
        weft_tensor_set(weft_exec_tensor(exec, seed), i, 1);
    }
    weft_exec_run(exec);
    for (int64_t i = 0; i < ROWS * WIDTH; i++) /* the gradient of x^2 would be 2x */
        assert_true(weft_tensor_get(weft_exec_tensor(exec, weft_graph_gradient(x)), i) == (double)i);
    weft_exec_free(exec);
    weft_graph_free(g);
}

/* ---- recomputation */

enum { LAYERS = 3, NARROW = 16, BROAD = 64, BATCH = 32 };
enum way { KEPT, ONE, CHAIN, LAYER };

/* Residual layers x += W2 gelu(W1 norm(x)). Each layer also multiplies its hidden values with the hidden values of the
 * layer before, so that the backward pass of two layers reads them. */
static void build_layers(struct weft_graph *g, enum way way, struct weft_value *params[4 * LAYERS])
{
    struct weft_value *x = weft_case_input(g, "x", WEFT_F32, BATCH, NARROW), *last = NULL;
    for (int layer = 0; layer < LAYERS; layer++) {
        char name[4][16];
        struct weft_value **w = params + 4 * layer;
        for (int i = 0; i < 4; i++)
            snprintf(name[i], sizeof name[i], "w%d.%d", i, layer);
        weft_graph_label(g, layer);
        w[0] = weft_graph_param(g, name[0], WEFT_SHAPE(weft_fixed(NARROW)));
        w[1] = weft_graph_param(g, name[1], WEFT_SHAPE(weft_fixed(BROAD), weft_fixed(NARROW)));
        w[2] = weft_graph_param(g, name[2], WEFT_SHAPE(weft_fixed(NARROW), weft_fixed(BROAD)));
        w[3] = weft_graph_param(g, name[3], WEFT_SHAPE(weft_fixed(BROAD)));
        struct weft_value *norm = weft_rmsnorm(g, x, w[0], 1e-6, WEFT_F32);
        struct weft_value *up = weft_linear(g, norm, w[1], w[3], NULL, WEFT_F32), *act = weft_gelu(g, up);
        struct weft_value *seen = weft_view(g, act, act->shape), *both = last ? weft_mul(g, seen, last) : seen;
        x = weft_linear(g, both, w[2], NULL, x, WEFT_F32);
        last = seen;
        if (way == ONE || way == CHAIN)
            weft_graph_mark_recompute(seen);
        if (way == CHAIN)
            weft_graph_mark_recompute(up);
        if (way == CHAIN)
            weft_graph_mark_recompute(norm);
    }
    weft_graph_label(g, -1);
    weft_graph_output(g, x);
    struct weft_value *seed = weft_graph_input(g, "seed", WEFT_F32, x->shape);
    assert_int_equal(weft_graph_backward_from(g, 1, &x, &seed), WEFT_OK);
    if (way == LAYER)
        assert_int_equal(weft_graph_recompute(g), WEFT_OK);
    else if (way != KEPT)
        assert_int_equal(weft_graph_recompute_marked(g), WEFT_OK);
}

/* Runs the layers, writes all gradients to `to`, and returns the planned bytes. */
static size_t gradients(enum way way, float *to)
{
    struct weft_graph *g = weft_graph_new(WEFT_F32);
    struct weft_value *params[4 * LAYERS], *const *all;
    struct weft_exec *exec;
    float *memory = calloc(2 * 4 * LAYERS, NARROW * BROAD * sizeof(float)), *next = memory;
    build_layers(g, way, params);
    assert_int_equal(weft_exec_create(&exec, g, WEFT_FAST), WEFT_OK);
    int values = weft_graph_values(g, &all);
    for (int v = 0; v < values; v++) {
        struct weft_tensor *t = weft_exec_tensor(exec, all[v]);
        if (all[v]->kind == WEFT_VALUE)
            continue;
        if (all[v]->kind != WEFT_INPUT)
            weft_exec_bind(exec, all[v], next);
        if (all[v]->kind != WEFT_INPUT)
            next += NARROW * BROAD;
        for (int64_t i = 0; all[v]->kind != WEFT_GRAD && i < weft_tensor_count(t); i++)
            weft_tensor_set(t, i, weft_normal(weft_key_name(1, all[v]->name), (uint64_t)i) / 4);
    }
    weft_exec_prepare(exec);
    weft_exec_run(exec);
    for (int p = 0; p < 4 * LAYERS; p++)
        memcpy(to + p * NARROW * BROAD, weft_exec_tensor(exec, weft_graph_gradient(params[p]))->data,
               (size_t)weft_tensor_count(weft_exec_tensor(exec, params[p])) * sizeof *to);
    size_t bytes = weft_exec_bytes(exec);
    weft_exec_free(exec);
    weft_graph_free(g);
    free(memory);
    return bytes;
}

static void recomputed_values_have_the_same_bits(void **state)
{
    static const char *const names[] = {"all kept", "one value per layer", "a chain per layer", "whole layers"};
    (void)state;
    size_t room = 4 * LAYERS * NARROW * BROAD, bytes[4];
    float *want = calloc(room, sizeof *want), *got = calloc(room, sizeof *got);
    for (enum way way = KEPT; way <= LAYER; way++) {
        bytes[way] = gradients(way, way == KEPT ? want : got);
        print_message("%s: planned %zu bytes\n", names[way], bytes[way]);
        if (way != KEPT)
            assert_memory_equal(want, got, room * sizeof *want);
    }
    double sum = 0;
    for (size_t i = 0; i < room; i++)
        sum += want[i] * want[i];
    assert_true(sum > 0);
    assert_true(bytes[ONE] < bytes[KEPT] && bytes[CHAIN] < bytes[ONE] && bytes[LAYER] < bytes[KEPT]);
    free(want);
    free(got);
}

/* A state has other content by the time of the backward pass: values computed from it are kept, marked or not. */
static void state_readers_are_not_recomputed(void **state)
{
    (void)state;
    struct cache c = {.g = weft_graph_new(WEFT_F32)};
    float memory[SLOTS * WIDTH];
    struct weft_exec *exec;
    for (int i = 0; i < SLOTS * WIDTH; i++)
        memory[i] = (float)i;
    weft_graph_label(c.g, 0);
    struct weft_value *y = weft_graph_input(c.g, "y", WEFT_F32, WEFT_SHAPE(weft_fixed(SLOTS), weft_fixed(WIDTH)));
    y->wants_grad = true;
    c.x = weft_case_input(c.g, "x", WEFT_F32, ROWS, WIDTH);
    c.index = weft_case_input(c.g, "index", WEFT_I32, ROWS, 0);
    c.state = weft_graph_state(c.g, "state", WEFT_F32, y->shape);
    struct weft_value *twice = weft_scale(c.g, c.state, 2), *product = weft_mul(c.g, twice, y);
    weft_store(c.g, c.state, c.x, c.index);
    struct weft_value *seed = weft_graph_input(c.g, "seed", WEFT_F32, y->shape);
    assert_int_equal(weft_graph_backward_from(c.g, 1, &product, &seed), WEFT_OK);
    assert_int_equal(weft_graph_recompute(c.g), WEFT_OK);
    assert_int_equal(weft_exec_create(&exec, c.g, WEFT_FAST), WEFT_OK);
    weft_exec_bind(exec, c.state, memory);
    for (int64_t i = 0; i < SLOTS * WIDTH; i++)
        weft_tensor_set(weft_exec_tensor(exec, seed), i, 1);
    put(&c, exec, -1, (int32_t[]){0, 1, 2});
    for (int64_t i = 0; i < SLOTS * WIDTH; i++)
        assert_true(weft_tensor_get(weft_exec_tensor(exec, weft_graph_gradient(y)), i) == 2 * (double)i);
    weft_exec_free(exec);
    weft_graph_free(c.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_keeps_its_content),
        cmocka_unit_test(a_store_runs_although_nobody_reads_it),
        cmocka_unit_test(states_are_refused_when_misused),
        cmocka_unit_test(a_delayed_reader_still_comes_first),
        cmocka_unit_test(threads_are_the_exec_s_own),
        cmocka_unit_test(what_another_has_packed_is_not_packed_again),
        cmocka_unit_test(what_is_borrowed_can_be_viewed),
        cmocka_unit_test(what_is_detached_has_no_gradient),
        cmocka_unit_test(recomputed_values_have_the_same_bits),
        cmocka_unit_test(state_readers_are_not_recomputed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
