/* SPDX-License-Identifier: MIT
 *
 * golden.c - compares the ops with golden values that PyTorch computed in double precision (tests/golden), see
 * golden/case.h. The argument is the folder, tests/golden by default.
 *
 * run-tests: 1 s, asan 2 s
 */
#include "golden/case.h"
#include "ops/ops.h"

/* ---- inputs */

/* A symbol's maximum is larger than its count, so that kernels run below the planned sizes. */
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

/* NULL if the file does not have it: an optional input. */
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

/* Kinds of inputs: activations of the call's rows, integers per row, always f32 (the residual stream, biases, scalars),
 * and activations of the key store. */
static struct weft_value *rows(struct run *r, const char *name) { return input(r, name, "rows", r->way->compute); }
static struct weft_value *ints(struct run *r, const char *name) { return input(r, name, "rows", WEFT_I32); }

static struct weft_value *floats(struct run *r, const char *name, const char *symbol)
{
    return input(r, name, symbol, WEFT_F32);
}

/* The symbol of the key store's rows: the call's own rows, unless it has more. */
static const char *store(const struct run *r)
{
    bool own = stored_rows(tensor_of(r->c, "in", "k")) == stored_rows(tensor_of(r->c, "in", "q"));
    return own ? "rows" : "keys";
}

static struct weft_value *keys(struct run *r, const char *name) { return input(r, name, store(r), r->way->compute); }

static struct weft_rows row_positions(struct run *r)
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

/* ---- builders */

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

/* Multiplies with w, then with its transpose. */
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
    return weft_rope(r->g, rows(r, "x"), ints(r, "pos"), whole(r, "heads"),
                     &(struct weft_rope_turns){.base = number(r, "base")});
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

/* The stored queries: in training q itself, else in the rows of the key store or in a ring. */
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
        .rows = row_positions(r),
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

/* Output 1 is the output of attention, if the case has it. */
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
    struct weft_rows at = row_positions(r);
    return weft_prefix_mean(r->g, rows(r, "x"), &at, NULL, flag(r, "whole"));
}

static struct weft_value *square_mean(struct run *r)
{
    return weft_square_mean(r->g, rows(r, "z"), whole(r, "heads"), number(r, "lambda_z"));
}

static struct weft_value *info_nce(struct run *r)
{
    struct weft_rows at = row_positions(r);
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

static enum weft_status build_graph(struct run *r)
{
    r->g = weft_graph_new(r->way->compute);
    for (size_t i = 0; i < sizeof builders / sizeof *builders; i++) {
        if (!strcmp(builders[i].op, text(r->c, "op"))) {
            r->out[0] = builders[i].build(r);
            return weft_graph_status(r->g);
        }
    }
    return FAIL(WEFT_FORMAT, "op %s has no builder in tests/golden.c; add one", text(r->c, "op"));
}

int main(int argc, char **argv)
{
    static const char *const families[] = {"pointwise", "embed",      "linear", "norm",          "rope",     "heads",
                                           "attention", "reciprocal", "route",  "cross_entropy", "sequence", NULL};
    return run_files(argc, argv, families);
}
