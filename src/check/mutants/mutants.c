/* SPDX-License-Identifier: MIT
 *
 * mutants.c - runs the gates on models, trainers and tasks with deliberate defects of the kind found in research code.
 * Each mutant goes through all gates that run before training, and the gate meant to detect it must fail in the
 * corresponding check. The sound model must pass all gates.
 */
#include "check/mutants/mutants.h"

#include <stdio.h>
#include <string.h>

static const struct weft_mutant *const lists[] = {weft_mutants_wired,   weft_mutants_masks,     weft_mutants_rows,
                                                  weft_mutants_layers,  weft_mutants_training,  weft_mutants_kernels,
                                                  weft_mutants_loading, weft_mutants_scaled,    weft_mutants_declared,
                                                  weft_mutants_tables,  weft_mutants_distances, weft_mutants_formed};
enum { LISTS = sizeof lists / sizeof *lists };

const struct weft_mutant *weft_mutant_at(int i)
{
    for (int list = 0; list < LISTS; list++)
        for (const struct weft_mutant *m = lists[list]; m->name; m++)
            if (!(m->levels && weft_isa() == WEFT_ISA_BASE) && i-- == 0)
                return m;
    return NULL;
}

int weft_mutant_count(void)
{
    int n = 0;
    while (weft_mutant_at(n))
        n++;
    return n;
}

/* ---- running the gates */

struct findings {
    const struct weft_mutant *mutant;
    int failed;
    bool found;
    char *message; /* 400 bytes: message of the check that must fail, or of the first that failed */
};

static void note(void *context, const struct weft_check *c)
{
    struct findings *f = context;
    const char *summary, *gate = weft_gate_at((int)f->mutant->gate, &summary);
    bool this_one = strcmp(c->gate, gate) == 0 && strstr(c->name, f->mutant->check);
    if (c->passed || f->found)
        return;
    if (this_one || f->failed++ == 0)
        snprintf(f->message, 400, "%s: %s: %.3g, limit %.3g; %s", c->gate, c->name, c->figure, c->limit, c->where);
    f->found = this_one;
}

static enum weft_status make_recipe(struct weft_recipe *r, struct weft_spec *spec, const struct weft_mutant *m)
{
    struct weft_settings settings = {0};
    enum weft_status status = m->training ? weft_settings_add_words(&settings, m->training) : WEFT_OK;
    if (status == WEFT_OK)
        status = m->training ? weft_recipe_init(r, spec, &settings) : weft_recipe_plain(r, spec);
    weft_settings_release(&settings);
    return status;
}

static enum weft_status look(const struct weft_mutant *m, unsigned gates, const char *settings, bool broken,
                             struct findings *f)
{
    struct weft_gates report = {.on_check = note, .context = f};
    struct weft_spec spec;
    struct weft_recipe recipe = {0};
    enum weft_status status = weft_combination_spec(&spec, settings, m->bf16 ? WEFT_BF16 : WEFT_F32);
    if (status == WEFT_OK)
        status = make_recipe(&recipe, &spec, m);
    if (status == WEFT_OK && broken && m->change_recipe)
        m->change_recipe(&recipe);
    if (status == WEFT_OK)
        status = weft_gates_run(&spec, m->twin_only ? NULL : &recipe, m->twin_only ? 1u << m->gate : gates, &report);
    weft_recipe_release(&recipe);
    weft_spec_release(&spec);
    return status;
}

/* Checks whether the failure names the part and the layer that have the defect. */
static void check_name(const struct weft_mutant *m, struct weft_mutant_result *result)
{
    static const unsigned naming = 1u << WEFT_GATE_CAUSAL | 1u << WEFT_GATE_ISOLATED | 1u << WEFT_GATE_CACHED |
                                   1u << WEFT_GATE_GRADIENT | 1u << WEFT_GATE_FORMED;
    char name[64] = "";
    if (m->culprit)
        snprintf(name, sizeof name, "%s", m->culprit);
    else if (m->place)
        weft_defect_name(m->place, name);
    result->asked = *name && naming >> m->gate & 1;
    result->named = result->asked && strstr(result->message, name);
}

enum weft_status weft_mutant_run(const struct weft_mutant *m, unsigned gates, struct weft_mutant_result *result)
{
    char settings[256];
    struct findings sound = {.mutant = m, .message = result->message}, broken = sound;
    *result = (struct weft_mutant_result){0};
    TRY(look(m, gates, m->settings, false, &sound));
    result->alarm = sound.failed > 0 || sound.found;
    if (result->alarm)
        return WEFT_OK;
    snprintf(settings, sizeof settings, "%s%s%s", m->settings, m->broken ? " " : "", m->broken ? m->broken : "");
    if (m->place)
        weft_defect_install(m->place);
    if (m->install)
        m->install();
    enum weft_status status = look(m, gates, settings, true, &broken);
    weft_mutants_restore();
    result->caught = broken.found;
    check_name(m, result);
    if (status == WEFT_OK && broken.failed == 0 && !broken.found)
        snprintf(result->message, sizeof result->message, "no check failed");
    return status;
}

/* ---- all mutants */

struct all {
    weft_mutant_fn *report;
    void *context;
};

/* A mutant whose model cannot be built does not count as caught. */
static void work(void *context, int job, void *result)
{
    struct weft_mutant_result *r = result;
    (void)context;
    if (weft_mutant_run(weft_mutant_at(job), WEFT_GATES_ALL, r) == WEFT_OK)
        return;
    r->caught = false;
    snprintf(r->message, sizeof r->message, "%s", weft_error());
}

static void lose(void *context, int job, void *result, int signal)
{
    struct weft_mutant_result *r = result;
    (void)context, (void)job;
    snprintf(r->message, sizeof r->message, "the process running the check ended without a result (signal %d)", signal);
}

static enum weft_status report(void *context, int job, void *result)
{
    const struct all *all = context;
    all->report(all->context, weft_mutant_at(job), result);
    return WEFT_OK;
}

enum weft_status weft_mutants_run(weft_mutant_fn *report_to, void *context)
{
    struct all all = {report_to, context};
    const struct weft_crew crew = {weft_mutant_count(), sizeof(struct weft_mutant_result), work, lose, report, &all};
    return weft_crew_run(&crew);
}
