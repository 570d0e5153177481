/* SPDX-License-Identifier: MIT
 *
 * variants.c - benchmarks the cost of each mechanism: compares the training step of a model with the mechanism to the
 * same step without it, in one interleaved run, and compares planned memory.
 *
 * A variant is a preset with a few more settings. It is compared with the preset, or with a different variant if that
 * is the fair baseline: the mechanisms of the reciprocal feed-forward are compared with latent attention alone.
 */
#include "bench/bench.h"

#include <string.h>

static const struct arm {
    const char *name, *over, *settings[8];
} arms[] = {
    {"w2_split", NULL, {"geom=w2"}},
    {"w2_full", NULL, {"geom=w2", "spread=full"}},
    {"overlap", NULL, {"geom=overlap"}},
    {"latent", NULL, {"attn=latent", "latent_width=128"}},
    {"latent_shared", NULL, {"attn=latent", "latent_width=128", "latent_shared=yes"}},
    {"reciprocal", NULL, {"ra_alpha=0.5"}},
    {"output_gate", NULL, {"output_gate=yes"}},
    {"swiglu", NULL, {"ffn=swiglu"}},
    {"ws_block", "swiglu", {"ffn=ws"}},
    {"ws_dense", "swiglu", {"ffn=ws", "ws_form=dense"}},
    {"m1", "latent", {"attn=latent", "latent_width=128", "m1=yes"}},
    {"m2_topk", "latent", {"attn=latent", "latent_width=128", "m2=yes"}},
    {"m2_rms", "latent", {"attn=latent", "latent_width=128", "m2=yes", "m2_select=rms"}},
    {"m2_none", "latent", {"attn=latent", "latent_width=128", "m2=yes", "m2_select=none"}},
    {"m3", "latent", {"attn=latent", "latent_width=128", "m3=yes"}},
    {"recip_all", "latent", {"attn=latent", "latent_width=128", "m1=yes", "m2=yes", "m3=yes"}},
};
enum { ARMS = sizeof arms / sizeof *arms };

static const struct arm *find(const char *name)
{
    for (int i = 0; name && i < ARMS; i++)
        if (strcmp(arms[i].name, name) == 0)
            return &arms[i];
    return NULL;
}

const char *weft_variant_bench_at(int i) { return i < ARMS ? arms[i].name : NULL; }

static enum weft_status open_arm(const char *preset, const struct weft_settings *user, const struct arm *arm,
                                 struct weft_spec *spec, struct weft_stage *stage)
{
    static const char *const none[] = {NULL};
    TRY(weft_stage_spec(spec, preset, user, arm ? arm->settings : none, false));
    TRY(weft_stage_open(stage, spec, false));
    return WEFT_OK;
}

static double over(double a, double b) { return a / b; }

static enum weft_status compare(struct weft_stage *base, struct weft_stage *arm, double seconds,
                                struct weft_variant_bench *bench)
{
    struct weft_contender list[2] = {{.run = weft_stage_run, .context = base}, {.run = weft_stage_run, .context = arm}};
    struct weft_contest contest;
    TRY(weft_contest(list, 2, seconds, &contest));
    double act[2] = {(double)weft_exec_bytes(base->exec), (double)weft_exec_bytes(arm->exec)};
    double state[2] = {(double)(base->model->params.total * bench->state_bytes),
                       (double)(arm->model->params.total * bench->state_bytes)};
    bench->time = list[1].quotient;
    bench->time_low = list[1].quotient_low;
    bench->time_high = list[1].quotient_high;
    bench->rounds = contest.rounds;
    bench->seconds = list[1].seconds;
    bench->activation = over(act[1], act[0]);
    bench->memory = over(act[1] + state[1], act[0] + state[0]);
    bench->params = over((double)arm->model->params.elements, (double)base->model->params.elements);
    bench->flops = over(weft_exec_cost(arm->exec).flops, weft_exec_cost(base->exec).flops);
    bench->bytes = over(weft_exec_cost(arm->exec).bytes, weft_exec_cost(base->exec).bytes);
    return WEFT_OK;
}

enum weft_status weft_bench_variant(const char *preset, const struct weft_settings *user, const char *name,
                                    double seconds, struct weft_variant_bench *bench)
{
    const struct arm *arm = find(name), *under = arm ? find(arm->over) : NULL;
    struct weft_spec specs[2] = {{0}};
    struct weft_stage stages[2] = {{0}};
    if (!arm)
        return FAIL(WEFT_INVALID, "there is no variant \"%s\" to measure", name);
    bench->name = arm->name;
    bench->over = arm->over ? arm->over : preset;
    enum weft_status status = open_arm(preset, user, under, &specs[0], &stages[0]);
    if (status == WEFT_OK)
        status = open_arm(preset, user, arm, &specs[1], &stages[1]);
    if (status == WEFT_OK)
        status = compare(&stages[0], &stages[1], seconds, bench);
    for (int i = 0; i < 2; i++) {
        weft_stage_close(&stages[i]);
        weft_spec_release(&specs[i]);
    }
    return status;
}
