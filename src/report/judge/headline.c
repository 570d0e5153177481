/* SPDX-License-Identifier: MIT
 *
 * headline.c - writes the finding of a study in one sentence, for those who read nothing else.
 */
#include "report/read/results.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAMED = 3 }; /* number of arms that are named; the others are counted */

struct sentence {
    char *text;
    size_t used, room;
    int64_t seeds; /* number of seeds mentioned last */
};

__attribute__((format(printf, 2, 3))) static void say(struct sentence *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(s->text + s->used, s->room - s->used, format, args);
    va_end(args);
    s->used = n < 0 ? s->used : (size_t)weft_min((int64_t)s->used + n, (int64_t)s->room - 1);
}

static bool has(const struct weft_result_arm *arm, const char *verdict)
{
    return !arm->repeats && strcmp(arm->found.verdict, verdict) == 0;
}

/* Writes "w2 is worse than dot by 0.25 nats, latent by 0.4". */
static int say_decided(const struct weft_results *r, const char *verdict, struct sentence *s)
{
    int count = 0;
    for (int i = 1; i < r->arm_count; i++) {
        const struct weft_finding *f = &r->arm[i].found;
        if (!has(&r->arm[i], verdict) || count++ >= NAMED)
            continue;
        if (count == 1)
            say(s, "%s%s is %s than %s by %.2g nats", s->used ? "; " : "", r->arm[i].name, verdict, r->arm[0].name,
                fabs(f->against.mean));
        else
            say(s, ", %s by %.2g", r->arm[i].name, fabs(f->against.mean));
        if (f->against.seeds != s->seeds)
            say(s, " (%lld seeds)", (long long)f->against.seeds);
        s->seeds = f->against.seeds;
    }
    if (count > NAMED)
        say(s, " and %d more", count - NAMED);
    return count;
}

/* Writes the undecided arms, by name if there are few ("w2 and latent"), followed by the phrase for one arm or the one
 * for several. */
static void say_open(const struct weft_results *r, const char *verdict, const char *one, const char *several,
                     const char *words, struct sentence *s)
{
    int count = 0;
    for (int i = 1; i < r->arm_count; i++)
        count += has(&r->arm[i], verdict);
    if (!count)
        return;
    say(s, "%s", s->used ? "; " : "");
    for (int i = 1, named = 0; i < r->arm_count && count <= NAMED; i++)
        if (has(&r->arm[i], verdict))
            say(s, "%s%s", !named++ ? "" : named == count ? " and " : ", ", r->arm[i].name);
    if (count > NAMED)
        say(s, "%d arms", count);
    say(s, " %s%s", count == 1 ? one : several, words);
}

/* ---- caveats, in brackets after the verdicts */

static bool is_judged(const struct weft_result_arm *arm)
{
    return has(arm, "better") || has(arm, "worse") || has(arm, "not resolved");
}

static void say_caveat(struct sentence *s, bool *first, const char *text)
{
    say(s, "%s%s", *first ? " (" : "; ", text);
    *first = false;
}

/* Writes "w2 has 27 % of the parameters of dot", or the largest difference in size of several arms. */
static void say_sizes(const struct weft_results *r, struct sentence *s, bool *first)
{
    const struct weft_result_arm *arm = NULL;
    const char *remedy = strcmp(r->match, "none") == 0 ? "; set match=params to equalise them" : "";
    char text[256];
    double most = 0;
    int differ = 0;
    for (int i = 1; i < r->arm_count; i++) {
        double difference = (double)r->arm[i].params / (double)weft_max(1, r->arm[0].params) - 1;
        if (!is_judged(&r->arm[i]) || fabs(difference) <= WEFT_MATCH_LIMIT)
            continue;
        arm = fabs(difference) > fabs(most) ? &r->arm[i] : arm;
        most = fabs(difference) > fabs(most) ? difference : most;
        differ++;
    }
    if (!differ)
        return;
    if (differ == 1)
        snprintf(text, sizeof text, "%.63s has %.0f %% of the parameters of %.63s%s", arm->name, 100 * (1 + most),
                 r->arm[0].name, remedy);
    else
        snprintf(text, sizeof text, "parameter counts differ from that of %.63s by up to %.0f %%%s", r->arm[0].name,
                 100 * fabs(most), remedy);
    say_caveat(s, first, text);
}

static void say_caveats(const struct weft_results *r, struct sentence *s)
{
    bool first = true, falling = r->arm[0].found.falling;
    int judged = 0;
    for (int i = 1; i < r->arm_count; i++) {
        judged += is_judged(&r->arm[i]);
        falling |= is_judged(&r->arm[i]) && r->arm[i].found.falling;
    }
    if (!judged)
        return;
    say_sizes(r, s, &first);
    if (r->lr_count < 2)
        say_caveat(s, &first, "learning rates were not tuned");
    if (falling)
        say_caveat(s, &first, "losses were still falling");
    say(s, "%s", first ? "" : ")");
}

void weft_results_headline(const struct weft_results *r, char text[WEFT_VERDICT_TEXT])
{
    struct sentence s = {.text = text, .room = WEFT_VERDICT_TEXT};
    char words[128];
    bool solved = r->arm[0].found.solved;
    int decided = say_decided(r, "better", &s) + say_decided(r, "worse", &s);
    for (int i = 1; i < r->arm_count; i++)
        solved &= r->arm[i].repeats || r->arm[i].found.solved;
    if (decided && solved)
        say(&s, ", but all arms solve the task, so only the loss differs");
    snprintf(words, sizeof words, " not differ measurably from %s", r->arm[0].name);
    say_open(r, "not resolved", "does", "do", words, &s);
    say_open(r, "failed", "", "", "failed: the settings have no effect", &s);
    say_open(r, "edge of grid", "has", "have", " no verdict: the best learning rate is at the edge of the grid", &s);
    say_open(r, "not paired", "has", "have", " no verdict: not paired by seed", &s);
    say_open(r, "too few seeds", "has", "have", " no verdict: too few seeds", &s);
    say_open(r, "unfinished", "is", "are", " not finished", &s);
    say_open(r, "not run", "has", "have", " not run yet", &s);
    say_caveats(r, &s);
    if (!s.used)
        say(&s, r->arm[0].found.seeds ? "%s has a test loss of %s" : "%s has no finished run", r->arm[0].name,
            weft_loss_text(r->arm[0].found.loss).text);
    if (r->stand_in_for)
        say(&s, ", on stand-in data");
    if (r->reproduced == 0)
        say(&s, ". Repeated runs do NOT have the same weights");
    say(&s, ".");
}
