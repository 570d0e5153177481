/* SPDX-License-Identifier: MIT
 *
 * save.c - writes the plan as study.json, from which reports are made, and as a table.
 */
#include "base/fields.h"
#include "ckpt/ckpt.h"
#include "dnn/dnn.h"
#include "study/plan_hash.h"
#include "study/study.h"
#include "train/record/record.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- JSON; if memory runs out, a value is NULL, and packing it fails */

static json_t *pack_gates(const struct weft_arm *arm)
{
    json_t *list = json_array();
    for (int i = 0; i < arm->gate_count; i++) {
        const struct weft_arm_gate *g = &arm->gate[i];
        json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:s}", "gate", g->gate, "checks", g->checks, "failed",
                                              g->failed, "message", g->message));
    }
    return list;
}

static json_t *pack_config(const struct weft_arm *arm)
{
    char *text = NULL, hash[65];
    json_t *config = NULL;
    if (weft_record_config(&arm->settings, &text, hash) == WEFT_OK)
        config = json_loads(text, 0, NULL);
    free(text);
    return config;
}

static json_t *pack_arm(const struct weft_study *s, const struct weft_arm *arm)
{
    const struct weft_account *a = &arm->account;
    int64_t first = weft_study_run_at(s, weft_study_screening(s) + (arm - s->arm)).seed;
    return json_pack("{s:s, s:s, s:s?, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:s, s:o, s:o}", "name", arm->name,
                     "settings", arm->settings_text, "repeats", arm->repeats < 0 ? NULL : s->arm[arm->repeats].name,
                     "first_seed", (json_int_t)first, "params", (json_int_t)a->params, "flops", a->flops_train,
                     "peak_bytes", (json_int_t)(a->state_bytes + a->activation_bytes), "activation_bytes",
                     (json_int_t)a->activation_bytes, "state_bytes", (json_int_t)a->state_bytes, "cache_bytes",
                     (json_int_t)a->cache_bytes, "matched", (json_int_t)arm->matched, "tokens", weft_arm_tokens(arm),
                     "gate_sizes", arm->gate_sizes, "gates", pack_gates(arm), "config", pack_config(arm));
}

/* Describes the processor, its cores and the instruction set, as a string that report/read/recount.c parses. */
static void describe_machine(char text[256])
{
    char line[256], model[160] = "unknown processor";
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "model name : %159[^\n]", model) == 1)
            break;
    if (f)
        fclose(f);
    snprintf(text, 256, "%s, %ld cores, instruction set %s", model, sysconf(_SC_NPROCESSORS_ONLN), weft_dnn_path());
}

/* The hash of the plan is still empty, because it is computed from the rest. */
static json_t *pack_study(const struct weft_study *s, const char *command, const char *program)
{
    char machine[256];
    const struct weft_recipe *r = &s->arm[0].recipe;
    json_t *seeds = json_array(), *looks = json_array(), *lrs = json_array(), *arms = json_array();
    describe_machine(machine);
    for (int64_t i = 0; i < s->seeds; i++)
        json_array_append_new(seeds, json_integer(s->arm[0].spec.seed + i));
    for (int i = 0; i < s->look_count; i++)
        json_array_append_new(looks, json_integer(s->look[i]));
    for (int i = 0; i < s->lr_count; i++)
        json_array_append_new(lrs, json_real(s->lr[i]));
    bool whole = true;
    for (int i = 0; i < s->arm_count; i++)
        whole &= json_array_append_new(arms, pack_arm(s, &s->arm[i])) == 0;
    json_t *study = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:I, s:o, s:o}", "plan_sha256", "",
        "parent", s->parent, "name", s->name, "preset", s->preset, "task", r->task->name, "command", command, "weft",
        weft_version(), "program_sha256", program, "machine", machine, "match", weft_match_names[s->match], "match_by",
        weft_match_by_names[s->match_by], "steps", (json_int_t)r->steps, "seeds", seeds, "looks", looks, "screen_seeds",
        (json_int_t)(s->lr_count > 1 ? s->screen_seeds : 0), "lrs", lrs, "arms", arms);
    if (*s->stands_for)
        whole &= json_object_set_new(study, "stand_in_for", json_string(s->stands_for)) == 0;
    if (s->budget != 0)
        whole &= json_object_set_new(study, "budget",
                                     json_pack("{s:f, s:I, s:s}", "minutes", s->budget, "of_steps",
                                               (json_int_t)s->whole_steps, "plan_sha256", s->whole_sha256)) == 0;
    if (whole)
        return study;
    json_decref(study);
    return NULL;
}

enum weft_status weft_study_plan_hash(const struct weft_study *s, char hash[65])
{
    json_t *study = pack_study(s, "", "");
    if (!study)
        return FAIL(WEFT_NOMEM, "not enough memory for the plan");
    weft_plan_hash(study, hash);
    json_decref(study);
    return WEFT_OK;
}

/* ---- earlier results */

static enum weft_status load(const char *folder, char path[4096], json_t **study)
{
    *study = NULL;
    if (snprintf(path, 4096, "%s/study.json", folder) >= 4096)
        return FAIL(WEFT_INVALID, "the path of the study's folder is too long");
    if (access(path, F_OK) == 0)
        TRY(weft_fields_load(path, study));
    return WEFT_OK;
}

static enum weft_status count_finished(const char *folder, int64_t *count)
{
    struct weft_arena arena = {0};
    struct weft_finished *list;
    enum weft_status status = weft_ledger_read(folder, &arena, &list, count);
    weft_arena_release(&arena);
    return status;
}

