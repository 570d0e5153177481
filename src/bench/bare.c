/* SPDX-License-Identifier: MIT
 *
 * bare.c - the yardstick: runs a matmul in all its formulations (dnn/dnn.h), of which the fastest counts.
 */
#include "bench/bench.h"
#include "dnn/dnn.h"

#include <math.h>
#include <string.h>

enum weft_status weft_bare_open(struct weft_bare *bare, const struct weft_product *p, enum weft_dtype dtype)
{
    memset(bare, 0, sizeof *bare);
    for (int how = 0; how < WEFT_MAX_BARE; how++) {
        struct weft_dnn_bare *form;
        if (weft_dnn_bare_create(&form, p, how, dtype) == WEFT_OK)
            bare->form[bare->count++] = form;
    }
    if (!bare->count)
        return FAIL(WEFT_UNSUPPORTED, "there is no %s matmul of %lld x %lld x %lld on this machine (%s)",
                    weft_dtype_name(dtype), (long long)p->m, (long long)p->n, (long long)p->k, weft_dnn_bare_whose());
    weft_error_clear();
    return WEFT_OK;
}

void weft_bare_close(struct weft_bare *bare)
{
    for (int i = 0; i < bare->count; i++)
        bare->form[i]->free(bare->form[i]);
    bare->count = 0;
}

static enum weft_status run_form(void *form)
{
    struct weft_dnn_bare *bare = form;
    return bare->run(bare);
}

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

/* Returns the smallest time of a few runs, because other load on the machine only ever adds time. */
static enum weft_status least_seconds(struct weft_dnn_bare *product, double seconds, double *least)
{
    TRY(product->run(product)); /* warm-up: pages, caches, clocks */
    double end = weft_seconds() + seconds, start;
    for (*least = 1e300; (start = weft_seconds()) < end;) {
        TRY(product->run(product));
        *least = fmin(*least, weft_seconds() - start);
    }
    return WEFT_OK;
}

enum weft_status weft_product_rate(enum weft_dtype dtype, double seconds, double *flops_per_s)
{
    const struct weft_product p = {.kind = WEFT_BARE_Y, .m = 1024, .n = 768, .k = 768, .batch = 1};
    struct weft_dnn_bare *product;
    double least;
    TRY(weft_dnn_bare_own(&product, &p, 0, dtype));
    enum weft_status status = least_seconds(product, seconds, &least);
    product->free(product);
    TRY(status);
    *flops_per_s = 2.0 * (double)p.m * (double)p.n * (double)p.k / least;
    return WEFT_OK;
}
