/* SPDX-License-Identifier: MIT
 *
 * golden.c - every op and three small models against the values in golden/, which PyTorch computed in double precision.
 *
 * Each case runs as the fast path in f32 and as the reference in f64. One line per comparison gives the largest
 * difference over the root mean square of what was expected. The argument is the folder, tests/golden by default.
 */
#include "nn/nn.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compared, failed;

/* ---- what a file says */

static const char *text(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* The tensor `name` of a case's group "in" or "grad"; NULL: not there. */
static const json_t *tensor_of(const json_t *c, const char *group, const char *name)
{
    return json_object_get(json_object_get(c, group), name);
}

static int64_t stored_count(const json_t *stored) { return (int64_t)json_array_size(json_object_get(stored, "data")); }

static int64_t stored_rows(const json_t *stored)
{
    return json_integer_value(json_array_get(json_object_get(stored, "shape"), 0));
}

static double stored_number(const json_t *stored, int64_t i)
{
    const json_t *unit = json_object_get(stored, "unit");
    double whole = (double)json_integer_value(json_array_get(json_object_get(stored, "data"), (size_t)i));
    return unit ? whole * json_number_value(unit) : whole;
}

/* ---- one case in one mode */

enum { MAX_LEAVES = 64, MAX_OUTPUTS = 4, SPARE = 3 };

struct leaf { /* an input or a parameter */
    const json_t *stored;
    struct weft_value *value;
    void *data, *grad; /* of a parameter */
};

struct run {
    const json_t *c;
    enum weft_mode mode;
    struct weft_graph *g;
    struct weft_settings settings; /* of a model, as are the next two */
    struct weft_spec spec;
    struct weft_model *model;
    struct leaf leaves[MAX_LEAVES];
    int leaf_count;
    struct weft_value *out[MAX_OUTPUTS];
};

static void report(const struct run *r, bool good, double error, const char *what, const char *name)
{
    compared++;
    failed += !good;
    printf("%-4s %s %8.1e  %s/%s %s %s\n", good ? "ok" : "FAIL", r->mode == WEFT_FAST ? "f32" : "f64", error,
           text(r->c, "op"), text(r->c, "name"), what, name);
}

static double element(const struct weft_tensor *t, int64_t i)
{
    return t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : weft_tensor_get(t, i);
}

static void check(const struct run *r, const char *what, const char *name, const struct weft_tensor *t,
                  const json_t *stored)
{
    double limit = r->mode == WEFT_FAST ? 1e-4 : 1e-9, worst = 0, squares = 0;
    int64_t n = stored_count(stored);
    if (weft_tensor_count(t) != n) {
        report(r, false, INFINITY, what, name);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        double want = stored_number(stored, i), off = fabs(element(t, i) - want);
        squares += want * want;
        worst = off <= worst ? worst : off; /* so written that NaN sticks */
    }
    double error = squares > 0 ? worst / sqrt(squares / (double)n) : worst; /* of zeros: as it is */
    report(r, error <= limit, error, what, name);
}

static struct weft_value *remember(struct run *r, const json_t *stored, struct weft_value *v)
{
    if (v && r->leaf_count < MAX_LEAVES)
        r->leaves[r->leaf_count++] = (struct leaf){.stored = stored, .value = v};
    return v;
}

/* A symbol's maximum is above its count, so that plans are never exactly full. */
static struct weft_shape shape_of(struct run *r, const json_t *stored, const char *symbol)
{
    const json_t *dims = json_object_get(stored, "shape");
    struct weft_shape s = {.ndim = (int)json_array_size(dims)};
    for (int d = 0; d < s.ndim; d++)
        s.dim[d] = weft_fixed(json_integer_value(json_array_get(dims, (size_t)d)));
    if (symbol)
        s.dim[0] = weft_times(weft_graph_symbol(r->g, symbol, s.dim[0].times + SPARE), 1);
    return s;
}

/* Absent in the file: NULL, which a builder takes for an optional input left out. */
static struct weft_value *param(struct run *r, const char *name)
{
    const json_t *stored = tensor_of(r->c, "in", name);
    return stored ? remember(r, stored, weft_graph_param(r->g, name, shape_of(r, stored, NULL))) : NULL;
}

static struct weft_value *input(struct run *r, const char *name, const char *symbol)
{
    const json_t *stored = tensor_of(r->c, "in", name);
    if (!stored)
        return NULL;
    enum weft_dtype dtype = json_object_get(stored, "unit") ? WEFT_F32 : WEFT_I32;
    struct weft_value *v = weft_graph_input(r->g, name, dtype, shape_of(r, stored, symbol));
    if (v)
        v->wants_grad = tensor_of(r->c, "grad", name);
    return remember(r, stored, v);
}

static struct weft_value *rows(struct run *r, const char *name) { return input(r, name, "rows"); }

static double number(const struct run *r, const char *name)
{
    return json_number_value(json_object_get(json_object_get(r->c, "attr"), name));
}

static int64_t whole(const struct run *r, const char *name) { return (int64_t)number(r, name); }

/* ---- how each op is built */

static struct weft_value *add(struct run *r) { return weft_add(r->g, rows(r, "a"), rows(r, "b")); }
static struct weft_value *mul(struct run *r) { return weft_mul(r->g, rows(r, "a"), rows(r, "b")); }
static struct weft_value *scale(struct run *r) { return weft_scale(r->g, rows(r, "x"), number(r, "factor")); }
static struct weft_value *bias(struct run *r) { return weft_bias(r->g, rows(r, "x"), param(r, "b")); }
static struct weft_value *gelu(struct run *r) { return weft_gelu(r->g, rows(r, "x")); }
static struct weft_value *silu(struct run *r) { return weft_silu(r->g, rows(r, "x")); }
static struct weft_value *swiglu(struct run *r) { return weft_swiglu(r->g, rows(r, "gate"), rows(r, "up")); }
static struct weft_value *concat(struct run *r) { return weft_concat(r->g, rows(r, "a"), rows(r, "b")); }
static struct weft_value *embed(struct run *r) { return weft_embed(r->g, param(r, "table"), rows(r, "ids")); }

static struct weft_value *slice(struct run *r)
{
    return weft_slice(r->g, rows(r, "x"), whole(r, "first"), whole(r, "width"));
}

static struct weft_value *linear(struct run *r)
{
    return weft_linear(r->g, rows(r, "x"), param(r, "w"), param(r, "b"), rows(r, "addend"), WEFT_F32);
}

static struct weft_value *layernorm(struct run *r)
{
    return weft_layernorm(r->g, rows(r, "x"), param(r, "gain"), param(r, "b"), number(r, "eps"),
                          weft_graph_compute(r->g));
}

static struct weft_value *rmsnorm(struct run *r)
{
    return weft_rmsnorm(r->g, rows(r, "x"), param(r, "gain"), number(r, "eps"), weft_graph_compute(r->g));
}

static struct weft_value *rope(struct run *r)
{
    return weft_rope(r->g, rows(r, "x"), rows(r, "pos"), whole(r, "heads"), number(r, "base"));
}

static struct weft_value *attention(struct run *r)
{
    struct weft_attention a = {
        .q = rows(r, "q"),
        .k = input(r, "k", "keys"),
        .v = input(r, "v", "keys"),
        .scale = input(r, "scale", NULL),
        .key_bias = input(r, "key_bias", "keys"),
        .pos_bias = param(r, "pos_bias"),
        .rows = {.seq = rows(r, "seq"), .pos = rows(r, "pos"), .tiles = input(r, "tiles", "sequences")},
        .heads = whole(r, "heads"),
        .kv_heads = whole(r, "kv_heads"),
    };
    return weft_attention(r->g, &a);
}

static struct weft_value *cross_entropy(struct run *r)
{
    return weft_cross_entropy(r->g, rows(r, "x"), param(r, "w"), rows(r, "targets"), input(r, "weight", NULL),
                              number(r, "z_lambda"));
}

static const struct {
    const char *op;
    struct weft_value *(*build)(struct run *r);
} builders[] = {
    {"add", add},         {"mul", mul},     {"scale", scale},         {"bias", bias},
    {"gelu", gelu},       {"silu", silu},   {"swiglu", swiglu},       {"concat", concat},
    {"slice", slice},     {"embed", embed}, {"linear", linear},       {"layernorm", layernorm},
    {"rmsnorm", rmsnorm}, {"rope", rope},   {"attention", attention}, {"cross_entropy", cross_entropy},
};

static enum weft_status build_op(struct run *r)
{
    r->g = weft_graph_new(WEFT_F32);
    for (size_t i = 0; i < sizeof builders / sizeof *builders; i++) {
        if (!strcmp(builders[i].op, text(r->c, "op"))) {
            r->out[0] = builders[i].build(r);
            return weft_graph_status(r->g);
        }
    }
    return FAIL(WEFT_FORMAT, "this program does not know the op");
}

/* ---- how a model is built */

/* Every attribute but the preset is a setting. */
static enum weft_status add_settings(struct run *r)
{
    const char *name;
    json_t *value;
    TRY(weft_settings_add(&r->settings, "dtype=f32"));
    json_object_foreach(json_object_get(r->c, "attr"), name, value)
    {
        char setting[64];
        if (json_is_integer(value))
            snprintf(setting, sizeof setting, "%s=%lld", name, (long long)json_integer_value(value));
        else
            snprintf(setting, sizeof setting, "%s=%s", name, json_string_value(value));
        if (strcmp(name, "preset"))
            TRY(weft_settings_add(&r->settings, setting));
    }
    return WEFT_OK;
}

/* Built as for evaluation, that is without dropout, and then differentiated like any loss. */
static enum weft_status build_model(struct run *r)
{
    struct weft_net net;
    int64_t sequences = stored_rows(tensor_of(r->c, "in", "tiles"));
    TRY(add_settings(r));
    TRY(weft_spec_init(&r->spec, text(json_object_get(r->c, "attr"), "preset"), &r->settings));
    TRY(weft_settings_finish(&r->settings));
    TRY(weft_model_create(&r->model, &r->spec));
    enum weft_status status = weft_net_init(&net, r->model, WEFT_EVAL, sequences + SPARE, r->spec.context);
    r->g = net.g;
    TRY(status);
    r->out[0] = net.loss;
    struct weft_value *const inputs[] = {net.tokens, net.targets, net.weight, net.at.seq, net.at.pos, net.at.tiles};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        remember(r, tensor_of(r->c, "in", inputs[i]->name), inputs[i]);
    for (int i = 0; i < r->model->params.count; i++)
        remember(r, tensor_of(r->c, "in", r->model->params.list[i].name), net.weights[i]);
    return WEFT_OK;
}

/* ---- running a case */

static enum weft_status build(struct run *r)
{
    size_t outputs = json_array_size(json_object_get(r->c, "out"));
    TRY(strcmp(text(r->c, "op"), "model") ? build_op(r) : build_model(r));
    if (outputs > MAX_OUTPUTS || r->leaf_count == MAX_LEAVES)
        return FAIL(WEFT_FORMAT, "more tensors than this program has room for");
    for (size_t o = 0; o < outputs; o++) {
        r->out[o] = weft_sibling(r->out[0], (int)o);
        weft_graph_output(r->g, r->out[o]);
    }
    return WEFT_OK;
}

/* A case with gradients and no cotangent is a loss. */
static enum weft_status differentiate(struct run *r)
{
    const json_t *stored = json_object_get(r->c, "cotangent");
    if (!json_object_get(r->c, "grad"))
        return WEFT_OK;
    if (stored) {
        struct weft_value *seed = weft_graph_input(r->g, "cotangent", r->out[0]->dtype, r->out[0]->shape);
        remember(r, stored, seed);
        TRY(weft_graph_backward_from(r->g, 1, r->out, &seed));
    } else {
        TRY(weft_graph_backward(r->g, r->out[0]));
    }
    for (int i = 0; i < r->leaf_count; i++) {
        struct weft_value *v = r->leaves[i].value;
        if (v->kind == WEFT_INPUT && v->wants_grad)
            weft_graph_output(r->g, weft_graph_gradient(v));
    }
    return WEFT_OK;
}

/* Zeroed, and room enough for either mode's type. */
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

/* Counts first: they decide what the tensors are. */
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
    TRY(weft_exec_create(&exec, r->g, r->mode));
    enum weft_status status = run_exec(r, exec);
    weft_exec_free(exec);
    return status;
}

