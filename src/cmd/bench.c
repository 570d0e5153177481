/* SPDX-License-Identifier: MIT
 *
 * bench - measures speed as ratios within one interleaved run: engine (matmuls), attention, train (a whole step),
 * decode; and the speed of messages between ranks.
 */
#include "bench/bench.h"
#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/kit/ranks.h"
#include "dnn/dnn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { STALL = 60 };    /* seconds */
enum { ATTENTION = 1 }; /* index among the verbs */
static const char *const verbs[] = {"engine", "attention", "train", "variants", "decode", "network", NULL};
static const char *const routes[] = {
    [WEFT_ROUTE_TOPK] = "topk", [WEFT_ROUTE_RMS] = "rms", [WEFT_ROUTE_NONE] = "none", NULL};

struct args {
    struct weft_common common;
    int what, route, only;
    double seconds;
    const char *lengths;
    int64_t batch;
    bool profile, f32;
    bool silent; /* a different rank prints the result */
};

static const struct weft_arg table[] = {
    {NULL, 0, "BENCH", WEFT_ARG_CHOICE, offsetof(struct args, what), .help = "What to measure", .choices = verbs,
     .missing = "no BENCH given: expected engine, attention, train, variants, decode or network"},
    {"preset", 'p', "MODEL", WEFT_ARG_FILE, offsetof(struct args, common.model), .help = "Measure this model",
     .choice_at = weft_preset_name_at, .only = "attention train variants decode", .initial = "gpt2-mini"},
    {"batch", 'b', "N", WEFT_ARG_INT, offsetof(struct args, batch),
     .help = "Decode N sequences at a time, at the model's full context", .only = "decode", .initial = "1", .min = 1,
     .max = 4096},
    {"length", 'l', "T,T,...", WEFT_ARG_TEXT, offsetof(struct args, lengths),
     .help = "Number of tokens per sequence, or a list of numbers; two sequences are used up to 1024 tokens, one above",
     .only = "attention", .initial = "1024"},
    {"route", 'r', "MODE", WEFT_ARG_CHOICE, offsetof(struct args, route),
     .help = "Also gather rows with this route, 8 rows for topk", .only = "attention", .choices = routes},
    {"seconds", 'S', "N", WEFT_ARG_REAL, offsetof(struct args, seconds), .help = "Measure for about N seconds",
     .initial = "50", .min = 1, .max = 36000},
    {"only", 'o', "NAME", WEFT_ARG_CHOICE, offsetof(struct args, only), .help = "Measure only this variant",
     .only = "variants", .choice_at = weft_variant_bench_at},
    {"f32", 'f', NULL, WEFT_ARG_FLAG, offsetof(struct args, f32), .help = "Measure matmuls in f32 instead of bf16",
     .only = "engine"},
    {"profile", 'P', NULL, WEFT_ARG_FLAG, offsetof(struct args, profile), .help = "Print the time per op to stderr",
     .only = "train decode"},
    {0},
};

static void print_row(void *context, const struct weft_engine_row *r)
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
    TRY(weft_bench_engine(a->f32 ? WEFT_F32 : WEFT_BF16, a->seconds, &geomean, &min, print_row, a));
    weft_result_real(result, "geomean", geomean);
    weft_result_real(result, "min", min);
    return WEFT_OK;
}

/* Parses the next length and advances to the rest; 0: not a length. */
static int64_t next_length(const char **rest)
{
    char *end;
    errno = 0;
    long long length = strtoll(*rest, &end, 10);
    bool valid = end > *rest && !errno && length >= 1 && length <= 1 << 20 && (!*end || (*end == ',' && end[1]));
    *rest = *end == ',' ? end + 1 : end;
    return valid ? length : 0;
}

static int count_lengths(const char *rest)
{
    int count = 0;
    while (*rest)
        if (next_length(&rest))
            count++;
        else
            return 0;
    return count;
}

static enum weft_status check(const void *args)
{
    const struct args *a = args;
    if (a->what == ATTENTION && !count_lengths(a->lengths))
        return FAIL(WEFT_INVALID, "--length %s is invalid: expected integers from 1 to %d, such as 512,1024",
                    a->lengths, 1 << 20);
    if (a->what == ATTENTION && a->common.settings.count && a->route >= 0)
        return FAIL(WEFT_INVALID,
                    "--route measures attention alone, --set the attention of a model: pass only one of them");
    return WEFT_OK;
}

/* "time" or, with several lengths, "time_512". */
static const char *name_at(const struct args *a, const char *name, int64_t length, char text[64])
{
    snprintf(text, 64, strchr(a->lengths, ',') ? "%s_%lld" : "%s", name, (long long)length);
    return text;
}

