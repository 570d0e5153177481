/* SPDX-License-Identifier: MIT
 *
 * results.c - reads study.json, without trusting any of its values.
 */
#include "report/read/results.h"
#include "base/fields.h"
#include "base/json.h"
#include "study/plan_hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *copy(struct weft_results *r, struct weft_fields *f, const char *name)
{
    const char *text = weft_arena_print(&r->arena, "%s", weft_field_text(f, name));
    if (!text)
        f->status = WEFT_NOMEM;
    return text;
}

/* Returns the name of a key, which was different in Weft 0.1.0. */
static const char *either(const struct weft_fields *f, const char *name, const char *before)
{
    return json_object_get(f->object, name) || !json_object_get(f->object, before) ? name : before;
}

static void *room(struct weft_results *r, struct weft_fields *f, size_t count, size_t bytes)
{
    void *memory = weft_arena_alloc(&r->arena, count * bytes); /* counts are limited, see study.h */
    if (!memory)
        f->status = WEFT_NOMEM;
    return memory;
}

/* ---- an arm */

static void read_gates(struct weft_results *r, struct weft_fields *f, struct weft_result_arm *arm)
{
    const json_t *list = weft_field_list(f, "gates", WEFT_GATE_COUNT);
    arm->gate = room(r, f, WEFT_GATE_COUNT, sizeof *arm->gate);
    for (size_t i = 0; f->status == WEFT_OK && i < json_array_size(list); i++) {
        struct weft_fields g = {.object = json_array_get(list, i), .where = f->where};
        struct weft_result_gate *gate = &arm->gate[arm->gate_count++];
        gate->gate = copy(r, &g, "gate");
        gate->message = copy(r, &g, either(&g, "message", "story"));
        gate->checks = (int)weft_field_int(&g, "checks", 0, 1 << 30);
        gate->failed = (int)weft_field_int(&g, "failed", 0, gate->checks);
        arm->gates_checks += gate->checks;
        arm->gates_failed += gate->failed;
        f->status = g.status;
    }
}

/* Formats a value in the same way as settings, so that it can be compared with the config of a run. */
static const char *entry_value(struct weft_results *r, struct weft_fields *config, const char *name)
{
    const json_t *value = json_object_get(config->object, name);
    char real[40];
    if (json_is_boolean(value))
        return json_is_true(value) ? "yes" : "no";
    if (json_is_integer(value))
        return weft_arena_print(&r->arena, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value)) {
        weft_json_real(json_real_value(value), real, sizeof real);
        return weft_arena_print(&r->arena, "%s", real);
    }
    return copy(r, config, name);
}

static void read_config(struct weft_results *r, struct weft_fields *f, struct weft_result_arm *arm)
{
    json_t *config = json_object_get(f->object, "config");
    struct weft_fields entries = {.object = config, .where = f->where};
    if (!json_is_object(config) || json_object_size(config) > WEFT_MAX_SETTINGS) {
        weft_field_refuse(f, "config", "is not a config");
        return;
    }
    arm->entry = room(r, f, WEFT_MAX_SETTINGS, sizeof *arm->entry);
    if (!arm->entry)
        return;
    for (void *at = json_object_iter(config); at; at = json_object_iter_next(config, at)) {
        struct weft_result_entry *entry = &arm->entry[arm->entry_count++];
        entry->name = weft_arena_print(&r->arena, "%s", json_object_iter_key(at));
        entry->value = entry_value(r, &entries, json_object_iter_key(at));
        if (!weft_json_is_text(json_object_iter_key(at)))
            weft_field_refuse(f, "config", "has a key that cannot be the name of an option");
        if (!entry->name || !entry->value)
            f->status = WEFT_NOMEM;
    }
    if (f->status == WEFT_OK)
        f->status = entries.status;
    char *text = json_dumps(config, JSON_INDENT(2));
    arm->config = text ? weft_arena_print(&r->arena, "%s", text) : NULL;
    free(text);
    if (!arm->config)
        f->status = WEFT_NOMEM;
}

