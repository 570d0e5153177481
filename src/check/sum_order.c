/* SPDX-License-Identifier: MIT
 *
 * sum_order.c - gradients of a step are summed in the order that the recipe defines, which shows in their bits.
 *
 * Group g of G has the micro-batches from g M / G on, which add to one sum one after another, as the kernels do it.
 * Then neighbours are added, and neighbours of these, until one is left; the last of an odd number waits.
 */
#include "check/stepped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One group, in the gradients of the probe. */
static enum weft_status sum_group(struct weft_sums *s, const struct weft_rehearsal *re, int64_t group, float weight)
{
    int64_t M = re->recipe.micro_batches, G = weft_min(re->recipe.grad_groups, M);
    memset(s->probe.grads, 0, (size_t)re->model.params.total * sizeof(float));
    for (int64_t m = group * M / G; m < (group + 1) * M / G; m++) {
        weft_sums_fill(s, re, m, weight, 1 / (float)M);
        TRY(weft_exec_prepare(s->probe.exec));
        TRY(weft_exec_run(s->probe.exec));
    }
    return WEFT_OK;
}

/* Into the first of them. */
static void sum_neighbours(float *sums, int64_t count, int64_t n)
{
    for (int64_t step = 1; step < count; step *= 2)
        for (int64_t i = 0; i + step < count; i += 2 * step)
            for (int64_t e = 0; e < n; e++)
                sums[i * n + e] += sums[(i + step) * n + e];
}

static void compare(const struct weft_trial *t, const struct weft_rehearsal *re, const float *plain, const char *what)
{
    const struct weft_params *p = &re->model.params;
    const float *real = re->trainer->sums[0].grads;
    int64_t unlike = 0;
    int at = 0;
    char name[160];
    for (int i = 0; i < p->count; i++)
        for (int64_t e = p->list[i].offset; e < p->list[i].offset + p->list[i].count; e++)
            if (!(real[e] == plain[e]) && unlike++ == 0)
                at = i;
    snprintf(name, sizeof name, "%s: gradients that are not summed in the order defined", what);
    weft_trial_report(t, unlike == 0, (double)unlike, 0, name, "%s", p->list[at].name);
}

enum weft_status weft_check_sum_order(const struct weft_trial *t, struct weft_sums *s, const struct weft_rehearsal *re,
                                      const char *what)
{
    int64_t n = re->model.params.total, G = weft_min(re->recipe.grad_groups, re->recipe.micro_batches);
    float *sums = calloc((size_t)(G * n), sizeof *sums), weight = 1 / (float)weft_sums_begin(s, re);
    enum weft_status status = sums ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory to check a model with");
    for (int64_t group = 0; group < G && status == WEFT_OK; group++) {
        status = sum_group(s, re, group, weight);
        if (status == WEFT_OK)
            memcpy(sums + group * n, s->probe.grads, (size_t)n * sizeof *sums);
    }
    if (status == WEFT_OK) {
        sum_neighbours(sums, G, n);
        compare(t, re, sums, what);
    }
    free(sums);
    return status;
}
