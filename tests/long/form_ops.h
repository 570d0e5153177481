/* SPDX-License-Identifier: MIT
 *
 * form_ops.h - the cases of ops, and the values that their forms compute, for tests/long/forms.c.
 */
#ifndef WEFT_TEST_FORM_OPS_H
#define WEFT_TEST_FORM_OPS_H

#include "check/op/opform.h"
#include "damage_hook.h"
#include "form_values.h"
#include "ops/ops.h"

/* The cases of an op, ready to run, and the values of the sound forms: `plain` of what `weft check` fills in, `large`
 * of different numbers. */
struct op_cases {
    const struct weft_op *op;
    struct weft_optrial *trials;
    struct weft_opcheck_case verdict;
    struct values plain, large;
    bool large_known;
};
enum { OTHER_KEY = 401 };

/* Replaces the numbers that the op does not fill itself by others, up to 100 times as large or small. */
static inline void fill_otherwise(struct weft_optrial *t)
{
    for (int i = 0; i < t->filled_count; i++) {
        const struct weft_value *v = t->filled[i];
        struct weft_tensor *x = weft_exec_tensor(t->reference.exec, v);
        if (!weft_dtype_is_float(v->dtype) || v->kind == WEFT_GRAD || (t->op->fill && t->op->fill(t->c, v->name, x)))
            continue;
        uint64_t key = weft_key_name(OTHER_KEY, v->name);
        double size = pow(10, 4 * weft_uniform(key, UINT32_MAX) - 2);
        for (int64_t e = 0; e < weft_tensor_count(x); e++)
            weft_tensor_set(x, e, size * weft_normal(key, (uint64_t)e));
    }
}

static inline enum weft_status run_case(struct weft_optrial *t, bool otherwise, bool only_damaged, struct values *to)
{
    struct weft_opform form = {0};
    hook.done = 0;
    weft_oprun_fill(t, &t->reference);
    if (otherwise)
        fill_otherwise(t);
    enum weft_status status = weft_opform_open(&form, t);
    for (int dense = 0; dense < 2 && status == WEFT_OK && (!only_damaged || hook.done); dense++) {
        bool possible;
        status = weft_opform_run(&form, dense, &possible);
        for (int v = 0; v < t->result_count && status == WEFT_OK && possible; v++) {
            int64_t count;
            const double *x = weft_opform_result(&form, t->result[v], &count);
            if (x)
                add_values(to, x, count);
        }
    }
    weft_opform_close(&form);
    return status;
}

/* Adds the values of the form in all cases. */
static inline void run_cases(struct op_cases *o, bool otherwise, struct values *to)
{
    for (int c = 0; c < o->op->case_count && !to->failed; c++)
        to->failed = run_case(&o->trials[c], otherwise, false, to) != WEFT_OK;
    weft_error_clear();
}

/* Returns the effect of what the hook does on the results in the op's cases. */
static inline double effect_on_cases(struct op_cases *o, bool otherwise)
{
    struct values damaged = {0};
    if (otherwise && !o->large_known) {
        struct hook now = hook;
        hook_end();
        run_cases(o, true, &o->large);
        hook_begin(now);
        o->large_known = true;
    }
    run_cases(o, otherwise, &damaged);
    double effect = effect_of(otherwise ? &o->large : &o->plain, &damaged);
    free_values(&damaged);
    return effect;
}

/* Builds all cases, and lists the sites that they reach. */
static inline enum weft_status open_cases(struct op_cases *o, const struct weft_op *op)
{
    o->op = op;
    o->trials = calloc((size_t)op->case_count, sizeof *o->trials);
    for (int c = 0; c < op->case_count; c++) {
        struct weft_optrial *t = &o->trials[c];
        t->op = op;
        t->c = &op->cases[c];
        t->verdict = &o->verdict;
        TRY(weft_optrial_build(t, WEFT_F32));
        TRY(weft_oprun_open(t, &t->reference, WEFT_REFERENCE, 1));
    }
    hook_begin((struct hook){.mode = LIST_SITES, .in_cases = true});
    run_cases(o, false, &o->plain);
    hook_end();
    return o->plain.failed ? FAIL(WEFT_CHECK, "%s: the sound form fails", op->name) : WEFT_OK;
}

static inline void close_cases(struct op_cases *o)
{
    for (int c = 0; o->trials && c < o->op->case_count; c++) {
        weft_oprun_close(&o->trials[c].reference);
        weft_graph_free(o->trials[c].graph);
    }
    free(o->trials);
    free_values(&o->plain);
    free_values(&o->large);
}

#endif