static enum weft_status bench_op(struct args *a, int64_t length, double seconds, struct weft_result *result)
{
    struct weft_attention_bench b;
    struct weft_route route = {.topk = 8, .rms_factor = 0.5, .renormalise = true};
    bool routed = a->route >= 0;
    char name[64];
    route.mode = routed ? (enum weft_route_mode)a->route : WEFT_ROUTE_NONE;
    TRY(weft_bench_attention(length > 1024 ? 1 : 2, length, routed ? &route : NULL, seconds, &b));
    weft_result_int(result, name_at(a, "length", length, name), length);
    weft_result_real(result, name_at(a, "share_of_product", length, name), b.share_of_product);
    weft_result_real(result, name_at(a, "gflops", length, name), b.gflops);
    weft_result_real(result, name_at(a, "product_gflops", length, name), b.product_gflops);
    weft_result_int(result, name_at(a, "rounds", length, name), b.rounds);
    weft_result_int(result, name_at(a, "peak_bytes", length, name), b.peak_bytes);
    weft_result_int(result, name_at(a, "planned_bytes", length, name), b.planned_bytes);
    return WEFT_OK;
}

static enum weft_status bench_geometry(struct args *a, int64_t length, double seconds, struct weft_result *result)
{
    struct weft_geometry_bench b;
    char name[64];
    TRY(weft_bench_geometry(a->common.model, &a->common.settings, length > 1024 ? 1 : 2, length, seconds, &b));
    if (!a->common.json)
        printf(
            "%7lld tokens  %10.3f ms  %10.1f MiB   over dot, full: time %.3f  FLOPs %.3f  memory %.3f  (%d rounds)\n",
            (long long)length, 1e3 * b.seconds, (double)b.planned_bytes / (1 << 20), b.time, b.flops, b.memory,
            b.rounds);
    fflush(stdout);
    weft_result_int(result, name_at(a, "length", length, name), length);
    weft_result_real(result, name_at(a, "seconds", length, name), b.seconds);
    weft_result_int(result, name_at(a, "planned_bytes", length, name), b.planned_bytes);
    weft_result_real(result, name_at(a, "time", length, name), b.time);
    weft_result_real(result, name_at(a, "flops", length, name), b.flops);
    weft_result_real(result, name_at(a, "mem", length, name), b.memory);
    weft_result_int(result, name_at(a, "rounds", length, name), b.rounds);
    return WEFT_OK;
}

/* Measures the attention of a model if there are settings, otherwise attention alone; the time is divided among the
 * lengths. */
