/* SPDX-License-Identifier: MIT
 *
 * plan - predicts the cost of training on many threads and ranks: time, traffic, memory, checkpoints.
 */
#include "base/json.h"
#include "bench/scale.h"
#include "bench/slack.h"
#include "cmd/cmd.h"
#include "train/account.h"

#include <math.h>
#include <stdlib.h>

struct args {
    struct weft_common common;
    int64_t ranks, threads;
    const char *network;
    double disk, memory, call, micro_batch; /* 0: measured */
};

static const struct weft_arg table[] = {
    {"ranks", 'r', "R", WEFT_ARG_INT, offsetof(struct args, ranks), .help = "Predict training on R ranks",
     .initial = "1", .min = 1, .max = 4096},
    {"threads", 't', "P", WEFT_ARG_INT, offsetof(struct args, threads),
     .help = "Predict for P threads per rank, which may be more than this machine has (default: one per core)",
     .min = 1, .max = 4096},
    {"network", 'n', "GB/s,us", WEFT_ARG_TEXT, offsetof(struct args, network),
     .help = "Bandwidth and latency of the network per rank", .initial = "1.25,30"},
    {"disk", 'd', "GB/s", WEFT_ARG_REAL, offsetof(struct args, disk),
     .help = "Write bandwidth of all ranks together (default: measured in this folder)", .min = 1e-6, .max = INFINITY},
    {"memory", 'M', "GB/s", WEFT_ARG_REAL, offsetof(struct args, memory),
     .help = "Memory bandwidth of a rank that updates weights (default: measured)", .min = 1e-6, .max = INFINITY},
    {"fork-join", 'f', "us", WEFT_ARG_REAL, offsetof(struct args, call),
     .help = "Time of an empty call on two threads (default: measured; too high on a busy machine)", .min = 1e-3,
     .max = 1e6},
    {"micro-batch", 'm', "SECONDS", WEFT_ARG_REAL, offsetof(struct args, micro_batch),
     .help =
         "Time of a micro-batch on P threads, as measured by `weft bench train` on that machine (default: predicted)",
     .min = 1e-9, .max = INFINITY},
    {0},
};

static enum weft_status check(const void *args)
{
    const struct args *a = args;
    char *end;
    double gb_per_s = strtod(a->network, &end), us = *end == ',' ? strtod(end + 1, &end) : -1;
    if (*end || !(gb_per_s > 0) || !(us >= 0) || !isfinite(gb_per_s) || !isfinite(us))
        return FAIL(WEFT_INVALID, "--network %s is invalid: expected GB/s and microseconds, such as 12.5,5",
                    a->network);
    return WEFT_OK;
}

/* ---- threads */

enum { SHOWN = 8 };

static void print_threads(const struct weft_speedup *s)
{
    double all = s->seconds[s->asked];
    printf("speed-up of forward and backward by number of threads; times are for %d\n%-22s %6s %9s %6s",
           s->teams[s->asked], "op", "tiles", "ms", "share");
    for (int t = 1; t < s->team_count; t++)
        printf(" %6d", s->teams[t]);
    for (int o = 0; o < s->op_count && o < SHOWN; o++) {
        const struct weft_speedup_op *op = &s->ops[o];
        printf("\n%-13s %-8s %6lld %9.2f %5.1f%%", op->name, op->backward ? "backward" : "", (long long)op->tiles,
               1e3 * op->seconds[s->asked], 100 * op->seconds[s->asked] / all);
        for (int t = 1; t < s->team_count; t++)
            printf(" %6.1f", op->seconds[0] / op->seconds[t]);
    }
    printf("\n%-22s %6s %9.2f %5.1f%%", "all", "", 1e3 * all, 100.0);
    for (int t = 1; t < s->team_count; t++)
        printf(" %6.1f", s->seconds[0] / s->seconds[t]);
    printf("\n\n");
}

static void add_threads(struct weft_result *r, const struct weft_speedup *s)
{
    weft_result_real(r, "speedup_threads", s->seconds[0] / s->seconds[s->asked]);
    for (int t = 1; t < s->team_count; t++) {
        char name[32];
        snprintf(name, sizeof name, "speedup_%d", s->teams[t]);
        weft_result_real(r, name, s->seconds[0] / s->seconds[t]);
    }
    weft_result_real(r, "one_thread_s", s->seconds[0]);
    weft_result_text(r, "slowest_op", s->ops[0].name);
    weft_result_real(r, "fork_join_us", 1e6 * s->cost.call);
    weft_result_real(r, "cache_line_us", 1e6 * s->cost.line);
}

/* ---- ranks */

static enum weft_status print_ranks(const struct weft_scale_load *load, const struct weft_scale_machine *m,
                                    int64_t ranks)
{
    printf("%6s %10s %10s %10s %10s %10s %11s %12s %10s\n", "ranks", "step s", "compute s", "comm s", "hidden s",
           "update s", "efficiency", "tokens/s", "GiB/rank");
    for (int64_t n = 1; n <= ranks; n = n < ranks ? weft_min(2 * n, ranks) : n + 1) {
        struct weft_scale s;
        TRY(weft_scale_predict(load, m, n, &s));
        printf("%6lld %10.3f %10.3f %10.3f %10.3f %10.4f %10.1f%% %12.0f %10.2f\n", (long long)n, s.step, s.compute,
               s.gradients + s.weights, s.hidden, s.update, 100 * s.efficiency, s.tokens_per_s,
               (double)s.bytes_per_rank / (1 << 30));
    }
    printf("\n");
    return WEFT_OK;
}

