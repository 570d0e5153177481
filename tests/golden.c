/* SPDX-License-Identifier: MIT
 *
 * golden.c - every op and three small models against the values in golden/, which PyTorch computed in double precision.
 *
 * Each case runs as the fast path in f32 and in bf16, and as the reference in f64. One line per comparison gives the
 * error over the root mean square of what was expected: the largest error, or in bf16 the root mean square of all. A
 * table at the end gives the worst of every op. The argument is the folder, tests/golden by default.
 */
#include "nn/nn.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compared, failed;

/* The ways a case is run, and the error allowed. Inputs are exact in all. In bf16 a single number may be far off where
 * rounded ones cancel (the backward pass of attention takes its output as stored), hence the mean. */
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

enum { MAX_LEAVES = 64, MAX_OUTPUTS = 4, MAX_OPS = 64, SPARE = 3 };

struct leaf { /* an input or a parameter */
    const json_t *stored;
    struct weft_value *value;
    void *data, *grad; /* of a parameter */
};

struct run {
    const json_t *c;
    const struct way *way;
    struct weft_graph *g;
    struct weft_settings settings; /* of a model, as are the next two */
    struct weft_spec spec;
    struct weft_model *model;
    struct leaf leaves[MAX_LEAVES];
    int leaf_count;
    struct weft_value *out[MAX_OUTPUTS];
};

/* ---- what is reported */

/* NaN is larger than everything, and so is never lost. */
static double larger(double a, double b) { return isnan(a) || a >= b ? a : b; }

static struct worst {
    char op[32];
    double error[WAYS];
} worst[MAX_OPS];

/* An op's line is found by name, or is the first free one. */
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
    error = squares > 0 ? error / sqrt(squares / (double)n) : error; /* of zeros: as it is */
    report(r, error <= r->way->limit, error, what, name);
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

static struct weft_value *input(struct run *r, const char *name, const char *symbol, enum weft_dtype dtype)
{
    const json_t *stored = tensor_of(r->c, "in", name);
    if (!stored)
        return NULL;
    struct weft_value *v = weft_graph_input(r->g, name, dtype, shape_of(r, stored, symbol));
    if (v)
        v->wants_grad = tensor_of(r->c, "grad", name);
    return remember(r, stored, v);
}

/* By what an input is: activations of the call's rows and of the key store, one whole number per row, or f32 always
 * (the residual stream, biases, scalars). */
static struct weft_value *rows(struct run *r, const char *name) { return input(r, name, "rows", r->way->compute); }
static struct weft_value *ints(struct run *r, const char *name) { return input(r, name, "rows", WEFT_I32); }

static struct weft_value *floats(struct run *r, const char *name, const char *symbol)
{
    return input(r, name, symbol, WEFT_F32);
}

/* The key store is the call's own rows, unless it holds more. */
static const char *store(const struct run *r)
{
    bool own = stored_rows(tensor_of(r->c, "in", "k")) == stored_rows(tensor_of(r->c, "in", "q"));
    return own ? "rows" : "keys";
}

static struct weft_value *keys(struct run *r, const char *name) { return input(r, name, store(r), r->way->compute); }

static struct weft_rows places(struct run *r)
{
    return (struct weft_rows){
        .seq = ints(r, "seq"), .pos = ints(r, "pos"), .tiles = input(r, "tiles", "sequences", WEFT_I32)};
}

static double number(const struct run *r, const char *name)
{
    return json_number_value(json_object_get(json_object_get(r->c, "attr"), name));
}

static int64_t whole(const struct run *r, const char *name) { return (int64_t)number(r, name); }

static bool flag(const struct run *r, const char *name)
{
    return json_is_true(json_object_get(json_object_get(r->c, "attr"), name));
}

static const char *word(const struct run *r, const char *name) { return text(json_object_get(r->c, "attr"), name); }

/* ---- how each op is built */

static struct weft_value *add(struct run *r) { return weft_add(r->g, rows(r, "a"), rows(r, "b")); }
static struct weft_value *mul(struct run *r) { return weft_mul(r->g, rows(r, "a"), rows(r, "b")); }
static struct weft_value *scale(struct run *r) { return weft_scale(r->g, rows(r, "x"), number(r, "factor")); }
static struct weft_value *bias(struct run *r) { return weft_bias(r->g, rows(r, "x"), param(r, "b")); }
static struct weft_value *gelu(struct run *r) { return weft_gelu(r->g, rows(r, "x")); }
static struct weft_value *silu(struct run *r) { return weft_silu(r->g, rows(r, "x")); }
static struct weft_value *swiglu(struct run *r) { return weft_swiglu(r->g, rows(r, "gate"), rows(r, "up")); }
static struct weft_value *sigmoid(struct run *r) { return weft_sigmoid(r->g, rows(r, "x")); }
static struct weft_value *softplus(struct run *r) { return weft_softplus(r->g, rows(r, "x"), number(r, "offset")); }
static struct weft_value *concat(struct run *r) { return weft_concat(r->g, rows(r, "a"), rows(r, "b")); }
static struct weft_value *embed(struct run *r) { return weft_embed(r->g, param(r, "table"), ints(r, "ids")); }

