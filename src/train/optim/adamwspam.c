/* SPDX-License-Identifier: MIT
 *
 * optim/adamwspam - adamw that resets its moments at intervals and clips gradient spikes, after SPAM (T. Huang et al.,
 * arXiv:2501.06842). With step n, counted from 1, interval dT, and v the second moment before the step, uncorrected:
 *
 *     n >= 20 and n mod dT >= 20:  |g| <= sqrt(theta (v + 1e-12)), else clipped to that, before the norm is computed
 *     n mod dT = 0:                m = v = 0, and the bias correction counts from 1 again
 *     s steps after that, s < W:   the update, not the decay, times 1 - 0.99 (1 + cos(pi s / (W + 1))) / 2
 *
 * Without the 1e-12, embedding rows of tokens that have not occurred yet would never be updated. An infinite gradient
 * is not limited, so that the step is rejected. A spike of one element is clipped to at most sqrt(theta) times its
 * usual size, so its effect on v vanishes after about ln(theta) / (1 - beta2) steps, however large it was.
 */
#include "train/optim/adam_inl.h"

#include <string.h>

enum { SETTLED = 20 }; /* steps after which v is a usable scale */

struct adamwspam {
    struct adam adam;
    double theta;
    int64_t interval, warmup;
};

#define AT(field) offsetof(struct adamwspam, field)
static const struct weft_opt options[] = {
    ADAM_OPTIONS /* ends with a comma */
    {"spam_theta", WEFT_OPT_REAL, AT(theta), "5000", 1, 1e12,
     .help = "limit of a squared gradient as a multiple of its second moment; spikes are clipped to it (knlp: 50)"},
    {"spam_interval", WEFT_OPT_INT, AT(interval), "500", SETTLED + 1, 1e12,
     .help = "dT, interval in steps at which the moments are reset (knlp: 1000)"},
    {"spam_warmup", WEFT_OPT_INT, AT(warmup), "150", 0, 1e12,
     .help = "W, number of warm-up steps after each reset of the moments (knlp: 1000)"},
};

static void limit(const void *opts, const struct weft_update *u, const struct weft_span *span)
{
    const struct adamwspam *o = opts;
    if (u->step < SETTLED || u->step % o->interval < SETTLED)
        return;
    float *restrict g = u->grads + span->first, theta = (float)o->theta;
    const float *restrict v = u->moments[1] + span->first;
    for (int64_t i = 0; i < span->count; i++) {
        float size = fabsf(g[i]), most = sqrtf(theta * (v[i] + 1e-12f));
        g[i] = size > most && size < INFINITY ? copysignf(most, g[i]) : g[i];
    }
}

static void update(const void *opts, const struct weft_update *u, const struct weft_span *span)
{
    const struct adamwspam *o = opts;
    int64_t since = u->step % o->interval;
    bool first = u->step < o->interval;
    double share = 1;
    if (since == 0)
        for (int m = 0; m < 2; m++)
            memset(u->moments[m] + span->first, 0, (size_t)span->count * sizeof(float));
    if (!first && since < o->warmup)
        share = 1 - 0.99 * (1 + weft_cos_pi((double)since / (double)(o->warmup + 1))) / 2;
    adam_update(&o->adam, u, span, first ? u->step : since + 1, share);
}

const struct weft_optim weft_optim_adamwspam = {
    .name = "adamwspam",
    .summary = "adamw with clipped gradient spikes and periodic resets of the moments",
    .owner = WEFT_OWNER("optim=adamwspam", options),
    .options_bytes = sizeof(struct adamwspam),
    .limit = limit,
    .update = update,
};
