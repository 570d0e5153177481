/* SPDX-License-Identifier: MIT
 *
 * train.c - benchmarks a training step (forward and backward, random tokens) against its matmuls run bare.
 *
 * The graph lists its matmuls; each distinct one is timed in the fastest formulation of the yardstick. The bare step
 * is the sum over all matmuls, with causal scores counted half. Step and matmuls take turns in every round.
 */
#include "bench/bench.h"
#include "dnn/dnn.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PRODUCTS = 4096, MAX_DISTINCT = 48 };

struct distinct {
    struct weft_product product;
    double times; /* number of occurrences, each weighted by the fraction of the matmul that counts */
    struct weft_bare bare;
    int fastest;
};

struct stage {
    struct weft_stage stage;
    struct distinct distinct[MAX_DISTINCT];
    int count;
};

static bool same_product(const struct weft_product *a, const struct weft_product *b)
{
    return a->kind == b->kind && a->m == b->m && a->n == b->n && a->k == b->k && a->batch == b->batch;
}

static enum weft_status find_products(struct stage *s)
{
    struct weft_product *all = calloc(MAX_PRODUCTS, sizeof *all);
    if (!all)
        return FAIL(WEFT_NOMEM, "not enough memory for a benchmark");
    int n = weft_exec_products(s->stage.exec, all, MAX_PRODUCTS);
    enum weft_status status = n <= MAX_PRODUCTS ? WEFT_OK : FAIL(WEFT_INVALID, "the model has too many matmuls");
    for (int i = 0; status == WEFT_OK && i < n; i++) {
        int d = 0;
        while (d < s->count && !same_product(&s->distinct[d].product, &all[i]))
            d++;
        if (d == MAX_DISTINCT) {
            status = FAIL(WEFT_INVALID, "the model has more than %d distinct matmuls", MAX_DISTINCT);
            break;
        }
        s->distinct[d].product = all[i];
        s->distinct[d].times += all[i].share;
        s->count = d == s->count ? d + 1 : s->count;
    }
    free(all);
    return status;
}

static enum weft_status open_model(struct stage *s, const struct weft_spec *spec, struct weft_train_bench *bench)
{
    int64_t before = weft_resident_bytes();
    TRY(weft_stage_open(&s->stage, spec, false));
    TRY(weft_stage_run(&s->stage));
    TRY(weft_stage_run(&s->stage));
    bench->peak_bytes = weft_resident_bytes() - before;
    bench->planned_bytes =
        (int64_t)weft_exec_bytes(s->stage.exec) + 2 * s->stage.model->params.total * (int64_t)sizeof(float);
    return WEFT_OK;
}

static void close_stage(struct stage *s)
{
    for (int d = 0; d < s->count; d++)
        weft_bare_close(&s->distinct[d].bare);
    weft_stage_close(&s->stage);
}

/* Finds the fastest formulation of each matmul in a short contest and closes the others. */
static enum weft_status choose_bare(struct stage *s, enum weft_dtype dtype, double seconds)
{
    for (int d = 0; d < s->count; d++) {
        struct distinct *x = &s->distinct[d];
        struct weft_contender list[WEFT_MAX_BARE];
        struct weft_contest contest;
        TRY(weft_bare_open(&x->bare, &x->product, dtype));
        TRY(weft_contest(list, weft_bare_enter(&x->bare, list), seconds / s->count, &contest));
        struct weft_dnn_bare *best = weft_bare_fastest(&x->bare, list)->context;
        for (int i = 0; i < x->bare.count; i++)
            if (x->bare.form[i] != best)
                x->bare.form[i]->free(x->bare.form[i]);
        x->bare.form[0] = best;
        x->bare.count = 1;
    }
    return WEFT_OK;
}

static enum weft_status measure(struct stage *s, struct weft_spec *spec, double seconds, struct weft_train_bench *bench)
{
    enum weft_dtype dtype = spec->compute;
    double tokens = (double)(spec->batch * spec->context);
    TRY(open_model(s, spec, bench));
    TRY(find_products(s));
    TRY(choose_bare(s, dtype, 0.2 * seconds));
    struct weft_contender list[1 + MAX_DISTINCT] = {{.run = weft_stage_run, .context = &s->stage}};
    for (int d = 0; d < s->count; d++)
        weft_bare_enter(&s->distinct[d].bare, list + 1 + d);
    for (int d = 0; d < s->count; d++) {
        list[1 + d].may_drop = false;
        list[1 + d].weight = s->distinct[d].times;
    }
    struct weft_contest contest;
    TRY(weft_contest(list, 1 + s->count, 0.4 * seconds, &contest));
    bench->rounds = contest.rounds;
    bench->step_seconds = list[0].seconds;
    bench->ratio_bare = 1 / contest.weighted_quotient;
    bench->bare_seconds = bench->step_seconds * contest.weighted_quotient;
    bench->tokens_per_s = tokens / bench->step_seconds;
    return WEFT_OK;
}

static enum weft_status print_profile(struct stage *s, FILE *to)
{
    weft_exec_profile(s->stage.exec, true);
    for (int i = 0; i < 2; i++)
        TRY(weft_stage_run(&s->stage));
    weft_exec_profile_print(s->stage.exec, to);
    return WEFT_OK;
}

enum weft_status weft_bench_train(struct weft_spec *spec, double seconds, struct weft_train_bench *bench, FILE *profile)
{
    struct stage *s = calloc(1, sizeof *s);
    if (!s)
        return FAIL(WEFT_NOMEM, "not enough memory for a benchmark");
    memset(bench, 0, sizeof *bench);
    enum weft_status status = measure(s, spec, seconds, bench);
    if (status == WEFT_OK && profile)
        status = print_profile(s, profile);
    close_stage(s);
    free(s);
    return status;
}
