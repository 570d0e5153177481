/* SPDX-License-Identifier: MIT
 *
 * sum_order.c - checks by their bits that the gradients of a step are summed in the order that the recipe defines.
 *
 * Group g of G starts at micro-batch g M / G. The kernels add its micro-batches to one sum, one after another. Then
 * neighbouring sums are added, level by level, until one is left. If the number of sums is odd, the last one waits for
 * the next level.
 */
#include "check/trainer/sums.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct order {
    const struct weft_rehearsal *re;
    struct weft_sums *plain;
    int64_t groups, n;   /* n: number of elements of a gradient */
    float weight, *sums; /* sums: one gradient per level of the tree */
};

/* Sums one group. */
static enum weft_status sum_group(const struct order *o, int64_t group, float *to)
{
    struct weft_sums *s = o->plain;
    const int64_t M = o->re->recipe.micro_batches, G = o->groups;
    const float share = 1 / (float)M;
    memset(s->probe.grads, 0, (size_t)o->n * sizeof *to);
    for (int64_t m = group * M / G; m < (group + 1) * M / G; m++) {
        weft_sums_fill(s, o->re, m, o->weight, share);
        TRY(weft_exec_prepare(s->probe.exec));
        TRY(weft_exec_run(s->probe.exec));
        weft_sums_add_losses(s, o->re, o->weight, share);
    }
    memcpy(to, s->probe.grads, (size_t)o->n * sizeof *to);
    return WEFT_OK;
}

/* Sums up to 2^level groups, starting at `first`. */
static enum weft_status sum_groups(const struct order *o, int64_t first, int level)
{
    const int64_t half = level > 0 ? (int64_t)1 << (level - 1) : 0;
    float *to = o->sums + level * o->n, *part = to - o->n;
    if (level == 0)
        return sum_group(o, first, to);
    TRY(sum_groups(o, first, level - 1));
    memcpy(to, part, (size_t)o->n * sizeof *to);
    if (first + half >= o->groups)
        return WEFT_OK;
    TRY(sum_groups(o, first + half, level - 1));
    for (int64_t e = 0; e < o->n; e++)
        to[e] += part[e];
    return WEFT_OK;
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
    struct order o = {re, s,   weft_min(re->recipe.grad_groups, re->recipe.micro_batches), re->model.params.total,
                      0,  NULL};
    int levels = 0;
    while ((int64_t)1 << levels < o.groups)
        levels++;
    o.weight = 1 / (float)weft_sums_begin(s, re);
    o.sums = calloc((size_t)(levels + 1) * (size_t)o.n, sizeof *o.sums);
    if (!o.sums)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    enum weft_status status = sum_groups(&o, 0, levels);
    if (status == WEFT_OK)
        compare(t, re, o.sums + levels * o.n, what);
    free(o.sums);
    return status;
}
