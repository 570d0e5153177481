/* SPDX-License-Identifier: MIT
 *
 * culprit.c - finds the layer and part that make a gate fail.
 *
 * The gate runs again on copies of the model in which layers are left out, so that the stream passes through them
 * unchanged. The failure comes from the smallest group of neighbouring layers that fails alone. Then the gate runs with
 * these layers only and one change in them: an option switched off, one half left out, or one part replaced by a
 * different one of its kind. The change that makes the failure go away is named. A copy that cannot be built, or on
 * which a different check fails, proves nothing.
 */
#include "check/probe/gate.h"
#include "nn/part.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_SECONDS 20.

struct search {
    const struct weft_trial *t;
    weft_gate_fn *gate;
    const char *check; /* name of the failed check */
    const struct weft_nn *model;
    int layers;
    unsigned char *left_out;
    double end;
    bool in_time;
};

/* ---- one run */

/* Returns whether two names are the same except for the numbers in them. */
static bool same_check(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (isdigit((unsigned char)*a))
            a++;
        while (isdigit((unsigned char)*b))
            b++;
        if (*a != *b || !*a)
            return *a == *b;
    }
}

struct hit {
    const char *check;
    bool failed;
};

static void look(void *context, const struct weft_check *c)
{
    struct hit *hit = context;
    hit->failed |= !c->passed && same_check(c->name, hit->check);
}

static enum weft_status run(const struct search *s, const struct weft_nn *model, struct weft_gates *report)
{
    struct weft_trial trial = {s->t->gate, model, NULL, report};
    struct weft_itself it = {0};
    if (s->t->itself) {
        it = *s->t->itself;
        memset(&it.train, 0, sizeof it.train);
        memset(&it.eval, 0, sizeof it.eval);
        it.model = (struct weft_nn *)(uintptr_t)model;
        it.begun = it.gate_begun = weft_seconds();
        trial = (struct weft_trial){s->t->gate, NULL, &it, report};
    }
    enum weft_status status = s->gate(&trial);
    weft_itself_make_room(&it);
    if (status == WEFT_OK)
        status = weft_deferred();
    else
        (void)weft_deferred();
    return status;
}

enum answer { PASSES, FAILS, UNKNOWN };

/* Runs the gate on a copy of the model without the halves in s->left_out, and returns the result of the check. */
static enum answer ask(struct search *s, const struct weft_nn *model)
{
    struct hit hit = {.check = s->check};
    struct weft_gates report = {.on_check = look, .context = &hit};
    struct weft_nn copy = *model;
    copy.left_out = s->left_out;
    if (weft_seconds() > s->end)
        s->in_time = false;
    if (!s->in_time)
        return UNKNOWN;
    if (run(s, &copy, &report) != WEFT_OK) {
        weft_error_clear();
        return UNKNOWN;
    }
    return hit.failed ? FAILS : PASSES;
}

static bool fails(struct search *s) { return ask(s, s->model) == FAILS; }

/* Like ask, but with one setting of the model changed. */
static enum answer ask_with(struct search *s, const char *setting)
{
    struct weft_spec spec = {0};
    struct weft_nn *model = NULL;
    enum answer answer = UNKNOWN;
    enum weft_status status = weft_spec_vary(&spec, s->model->spec, setting);
    if (status == WEFT_OK && s->t->itself)
        status = weft_nn_create(&model, &spec);
    if (status == WEFT_OK)
        status = s->t->itself ? weft_nn_init(model) : weft_twin_create(&model, &spec);
    if (status == WEFT_OK)
        answer = ask(s, model);
    else
        weft_error_clear();
    weft_nn_free(model);
    weft_spec_release(&spec);
    return answer;
}

/* ---- which layers */

static bool fails_alone(struct search *s, int first, int last)
{
    for (int i = 0; i < s->layers; i++)
        s->left_out[i] = i < first || i > last ? WEFT_WITHOUT_BOTH : 0;
    return fails(s);
}

/* Finds the shortest prefix of layers that fails, and in it the shortest suffix. Returns false if not even all layers
 * together fail. */
static bool find_layers(struct search *s, int *first, int *last)
{
    int fine = -1, failing = s->layers - 1;
    if (!fails_alone(s, 0, failing))
        return false;
    while (failing - fine > 1) {
        int middle = fine + (failing - fine) / 2;
        if (fails_alone(s, 0, middle))
            failing = middle;
        else
            fine = middle;
    }
    *first = *last = failing;
    while (*first > 0 && !fails_alone(s, *first, *last))
        --*first;
    return s->in_time;
}

/* ---- which part */

/* Returns whether the switch is a whole part, which find_part replaces. */
static bool is_a_part(const struct weft_switch *s)
{
    return s->part && s->part->part->kind != WEFT_RECIP && strcmp(s->name, s->part->part->owner.name) == 0;
}

