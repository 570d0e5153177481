/* SPDX-License-Identifier: MIT
 *
 * mutants.c - the harness catches ops that are broken on purpose, and reports the right defect of each.
 *
 * A mutant is the original descriptor with one kernel wrapped. The wrapper calls the original kernel and does one thing
 * wrong before or after it, so that the intended defect is the only one.
 *
 * run-tests: 6 s, once
 */
#include "base/vmath_inl.h"
#include "check/check.h"
#include "ops/ops.h"
#include "unit/test.h"

static const struct weft_op *right; /* the original of the op that is broken */

/* ---- the defects */

/* A wrong sign in a gradient. */
static void negated_gradient(const struct weft_call *call)
{
    right->bwd.run(call);
    struct weft_tensor *g = call->gin[0];
    for (int64_t i = 0; g && i < weft_tensor_count(g); i++)
        weft_tensor_set(g, i, -weft_tensor_get(g, i));
}

/* A wrong causal mask: every query gets a position one too large, so it sees one future key. */
static void look_ahead(const struct weft_call *call, void (*kernel)(const struct weft_call *), int pos)
{
    struct weft_call mutant = *call;
    struct weft_tensor later = *call->in[pos];
    int64_t n = weft_tensor_count(&later);
    int32_t *copy = malloc((size_t)n * sizeof *copy + 1);
    const int32_t *now = later.data;
    for (int64_t i = 0; i < n; i++) /* but not past the last key of the sequence */
        copy[i] = i + 1 < n && now[i + 1] == now[i] + 1 ? now[i] + 1 : now[i];
    later.data = copy;
    mutant.in[pos] = &later;
    kernel(&mutant);
    free(copy);
}

enum { POSITION_INPUT = 7 }; /* attention's input of positions */

static void unmasked(const struct weft_call *call) { look_ahead(call, right->fwd.run, POSITION_INPUT); }

/* A sum whose order depends on threads: each thread sums the tiles it happens to get, then these sums are added. */
struct racing {
    const struct weft_tensor *dy;
    float *db;
    float part[64];
    int64_t column;
};

static void add_some(void *context, int64_t tile, int thread)
{
    struct racing *r = context;
    int64_t n = weft_tensor_width(r->dy), rows = weft_tensor_rows(r->dy);
    for (int64_t i = 0; i < 4 && tile * 4 + i < rows; i++)
        r->part[thread] += (float)weft_tensor_get(r->dy, (tile * 4 + i) * n + r->column);
}

static void summed_by_thread(const struct weft_call *call)
{
    struct racing r = {.dy = call->gout[0], .db = call->gin[1] ? call->gin[1]->data : NULL};
    for (r.column = 0; r.db && r.column < weft_tensor_width(r.dy); r.column++) {
        float sum = 0;
        memset(r.part, 0, sizeof r.part);
        weft_parallel(weft_div_up(weft_tensor_rows(r.dy), 4), add_some, &r);
        for (int t = 0; t < 64; t++)
            sum += r.part[t];
        r.db[r.column] += sum;
    }
    struct weft_call rest = *call;
    rest.gin[1] = NULL;
    if (rest.gin[0])
        right->bwd.run(&rest);
}

/* A write past the end. */
static void one_too_many(const struct weft_call *call)
{
    right->fwd.run(call);
    weft_tensor_set(call->out[0], weft_tensor_count(call->out[0]), 1);
}

/* A wrong saved value: the backward kernel gets a different rstd from the one that the forward kernel wrote. */
static void stale_statistic(const struct weft_call *call)
{
    struct weft_call mutant = *call;
    struct weft_tensor rstd = *call->out[1];
    int64_t n = weft_tensor_count(&rstd);
    float *copy = malloc((size_t)n * sizeof *copy + 1);
    for (int64_t i = 0; i < n; i++)
        copy[i] = 1.01f * ((const float *)rstd.data)[i];
    rstd.data = copy;
    mutant.out[1] = &rstd;
    right->bwd.run(&mutant);
    free(copy);
}

/* A gradient that is overwritten instead of accumulated. */
static void overwritten(const struct weft_call *call)
{
    struct weft_tensor *g = call->gin[1];
    if (g)
        memset(g->data, 0, (size_t)weft_tensor_count(g) * sizeof(float));
    right->bwd.run(call);
}

/* A wrong factor in both kernel and reference of a derivative: only finite differences can detect it. */
static void scaled_reference(const struct weft_call *call)
{
    right->bwd.ref(call);
    for (int64_t i = 0; i < weft_tensor_count(call->gin[0]); i++)
        weft_tensor_set(call->gin[0], i, 0.999 * weft_tensor_get(call->gin[0], i));
}