static void read_repeats(struct weft_results *r, struct weft_fields *f, struct weft_result_arm *arm)
{
    if (json_is_null(json_object_get(f->object, "repeats")))
        return;
    arm->repeats = copy(r, f, "repeats");
    for (const struct weft_result_arm *other = r->arm; f->status == WEFT_OK && other < arm; other++)
        if (strcmp(other->name, arm->repeats) == 0)
            return;
    weft_field_refuse(f, "repeats", "is not the name of an earlier arm");
}

static enum weft_status read_arm(struct weft_results *r, const char *path, const json_t *object, int i)
{
    char where[4200];
    struct weft_result_arm *arm = &r->arm[i];
    struct weft_fields f = {.object = object, .where = where};
    snprintf(where, sizeof where, "%s: arms[%d]", path, i);
    arm->name = copy(r, &f, "name");
    arm->description = copy(r, &f, either(&f, "settings", "apart"));
    arm->first_seed = weft_field_int(&f, "first_seed", 0, INT64_MAX - WEFT_MAX_SEEDS);
    arm->params = weft_field_int(&f, "params", 0, INT64_MAX);
    arm->flops = weft_field_real(&f, "flops");
    arm->peak_bytes = weft_field_int(&f, "peak_bytes", 0, INT64_MAX);
    arm->activation_bytes = weft_field_int(&f, "activation_bytes", 0, INT64_MAX);
    arm->state_bytes = weft_field_int(&f, "state_bytes", 0, INT64_MAX);
    arm->cache_bytes = weft_field_real(&f, "cache_bytes");
    arm->gates_itself = json_object_get(object, "gate_sizes") && *weft_field_text(&f, "gate_sizes");
    arm->tokens = json_object_get(object, "tokens") ? weft_field_real(&f, "tokens") : 0;
    arm->matched = weft_field_int(&f, "matched", 0, INT64_MAX);
    if (f.status == WEFT_OK && !weft_is_arm_name(arm->name))
        weft_field_refuse(&f, "name", "is not the name of an arm: expected at most 63 letters, digits, - and _");
    for (int other = 0; f.status == WEFT_OK && other < i; other++)
        if (strcmp(r->arm[other].name, arm->name) == 0)
            weft_field_refuse(&f, "name", "is also the name of an earlier arm");
    read_repeats(r, &f, arm);
    read_gates(r, &f, arm);
    read_config(r, &f, arm);
    TRY(f.status);
    return WEFT_OK;
}

/* ---- the study */

static void read_numbers(struct weft_results *r, struct weft_fields *f)
{
    const json_t *seeds = weft_field_list(f, "seeds", WEFT_MAX_SEEDS), *lrs = weft_field_list(f, "lrs", WEFT_MAX_LRS);
    r->seed_count = (int64_t)json_array_size(seeds);
    r->lr = room(r, f, json_array_size(lrs), sizeof *r->lr);
    for (size_t i = 0; f->status == WEFT_OK && i < json_array_size(lrs); i++) {
        const json_t *lr = json_array_get(lrs, i);
        if (!json_is_number(lr) || !(json_number_value(lr) > 0))
            weft_field_refuse(f, "lrs", "has an entry that is not a number above 0");
        r->lr[r->lr_count++] = json_number_value(lr);
    }
}

/* Plans written before looks existed have one look, after all seeds. */
static void read_looks(struct weft_results *r, struct weft_fields *f)
{
    const json_t *looks = NULL;
    struct weft_looks *l = &r->looks;
    if (json_object_get(f->object, "looks"))
        looks = weft_field_list(f, "looks", WEFT_MAX_LOOKS);
    for (size_t i = 0; f->status == WEFT_OK && i < json_array_size(looks); i++) {
        const json_t *seeds = json_array_get(looks, i);
        l->seeds[l->count] = json_integer_value(seeds);
        if (!json_is_integer(seeds) || l->seeds[l->count] < 1 || l->seeds[l->count] > r->seed_count)
            weft_field_refuse(f, "looks", "has an entry that is not between 1 and the number of seeds");
        l->count++;
    }
    if (!l->count)
        l->seeds[l->count++] = weft_max(1, r->seed_count);
    r->parent = json_object_get(f->object, "parent") ? copy(r, f, "parent") : "";
}

static void read_budget(struct weft_results *r, struct weft_fields *f)
{
    struct weft_fields b = {.object = json_object_get(f->object, "budget"), .where = f->where};
    if (!b.object || f->status != WEFT_OK)
        return;
    r->budget = weft_field_real(&b, "minutes");
    r->whole_steps = weft_field_int(&b, "of_steps", 1, INT64_MAX);
    f->status = b.status;
}

