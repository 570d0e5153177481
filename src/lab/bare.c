/* SPDX-License-Identifier: MIT
 *
 * bare.c - the rival: a product by every formulation oneDNN has for it, the fastest counts.
 */
#include "lab/lab.h"

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
