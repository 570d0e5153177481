/* SPDX-License-Identifier: MIT
 *
 * verdict_possible.c - rejects plans whose reports cannot contain a verdict, whatever the results.
 */
#include "stats/stats.h"
#include "study/study.h"

static enum weft_status check_seeds(const struct weft_study *s)
{
    if (s->seeds >= WEFT_LEAST_SEEDS)
        return WEFT_OK;
    return FAIL(WEFT_CHECK,
                "this plan cannot give a verdict: it has %lld seed%s, and a verdict needs %d or more. Set seeds=%d",
                (long long)s->seeds, s->seeds == 1 ? "" : "s", WEFT_LEAST_SEEDS, WEFT_LEAST_SEEDS);
}

static enum weft_status check_arm(const struct weft_study *s, int i)
{
    const struct weft_arm *arm = &s->arm[i], *first = &s->arm[0];
    int64_t own = weft_arm_samples(arm), wanted = weft_arm_samples(first);
    if (!weft_study_is_paired(s, i) || own == wanted)
        return WEFT_OK;
    return FAIL(WEFT_CHECK,
                "this plan can give no verdict on arm %s: it is trained on %lld samples instead of %lld like %s "
                "(steps=%lld x batch=%lld x micro_batches=%lld, not %lld x %lld x %lld), so their runs are not pairs. "
                "Set the same product for both",
                arm->name, (long long)own, (long long)wanted, first->name, (long long)arm->recipe.steps,
                (long long)arm->spec.batch, (long long)arm->recipe.micro_batches, (long long)first->recipe.steps,
                (long long)first->spec.batch, (long long)first->recipe.micro_batches);
}

enum weft_status weft_study_verdict_possible(const struct weft_study *s)
{
    if (s->arm_count < 2)
        return WEFT_OK;
    TRY(check_seeds(s));
    for (int i = 1; i < s->arm_count; i++)
        TRY(check_arm(s, i));
    return WEFT_OK;
}
