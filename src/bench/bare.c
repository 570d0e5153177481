/* SPDX-License-Identifier: MIT
 *
 * bare.c - the rival: a product by every formulation oneDNN has for it, the fastest counts.
 */
#include "bench/bench.h"

#include <string.h>

enum weft_status weft_bare_open(struct weft_bare *bare, const struct weft_product *p, enum weft_dtype dtype)
{
    memset(bare, 0, sizeof *bare);
    for (int how = 0; how < WEFT_MAX_BARE; how++) {
        struct weft_dnn_bare *form;
        if (weft_dnn_bare_create(&form, p->kind, how, dtype, p->m, p->n, p->k, p->batch) == WEFT_OK)
            bare->form[bare->count++] = form;
    }
    if (!bare->count)
        return FAIL(WEFT_UNSUPPORTED, "oneDNN has no %s product of %lld x %lld x %lld on this machine",
                    weft_dtype_name(dtype), (long long)p->m, (long long)p->n, (long long)p->k);
    weft_error_clear();
    return WEFT_OK;
}

void weft_bare_close(struct weft_bare *bare)
{
    for (int i = 0; i < bare->count; i++)
        weft_dnn_bare_free(bare->form[i]);
    bare->count = 0;
}

static void run_form(void *form) { weft_dnn_bare_run(form); }

int weft_bare_enter(struct weft_bare *bare, struct weft_contender *list)
{
    for (int i = 0; i < bare->count; i++)
        list[i] = (struct weft_contender){.run = run_form, .context = bare->form[i], .may_drop = true};
    return bare->count;
}

const struct weft_contender *weft_bare_fastest(const struct weft_bare *bare, const struct weft_contender *list)
{
    const struct weft_contender *best = NULL;
    for (int i = 0; i < bare->count; i++)
        if (!list[i].dropped && (!best || list[i].seconds < best->seconds))
            best = &list[i];
    return best;
}

/* The least time of a few runs: what else the machine does only ever adds to it. */
static double least_seconds(struct weft_dnn_bare *form, double seconds)
{
    weft_dnn_bare_run(form); /* warm: pages, caches, clocks */
    double end = weft_seconds() + seconds, least = 1e300, start;
    while ((start = weft_seconds()) < end) {
        weft_dnn_bare_run(form);
        double took = weft_seconds() - start;
        least = took < least ? took : least;
    }
    return least;
}

enum weft_status weft_bare_rate(enum weft_dtype dtype, double seconds, double *flops_per_s)
{
    struct weft_product p = {.m = 1024, .n = 768, .k = 768, .batch = 1};
    struct weft_bare bare;
    double least = 1e300;
    TRY(weft_bare_open(&bare, &p, dtype));
    for (int i = 0; i < bare.count; i++) {
        double took = least_seconds(bare.form[i], seconds / bare.count);
        least = took < least ? took : least;
    }
    weft_bare_close(&bare);
    *flops_per_s = 2.0 * (double)p.m * (double)p.n * (double)p.k / least;
    return WEFT_OK;
}
