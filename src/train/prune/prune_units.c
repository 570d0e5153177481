/* SPDX-License-Identifier: MIT
 *
 * prune_units.c - prunes heads, channels and ranks during training, on the schedule of prune.c: after step n, the
 * masked fraction of the units of every layer is as close as possible to s(n). A unit is masked as a whole, with all
 * elements of all weights that a cut (nn/units.h) would remove.
 *
 * The choice is a function of the weights alone; units that are already masked are 0 and therefore chosen first. Kinds
 * are pruned one after the other, like cuts: removed units of one kind no longer count in the importance scores of the
 * next kind.
 */
#include "train/prune/prune.h"

#include <string.h>

static const char *const options[WEFT_UNITS] = {"prune_heads", "prune_channels", "prune_ranks", "prune_ranks",
                                                "prune_ranks"};

/* Prefixes the last error message with the option that caused the error. */
static enum weft_status name_option(enum weft_status status, const char *option, double share)
{
    char why[512];
    snprintf(why, sizeof why, "%s", weft_error());
    return FAIL(status, "%s=%g: %s", option, share, why);
}

enum weft_status weft_units_init(struct weft_smaller units[WEFT_UNITS], const struct weft_nn *model,
                                 const struct weft_shares *shares)
{
    memset(units, 0, WEFT_UNITS * sizeof *units);
    enum weft_status status = weft_shares_check(shares, model);
    if (status != WEFT_OK)
        return name_option(status, options[WEFT_UNITS_M1], shares->ranks);
    for (int i = 0; i < WEFT_UNITS; i++) {
        double share = weft_shares_of(shares, model, (enum weft_units)i);
        if (share > 0)
            status = weft_smaller_init(&units[i], model, (enum weft_units)i, share);
        if (status != WEFT_OK)
            return name_option(status, options[i], share);
    }
    return WEFT_OK;
}

void weft_units_release(struct weft_smaller units[WEFT_UNITS])
{
    for (int i = 0; i < WEFT_UNITS; i++)
        weft_smaller_release(&units[i]);
}

/* ---- growing masks */

struct masking {
    const struct weft_learner *t;
    const struct weft_smaller *units;
};

/* The mask and values of one weight. */
struct masked {
    uint32_t *mask;
    float *values;
};

static void mask_run(void *context, int64_t first, int64_t count)
{
    const struct masked *m = context;
    for (int64_t e = first; e < first + count; e++) {
        weft_mask_set(m->mask, e);
        m->values[e] = 0;
    }
}

static void mask_weight(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct masking *m = context;
    const struct weft_param *w = &m->t->model->params.list[tile];
    struct masked masked = {weft_mask_of(m->t, w), m->t->model->params.weights + w->offset};
    weft_smaller_each(m->units, (int)tile, &masked, mask_run);
}

void weft_units_mask(struct weft_learner *t, struct weft_smaller *units, int64_t count)
{
    if (count == units->chosen)
        return;
    weft_smaller_choose(units, count);
    weft_parallel(t->model->params.count, mask_weight, &(struct masking){t, units});
}
