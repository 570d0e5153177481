/* SPDX-License-Identifier: MIT
 *
 * case.h - runs golden cases on the fast path in f32 and bf16, and as the reference in f64.
 *
 * One line per comparison gives the error divided by the root mean square of the expected values: the largest error, or
 * in bf16 the root mean square of all errors. A table at the end gives the largest error of every op. A program that
 * includes this defines build_graph, and passes the names of its files to run_files.
 */
#ifndef WEFT_GOLDEN_CASE_H
#define WEFT_GOLDEN_CASE_H

#include "nn/net.h"
#include "stored.h"

#include <stdlib.h>
#include <string.h>

static int compared, failed;

/* The modes a case is run in, and the error allowed. Inputs are exact in all of them. In bf16 a single element can have
 * a large error if rounded numbers cancel (attention's backward pass uses its stored output), hence the mean. */
static const struct way {
    const char *name;
    enum weft_dtype compute;
    enum weft_mode mode;
    bool mean;
    double limit;
} ways[] = {
    {"f32", WEFT_F32, WEFT_FAST, false, 1e-4},
    {"bf16", WEFT_BF16, WEFT_FAST, true, 0.05},
    {"f64", WEFT_F32, WEFT_REFERENCE, false, 1e-9},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* ---- one case in one mode */

enum { MAX_LEAVES = 64, MAX_OUTPUTS = 4, MAX_OPS = 64, SPARE = 3 };

struct leaf { /* an input or a parameter */
    const json_t *stored;
    struct weft_value *value;
    void *data, *grad; /* parameter values and gradient */
};

struct run {
    const json_t *c;
    const struct way *way;
    struct weft_graph *g;
    struct weft_settings settings; /* used only by models, like the next two */
    struct weft_spec spec;
    struct weft_nn *model;
    struct leaf leaves[MAX_LEAVES];
    int leaf_count;
    struct weft_value *out[MAX_OUTPUTS];
};

/* Defined by the program: builds r->g and r->out[0], and remembers inputs and parameters. */
static enum weft_status build_graph(struct run *r);

/* The tensor `name` of a case's group "in" or "grad"; NULL if absent. */
static const json_t *tensor_of(const json_t *c, const char *group, const char *name)
{
    return json_object_get(json_object_get(c, group), name);
}

static int64_t stored_rows(const json_t *stored)
{
    return json_integer_value(json_array_get(json_object_get(stored, "shape"), 0));
}

static const char *word(const struct run *r, const char *name) { return text(json_object_get(r->c, "attr"), name); }

/* ---- reporting */

static struct worst {
    char op[32];
    double error[WAYS];
} worst[MAX_OPS];

/* Finds the op's line by name, or takes the first free one. */
static void note_worst(const struct run *r, double error)
{
    const char *op = text(r->c, "op");
    struct worst *w = worst;
    while (w < worst + MAX_OPS - 1 && w->op[0] && strcmp(w->op, op))
        w++;
    snprintf(w->op, sizeof w->op, "%s", op);
    double *most = &w->error[r->way - ways];
    *most = larger(*most, error);
}

static void print_worst(void)
{
    printf("%-16s", "worst of");
    for (int i = 0; i < WAYS; i++)
        printf(" %8s", ways[i].name);
    printf("\n%-16s", "allowed");
    for (int i = 0; i < WAYS; i++)
        printf(" %8.1e", ways[i].limit);
    for (const struct worst *w = worst; w < worst + MAX_OPS && w->op[0]; w++) {
        printf("\n%-16s", w->op);
        for (int i = 0; i < WAYS; i++)
            printf(" %8.1e", w->error[i]);
    }
    printf("\n");
}

static void report(const struct run *r, bool good, double error, const char *what, const char *name)
{
    compared++;
    failed += !good;
    note_worst(r, error);
    printf("%-4s %-4s %8.1e  %s/%s %s %s\n", good ? "ok" : "FAIL", r->way->name, error, text(r->c, "op"),
           text(r->c, "name"), what, name);
}

static double element(const struct weft_tensor *t, int64_t i)
{
    return t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : weft_tensor_get(t, i);
}

static void check(const struct run *r, const char *what, const char *name, const struct weft_tensor *t,
                  const json_t *stored)
{
    double most = 0, total = 0, squares = 0;
    int64_t n = stored_count(stored);
    if (weft_tensor_count(t) != n) {
        report(r, false, INFINITY, what, name);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        double want = stored_number(stored, i), off = fabs(element(t, i) - want);
        squares += want * want;
        total += off * off;
        most = larger(most, off);
    }
    double error = r->way->mean ? sqrt(total / (double)n) : most;
    error = squares > 0 ? error / sqrt(squares / (double)n) : error; /* absolute if zeros are expected */
    report(r, error <= r->way->limit, error, what, name);
}

static struct weft_value *remember(struct run *r, const json_t *stored, struct weft_value *v)
{
    if (v && r->leaf_count < MAX_LEAVES)
        r->leaves[r->leaf_count++] = (struct leaf){.stored = stored, .value = v};
    return v;
}

/* ---- running a case */

static enum weft_status build(struct run *r)
{
    size_t outputs = json_array_size(json_object_get(r->c, "out"));
    TRY(build_graph(r));
    if (outputs > MAX_OUTPUTS || r->leaf_count == MAX_LEAVES)
        return FAIL(WEFT_FORMAT, "too many tensors; increase MAX_OUTPUTS or MAX_LEAVES in tests/golden/case.h");
    for (size_t o = 0; o < outputs; o++) {
        if (!r->out[o])
            r->out[o] = weft_sibling(r->out[0], (int)o);
        weft_graph_output(r->g, r->out[o]);
    }
    return WEFT_OK;
}

/* A case with gradients but no cotangents is a loss. An output without a cotangent is not differentiated. */
static enum weft_status backward(struct run *r)
{
    struct weft_value *values[MAX_OUTPUTS], *seeds[MAX_OUTPUTS];
    const json_t *cotangents = json_object_get(r->c, "cotangent"), *stored;
    size_t o;
    int count = 0;
    if (!cotangents)
        return weft_graph_backward(r->g, r->out[0]);
    json_array_foreach(cotangents, o, stored)
    {
        static const char *const names[MAX_OUTPUTS] = {"cotangent0", "cotangent1", "cotangent2", "cotangent3"};
        if (json_is_null(stored))
            continue;
        values[count] = r->out[o];
        seeds[count++] = remember(r, stored, weft_graph_input(r->g, names[o], r->out[o]->dtype, r->out[o]->shape));
    }
    return weft_graph_backward_from(r->g, count, values, seeds);
}

static enum weft_status differentiate(struct run *r)
{
    if (!json_object_get(r->c, "grad"))
        return WEFT_OK;
    TRY(backward(r));
    for (int i = 0; i < r->leaf_count; i++) {
        struct weft_value *v = r->leaves[i].value;
        if (v->kind == WEFT_INPUT && v->wants_grad)
            weft_graph_output(r->g, weft_graph_gradient(v));
    }
    return WEFT_OK;
}

/* Zeroed, and large enough for the dtype of either mode. */
static void *bind(struct weft_exec *exec, const struct weft_value *v, int64_t count)
{
    void *data = calloc((size_t)count, sizeof(double));
    if (!data)
        abort();
    weft_exec_bind(exec, v, data);
    return data;
}

static enum weft_status load(struct weft_tensor *t, const json_t *stored, const char *name)
{
    if (stored_count(stored) != weft_tensor_count(t))
        return FAIL(WEFT_FORMAT, "%s has %lld elements in the file, %lld here", name, (long long)stored_count(stored),
                    (long long)weft_tensor_count(t));
    for (int64_t i = 0; i < stored_count(stored); i++) {
        if (t->dtype == WEFT_I32)
            ((int32_t *)t->data)[i] = (int32_t)stored_number(stored, i);
        else
            weft_tensor_set(t, i, stored_number(stored, i));
    }
    return WEFT_OK;
}

/* Sets counts first: they determine the shapes of tensors. */
static enum weft_status fill(struct run *r, struct weft_exec *exec)
{
    for (int i = 0; i < r->leaf_count; i++) {
        const struct leaf *leaf = &r->leaves[i];
        if (leaf->value->shape.dim[0].symbol)
            weft_exec_count(exec, leaf->value->shape.dim[0].symbol, stored_rows(leaf->stored));
    }
    for (int i = 0; i < r->leaf_count; i++) {
        struct leaf *leaf = &r->leaves[i];
        const struct weft_value *v = leaf->value;
        int64_t count = weft_tensor_count(weft_exec_tensor(exec, v));
        if (v->kind == WEFT_PARAM)
            leaf->data = bind(exec, v, count);
        if (v->kind == WEFT_PARAM && weft_graph_gradient(v))
            leaf->grad = bind(exec, weft_graph_gradient(v), count);
        TRY(load(weft_exec_tensor(exec, v), leaf->stored, v->name));
    }
    return WEFT_OK;
}

static const struct weft_value *gradient(const struct run *r, const char *name)
{
    for (int i = 0; i < r->leaf_count; i++) {
        if (!strcmp(name, r->leaves[i].value->name))
            return weft_graph_gradient(r->leaves[i].value);
    }
    return NULL;
}

static void compare(const struct run *r, struct weft_exec *exec)
{
    const char *name;
    json_t *stored;
    size_t o;
    json_array_foreach(json_object_get(r->c, "out"), o, stored)
    {
        const char digit[] = {(char)('0' + o), '\0'};
        check(r, "output", digit, weft_exec_tensor(exec, r->out[o]), stored);
    }
    json_object_foreach(json_object_get(r->c, "grad"), name, stored)
    {
        const struct weft_value *v = gradient(r, name);
        if (v)
            check(r, "gradient of", name, weft_exec_tensor(exec, v), stored);
        else
            report(r, false, INFINITY, "no gradient of", name);
    }
}

static enum weft_status run_exec(struct run *r, struct weft_exec *exec)
{
    TRY(fill(r, exec));
    weft_exec_prepare(exec);
    weft_exec_run(exec);
    compare(r, exec);
    return WEFT_OK;
}

static enum weft_status run_graph(struct run *r)
{
    struct weft_exec *exec = NULL;
    TRY(build(r));
    TRY(differentiate(r));
    TRY(weft_exec_create(&exec, r->g, r->way->mode));
    enum weft_status status = run_exec(r, exec);
    weft_exec_free(exec);
    return status;
}

static void run_case(const json_t *c, const struct way *way)
{
    struct run r = {.c = c, .way = way};
    if (run_graph(&r) != WEFT_OK)
        report(&r, false, INFINITY, "did not run:", weft_error());
    for (int i = 0; i < r.leaf_count; i++) {
        free(r.leaves[i].data);
        free(r.leaves[i].grad);
    }
    weft_graph_free(r.g);
    weft_nn_free(r.model);
    weft_spec_release(&r.spec);
    weft_settings_release(&r.settings);
}

static void run_file(const char *folder, const char *family)
{
    char path[4096];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s.json", folder, family);
    json_t *cases = json_load_file(path, 0, &error), *c;
    size_t i;
    if (!cases) {
        failed++;
        printf("FAIL %s: line %d: %s\n", path, error.line, error.text);
    }
    json_array_foreach(cases, i, c)
    {
        for (int w = 0; w < WAYS; w++)
            run_case(c, &ways[w]);
    }
    json_decref(cases);
}

/* The argument is the folder, tests/golden by default. Returns the exit status. */
static int run_files(int argc, char **argv, const char *const *families)
{
    for (; *families; families++)
        run_file(argc > 1 ? argv[1] : "tests/golden", *families);
    print_worst();
    printf("%d comparisons, %d failures\n", compared, failed);
    return failed != 0;
}

#endif