static void add_scale(struct weft_result *r, const struct weft_scale *s, const struct weft_scale_machine *m)
{
    weft_result_int(r, "ranks", s->ranks);
    weft_result_real(r, "step_s", s->step);
    weft_result_real(r, "compute_s", s->compute);
    weft_result_real(r, "update_s", s->update);
    weft_result_real(r, "comm_s", s->gradients + s->weights);
    weft_result_real(r, "comm_hidden_s", s->hidden);
    weft_result_real(r, "efficiency", s->efficiency);
    weft_result_real(r, "tokens_per_s", s->tokens_per_s);
    weft_result_int(r, "bytes_sent", s->sent_bytes);
    weft_result_int(r, "bytes_per_rank", s->bytes_per_rank);
    weft_result_int(r, "checkpoint_bytes", s->checkpoint_bytes);
    weft_result_real(r, "checkpoint_s", s->checkpoint);
    weft_result_real(r, "micro_batch_s", m->micro_batch);
    weft_result_real(r, "memory_gb_per_s", 1e-9 * m->memory);
    weft_result_real(r, "disk_gb_per_s", 1e-9 * m->disk);
}

/* ---- the command */

static enum weft_status measure(const struct args *a, struct weft_scale_machine *m, struct weft_speedup *speedup)
{
    char *end;
    m->network = 1e9 * strtod(a->network, &end);
    m->wait = 1e-6 * strtod(end + 1, NULL);
    m->micro_batch = a->micro_batch;
    m->disk = 1e9 * a->disk;
    m->memory = 1e9 * a->memory;
    if (!a->memory)
        TRY(weft_memory_rate(&m->memory));
    if (!a->disk)
        TRY(weft_disk_rate(".", &m->disk));
    if (!a->micro_batch) {
        int threads = a->threads ? (int)a->threads : weft_threads();
        TRY(weft_speedup_measure(&a->common.spec, threads, 1e-6 * a->call, speedup));
        m->micro_batch = speedup->seconds[speedup->asked];
    }
    return WEFT_OK;
}

static enum weft_status plan(const struct args *a, const struct weft_nn *model, struct weft_result *result)
{
    struct weft_account account;
    struct weft_scale_machine machine;
    struct weft_speedup speedup = {0};
    struct weft_scale scale;
    TRY(weft_account(model, &a->common.recipe, model->spec->context, &account));
    struct weft_scale_load load = {model, &a->common.recipe, account.activation_bytes};
    machine = (struct weft_scale_machine){1, 1, 1, 1, 1};
    TRY(weft_scale_predict(&load, &machine, a->ranks, &scale)); /* fails early, before anything is measured */
    TRY(measure(a, &machine, &speedup));
    TRY(weft_scale_predict(&load, &machine, a->ranks, &scale));
    if (!a->common.json && speedup.op_count)
        print_threads(&speedup);
    if (!a->common.json)
        TRY(print_ranks(&load, &machine, a->ranks));
    weft_result_text(result, "preset", model->spec->preset);
    weft_result_int(result, "params", model->params.elements);
    add_scale(result, &scale, &machine);
    if (speedup.op_count)
        add_threads(result, &speedup);
    return WEFT_OK;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct weft_nn *model = NULL;
    TRY(weft_common_init(&a->common));
    struct weft_result *result = weft_result_create();
    enum weft_status status = weft_nn_create(&model, &a->common.spec);
    if (status == WEFT_OK)
        status = plan(a, model, result);
    if (status == WEFT_OK)
        status = weft_result_print(result, stdout, a->common.json);
    weft_result_free(result);
    weft_nn_free(model);
    return status;
}

const struct weft_cmd weft_cmd_plan = {
    .name = "plan",
    .summary = "predict time, traffic and memory of training on many threads and ranks",
    .doc = "Predicts the cost of a training step of MODEL on R ranks with P threads each: data-parallel, with the "
           "optimiser state partitioned among the ranks. It runs only one micro-batch of a few layers, on one thread.",
    .notes = "Threads: every tile of the forward and backward pass is timed on one thread and assigned to P threads as "
             "the thread pool does, with the cost of a call as measured here. Contention for memory bandwidth is not "
             "predicted.\n"
             "Ranks: gradients are sent in buckets to the ranks that own them, overlapping the backward pass of the "
             "last micro-batch; weights return in a ring. A rank computes whole groups of micro-batches (grad_groups, "
             "micro_batches).\n"
             "efficiency = time of one rank / (R * time of R ranks).",
    .args = table,
    .takes = WEFT_TAKES_MODEL | WEFT_TAKES_SET | WEFT_TAKES_JSON,
    .check = check,
    .args_bytes = sizeof(struct args),
    .run = run,
};
