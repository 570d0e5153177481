/* SPDX-License-Identifier: MIT
 *
 * mutants.c - models, trainers and tasks broken on purpose, as research code is: all gates that run before training are
 * run on each, and the gate that must detect it must fail in the check that was made for it. The sound model must pass
 * all of them.
 */
#include "check/mutants/mutants.h"

#include <stdio.h>
#include <string.h>

static const struct weft_mutant *const lists[] = {weft_mutants_wired,  weft_mutants_masks,    weft_mutants_rows,
                                                  weft_mutants_layers, weft_mutants_training, weft_mutants_kernels};
enum { LISTS = sizeof lists / sizeof *lists };

const struct weft_mutant *weft_mutant_at(int i)
{
    for (int list = 0; list < LISTS; list++)
        for (const struct weft_mutant *m = lists[list]; m->name; m++)
            if (i-- == 0)
                return m;
    return NULL;
}

/* ---- running the gates */

struct findings {
    const struct weft_mutant *mutant;
    int failed;
    bool found;
    char *message; /* of 400 bytes: of the check that must fail, or else of the first that did */
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

enum weft_status weft_mutant_run(const struct weft_mutant *m, unsigned gates, bool *caught, bool *alarm,
                                 char message[400])
{
    char settings[256];
    struct findings sound = {.mutant = m, .message = message}, broken = sound;
    *caught = false;
    message[0] = '\0';
    TRY(look(m, gates, m->settings, false, &sound));
    *alarm = sound.failed > 0 || sound.found;
    if (*alarm)
        return WEFT_OK;
    snprintf(settings, sizeof settings, "%s%s%s", m->settings, m->broken ? " " : "", m->broken ? m->broken : "");
    if (m->place)
        weft_defect_install(m->place);
    if (m->install)
        m->install();
    enum weft_status status = look(m, gates, settings, true, &broken);
    weft_mutants_restore();
    *caught = broken.found;
    if (status == WEFT_OK && broken.failed == 0 && !broken.found)
        snprintf(message, 400, "nothing failed");
    return status;
}
