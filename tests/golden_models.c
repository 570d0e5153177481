/* SPDX-License-Identifier: MIT
 *
 * golden_models.c - compares small models of every variant with golden/models.json, which PyTorch computed in double
 * precision.
 *
 * Each model is built for training and run in f32 on the fast path, with and without recomputation, and in f64 as the
 * reference. One line per model gives, for each of these, the largest error of outputs (logits and loss terms) and of
 * gradients, with the name of the tensor. An error of outputs is the largest difference divided by the largest expected
 * magnitude; for gradients see gradient_error. The first argument is the folder, tests/golden by default; the others
 * are the models to run, by default all.
 *
 * run-tests: 1 s, asan 6 s
 */
#include "check/check.h"
#include "golden/stored.h"
#include "nn/net.h"
#include "nn/part.h"
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

static const struct way {
    const char *name, *recompute;
    enum weft_mode mode;
    double limit;
} ways[] = {
    {"f32", "recompute=no", WEFT_FAST, 1e-4},
    {"recomputed", "recompute=yes", WEFT_FAST, 1e-4},
    {"f64", "recompute=no", WEFT_REFERENCE, 1e-9},
};
enum { WAYS = sizeof ways / sizeof *ways, SPARE = 1, PROBES = 4 };

/* ---- numbers from a counter, the same as in models.py */

static uint64_t key_of(const char *key, const char *name, const char *suffix)
{
    char text[256];
    uint64_t x = 0xCBF29CE484222325;
    snprintf(text, sizeof text, "%s/%s%s", key, name, suffix);
    for (const char *c = text; *c; c++)
        x = (x ^ (unsigned char)*c) * 0x100000001B3;
    return x;
}

/* In -0.5 .. 0.5, a multiple of 2^-16. */
static double uniform(uint64_t key, int64_t i)
{
    uint64_t x = key + (uint64_t)(i + 1) * 0x9E3779B97F4A7C15;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    x ^= x >> 31;
    return ((double)(x >> 48) - 32768) / 65536;
}

static double centre_of(const char *name)
{
    static const struct {
        const char *end;
        double centre;
    } centres[] = {{"gain", 1}, {"gamma", 1}, {"beta", 1}, {"theta", 1.5}, {"alpha", 0.5}};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; i < sizeof centres / sizeof *centres; i++)
        if (!strcmp(dot ? dot + 1 : name, centres[i].end))
            return centres[i].centre;
    return 0;
}

/* ---- reading the file */

static double number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static int64_t stored_dim(const json_t *stored, const char *shape, size_t d)
{
    return json_integer_value(json_array_get(json_object_get(stored, shape), d));
}

/* ---- one model in one mode */

struct run {
    const json_t *c;
    const struct way *way;
    struct weft_settings settings;
    struct weft_spec spec;
    struct weft_nn *model;
    struct weft_net net;
    struct weft_value *logits;
    struct weft_exec *exec;
    double **memory; /* values of each weight, then of each gradient */
    struct worst {
        double error;
        char name[64];
    } output, gradient;
};

static void note(struct worst *w, double error, const char *name)
{
    if (w->name[0] && larger(error, w->error) == w->error)
        return;
    w->error = error;
    snprintf(w->name, sizeof w->name, "%s", name);
}

static enum weft_status add_settings(struct run *r)
{
    const char *name;
    json_t *value;
    TRY(weft_settings_add(&r->settings, "dtype=f32"));
    TRY(weft_settings_add(&r->settings, r->way->recompute));
    json_object_foreach(json_object_get(r->c, "attr"), name, value)
    {
        char setting[64];
        if (json_is_number(value))
            snprintf(setting, sizeof setting, "%s=%.17g", name, json_number_value(value));
        else
            snprintf(setting, sizeof setting, "%s=%s", name, json_string_value(value));
        TRY(weft_settings_add(&r->settings, setting));
    }
    return WEFT_OK;
}

/* The model must have the same weights as the file, by name and shape. */
static enum weft_status check_weights(const struct run *r)
{
    const json_t *grads = json_object_get(r->c, "grad");
    const struct weft_params *params = &r->model->params;
    const char *name;
    json_t *stored;
    json_object_foreach((json_t *)grads, name, stored)
    {
        if (weft_params_find(params, name) < 0)
            return FAIL(WEFT_FORMAT, "the model has no weight %s", name);
    }
    for (int i = 0; i < params->count; i++) {
        const struct weft_param *p = &params->list[i];
        stored = json_object_get(grads, p->name);
        bool same = stored && json_array_size(json_object_get(stored, "of")) == (size_t)p->ndim;
        for (int d = 0; same && d < p->ndim; d++)
            same = p->dim[d] == stored_dim(stored, "of", (size_t)d);
        if (!same)
            return FAIL(WEFT_FORMAT, "the weight %s %s", p->name,
                        stored ? "has a different shape in the file" : "is not in the file");
    }
    return WEFT_OK;
}