/* Finds the first setting that makes the failure go away when switched off. */
static bool find_switch(struct search *s, char name[72])
{
    struct weft_switches all;
    bool found = false;
    if (weft_switches_find(&all, s->model->spec) != WEFT_OK)
        weft_error_clear();
    for (int i = 0; i < all.count && !found; i++)
        if (!is_a_part(&all.list[i]) && ask_with(s, all.list[i].off) == PASSES) {
            snprintf(name, 72, "%s", all.list[i].name);
            found = true;
        }
    weft_switches_release(&all);
    return found;
}

/* Returns whether the failure goes away with a different part of this kind, the first on which the check runs. */
static bool is_part(struct search *s, enum weft_part_kind kind, char name[72])
{
    const struct weft_part *own = s->model->spec->part[kind].part, *other;
    enum answer answer = UNKNOWN;
    for (int i = 0; answer == UNKNOWN && (other = weft_part_at(kind, i)); i++)
        if (strcmp(other->name, own->name) != 0)
            answer = ask_with(s, other->owner.name);
    if (answer == PASSES)
        snprintf(name, 72, "%s", own->owner.name);
    return answer == PASSES;
}

static bool find_part(struct search *s, const enum weft_part_kind *kinds, int count, char name[72])
{
    for (int i = 0; i < count; i++)
        if (is_part(s, kinds[i], name))
            return true;
    return false;
}

static void set_halves(struct search *s, int first, int last, unsigned char without)
{
    for (int i = 0; i < s->layers; i++)
        s->left_out[i] = i < first || i > last ? WEFT_WITHOUT_BOTH : without;
}

/* Finds the part that fails in these layers. Mechanisms connect both halves, so they are tried first; then the half
 * that fails alone. */
static void find_in_layers(struct search *s, int first, int last, char name[72])
{
    static const enum weft_part_kind attn[] = {WEFT_GEOM, WEFT_POS, WEFT_NORM, WEFT_ATTN},
                                     ffn[] = {WEFT_FFN, WEFT_NORM};
    static const enum weft_part_kind all[] = {WEFT_FFN, WEFT_GEOM, WEFT_POS, WEFT_NORM, WEFT_ATTN};
    set_halves(s, first, last, 0);
    if (find_switch(s, name))
        return;
    set_halves(s, first, last, WEFT_WITHOUT_FFN);
    bool in_attn = fails(s);
    set_halves(s, first, last, WEFT_WITHOUT_ATTN);
    bool in_ffn = fails(s);
    if (in_attn != in_ffn)
        set_halves(s, first, last, in_attn ? WEFT_WITHOUT_FFN : WEFT_WITHOUT_ATTN);
    else
        set_halves(s, first, last, 0);
    if (in_attn && in_ffn && is_part(s, WEFT_NORM, name))
        return;
    if (in_attn == in_ffn ? find_part(s, all, 5, name) : find_part(s, in_attn ? attn : ffn, in_attn ? 4 : 2, name))
        return;
    snprintf(name, 72, "%s", in_attn == in_ffn ? "" : in_attn ? "attention" : "the feed-forward half");
}

/* ---- the whole search */

static void write_layers(struct search *s, int first, int last, const char *name, char text[128])
{
    char where[48];
    bool later = last + 1 < s->layers && fails_alone(s, last + 1, s->layers - 1);
    if (first < last)
        snprintf(where, sizeof where, "layers %d to %d together", first, last);
    else
        snprintf(where, sizeof where, "layer %d%s", first, later ? " and later ones" : "");
    snprintf(text, 128, ", %s%s%s", *name ? "through " : "", name, *name ? " in " : "in ");
    snprintf(text + strlen(text), 128 - strlen(text), "%s", where);
}

static void search(struct search *s, char text[128])
{
    static const enum weft_part_kind around[] = {WEFT_POS, WEFT_NORM};
    char name[72] = "";
    int first = 0, last = 0;
    set_halves(s, 0, -1, 0);
    if (fails(s)) {
        find_part(s, around, 2, name);
        snprintf(text, 128, ", %s%soutside the layers", *name ? "through " : "", *name ? name : "");
        if (*name)
            snprintf(text, 128, ", through %s outside the layers", name);
        return;
    }
    if (!find_layers(s, &first, &last))
        return;
    find_in_layers(s, first, last, name);
    write_layers(s, first, last, name, text);
}

void weft_culprit_find(const struct weft_trial *t, weft_gate_fn *gate, const char *check, char text[128])
{
    struct search s = {.t = t, .gate = gate, .check = check, .in_time = true};
    s.model = t->itself ? t->itself->model : t->model;
    s.layers = (int)s.model->spec->layers;
    s.end = weft_seconds() + fmax(LEAST_SECONDS, t->itself ? t->itself->seconds : 0);
    s.left_out = calloc((size_t)s.layers, 1);
    *text = 0;
    if (s.left_out)
        search(&s, text);
    free(s.left_out);
}