static enum weft_status check_same_plan(const struct weft_study *s, const char *folder)
{
    int64_t count = 0;
    char path[4096], plan[65], difference[256] = "";
    json_t *before, *now;
    TRY(weft_study_plan_hash(s, plan));
    TRY(load(folder, path, &before));
    const char *of = json_string_value(json_object_get(before, "plan_sha256"));
    enum weft_status status = of && strcmp(of, plan) != 0 ? count_finished(folder, &count) : WEFT_OK;
    if (count && (now = pack_study(s, "", ""))) {
        weft_plan_difference(now, before, difference, sizeof difference);
        json_decref(now);
    }
    json_decref(before);
    TRY(status);
    if (count)
        return FAIL(
            WEFT_INVALID,
            "%s has a study with a different plan, and %lld of its runs are finished: %s. A plan (arms, settings, "
            "learning rates, seeds, looks) is fixed before the first run: pass a different --out, with "
            "--set parent=%s and different seeds; or remove the folder",
            folder, (long long)count, *difference ? difference : "its hash differs", folder);
    return WEFT_OK;
}

static enum weft_status check_parent(const struct weft_study *s)
{
    char path[4096];
    json_t *study;
    if (!*s->parent)
        return WEFT_OK;
    TRY(load(s->parent, path, &study));
    if (!study)
        return FAIL(WEFT_INVALID, "parent=%s is not the folder of a study: it has no study.json", s->parent);
    const json_t *seeds = json_object_get(study, "seeds");
    int64_t most = 0, first = s->arm[0].spec.seed;
    bool overlap = false;
    for (size_t i = 0; i < json_array_size(seeds); i++) {
        int64_t seed = json_integer_value(json_array_get(seeds, i));
        most = weft_max(most, seed);
        overlap |= seed >= first && seed < first + s->seeds;
    }
    json_decref(study);
    if (overlap)
        return FAIL(WEFT_INVALID,
                    "the results of %s are known, so its seeds cannot judge changes made since: use later seeds, with "
                    "--set seed=%lld",
                    s->parent, (long long)most + 1);
    return WEFT_OK;
}

enum weft_status weft_study_fits(const struct weft_study *s, const char *folder)
{
    TRY(check_same_plan(s, folder));
    return check_parent(s);
}

enum weft_status weft_study_copy_path(const char *name, const char *folder, char path[4096])
{
    if (snprintf(path, 4096, "%s/%s.config", folder, name) >= 4096)
        return FAIL(WEFT_INVALID, "the path of the study's folder is too long");
    return WEFT_OK;
}

static enum weft_status copy_config(const struct weft_study *s, const char *folder)
{
    char path[4096];
    TRY(weft_study_copy_path(s->name, folder, path));
    return weft_file_replace(path, s->text, strlen(s->text));
}

enum weft_status weft_study_save(const struct weft_study *s, const char *folder, const char *const *command)
{
    char program[65], path[4096], plan[65], *words = NULL;
    size_t bytes;
    TRY(weft_study_fits(s, folder));
    TRY(weft_study_plan_hash(s, plan));
    TRY(weft_folder_make(folder));
    TRY(copy_config(s, folder));
    snprintf(path, sizeof path, "%s/study.json", folder);
    TRY(weft_program_hash(program));
    FILE *to = open_memstream(&words, &bytes);
    if (to) {
        fputs("weft ", to);
        weft_shell_words(command, to);
        fclose(to);
    }
    json_t *study = pack_study(s, words, program);
    free(words);
    bool whole = study && json_object_set_new(study, "plan_sha256", json_string(plan)) == 0;
    char *text = whole ? json_dumps(study, JSON_INDENT(1)) : NULL;
    json_decref(study);
    enum weft_status status =
        text ? weft_file_replace(path, text, strlen(text)) : FAIL(WEFT_NOMEM, "not enough memory for %s", path);
    free(text);
    return status;
}

/* ---- the table */

static void print_gates(const struct weft_arm *arm, FILE *to)
{
    int checks = 0, failed = 0;
    for (int i = 0; i < arm->gate_count; i++) {
        checks += arm->gate[i].checks;
        failed += arm->gate[i].failed;
    }
    if (checks && !failed)
        fprintf(to, "  %d passed", checks);
    else if (checks)
        fprintf(to, "  %d of %d FAILED", failed, checks);
}

void weft_study_print(const struct weft_study *s, FILE *to)
{
    int name = 3;
    for (int i = 0; i < s->arm_count; i++)
        name = (int)weft_max(name, (int64_t)strlen(s->arm[i].name));
    fprintf(to, "%-*s  %11s  %11s  %10s  %11s  %s\n", name, "arm", "weights", "FLOPs/token", "memory", "cache/token",
            s->arm[0].gate_count ? "gates" : "");
    for (int i = 0; i < s->arm_count; i++) {
        const struct weft_arm *arm = &s->arm[i];
        const struct weft_account *a = &arm->account;
        fprintf(to, "%-*s  %11lld  %11.4g  %6.1f MiB  %9lld B", name, arm->name, (long long)a->params, a->flops_train,
                (double)(a->state_bytes + a->activation_bytes) / (1 << 20), (long long)a->cache_bytes);
        print_gates(arm, to);
        if (arm->repeats >= 0)
            fprintf(to, "  repeats %s", s->arm[arm->repeats].name);
        else if (*arm->settings_text)
            fprintf(to, "  %s", arm->settings_text);
        if (arm->matched)
            fprintf(to, "  %s=%lld: %+.2f %% of %s", weft_match_by_names[s->match_by], (long long)arm->matched,
                    100 * weft_study_mismatch(s, arm), s->match == WEFT_MATCH_FLOPS ? "FLOPs" : "weights");
        fputc('\n', to);
    }
}