static void run_case(const json_t *c, enum weft_mode mode)
{
    struct run r = {.c = c, .mode = mode};
    if (run_graph(&r) != WEFT_OK)
        report(&r, false, INFINITY, "did not run:", weft_error());
    for (int i = 0; i < r.leaf_count; i++) {
        free(r.leaves[i].data);
        free(r.leaves[i].grad);
    }
    weft_graph_free(r.g);
    weft_model_free(r.model);
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
        run_case(c, WEFT_FAST);
        run_case(c, WEFT_REFERENCE);
    }
    json_decref(cases);
}

/* ---- dropout has no golden values, for its masks are its own: its statistics are checked */

enum { TRIAL_ROWS = 128, TRIAL_WIDTH = 128, TRIALS = TRIAL_ROWS * TRIAL_WIDTH };

/* Of ones, with a cotangent of ones, both the output and the gradient are the mask over 1 - p. */
static void count_kept(const struct weft_tensor *y, const struct weft_tensor *dx, double p)
{
    int64_t kept = 0, wrong = 0;
    for (int64_t i = 0; i < TRIALS; i++) {
        double mask = weft_tensor_get(y, i) * (1 - p);
        kept += mask > 0.5;
        wrong += fabs(mask - (mask > 0.5)) > 1e-6 || weft_tensor_get(dx, i) != weft_tensor_get(y, i);
    }
    double sigmas = ((double)kept / TRIALS - (1 - p)) / sqrt(p * (1 - p) / TRIALS);
    bool good = !wrong && fabs(sigmas) < 4;
    compared++;
    failed += !good;
    printf("%-4s f32 %5.2f sigma  dropout kept %lld of %d, %lld elements wrong\n", good ? "ok" : "FAIL", sigmas,
           (long long)kept, TRIALS, (long long)wrong);
}

