/* SPDX-License-Identifier: MIT
 *
 * compare.c - collects deviations of actual from expected results, and reports them as checks.
 */
#include "simulate/studies.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void weft_sim_report(const struct weft_sim_case *c, const char *name, const struct weft_sim_worst *w)
{
    char text[160];
    snprintf(text, sizeof text, "%s%s: %s", c->of->name, c->runs->retried ? ", retried" : "", name);
    weft_trial_report(c->trial, w->figure <= w->limit, w->figure, w->limit, text, "%s", w->where);
}

void weft_sim_note(struct weft_sim_worst *w, double found, double expected, const char *arm, const char *what)
{
    double off = isnan(found) && isnan(expected) ? 0 : fabs(found - expected);
    if (!(off <= w->figure)) {
        w->figure = isnan(off) ? INFINITY : off;
        snprintf(w->where, sizeof w->where, "%.60s: %.40s is %.10g, expected %.10g", arm, what, found, expected);
    }
}

void weft_sim_note_text(struct weft_sim_worst *w, const char *found, const char *expected, const char *arm,
                        const char *what)
{
    if (strcmp(found, expected) == 0)
        return;
    w->figure++;
    snprintf(w->where, sizeof w->where, "%.40s: %.30s is \"%.30s\", expected \"%.30s\"", arm, what, found, expected);
}