/* Checks the hash of the plan, which release 0.1.0 did not record. */
static enum weft_status check_plan(struct weft_results *r, const char *path, const json_t *object)
{
    const char *recorded = json_string_value(json_object_get(object, "plan_sha256"));
    weft_plan_hash(object, r->plan_sha256);
    r->plan_recorded = recorded;
    if (recorded && strcmp(recorded, r->plan_sha256) != 0)
        return FAIL(WEFT_FORMAT,
                    "%s was edited: it records plan_sha256 %.16s..., but the hash of its content is %.16s...", path,
                    weft_is_sha256(recorded) ? recorded : "(no hash)", r->plan_sha256);
    return WEFT_OK;
}

static enum weft_status read_study(struct weft_results *r, const char *path, const json_t *object)
{
    struct weft_fields f = {.object = object, .where = path};
    TRY(check_plan(r, path, object));
    r->name = copy(r, &f, "name");
    r->preset = copy(r, &f, "preset");
    r->task = copy(r, &f, "task");
    r->command = copy(r, &f, "command");
    r->version = copy(r, &f, "weft");
    r->machine = copy(r, &f, "machine");
    r->match = copy(r, &f, "match");
    r->match_by = copy(r, &f, "match_by");
    r->program_sha256 = copy(r, &f, "program_sha256");
    if (f.status == WEFT_OK && !weft_is_sha256(r->program_sha256))
        weft_field_refuse(&f, "program_sha256", "is not a SHA-256");
    r->stand_in_for = json_object_get(object, "stand_in_for") ? copy(r, &f, "stand_in_for") : NULL;
    r->steps = weft_field_int(&f, "steps", 0, INT64_MAX);
    read_numbers(r, &f);
    read_budget(r, &f);
    read_looks(r, &f);
    if (json_object_get(object, "screen_seeds"))
        r->screen_seeds = weft_field_int(&f, "screen_seeds", 0, 100);
    const json_t *arms = weft_field_list(&f, "arms", WEFT_MAX_ARMS);
    if (json_array_size(arms) == 0)
        weft_field_refuse(&f, "arms", "is empty");
    TRY(f.status);
    r->arm = weft_arena_alloc(&r->arena, json_array_size(arms) * sizeof *r->arm);
    if (!r->arm)
        return WEFT_NOMEM;
    for (; r->arm_count < (int)json_array_size(arms); r->arm_count++)
        TRY(read_arm(r, path, json_array_get(arms, (size_t)r->arm_count), r->arm_count));
    for (int i = 1; i < r->arm_count; i++)
        r->looks.comparisons += !r->arm[i].repeats;
    r->looks.comparisons = weft_max(1, r->looks.comparisons);
    TRY(weft_looks_init(&r->looks));
    return WEFT_OK;
}

enum weft_status weft_results_load(struct weft_results *r, const char *folder)
{
    char path[4096];
    json_t *object;
    *r = (struct weft_results){0};
    r->folder = weft_arena_print(&r->arena, "%s", folder);
    if (!r->folder)
        return WEFT_NOMEM;
    if (snprintf(path, sizeof path, "%s/study.json", folder) >= (int)sizeof path)
        return FAIL(WEFT_INVALID, "the path of the study's folder is too long");
    if (access(path, F_OK))
        return FAIL(WEFT_INVALID,
                    "%s is not the folder of a study: it has no study.json. `weft ablate --out` creates the folder of "
                    "a study; the folder of a run, which `weft train --out` creates, has a config.json",
                    folder);
    TRY(weft_folder_is_plain(folder));
    TRY(weft_fields_load(path, &object));
    enum weft_status status = read_study(r, path, object);
    json_decref(object);
    TRY(status);
    TRY(weft_simulated_load(folder, &r->simulated));
    TRY(weft_results_take_runs(r));
    TRY(weft_results_recount(r));
    TRY(weft_results_judge(r));
    TRY(weft_results_test_noise(r));
    return WEFT_OK;
}

void weft_results_release(struct weft_results *r) { weft_arena_release(&r->arena); }