static struct weft_value *mix(struct run *r) { return weft_mix(r->g, rows(r, "x"), rows(r, "y"), param(r, "alpha")); }

static struct weft_value *gate_heads(struct run *r)
{
    return weft_gate_heads(r->g, rows(r, "o"), floats(r, "gate", "rows"), param(r, "alpha"));
}

static struct weft_value *bucket_mean(struct run *r)
{
    return weft_bucket_mean(r->g, rows(r, "h"), param(r, "beta"), whole(r, "count"));
}

static struct weft_value *bucket_spread(struct run *r)
{
    return weft_bucket_spread(r->g, rows(r, "c"), param(r, "gamma"), whole(r, "columns"));
}

static struct weft_value *slice(struct run *r)
{
    return weft_slice(r->g, rows(r, "x"), whole(r, "first"), whole(r, "width"));
}

static struct weft_value *linear(struct run *r)
{
    return weft_linear(r->g, rows(r, "x"), param(r, "w"), param(r, "b"), floats(r, "addend", "rows"), WEFT_F32);
}

/* There by w and back by its transpose. */
static struct weft_value *transpose(struct run *r)
{
    struct weft_value *w = param(r, "w");
    struct weft_value *there = weft_linear(r->g, rows(r, "x"), w, NULL, NULL, r->way->compute);
    return weft_linear(r->g, there, weft_transpose(r->g, w), NULL, NULL, WEFT_F32);
}

static struct weft_value *layernorm(struct run *r)
{
    return weft_layernorm(r->g, floats(r, "x", "rows"), param(r, "gain"), param(r, "b"), number(r, "eps"),
                          r->way->compute);
}

static struct weft_value *rmsnorm(struct run *r)
{
    return weft_rmsnorm(r->g, floats(r, "x", "rows"), param(r, "gain"), number(r, "eps"), r->way->compute);
}

static struct weft_value *rope(struct run *r)
{
    return weft_rope(r->g, rows(r, "x"), ints(r, "pos"), whole(r, "heads"), number(r, "base"));
}

static struct weft_value *join_heads(struct run *r)
{
    return weft_join_heads(r->g, rows(r, "a"), whole(r, "a_heads"), rows(r, "b"), whole(r, "b_heads"),
                           whole(r, "heads"));
}

static struct weft_value *alibi(struct run *r) { return weft_alibi(r->g, whole(r, "heads"), whole(r, "offsets")); }
static struct weft_value *square_sum(struct run *r) { return weft_square_sum(r->g, rows(r, "x"), whole(r, "heads")); }

static struct weft_value *whiten(struct run *r)
{
    return weft_whiten(r->g, rows(r, "mu"), rows(r, "sigma"), whole(r, "heads"), whole(r, "sigma_heads"));
}

static struct weft_value *temperature(struct run *r)
{
    return weft_temperature(r->g, param(r, "theta"), number(r, "factor"), number(r, "eps"));
}

static struct weft_value *head_bias(struct run *r)
{
    return weft_head_bias(r->g, floats(r, "n", "rows"), param(r, "scale"));
}

/* In training the key store's queries are the call's own; else they stand in its rows, or in a ring. */
static struct weft_attention geometry(struct run *r)
{
    const char *queries = tensor_of(r->c, "in", "q_tiles") ? "queries" : store(r);
    struct weft_attention a = {
        .q = rows(r, "q"),
        .k = keys(r, "k"),
        .v = keys(r, "v"),
        .scale = floats(r, "scale", NULL),
        .key_bias = floats(r, "key_bias", store(r)),
        .pos_bias = param(r, "pos_bias"),
        .q_store = input(r, "q_store", queries, r->way->compute),
        .q_bias = floats(r, "q_bias", queries),
        .q_tiles = input(r, "q_tiles", "sequences", WEFT_I32),
        .k_own = rows(r, "k_own"),
        .rows = places(r),
        .heads = whole(r, "heads"),
        .kv_heads = whole(r, "kv_heads"),
        .ra_alpha = number(r, "ra_alpha"),
        .ra_window = whole(r, "ra_window"),
    };
    if (a.ra_window && !a.q_store)
        a.q_store = a.q;
    return a;
}

static struct weft_value *attention(struct run *r)
{
    struct weft_attention a = geometry(r);
    return weft_attention(r->g, &a);
}

static enum weft_route_mode route_mode(const char *name)
{
    if (!strcmp(name, "topk"))
        return WEFT_ROUTE_TOPK;
    return !strcmp(name, "rms") ? WEFT_ROUTE_RMS : WEFT_ROUTE_NONE;
}