/* Training does not store logits: adds the product with the input of the loss. */
static enum weft_status add_logits(struct run *r)
{
    int head = weft_params_find(&r->model->params, r->spec.tie ? "wte" : "head");
    r->logits = weft_linear(r->net.g, r->net.nll->node->in[0], r->net.weights[head], NULL, NULL, WEFT_F32);
    weft_graph_output(r->net.g, r->logits);
    return weft_graph_status(r->net.g);
}

static enum weft_status build(struct run *r)
{
    int64_t sequences = stored_dim(json_object_get(r->c, "tokens"), "shape", 0);
    TRY(add_settings(r));
    TRY(weft_spec_init(&r->spec, "gpt2", &r->settings));
    TRY(weft_settings_finish(&r->settings));
    TRY(weft_nn_create(&r->model, &r->spec));
    TRY(check_weights(r));
    TRY(weft_net_init(&r->net, r->model, WEFT_TRAIN,
                      (struct weft_net_size){.sequences = sequences + SPARE, .length = r->spec.context}));
    TRY(add_logits(r));
    return weft_exec_create(&r->exec, r->net.g, r->way->mode);
}

/* Zeroed, and large enough for the dtype of either mode. */
static double *bind(struct weft_exec *exec, const struct weft_value *v, int64_t count)
{
    double *data = calloc((size_t)count, sizeof *data);
    if (!data)
        abort();
    weft_exec_bind(exec, v, data);
    return data;
}

static void fill_weights(struct run *r)
{
    const struct weft_params *params = &r->model->params;
    r->memory = calloc(2 * (size_t)params->count, sizeof *r->memory);
    if (!r->memory)
        abort();
    for (int i = 0; i < params->count; i++) {
        const struct weft_param *p = &params->list[i];
        const struct weft_value *w = r->net.weights[i], *grad = w ? weft_graph_gradient(w) : NULL;
        if (w)
            r->memory[i] = bind(r->exec, w, p->count);
        if (grad)
            r->memory[params->count + i] = bind(r->exec, grad, p->count);
        uint64_t key = key_of(text(r->c, "key"), p->name, "");
        for (int64_t j = 0; w && j < p->count; j++)
            weft_tensor_set(weft_exec_tensor(r->exec, w), j, uniform(key, j) + centre_of(p->name));
    }
}

static void fill_ints(struct run *r, const char *name, const struct weft_value *v)
{
    const json_t *stored = json_object_get(r->c, name);
    int32_t *data = weft_exec_tensor(r->exec, v)->data;
    for (int64_t i = 0; i < stored_count(stored); i++)
        data[i] = (int32_t)stored_number(stored, i);
}

static void fill_batch(struct run *r)
{
    const json_t *targets = json_object_get(r->c, "targets");
    int valid = 0;
    for (int64_t i = 0; i < stored_count(targets); i++)
        valid += stored_number(targets, i) >= 0;
    weft_net_plain_rows(&r->net, r->exec, stored_dim(targets, "shape", 0), stored_dim(targets, "shape", 1));
    weft_net_step_key(&r->net, r->exec, 0, 0, 0);
    fill_ints(r, "tokens", r->net.tokens);
    fill_ints(r, "targets", r->net.targets);
    weft_tensor_set(weft_exec_tensor(r->exec, r->net.weight), 0, 1.0 / valid);
}

/* ---- comparing */

/* The largest error of the norm and the projections, divided by the norm. Components of a probe have a variance of
 * 1/12; with the factor sqrt(12), the error of a projection is about the norm of the error. */
static double gradient_error(const struct weft_tensor *t, const json_t *stored, const char *key, const char *name)
{
    const json_t *probes = json_object_get(stored, "probe");
    double norm = number(stored, "norm"), squares = 0, most = 0;
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        squares += weft_tensor_get(t, i) * weft_tensor_get(t, i);
    for (int k = 0; k < PROBES; k++) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, "/probe%d", k);
        uint64_t probe = key_of(key, name, suffix);
        double sum = 0, want = 1e-10 * norm * (double)json_integer_value(json_array_get(probes, (size_t)k));
        for (int64_t i = 0; i < weft_tensor_count(t); i++)
            sum += weft_tensor_get(t, i) * uniform(probe, i);
        most = larger(sqrt(12) * fabs(sum - want), most);
    }
    most = larger(fabs(sqrt(squares) - norm), most);
    return norm > 0 ? most / norm : most;
}

static void compare_gradients(struct run *r)
{
    for (int i = 0; i < r->model->params.count; i++) {
        const char *name = r->model->params.list[i].name;
        const struct weft_value *w = r->net.weights[i], *grad = w ? weft_graph_gradient(w) : NULL;
        const json_t *stored = json_object_get(json_object_get(r->c, "grad"), name);
        if (grad)
            note(&r->gradient, gradient_error(weft_exec_tensor(r->exec, grad), stored, text(r->c, "key"), name), name);
        else if (number(stored, "norm") > 0)
            note(&r->gradient, INFINITY, name);
    }
}

