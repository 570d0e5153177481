/* SPDX-License-Identifier: MIT
 *
 * bench - speed as ratios inside one interleaved run: engine (products), attention, train (a whole step).
 */
#include "bench/bench.h"
#include "base/json.h"
#include "cmd/cmd.h"

#include <string.h>

struct args {
    struct weft_common common;
    const char *what, *route, *only;
    double seconds;
    int64_t length;
    bool profile, f32;
    char given[16]; /* keys of options, once each */
};

static const struct argp_option options[] = {
    {"preset", 'p', "MODEL", 0, "train, variants: which model (default gpt2-mini)", 0},
    {"length", 'l', "T", 0, "attention: tokens of a sequence (default 1024; two sequences, above 1024 one)", 0},
    {"route", 'r', "MODE", 0, "attention: also gather rows by its routes: topk (8), rms or none", 0},
    {"seconds", 'S', "N", 0, "How long to measure, about (default 50)", 0},
    {"only", 'o', "NAME", 0, "variants: measure this one alone, for all the time", 0},
    {"f32", 'f', NULL, 0, "engine: f32 products instead of bf16", 0},
    {"profile", 'P', NULL, 0, "train: tell the time per op, on stderr", 0},
    {0},
};

/* Options of some benches only. */
static const struct {
    int key;
    const char *of;
} limits[] = {{'p', "train variants"}, {'l', "attention"}, {'r', "attention"},
              {'o', "variants"},       {'f', "engine"},    {'P', "train"}};

static void check_given(struct argp_state *state, const struct args *a)
{
    for (const struct argp_option *o = options; o->name; o++)
        for (size_t i = 0; strchr(a->given, o->key) && i < sizeof limits / sizeof *limits; i++)
            if (limits[i].key == o->key && !strstr(limits[i].of, a->what))
                argp_error(state, "--%s is no option of %s", o->name, a->what);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    for (const struct argp_option *o = options; o->name; o++)
        if (o->key == key && !strchr(a->given, key))
            a->given[strlen(a->given)] = (char)key;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->common;
        a->common.model = "gpt2-mini";
        a->seconds = 50;
        a->length = 1024;
        return 0;
    case 'p':
        a->common.model = arg;
        return 0;
    case 'S':
        a->seconds = weft_arg_real(state, "seconds", arg, 1, 36000);
        return 0;
    case 'l':
        a->length = weft_arg_int(state, "length", arg, 1, 1 << 20);
        return 0;
    case 'r':
        a->route = arg;
        return 0;
    case 'o':
        a->only = arg;
        return 0;
    case 'f':
        a->f32 = true;
        return 0;
    case 'P':
        a->profile = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->what)
            argp_error(state, "one bench at a time: engine, attention, train or variants");
        a->what = arg;
        return 0;
    case ARGP_KEY_END:
        if (a->what)
            check_given(state, a);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which bench? engine, attention, train or variants");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&weft_common_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .args_doc = "engine|attention|train|variants",
    .doc =
        "Measures speed against bare products, same threads, same run. The yardstick is oneDNN's fastest formulation "
        "of "
        "each product where the program is built with it (make ONEDNN=yes), else the own product loop.\v"
        "engine: the three training products through the graph; ratio = bare time / our time. Needs oneDNN.\n"
        "attention: forward and backward, 12 heads of 64, causal; share_of_product = its FLOP rate over that of a bare "
        "product.\n"
        "train: forward and backward of a model on random tokens; ratio_bare = step time / time of its products run "
        "bare.",
};

static void tell_row(void *context, const struct weft_engine_row *r)
{
    const struct args *a = context;
    static const char *const kinds[] = {"Y", "dX", "dW"};
    if (!a->common.json)
        printf("%5lld x %5lld x %4lld  %-2s  %7.0f GFLOP/s   bare %7.0f   ratio %.2f   (%d rounds; %s)\n",
               (long long)r->product.m, (long long)r->product.n, (long long)r->product.k, kinds[r->product.kind],
               r->gflops, r->bare_gflops, r->ratio, r->rounds, r->bare_name);
    fflush(stdout);
}

static enum weft_status bench_engine(struct args *a, struct weft_result *result)
{
    double geomean, min;
    TRY(weft_settings_finish(&a->common.settings));
    TRY(weft_bench_engine(a->f32 ? WEFT_F32 : WEFT_BF16, a->seconds, &geomean, &min, tell_row, a));
    weft_result_real(result, "geomean", geomean);
    weft_result_real(result, "min", min);
    return WEFT_OK;
}

static enum weft_status find_route(const char *name, struct weft_route *route)
{
    static const char *const names[] = {
        [WEFT_ROUTE_TOPK] = "topk", [WEFT_ROUTE_RMS] = "rms", [WEFT_ROUTE_NONE] = "none"};
    *route = (struct weft_route){.topk = 8, .rms_factor = 0.5, .renormalise = true};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            route->mode = (enum weft_route_mode)i;
            return WEFT_OK;
        }
    return FAIL(WEFT_INVALID, "--route %s: give topk, rms or none", name);
}

