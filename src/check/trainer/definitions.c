/* SPDX-License-Identifier: MIT
 *
 * definitions.c - the definitions of the learning rate, adamw and adamwspam.
 *
 * All values are double, except that beta1 and beta2 are rounded to f32 in the moving averages of the moments: the f32
 * update rounds them, and with beta2 near 1 this is its largest rounding error.
 */
#include "check/trainer/definitions.h"
#include "check/check.h"

#include <math.h>
#include <string.h>

static const double pi = 3.141592653589793;

bool weft_plain_option(const struct weft_owner *owner, const void *options, const char *name, double *value)
{
    for (int i = 0; i < owner->count; i++) {
        const struct weft_opt *o = &owner->options[i];
        const char *at = (const char *)options + o->offset;
        if (strcmp(o->name, name) != 0)
            continue;
        switch (o->type) {
        case WEFT_OPT_INT:
            *value = (double)*(const int64_t *)(const void *)at;
            return true;
        case WEFT_OPT_REAL:
            *value = *(const double *)(const void *)at;
            return true;
        case WEFT_OPT_CHOICE:
            *value = *(const int *)(const void *)at;
            return true;
        default:
            return false;
        }
    }
    return false;
}

/* ---- learning rate */

/* Returns the name of the schedule from the option table. */
static const char *schedule_of(const struct weft_recipe *r)
{
    const struct weft_owner *training = weft_train_owner_at(0);
    double choice;
    for (int i = 0; i < training->count; i++)
        if (strcmp(training->options[i].name, "schedule") == 0 && weft_plain_option(training, r, "schedule", &choice))
            return weft_opt_choice(&training->options[i], (int)choice);
    return "";
}

double weft_plain_lr(const struct weft_recipe *r, int64_t step)
{
    const double least = 0.1;
    const char *schedule = schedule_of(r);
    if (step <= r->warmup)
        return r->lr * (double)step / (double)r->warmup;
    if (strcmp(schedule, "constant") == 0)
        return r->lr;
    double way = r->steps > r->warmup ? (double)(step - r->warmup) / (double)(r->steps - r->warmup) : 1;
    double high = strcmp(schedule, "linear") == 0 ? 1 - way : (1 + cos(pi * way)) / 2;
    return r->lr * (least + (1 - least) * high);
}

/* ---- optimisers */

/* For parts that were added, the declaration is the only source. */
bool weft_plain_decays(const struct weft_param *w)
{
    const char *dot = strrchr(w->name, '.');
    bool added = w->part && !weft_part_is_defined(w->part);
    return w->ndim >= 2 && strcmp(dot ? dot + 1 : w->name, "relative") != 0 &&
           !(added && w->group >= WEFT_TRAINED_VECTOR);
}

void weft_plain_init(struct weft_plain *p, const struct weft_optim *optim, const void *options)
{
    const struct weft_owner *o = &optim->owner;
    double interval = 0, warmup = 0;
    *p = (struct weft_plain){.spam = strcmp(optim->name, "adamwspam") == 0};
    p->known = (p->spam || strcmp(optim->name, "adamw") == 0) && weft_plain_option(o, options, "beta1", &p->beta1) &&
               weft_plain_option(o, options, "beta2", &p->beta2) && weft_plain_option(o, options, "eps", &p->eps) &&
               weft_plain_option(o, options, "decay", &p->decay);
    if (p->known && p->spam)
        p->known = weft_plain_option(o, options, "spam_theta", &p->theta) &&
                   weft_plain_option(o, options, "spam_interval", &interval) &&
                   weft_plain_option(o, options, "spam_warmup", &warmup);
    p->memory1 = (float)p->beta1; /* stored, because gcc 12 sometimes omits the rounding of (double)(float)x */
    p->memory2 = (float)p->beta2;
    p->interval = (int64_t)interval;
    p->warmup = (int64_t)warmup;
}

struct weft_plain_step weft_plain_begin(const struct weft_plain *p, int64_t step, double lr)
{
    struct weft_plain_step s = {.optim = p, .lr = lr, .share = 1};
    int64_t n = step; /* number of steps since the moments were reset */
    if (p->spam) {
        int64_t since = step % p->interval;
        s.limits = step >= 20 && since >= 20;
        s.resets = since == 0;
        if (step >= p->interval)
            n = since + 1;
        if (step >= p->interval && since < p->warmup)
            s.share = 1 - 0.99 * (1 + cos(pi * (double)since / ((double)p->warmup + 1))) / 2;
    }
    s.correct1 = 1 - pow(p->beta1, (double)n);
    s.correct2 = 1 - pow(p->beta2, (double)n);
    return s;
}

double weft_plain_limit(const struct weft_plain_step *s, double g, double v)
{
    double most = s->limits ? sqrt(s->optim->theta * (v + 1e-12)) : INFINITY;
    return g > most ? most : g < -most ? -most : g;
}

double weft_plain_update(const struct weft_plain_step *s, const struct weft_param *w, double g,
                         struct weft_plain_weight *x)
{
    double b1 = s->optim->memory1, b2 = s->optim->memory2;
    if (s->resets)
        x->m = x->v = 0;
    x->m = b1 * x->m + (1 - b1) * g;
    x->v = b2 * x->v + (1 - b2) * g * g;
    double moved = w->rate * s->share * s->lr * (x->m / s->correct1) / (sqrt(x->v / s->correct2) + s->optim->eps);
    x->w -= (weft_plain_decays(w) ? s->lr * s->optim->decay * x->w : 0) + moved;
    return moved;
}