static void compare_loss(struct run *r, const char *name, const struct weft_value *v)
{
    double want = number(json_object_get(r->c, "loss"), name);
    note(&r->output, fabs(weft_tensor_get(weft_exec_tensor(r->exec, v), 0) - want) / want, name);
}

static void compare_outputs(struct run *r)
{
    const json_t *stored = json_object_get(r->c, "logits");
    const struct weft_tensor *t = weft_exec_tensor(r->exec, r->logits);
    double most = 0, largest = 0;
    for (int64_t i = 0; i < stored_count(stored); i++) {
        most = larger(fabs(weft_tensor_get(t, i) - stored_number(stored, i)), most);
        largest = larger(fabs(stored_number(stored, i)), largest);
    }
    note(&r->output, stored_count(stored) == weft_tensor_count(t) ? most / largest : INFINITY, "logits");
    compare_loss(r, "total", r->net.loss);
    for (int i = 0; i < r->net.term_count; i++)
        compare_loss(r, r->net.terms[i].name, r->net.terms[i].value);
}

static bool seen[WEFT_KINDS][WEFT_MAX_PARTS];

static void note_part(const struct weft_part *part)
{
    for (int i = 0; weft_part_at(part->kind, i); i++)
        seen[part->kind][i] |= weft_part_at(part->kind, i) == part;
}

static void note_parts(const struct weft_spec *spec)
{
    for (int i = 0; i < WEFT_SINGLE_KINDS; i++)
        note_part(spec->part[i].part);
    for (int i = 0; i < spec->mechanism_count; i++)
        note_part(spec->mechanism[i].part);
}

/* Returns the number of parts that `weft verify` lists as compared with golden models but that are not. */
static int count_missing(void)
{
    int missing = 0;
    for (int kind = 0; kind < WEFT_KINDS; kind++)
        for (int i = 0; weft_part_at((enum weft_part_kind)kind, i); i++) {
            const struct weft_part *part = weft_part_at((enum weft_part_kind)kind, i);
            if (weft_part_is_defined(part) && !seen[kind][i]) {
                printf("FAIL %s is in no golden model, but in the list of src/check/own/reference.c\n",
                       part->owner.name);
                missing++;
            }
        }
    return missing;
}

static enum weft_status run_way(struct run *r)
{
    TRY(build(r));
    note_parts(&r->spec);
    fill_weights(r);
    fill_batch(r);
    weft_exec_prepare(r->exec);
    weft_exec_run(r->exec);
    compare_outputs(r);
    compare_gradients(r);
    return WEFT_OK;
}

static void release(struct run *r)
{
    for (int i = 0; r->memory && i < 2 * r->model->params.count; i++)
        free(r->memory[i]);
    free(r->memory);
    weft_exec_free(r->exec);
    weft_net_release(&r->net);
    weft_nn_free(r->model);
    weft_spec_release(&r->spec);
    weft_settings_release(&r->settings);
}

/* ---- all models */

/* This mode's part of the model's line. */
static void print_way(const struct run *r, bool good)
{
    printf("  %s%s %.1e %s %.1e %s", r->way->name, good ? "" : " WRONG", r->output.error, r->output.name,
           r->gradient.error, r->gradient.name);
}

static bool judge(const json_t *c, const struct way *way)
{
    struct run r = {.c = c, .way = way};
    bool good = run_way(&r) == WEFT_OK;
    if (good) {
        good = r.output.error <= way->limit && r.gradient.error <= way->limit;
        print_way(&r, good);
    } else {
        printf("  %s DID NOT RUN: %.*s", way->name, (int)strcspn(weft_error(), "\n"), weft_error());
    }
    release(&r);
    return good;
}

static bool run_model(const json_t *c)
{
    bool good = true;
    printf("%-20s", text(c, "name"));
    for (int w = 0; w < WAYS; w++)
        good = judge(c, &ways[w]) && good;
    printf("\n");
    return good;
}

static bool wanted(const char *name, int count, char **names)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(name, names[i]))
            return true;
    return count <= 0;
}

int main(int argc, char **argv)
{
    char path[4096];
    json_error_t error;
    json_t *c;
    size_t i;
    int failed = 0, run = 0;
    snprintf(path, sizeof path, "%s/models.json", argc > 1 ? argv[1] : "tests/golden");
    json_t *cases = json_load_file(path, 0, &error);
    if (!cases) {
        printf("FAIL %s: line %d: %s\n", path, error.line, error.text);
        return 1;
    }
    json_array_foreach(cases, i, c)
    {
        if (!wanted(text(c, "name"), argc - 2, argv + 2))
            continue;
        run++;
        failed += !run_model(c);
    }
    json_decref(cases);
    if (argc <= 2)
        failed += count_missing();
    printf("%d models, %d failures\n", run, failed);
    return failed != 0;
}