static enum weft_status bench_attention(struct args *a, struct weft_result *result)
{
    struct weft_attention_bench b;
    struct weft_route route;
    TRY(weft_settings_finish(&a->common.settings));
    if (a->route)
        TRY(find_route(a->route, &route));
    TRY(weft_bench_attention(a->length > 1024 ? 1 : 2, a->length, a->route ? &route : NULL, a->seconds, &b));
    weft_result_int(result, "length", a->length);
    weft_result_real(result, "share_of_product", b.share_of_product);
    weft_result_real(result, "gflops", b.gflops);
    weft_result_real(result, "product_gflops", b.product_gflops);
    weft_result_int(result, "rounds", b.rounds);
    weft_result_int(result, "peak_bytes", b.peak_bytes);
    weft_result_int(result, "planned_bytes", b.planned_bytes);
    return WEFT_OK;
}

static enum weft_status bench_train(struct args *a, struct weft_result *result)
{
    struct weft_train_bench b;
    TRY(weft_common_init(&a->common));
    TRY(weft_bench_train(&a->common.spec, a->seconds, &b, a->profile ? stderr : NULL));
    weft_result_text(result, "preset", a->common.spec.preset);
    weft_result_real(result, "tokens_per_s", b.tokens_per_s);
    weft_result_real(result, "ratio_bare", b.ratio_bare);
    weft_result_real(result, "step_seconds", b.step_seconds);
    weft_result_real(result, "bare_seconds", b.bare_seconds);
    weft_result_int(result, "rounds", b.rounds);
    weft_result_int(result, "peak_bytes", b.peak_bytes);
    weft_result_int(result, "planned_bytes", b.planned_bytes);
    return WEFT_OK;
}

static void add_prefixed(struct weft_result *result, const char *prefix, const char *name, double value)
{
    char text[64];
    snprintf(text, sizeof text, "%s%s", prefix, name);
    weft_result_real(result, text, value);
}

/* All variants, or the one named; the time is shared out among them. */
static enum weft_status bench_variants(struct args *a, struct weft_result *result)
{
    const char *name;
    int count = 0;
    while (weft_variant_bench_at(count))
        count++;
    weft_result_text(result, "preset", a->common.model);
    bool known = !a->only;
    for (int i = 0; (name = weft_variant_bench_at(i)); i++) {
        struct weft_variant_bench b = {.state_bytes = WEFT_STATE_BYTES};
        if (a->only && strcmp(a->only, name) != 0)
            continue;
        known = true;
        TRY(weft_bench_variant(a->common.model, &a->common.settings, name, a->only ? a->seconds : a->seconds / count,
                               &b));
        if (!a->common.json)
            printf("%-14s over %-10s time %.3f  FLOPs %.3f  params %.3f  memory %.3f  activations %.3f  (%d rounds)\n",
                   b.name, b.over, b.time, b.flops, b.params, b.memory, b.activation, b.rounds);
        fflush(stdout);
        add_prefixed(result, "", name, b.time);
        add_prefixed(result, "mem_", name, b.memory);
        add_prefixed(result, "act_", name, b.activation);
        add_prefixed(result, "params_", name, b.params);
        add_prefixed(result, "flops_", name, b.flops);
    }
    if (!known)
        return FAIL(WEFT_INVALID, "there is no variant \"%s\" to measure: without --only all of them are", a->only);
    return WEFT_OK;
}

static const struct {
    const char *name;
    enum weft_status (*run)(struct args *a, struct weft_result *result);
} benches[] = {
    {"engine", bench_engine}, {"attention", bench_attention}, {"train", bench_train}, {"variants", bench_variants}};
enum { BENCHES = sizeof benches / sizeof *benches };

static enum weft_status run_named(struct args *a, struct weft_result *result)
{
    const char *names[BENCHES];
    for (int i = 0; i < BENCHES; i++) {
        if (strcmp(a->what, benches[i].name) == 0)
            return benches[i].run(a, result);
        names[i] = benches[i].name;
    }
    const char *near = weft_suggest(a->what, names, BENCHES);
    return FAIL(WEFT_INVALID, "there is no bench named %s%s%s; there are engine, attention, train and variants",
                a->what, near ? ", did you mean " : "", near ? near : "");
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct weft_result *result = weft_result_create();
    enum weft_status status = a->common.status;
    if (status == WEFT_OK)
        status = run_named(a, result);
    weft_result_int(result, "threads", weft_threads());
    weft_result_text(result, "engine", weft_dnn_describe());
    weft_result_text(result, "yardstick", weft_dnn_bare_whose());
    if (status == WEFT_OK)
        status = weft_result_print(result, stdout, a->common.json);
    weft_result_free(result);
    weft_common_release(&a->common);
    return status;
}

const struct weft_cmd weft_cmd_bench = {"bench", "measure speed against bare products", &argp, sizeof(struct args),
                                        run};
