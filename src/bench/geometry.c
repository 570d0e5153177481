/* SPDX-License-Identifier: MIT
 *
 * geometry.c - benchmarks the attention of a block with the user's settings (geometry, full or latent keys, positions)
 * against attention of the same size with dot products and full keys, in one interleaved run, and compares planned
 * memory.
 *
 * The times include everything that depends on the geometry: norm, projections, means and spreads, scores, the output
 * projection, and their derivatives. attention.c measures attention alone.
 */
#include "bench/bench.h"

#include <stdio.h>

/* The model has two layers, because a mechanism may need a next layer; only the first one runs. Its vocabulary is
 * small, because no token is looked up. */
static enum weft_status open_attention(const char *preset, const struct weft_settings *user, int64_t batch,
                                       int64_t length, bool plain, struct weft_spec *spec, struct weft_stage *stage)
{
    char sequences[32], context[32];
    snprintf(sequences, sizeof sequences, "batch=%lld", (long long)batch);
    snprintf(context, sizeof context, "context=%lld", (long long)length);
    const char *const own[] = {"layers=2",  "vocab=64", sequences, context, plain ? "geom=dot" : NULL,
                               "attn=full", NULL};
    TRY(weft_stage_spec(spec, preset, user, own, plain));
    TRY(weft_stage_open(stage, spec, true));
    return WEFT_OK;
}

static enum weft_status compare(struct weft_stage *base, struct weft_stage *own, double seconds,
                                struct weft_geometry_bench *bench)
{
    struct weft_contender list[2] = {{.run = weft_stage_run, .context = base}, {.run = weft_stage_run, .context = own}};
    struct weft_contest contest;
    TRY(weft_contest(list, 2, seconds, &contest));
    bench->seconds = list[1].seconds;
    bench->time = list[1].quotient;
    bench->rounds = contest.rounds;
    bench->planned_bytes = (int64_t)weft_exec_bytes(own->exec);
    bench->memory = (double)weft_exec_bytes(own->exec) / (double)weft_exec_bytes(base->exec);
    bench->flops = weft_exec_cost(own->exec).flops / weft_exec_cost(base->exec).flops;
    return WEFT_OK;
}

enum weft_status weft_bench_geometry(const char *preset, const struct weft_settings *user, int64_t batch,
                                     int64_t length, double seconds, struct weft_geometry_bench *bench)
{
    struct weft_spec specs[2] = {{0}};
    struct weft_stage stages[2] = {{0}};
    enum weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < 2; i++)
        status = open_attention(preset, user, batch, length, i == 0, &specs[i], &stages[i]);
    if (status == WEFT_OK)
        status = compare(&stages[0], &stages[1], seconds, bench);
    for (int i = 0; i < 2; i++) {
        weft_stage_close(&stages[i]);
        weft_spec_release(&specs[i]);
    }
    return status;
}