/* Output 1 is attention's, where the case has one. */
static struct weft_value *route(struct run *r)
{
    struct weft_attention a = geometry(r);
    struct weft_value *o = weft_attention(r->g, &a);
    struct weft_route how = {
        .attention = &a,
        .lse = weft_sibling(o, 1),
        .u = keys(r, "u"),
        .mode = route_mode(word(r, "mode")),
        .topk = whole(r, "topk"),
        .rms_factor = number(r, "rms_factor"),
        .head_max = flag(r, "head_max"),
        .renormalise = flag(r, "renormalise"),
    };
    r->out[1] = o;
    return weft_route(r->g, &how);
}

static struct weft_value *prefix_mean(struct run *r)
{
    struct weft_rows at = places(r);
    return weft_prefix_mean(r->g, rows(r, "x"), &at, NULL, flag(r, "whole"));
}

static struct weft_value *square_mean(struct run *r)
{
    return weft_square_mean(r->g, rows(r, "z"), whole(r, "heads"), number(r, "lambda_z"));
}

static struct weft_value *info_nce(struct run *r)
{
    struct weft_rows at = places(r);
    enum weft_positives positives = strcmp(word(r, "positives"), "self") ? WEFT_POSITIVES_HALVES : WEFT_POSITIVES_SELF;
    return weft_info_nce(r->g, rows(r, "z"), &at, whole(r, "heads"), positives, number(r, "tau"),
                         number(r, "lambda_c"));
}

static struct weft_value *cross_entropy(struct run *r)
{
    return weft_cross_entropy(r->g, rows(r, "x"), param(r, "w"), ints(r, "targets"), floats(r, "weight", NULL),
                              number(r, "z_lambda"));
}

static const struct {
    const char *op;
    struct weft_value *(*build)(struct run *r);
} builders[] = {
    {"add", add},
    {"mul", mul},
    {"scale", scale},
    {"mix", mix},
    {"bias", bias},
    {"gelu", gelu},
    {"silu", silu},
    {"sigmoid", sigmoid},
    {"softplus", softplus},
    {"swiglu", swiglu},
    {"concat", concat},
    {"join_heads", join_heads},
    {"slice", slice},
    {"embed", embed},
    {"linear", linear},
    {"transpose", transpose},
    {"layernorm", layernorm},
    {"rmsnorm", rmsnorm},
    {"rope", rope},
    {"alibi", alibi},
    {"whiten", whiten},
    {"square_sum", square_sum},
    {"temperature", temperature},
    {"head_bias", head_bias},
    {"attention", attention},
    {"route", route},
    {"gate_heads", gate_heads},
    {"bucket_mean", bucket_mean},
    {"bucket_spread", bucket_spread},
    {"cross_entropy", cross_entropy},
    {"prefix_mean", prefix_mean},
    {"square_mean", square_mean},
    {"info_nce", info_nce},
};

static enum weft_status build_op(struct run *r)
{
    r->g = weft_graph_new(r->way->compute);
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
    TRY(weft_settings_add(&r->settings, r->way->compute == WEFT_BF16 ? "dtype=bf16" : "dtype=f32"));
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
    TRY(weft_spec_init(&r->spec, word(r, "preset"), &r->settings));
    TRY(weft_settings_finish(&r->settings));
    TRY(weft_model_create(&r->model, &r->spec));
    enum weft_status status = weft_net_init(
        &net, r->model, WEFT_EVAL, (struct weft_net_size){.sequences = sequences + SPARE, .length = r->spec.context});
    r->g = net.g;
    TRY(status);
    r->out[0] = net.loss;
    struct weft_value *const inputs[] = {net.tokens, net.targets, net.weight, net.at.seq, net.at.pos, net.at.tiles};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        remember(r, tensor_of(r->c, "in", inputs[i]->name), inputs[i]);
    remember(r, tensor_of(r->c, "in", "pos"), net.place);
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
        if (!r->out[o])
            r->out[o] = weft_sibling(r->out[0], (int)o);
        weft_graph_output(r->g, r->out[o]);
    }
    return WEFT_OK;
}

/* A case with gradients and no cotangents is a loss; an output without one is not differentiated. */
static enum weft_status reverse(struct run *r)
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
    TRY(reverse(r));
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
        for (int w = 0; w < WAYS; w++)
            run_case(c, &ways[w]);
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
    static const char *const families[] = {
        "pointwise",  "embed", "linear",        "norm",     "rope", "heads", "attention",
        "reciprocal", "route", "cross_entropy", "sequence", "gpt2", "llama",
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        run_file(argc > 1 ? argv[1] : "tests/golden", families[i]);
    run_dropout();
    print_worst();
    printf("%d comparisons, %d failures\n", compared, failed);
    return failed != 0;
}