static enum weft_status try_dropout(struct weft_graph *g, struct weft_exec **exec)
{
    const double p = 0.25;
    struct weft_dim m = weft_fixed(TRIAL_ROWS), c = weft_fixed(TRIAL_WIDTH);
    struct weft_value *x = weft_graph_input(g, "x", WEFT_F32, WEFT_SHAPE(m, c));
    struct weft_value *seed = weft_graph_input(g, "cotangent", WEFT_F32, WEFT_SHAPE(m, c));
    struct weft_rows at = {.seq = weft_graph_input(g, "seq", WEFT_I32, WEFT_SHAPE(m)),
                           .pos = weft_graph_input(g, "pos", WEFT_I32, WEFT_SHAPE(m)),
                           .sample = weft_graph_input(g, "sample", WEFT_I32, WEFT_SHAPE(weft_fixed(1))),
                           .stamp = weft_graph_input(g, "stamp", WEFT_I32, WEFT_SHAPE(weft_fixed(4)))};
    TRY(weft_graph_status(g));
    x->wants_grad = true;
    struct weft_value *y = weft_dropout(g, x, &at, p, 0, 0);
    weft_graph_output(g, y);
    TRY(weft_graph_backward_from(g, 1, &y, &seed));
    weft_graph_output(g, weft_graph_gradient(x));
    TRY(weft_exec_create(exec, g, WEFT_FAST));
    for (int64_t i = 0; i < TRIALS; i++) {
        weft_tensor_set(weft_exec_tensor(*exec, x), i, 1);
        weft_tensor_set(weft_exec_tensor(*exec, seed), i, 1);
    }
    for (int i = 0; i < TRIAL_ROWS; i++) /* one sequence; seed, step and sample 0 */
        ((int32_t *)weft_exec_tensor(*exec, at.pos)->data)[i] = i;
    weft_exec_prepare(*exec);
    weft_exec_run(*exec);
    count_kept(weft_exec_tensor(*exec, y), weft_exec_tensor(*exec, weft_graph_gradient(x)), p);
    return WEFT_OK;
}

static void run_dropout(void)
{
    struct weft_exec *exec = NULL;
    struct weft_graph *g = weft_graph_new(WEFT_F32);
    if (try_dropout(g, &exec) != WEFT_OK) {
        failed++;
        printf("FAIL dropout did not run: %s\n", weft_error());
    }
    weft_exec_free(exec);
    weft_graph_free(g);
}

int main(int argc, char **argv)
{
    static const char *const families[] = {"pointwise", "embed",         "linear", "norm", "rope",
                                           "attention", "cross_entropy", "gpt2",   "llama"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        run_file(argc > 1 ? argv[1] : "tests/golden", families[i]);
    run_dropout();
    printf("%d comparisons, %d failures\n", compared, failed);
    return failed != 0;
}
