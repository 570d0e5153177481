/* SPDX-License-Identifier: MIT
 *
 * cut.c - derives a smaller model by removing the least important units (units.c).
 */
#include "nn/units.h"

#include <stdlib.h>
#include <string.h>

static void mark(void *context, int64_t first, int64_t count) { memset((bool *)context + first, true, (size_t)count); }

/* Copies the remaining elements of a weight in order. `gone` must have room for one bool per element. */
static void copy_weight(const struct weft_smaller *s, int i, bool *gone)
{
    const struct weft_param *big = &s->from->params.list[i];
    const float *from = s->from->params.weights + big->offset;
    float *to = s->model->params.weights + s->model->params.list[i].offset;
    memset(gone, false, (size_t)big->count);
    weft_smaller_each(s, i, gone, mark);
    for (int64_t e = 0; e < big->count; e++)
        if (!gone[e])
            *to++ = from[e];
}

static enum weft_status copy_weights(struct weft_smaller *s)
{
    int64_t most = 1;
    for (int i = 0; i < s->from->params.count; i++)
        most = weft_max(most, s->from->params.list[i].count);
    bool *gone = malloc((size_t)most);
    if (!gone)
        return FAIL(WEFT_NOMEM, "not enough memory to copy weights");
    for (int i = 0; i < s->from->params.count; i++)
        copy_weight(s, i, gone);
    free(gone);
    return WEFT_OK;
}

enum weft_status weft_nn_cut(struct weft_smaller *s, const struct weft_nn *model, enum weft_units what, double share)
{
    TRY(weft_smaller_init(s, model, what, share));
    TRY(weft_params_alloc(&s->model->params));
    weft_smaller_choose(s, s->units - s->kept);
    return copy_weights(s);
}

/* ---- all kinds of units */

enum weft_status weft_cuts_init(struct weft_cuts *c, const struct weft_nn *model, const struct weft_shares *shares,
                                bool weights)
{
    *c = (struct weft_cuts){.model = model};
    TRY(weft_shares_check(shares, model));
    for (int i = 0; i < WEFT_UNITS; i++) {
        enum weft_units what = (enum weft_units)i;
        double share = weft_shares_of(shares, c->model, what);
        if (share == 0)
            continue;
        TRY((weights ? weft_nn_cut : weft_smaller_init)(&c->steps[i], c->model, what, share));
        c->model = c->steps[i].model;
    }
    return WEFT_OK;
}

void weft_cuts_release(struct weft_cuts *c)
{
    for (int i = WEFT_UNITS - 1; i >= 0; i--)
        weft_smaller_release(&c->steps[i]);
    c->model = NULL;
}
