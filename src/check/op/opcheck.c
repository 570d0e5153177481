/* SPDX-License-Identifier: MIT
 *
 * opcheck.c - the harness that checks every op: registry x cases x {f32, bf16}.
 *
 * A case is a small graph around the op, differentiated with random cotangents, and run five ways on the same values:
 *   reference  plain loops with every value in f64: the correct result (for bf16 graphs, rounded as it is stored)
 *   form       the atoms that the op means (graph/form.h), in f64; every row alone and, if possible, whole sequences
 *   guarded    the fast kernels, with separate memory and guard bytes (NaN) around each value
 *   fast       the fast kernels as planned, reusing memory and working in place; on 1, 2, 3, 4 and 8 threads
 *   fast, m    the same for only m rows, fewer than were planned
 * The form must equal the reference. The fast run must equal the reference up to rounding, and must have the same bits
 * as the guarded run (no aliasing). The derivative of the reference must equal finite differences, also those of the
 * form. Guard bytes must not change. The bits must not depend on the number of threads and, for each row, not on m.
 * Accumulated gradients and states start from random values, to catch a kernel that overwrites instead of adding, or
 * writes to memory that it must not change.
 */
#include "check/op/opform.h"
#include "ops/ops.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIRECTIONS = 3 };

static void defect(struct weft_optrial *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void defect(struct weft_optrial *t, const char *format, ...)
{
    if (t->verdict->failed)
        return;
    t->verdict->failed = true;
    va_list args;
    va_start(args, format);
    vsnprintf(t->verdict->message, sizeof t->verdict->message, format, args);
    va_end(args);
}

static const char *value_name(const struct weft_optrial *t, const struct weft_value *v, char text[64])
{
    struct weft_value *const *all;
    int n = weft_graph_values(t->graph, &all);
    for (int i = 0; i < n; i++)
        if (all[i]->grad == v) {
            snprintf(text, 64, "the gradient of %s", all[i]->name);
            return text;
        }
    for (int o = 0; v->node && o < WEFT_MAX_ARGS; o++)
        if (v->node->out[o] == v) {
            snprintf(text, 64, "output %d of %s", o, v->node->op->name);
            return text;
        }
    return v->name ? v->name : "a value";
}

/* ---- the requirements */

static void compare_with_reference(struct weft_optrial *t, enum weft_dtype dtype)
{
    double own = dtype == WEFT_BF16 ? t->op->tolerance_bf16 : t->op->tolerance;
    double allowed = own > 0 ? own : dtype == WEFT_BF16 ? 1.0 / 128 : 1e-5;
    for (int v = 0; v < t->result_count; v++) {
        const struct weft_tensor *want = weft_exec_tensor(t->reference.exec, t->result[v]);
        const struct weft_tensor *got = weft_exec_tensor(t->fast.exec, t->result[v]);
        int64_t n = weft_tensor_count(want);
        char name[64];
        if (want->dtype == WEFT_I32 && dtype == WEFT_BF16)
            continue; /* an arg max may flip on a rounded tie */
        double scale = want->dtype == WEFT_I32 ? 0 : weft_tensor_rms(want);
        for (int64_t i = 0; i < n; i++) {
            double a = weft_tensor_get(want, i), b = weft_tensor_get(got, i);
            double bound = allowed * (fabs(a) + scale) + 1e-30, error = a == b ? 0 : fabs(a - b) / bound;
            t->verdict->error = error > t->verdict->error || isnan(error) ? error : t->verdict->error;
            if (!(error <= 1))
                defect(t, "%s[%lld] is %.9g, but the reference has %.9g", value_name(t, t->result[v], name),
                       (long long)i, b, a);
        }
    }
}

/* Compares the outputs of the form with those of the reference. */
static void compare_form(struct weft_optrial *t, const struct weft_opform *form, double *const *want)
{
    const double allowed = 1e-9;
    for (int v = 0; v < t->result_count; v++) {
        const struct weft_tensor *x = weft_exec_tensor(t->reference.exec, t->result[v]);
        int64_t n = weft_tensor_count(x), count;
        const double *got = weft_opform_result(form, t->result[v], &count);
        char name[64];
        if (got && count != n)
            defect(t, "the form of %s has %lld elements instead of %lld", value_name(t, t->result[v], name),
                   (long long)count, (long long)n);
        double scale = x->dtype == WEFT_I32 ? 0 : weft_tensor_rms(x);
        for (int64_t i = 0; got && count == n && i < n; i++)
            if (!(fabs(got[i] - want[v][i]) <= allowed * (fabs(want[v][i]) + scale)))
                defect(t, "the form of %s[%lld] is %.12g, but the reference has %.12g",
                       value_name(t, t->result[v], name), (long long)i, got[i], want[v][i]);
    }
}

/* Runs the form on what the reference is filled with, and compares, ragged and if possible dense. */
static enum weft_status try_form(struct weft_optrial *t, struct weft_opform *form)
{
    double *want[WEFT_OPTRIAL_VALUES] = {0};
    enum weft_status status = WEFT_OK;
    for (int v = 0; v < t->result_count; v++) {
        const struct weft_tensor *x = weft_exec_tensor(t->reference.exec, t->result[v]);
        want[v] = malloc((size_t)weft_tensor_count(x) * sizeof **want + 1);
        if (!want[v])
            status = FAIL(WEFT_NOMEM, "not enough memory for the op harness");
        for (int64_t i = 0; want[v] && i < weft_tensor_count(x); i++)
            want[v][i] = weft_tensor_get(x, i);
    }
    weft_oprun_fill(t, &t->reference);
    if (status == WEFT_OK)
        status = weft_opform_open(form, t);
    for (int dense = 0; dense < 2 && status == WEFT_OK; dense++) {
        bool possible;
        status = weft_opform_run(form, dense, &possible);
        if (status == WEFT_OK && possible)
            compare_form(t, form, want);
    }
    for (int v = 0; v < t->result_count; v++)
        free(want[v]);
    return status;
}

/* Return the sum over outputs of <output, cotangent>, computed by the reference or by the form. */
static double objective(struct weft_optrial *t, struct weft_opform *form)
{
    double sum = 0;
    bool possible;
    if (form)
        weft_defer(weft_opform_run(form, false, &possible));
    else
        weft_defer(weft_exec_prepare(t->reference.exec));
    if (!form)
        weft_defer(weft_exec_run(t->reference.exec));
    for (int o = 0; o < t->seed_count; o++) {
        const struct weft_tensor *y = weft_exec_tensor(t->reference.exec, t->seeded[o]);
        const struct weft_tensor *s = weft_exec_tensor(t->reference.exec, t->seeds[o]);
        int64_t n = weft_tensor_count(y), count = 0;
        const double *result = form ? weft_opform_result(form, t->seeded[o], &count) : NULL;
        for (int64_t i = 0; i < n && (!form || (result && count == n)); i++)
            sum += (form ? result[i] : weft_tensor_get(y, i)) * weft_tensor_get(s, i);
    }
    return sum;
}

static void nudge(struct weft_tensor *x, const double *kept, uint64_t key, double by)
{
    int64_t n = weft_tensor_count(x);
    for (int64_t i = 0; i < n; i++)
        weft_tensor_set(x, i, kept[i] + by * weft_normal(key, (uint64_t)i));
}

/* Compares the derivative along one direction with central differences in f64 of the reference or, if given, of the
 * form. `kept` contains the values of x. */
static void compare_along(struct weft_optrial *t, struct weft_opform *form, const char *name, struct weft_tensor *x,
                          const double *kept, const double *slope, int direction)
{
    const double step = 1e-5, allowed = 1e-6;
    uint64_t key = weft_key(weft_key_name(99, name), (uint64_t)direction);
    double analytic = 0, size = 0;
    for (int64_t i = 0; i < weft_tensor_count(x); i++) {
        double along = slope[i] * weft_normal(key, (uint64_t)i);
        analytic += along;
        size += along * along;
    }
    nudge(x, kept, key, step);
    double up = objective(t, form);
    nudge(x, kept, key, -step);
    double measured = (up - objective(t, form)) / (2 * step);
    nudge(x, kept, key, 0);
    double bound = allowed * (fabs(analytic) + sqrt(size)) + 1e-9;
    double error = fabs(analytic - measured) / bound;
    t->verdict->gradient_error = fmax(t->verdict->gradient_error, error);
    if (!(error <= 1))
        defect(t, "the derivative with respect to %s is %.9g along direction %d, but finite differences%s give %.9g",
               name, analytic, direction, form ? " of the form" : "", measured);
}

/* Compares derivatives along random directions of every differentiated tensor. */
static enum weft_status compare_with_differences(struct weft_optrial *t, struct weft_opform *form)
{
    t->verdict->gradient_error = NAN;
    for (int v = 0; t->seeds[0] && v < t->filled_count; v++) {
        struct weft_value *value = t->filled[v], *grad = weft_graph_gradient(value);
        if (!grad)
            continue;
        weft_oprun_run(t, &t->reference);
        struct weft_tensor *x = weft_exec_tensor(t->reference.exec, value);
        const struct weft_tensor *g = weft_exec_tensor(t->reference.exec, grad);
        int64_t n = weft_tensor_count(x);
        double *kept = malloc(2 * (size_t)n * sizeof *kept + 1), *slope = kept + n;
        if (!kept)
            return FAIL(WEFT_NOMEM, "not enough memory for the op harness");
        for (int64_t i = 0; i < n; i++) {
            kept[i] = weft_tensor_get(x, i);
            slope[i] = weft_tensor_get(g, i);
            if (grad->kind == WEFT_GRAD) /* subtracts its initial value */
                slope[i] -= (double)(float)weft_normal(weft_key_name(WEFT_GRAD, grad->name), (uint64_t)i);
        }
        for (int d = 0; d < DIRECTIONS; d++)
            compare_along(t, NULL, value->name, x, kept, slope, d);
        weft_oprun_fill(t, &t->reference);
        if (form->form.list)
            compare_along(t, form, value->name, x, kept, slope, DIRECTIONS);
        free(kept);
    }
    return WEFT_OK;
}

/* Returns whether the rows of a value are the rows of the call: the value is an output of an op, not a gradient. */
static bool is_row_output(const struct weft_optrial *t, const struct weft_value *v, int symbol)
{
    struct weft_value *const *all;
    int n = weft_graph_values(t->graph, &all);
    bool is_output = false;
    for (int i = 0; i < n; i++)
        if (all[i]->grad == v)
            return false;
    for (int o = 0; v->node && o < WEFT_MAX_ARGS; o++)
        is_output |= v->node->out[o] == v;
    return is_output && v->shape.ndim > 0 && v->shape.dim[0].symbol == symbol;
}

/* Copies the bytes of the results one after another; with `rows` >= 0, only this many rows of row-wise values. */
static size_t collect(struct weft_optrial *t, struct weft_oprun *r, char *to, int symbol, int64_t rows)
{
    size_t at = 0;
    for (int v = 0; v < t->result_count; v++) {
        struct weft_tensor x = *weft_exec_tensor(r->exec, t->result[v]);
        if (rows >= 0 && !is_row_output(t, t->result[v], symbol))
            continue;
        if (rows >= 0)
            x.dim[0] = t->result[v]->shape.dim[0].times * rows;
        size_t bytes = (size_t)weft_tensor_count(&x) * weft_dtype_bytes(x.dtype);
        if (to)
            memcpy(to + at, x.data, bytes);
        at += bytes;
    }
    return at;
}

/* Checks that a call with only the first m rows gives these rows the same bits as the whole call. */
static void demand_same_bits_for_rows(struct weft_optrial *t, char *want, char *got, int *mismatches)
{
    int symbol = weft_graph_symbol(t->graph, "rows", 1);
    int64_t rows = weft_graph_symbol_max(t->graph, symbol), counts[] = {1, rows / 2, rows - 1};
    for (int i = 0; i < 3; i++) {
        int64_t m = counts[i];
        if (m < 1 || m >= rows)
            continue;
        weft_exec_count(t->fast.exec, symbol, rows);
        weft_oprun_run(t, &t->fast);
        size_t bytes = collect(t, &t->fast, want, symbol, m);
        weft_oprun_fill(t, &t->fast);
        weft_exec_count(t->fast.exec, symbol, m);
        weft_defer(weft_exec_prepare(t->fast.exec));
        weft_defer(weft_exec_run(t->fast.exec));
        collect(t, &t->fast, got, symbol, m);
        weft_exec_count(t->fast.exec, symbol, rows);
        if (memcmp(want, got, bytes) != 0) {
            defect(t, "the first %lld of %lld rows have different bits when run alone", (long long)m, (long long)rows);
            ++*mismatches;
            return;
        }
    }
}

static void demand_guards(struct weft_optrial *t, const struct weft_oprun *r)
{
    const char *overrun = weft_exec_overrun(r->exec);
    if (overrun)
        defect(t, "writes outside its memory (%s)", overrun);
    for (int i = 0; i < t->filled_count; i++) {
        size_t size;
        if (!r->bound[i] || weft_tensor_bytes(weft_exec_tensor(r->exec, t->filled[i]), &size) != WEFT_OK)
            continue;
        for (int b = 0; b < WEFT_OPTRIAL_FENCE; b++)
            if (r->bound[i][b] != (char)0xff || r->bound[i][WEFT_OPTRIAL_FENCE + size + (size_t)b] != (char)0xff)
                defect(t, "writes outside the memory of %s", t->filled[i]->name);
    }
}

/* Checks that running the case in this mode with this number of threads does not change the bits. */
static enum weft_status demand_same_bits(struct weft_optrial *t, enum weft_mode mode, int threads, const char *want,
                                         char *got, size_t bytes, int *mismatches)
{
    struct weft_oprun other = {0};
    enum weft_status status = weft_oprun_open(t, &other, mode, threads);
    if (status == WEFT_OK) {
        weft_oprun_run(t, &other);
        collect(t, &other, got, 0, -1);
        demand_guards(t, &other);
    }
    weft_oprun_close(&other);
    if (status != WEFT_OK || memcmp(want, got, bytes) == 0)
        return status;
    if (mode == WEFT_GUARDED)
        defect(t, "the bits change when memory is shared between values");
    else
        defect(t, "the bits with %d threads differ from those with 1 thread", threads);
    ++*mismatches;
    return WEFT_OK;
}

static enum weft_status demand_bits(struct weft_optrial *t, struct weft_opcheck *sum)
{
    static const int threads[] = {2, 3, 4, 8};
    size_t bytes = collect(t, &t->fast, NULL, 0, -1);
    char *want = malloc(bytes + 1), *got = malloc(bytes + 1);
    enum weft_status status = want && got ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for the op harness");
    int shared = 0, before = sum->thread_mismatches;
    if (status == WEFT_OK) {
        collect(t, &t->fast, want, 0, -1);
        status = demand_same_bits(t, WEFT_GUARDED, 1, want, got, bytes, &shared);
    }
    for (int i = 0; i < 4 && status == WEFT_OK && sum->thread_mismatches == before; i++)
        status = demand_same_bits(t, WEFT_FAST, threads[i], want, got, bytes, &sum->thread_mismatches);
    if (status == WEFT_OK)
        demand_same_bits_for_rows(t, want, got, &sum->row_mismatches);
    free(want);
    free(got);
    return status;
}

/* Checks the form and the derivative. */
static enum weft_status try_derived(struct weft_optrial *t)
{
    struct weft_opform form = {0};
    enum weft_status status = try_form(t, &form);
    if (status == WEFT_OK)
        status = compare_with_differences(t, &form);
    weft_opform_close(&form);
    return status;
}

static enum weft_status try_case(struct weft_optrial *t, enum weft_dtype dtype, struct weft_opcheck *sum)
{
    TRY(weft_optrial_build(t, dtype));
    TRY(weft_oprun_open(t, &t->reference, dtype == WEFT_BF16 ? WEFT_ROUNDED : WEFT_REFERENCE, 1));
    TRY(weft_oprun_open(t, &t->fast, WEFT_FAST, 1));
    weft_oprun_run(t, &t->reference);
    weft_oprun_run(t, &t->fast);
    compare_with_reference(t, dtype);
    TRY(demand_bits(t, sum));
    if (dtype == WEFT_F32) /* the reference is f64 in both cases */
        TRY(try_derived(t));
    return weft_deferred();
}

/* Checks one case. Errors count as defects, except that running out of memory ends the whole check. */
static enum weft_status check_case(const struct weft_op *op, const struct weft_case *c, enum weft_dtype dtype,
                                   struct weft_opcheck *sum, struct weft_opcheck_case *verdict)
{
    struct weft_optrial *t = calloc(1, sizeof *t);
    if (!t)
        return FAIL(WEFT_NOMEM, "not enough memory for the op harness");
    *verdict = (struct weft_opcheck_case){op->name, c->name, dtype, 0, NAN, false, ""};
    t->op = op;
    t->c = c;
    t->verdict = verdict;
    enum weft_status status = try_case(t, dtype, sum);
    weft_oprun_close(&t->reference);
    weft_oprun_close(&t->fast);
    weft_graph_free(t->graph);
    if (status != WEFT_OK && status != WEFT_NOMEM)
        defect(t, "%s", weft_error());
    free(t);
    return status == WEFT_NOMEM ? status : WEFT_OK;
}

static enum weft_status check_op(const struct weft_op *op, int every, struct weft_opcheck *sum, weft_opcheck_fn *report,
                                 void *context)
{
    static const enum weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16};
    sum->ops++;
    if (!op->build || op->case_count < 8 || (!op->is_view && !op->fwd.ref) || (op->bwd.run && !op->bwd.ref) ||
        !op->lower) {
        struct weft_opcheck_case bare = {
            op->name, "", WEFT_F32, 0, NAN, true, "needs a reference, a form and at least 8 cases"};
        sum->failed++;
        report(context, &bare);
        return WEFT_OK;
    }
    for (int c = 0; c < op->case_count; c += every)
        for (int d = 0; d < 2; d++) {
            struct weft_opcheck_case verdict;
            TRY(check_case(op, &op->cases[c], dtypes[d], sum, &verdict));
            sum->cases++;
            sum->failed += verdict.failed;
            report(context, &verdict);
        }
    return WEFT_OK;
}

enum weft_status weft_opcheck_run(const char *only_op, int every, struct weft_opcheck *sum, weft_opcheck_fn *report,
                                  void *context)
{
    const char *names[WEFT_OP_COUNT];
    enum weft_status status = WEFT_OK;
    struct weft_threads_scope scope;
    memset(sum, 0, sizeof *sum);
    weft_threads_enter(&scope, 1);
    weft_threads_even();
    for (int id = 0; id < WEFT_OP_COUNT && status == WEFT_OK; id++) {
        const struct weft_op *op = weft_op((enum weft_op_id)id);
        names[id] = op->name;
        if (!only_op || strcmp(only_op, op->name) == 0)
            status = check_op(op, every, sum, report, context);
    }
    weft_threads_leave(&scope);
    if (sum->ops)
        return status;
    const char *near = weft_suggest(only_op, names, WEFT_OP_COUNT);
    return FAIL(WEFT_INVALID, "there is no op named %s%s%s; `weft check` without --op lists them all", only_op,
                near ? ", did you mean " : "", near ? near : "");
}