static void scaled_kernel(const struct weft_call *call)
{
    right->bwd.run(call);
    for (int64_t i = 0; i < weft_tensor_count(call->gin[0]); i++)
        weft_tensor_set(call->gin[0], i, 0.999 * weft_tensor_get(call->gin[0], i));
}

/* A row that depends on the number of rows. */
static void row_dependent(const struct weft_call *call)
{
    right->fwd.run(call);
    int64_t rows = weft_tensor_rows(call->out[0]);
    float nudge = 1 + 1e-6f * (float)(rows % 7);
    for (int64_t i = 0; i < weft_tensor_count(call->out[0]); i++)
        weft_tensor_set(call->out[0], i, (float)weft_tensor_get(call->out[0], i) * nudge);
}

/* An in-place kernel that reads its input after it has overwritten it. */
static void not_elementwise(const struct weft_call *call)
{
    const struct weft_tensor *x = call->in[0];
    right->fwd.run(call);
    double first = weft_tensor_get(x, 0);
    weft_tensor_set(call->out[0], 0, weft_tensor_get(call->out[0], 0) + 1e-7 * first);
}

/* A changed bit in a row of a state that should not be written. */
static void stray_bit(const struct weft_call *call)
{
    right->fwd.run(call);
    *(char *)call->out[0]->data ^= 1;
}

/* ---- the tests */

struct mutant {
    const char *name;
    enum weft_op_id op;
    void (*fwd)(const struct weft_call *), (*bwd)(const struct weft_call *), (*bwd_ref)(const struct weft_call *);
    const char *found; /* a part of the expected message */
};

static const struct mutant mutants[] = {
    {"a wrong sign in a gradient", WEFT_OP_gelu, .bwd = negated_gradient, .found = "the reference has"},
    {"a wrong causal mask", WEFT_OP_attention, .fwd = unmasked, .found = "the reference has"},
    {"a sum in thread order", WEFT_OP_bias, .bwd = summed_by_thread, .found = "threads"},
    {"a write past the end", WEFT_OP_silu, .fwd = one_too_many, .found = "writes outside"},
    {"a wrong saved value", WEFT_OP_rmsnorm, .bwd = stale_statistic, .found = "the reference has"},
    {"a gradient overwritten, not accumulated", WEFT_OP_rmsnorm, .bwd = overwritten, .found = "the reference has"},
    {"a wrong factor in kernel and reference", WEFT_OP_gelu, .bwd = scaled_kernel, .bwd_ref = scaled_reference,
     .found = "finite differences give"},
    {"a row that depends on the number of rows", WEFT_OP_scale, .fwd = row_dependent,
     .found = "rows have different bits when run alone"},
    {"a changed bit in a different row of a state", WEFT_OP_store, .fwd = stray_bit, .found = "the reference has"},
    {"an in-place kernel that is not elementwise", WEFT_OP_scale, .fwd = not_elementwise, .found = "memory is shared"},
};

struct findings {
    int failed;
    int as_expected;
    const char *expected;
};

static void note(void *context, const struct weft_opcheck_case *c)
{
    struct findings *f = context;
    f->failed += c->failed;
    f->as_expected += c->failed && strstr(c->message, f->expected);
}

static void is_caught(void **state)
{
    const struct mutant *m = *state;
    struct weft_opcheck sum;
    struct findings f = {0, 0, m->found};
    right = weft_op(m->op);
    assert_int_equal(weft_opcheck_run(right->name, one_of(3), &sum, note, &f), WEFT_OK);
    assert_int_equal(f.failed, 0);
    struct weft_op broken = *right;
    broken.fwd.run = m->fwd ? m->fwd : broken.fwd.run;
    broken.bwd.run = m->bwd ? m->bwd : broken.bwd.run;
    broken.bwd.ref = m->bwd_ref ? m->bwd_ref : broken.bwd.ref;
    weft_op_replace(m->op, &broken);
    enum weft_status status = weft_opcheck_run(right->name, one_of(3), &sum, note, &f);
    weft_op_replace(m->op, NULL);
    assert_int_equal(status, WEFT_OK);
    assert_true(f.failed > 0);
    assert_true(f.as_expected > 0);
    print_message("%s (%s): caught in %d of %d cases\n", m->name, right->name, f.failed, sum.cases);
}

int main(void)
{
    enum { COUNT = sizeof mutants / sizeof *mutants };
    struct CMUnitTest tests[COUNT];
    for (int i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){
            .name = mutants[i].name, .test_func = is_caught, .initial_state = (void *)(uintptr_t)&mutants[i]};
    return cmocka_run_group_tests_name("mutants", tests, NULL, NULL);
}