static enum weft_status bench_attention(struct args *a, struct weft_result *result)
{
    const char *rest = a->lengths;
    double seconds = a->seconds / count_lengths(rest);
    while (*rest)
        TRY((a->common.settings.count ? bench_geometry : bench_op)(a, next_length(&rest), seconds, result));
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

/* Measures the named variant, or all variants, which share the time. */
static enum weft_status bench_variants(struct args *a, struct weft_result *result)
{
    const char *name;
    char rounds[64];
    int count = 0;
    while (weft_variant_bench_at(count))
        count++;
    weft_result_text(result, "preset", a->common.model);
    for (int i = 0; (name = weft_variant_bench_at(i)); i++) {
        struct weft_variant_bench b = {.state_bytes = WEFT_STATE_BYTES};
        if (a->only >= 0 && a->only != i)
            continue;
        TRY(weft_bench_variant(a->common.model, &a->common.settings, name,
                               a->only >= 0 ? a->seconds : a->seconds / count, &b));
        if (!a->common.json)
            printf("%-14s over %-10s time %.3f (%.3f to %.3f)  FLOPs %.3f  bytes %.3f  params %.3f  memory %.3f  "
                   "activations %.3f  (%d rounds)\n",
                   b.name, b.over, b.time, b.time_low, b.time_high, b.flops, b.bytes, b.params, b.memory, b.activation,
                   b.rounds);
        fflush(stdout);
        add_prefixed(result, "", name, b.time);
        add_prefixed(result, "low_", name, b.time_low);
        add_prefixed(result, "high_", name, b.time_high);
        snprintf(rounds, sizeof rounds, "rounds_%s", name);
        weft_result_int(result, rounds, b.rounds);
        add_prefixed(result, "mem_", name, b.memory);
        add_prefixed(result, "act_", name, b.activation);
        add_prefixed(result, "params_", name, b.params);
        add_prefixed(result, "flops_", name, b.flops);
        add_prefixed(result, "bytes_", name, b.bytes);
    }
    return WEFT_OK;
}

static enum weft_status bench_decode(struct args *a, struct weft_result *result)
{
    struct weft_decode_bench b = {.batch = a->batch};
    TRY(weft_common_init(&a->common));
    b.context = a->common.spec.context;
    TRY(weft_bench_decode(&a->common.spec, a->seconds, &b, a->profile ? stderr : NULL));
    weft_result_text(result, "preset", a->common.spec.preset);
    weft_result_int(result, "batch", b.batch);
    weft_result_int(result, "context", b.context);
    weft_result_real(result, "tokens_per_s", b.tokens_per_s);
    weft_result_real(result, "ratio_bandwidth", b.ratio_bandwidth);
    weft_result_real(result, "read_gb_per_s", b.read_gb_per_s);
    weft_result_real(result, "step_seconds", b.step_seconds);
    weft_result_real(result, "prefill_tokens_per_s", b.prefill_tokens_per_s);
    weft_result_int(result, "weight_bytes", b.weight_bytes);
    weft_result_int(result, "cache_bytes", b.cache_bytes);
    weft_result_int(result, "cache_token_bytes", b.cache_token_bytes);
    weft_result_int(result, "resident_bytes", b.resident_bytes);
    weft_result_real(result, "rss_ratio", b.rss_ratio);
    weft_result_int(result, "rounds", b.rounds);
    return WEFT_OK;
}

/* Rank 0 reports. */
static enum weft_status bench_network(struct args *a, struct weft_result *result)
{
    struct weft_network_bench b;
    struct weft_comm comm = {.size = 1};
    int ranks;
    TRY(weft_settings_finish(&a->common.settings));
    if (!weft_comm_launched(&ranks))
        return FAIL(WEFT_INVALID,
                    "there is only one rank: run `mpirun -n 2 weft bench network`, with one rank on each host");
    enum weft_status status = weft_ranks_join(&comm, STALL);
    if (status == WEFT_OK)
        status = weft_bench_network(&comm, a->seconds, &b);
    ranks = comm.size;
    a->silent = comm.rank > 0;
    weft_ranks_leave(&comm, status);
    TRY(status);
    weft_result_int(result, "ranks", ranks);
    weft_result_real(result, "gb_per_s", b.gb_per_s);
    weft_result_real(result, "message_us", b.message_us);
    weft_result_int(result, "rounds", b.rounds);
    return WEFT_OK;
}

/* In the order of the verbs. */
static enum weft_status (*const benches[])(struct args *a, struct weft_result *result) = {
    bench_engine, bench_attention, bench_train, bench_variants, bench_decode, bench_network};

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct weft_result *result = weft_result_create();
    enum weft_status status = benches[a->what](a, result);
    weft_result_int(result, "threads", weft_threads());
    weft_result_text(result, "engine", weft_dnn_describe());
    weft_result_text(result, "yardstick", weft_dnn_bare_whose());
    if (status == WEFT_OK && !a->silent)
        status = weft_result_print(result, stdout, a->common.json);
    weft_result_free(result);
    return status;
}

const struct weft_cmd weft_cmd_bench = {
    .name = "bench",
    .summary = "measure speed against bare matmuls",
    .doc =
        "Measures speed against bare matmuls with the same threads in the same run. The yardstick is oneDNN's fastest "
        "formulation of each matmul if weft was built with oneDNN (make ONEDNN=yes), otherwise Weft's own GEMM kernel.",
    .notes =
        "engine: the three training matmuls through the graph; ratio = bare time / our time. Needs oneDNN.\n"
        "attention: forward and backward, 12 heads of 64, causal; share_of_product = its FLOP rate divided by that of "
        "a bare matmul. With settings such as geom=w2 or attn=latent, it measures the attention of a block of the "
        "preset instead, including norm and projections; time, FLOPs and memory are relative to geom=dot and "
        "attn=full.\n"
        "train: forward and backward of a model on random tokens; ratio_bare = step time / time of its bare matmuls.\n"
        "decode: one token of every sequence at full context; ratio_bandwidth = time to read packed weights and cache "
        "once, at the read bandwidth measured in the same run / time of a step.\n"
        "network: messages of 32 MB and of 8 bytes from every rank to the next, under mpirun or srun; the results are "
        "the numbers for `weft plan --network`.\n"
        "variants: cost of each variant relative to the model without it: time (median and quartiles over rounds), "
        "FLOPs, bytes that ops read and write, parameters and memory.",
    .args = table,
    .check = check,
    .takes = WEFT_TAKES_SET | WEFT_TAKES_THREADS | WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
