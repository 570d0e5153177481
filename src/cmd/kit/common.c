/* SPDX-License-Identifier: MIT
 *
 * common.c - resolves MODEL and its settings, and contains other functions that commands share, for presets, paths and
 * tokenizers.
 */
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "cmd/cmd.h"
#include "study/study.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void weft_signal_catch(int signal, const struct sigaction *action)
{
    struct sigaction before;
    if (sigaction(signal, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(signal, action, NULL);
}

/* Returns the colon of STUDY:ARM; NULL if MODEL has a different form. */
static const char *find_colon(const char *model)
{
    struct stat st;
    const char *colon = strrchr(model, ':');
    return colon && stat(model, &st) ? colon : NULL;
}

/* Fails if an option of the study itself is set, because it would have no effect on a single arm. */
static enum weft_status check_settings(const struct weft_common *c)
{
    for (int i = 0; i < c->settings.count; i++)
        for (int k = 0; k < weft_study_owner.count; k++)
            if (strcmp(c->settings.setting[i].name, weft_study_owner.options[k].name) == 0)
                return FAIL(WEFT_INVALID, "%s is a study option and has no effect on the single arm %s: remove it",
                            c->settings.setting[i].name, c->model);
    return WEFT_OK;
}

/* Settings of the command line override the arm's settings, as in a study. */
static enum weft_status take_arm(struct weft_common *c, const char *colon)
{
    const struct weft_arm *arm;
    const char *path = weft_arena_print(&c->settings.arena, "%.*s", (int)(colon - c->model), c->model);
    c->study = calloc(1, sizeof *c->study);
    if (!path || !c->study)
        return FAIL(WEFT_NOMEM, "not enough memory for a study");
    TRY(check_settings(c));
    TRY(weft_study_init(c->study, path, &c->settings));
    TRY(weft_study_find_arm(c->study, colon + 1, &arm));
    c->settings.count = 0;
    for (int i = 0; i < arm->settings.count; i++)
        TRY(weft_settings_put(&c->settings, arm->settings.setting[i]));
    c->model = c->study->preset;
    return WEFT_OK;
}

void weft_common_release(struct weft_common *c)
{
    weft_recipe_release(&c->recipe);
    weft_spec_release(&c->spec);
    weft_settings_release(&c->settings);
    if (c->study)
        weft_study_release(c->study);
    free(c->study);
}

enum weft_status weft_common_init(struct weft_common *c)
{
    const char *colon = find_colon(c->model);
    if (colon)
        TRY(take_arm(c, colon));
    TRY(weft_spec_init(&c->spec, c->model, &c->settings));
    TRY(weft_recipe_init(&c->recipe, &c->spec, &c->settings));
    return WEFT_OK;
}

const char *weft_preset_name_at(int i)
{
    const char *summary;
    return weft_preset_at(i, &summary);
}

bool weft_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool weft_model_is_folder(const char *model)
{
    for (int i = 0; weft_preset_name_at(i); i++)
        if (strcmp(weft_preset_name_at(i), model) == 0)
            return false;
    return weft_is_folder(model);
}

enum weft_status weft_model_check_folder(const char *model)
{
    if (!weft_model_is_folder(model))
        return FAIL(WEFT_INVALID,
                    "%s is not a folder with weights: pass a run (weft train --out), a checkpoint or a model folder",
                    model);
    return WEFT_OK;
}

void weft_say_words(const char *const *words)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (to)
        weft_shell_words(words, to);
    if (to && weft_output_close(to))
        weft_text_print(stderr, text);
    free(text);
}

const char *const weft_tokenizer_choices[] = {"bytes", NULL};

bool weft_tokenizer_find(const char *folder, char path[4200])
{
    snprintf(path, 4200, "%.4095s/tokenizer.json", folder);
    return folder[0] && access(path, F_OK) == 0;
}

enum weft_status weft_tokenizer_open(const char *named, const char *folder, int64_t vocab, struct weft_tokenizer **t)
{
    char path[4200];
    if (named)
        TRY(strcmp(named, "bytes") == 0 ? weft_tokenizer_bytes(t) : weft_tokenizer_load(t, named));
    else if (weft_tokenizer_find(folder, path))
        TRY(weft_tokenizer_load(t, path));
    else
        return FAIL(WEFT_INVALID, "%s has no tokenizer.json: pass --tokenizer FILE", folder[0] ? folder : "the model");
    if (weft_tokenizer_vocab(*t) > vocab)
        return FAIL(WEFT_INVALID,
                    "the tokenizer has %d tokens, but the model has %lld: it belongs to a different model",
                    weft_tokenizer_vocab(*t), (long long)vocab);
    return WEFT_OK;
}

enum weft_status weft_folder_check_new(const char *folder)
{
    char path[4200];
    snprintf(path, sizeof path, "%.4095s/config.json", folder);
    if (access(path, F_OK) == 0)
        return FAIL(WEFT_INVALID, "%s already has a config.json: pass a new folder with --out", folder);
    return WEFT_OK;
}

enum weft_status weft_config_save(const struct weft_settings *settings, const char *folder)
{
    char path[4200], *text = NULL;
    size_t bytes;
    snprintf(path, sizeof path, "%.4095s/config.json", folder);
    FILE *to = open_memstream(&text, &bytes);
    enum weft_status status = to ? weft_settings_save(settings, to) : WEFT_OK;
    if (!to || fclose(to))
        status = FAIL(WEFT_NOMEM, "not enough memory for a config");
    if (status == WEFT_OK)
        status = weft_file_replace(path, text, bytes);
    free(text);
    return status;
}

void weft_scores_add(struct weft_result *r, const struct weft_scores *scores, const struct weft_spec *spec,
                     const struct weft_recipe *recipe)
{
    weft_result_real(r, "eval_loss", scores->val.loss);
    weft_result_real(r, "accuracy", scores->val.accuracy);
    weft_result_real(r, "test_loss", scores->test.loss);
    weft_result_real(r, "test_accuracy", scores->test.accuracy);
    if (!recipe->task->floor)
        return;
    const struct weft_floor floor = recipe->task->floor(spec, recipe->task_options);
    weft_result_real(r, "floor_loss", floor.loss);
    weft_result_real(r, "best_accuracy", floor.accuracy);
    weft_result_real(r, "chance_accuracy", floor.chance);
}

/* Counts every weight, but keeps only as many names as there is room for. */
void weft_fits_add(void *context, const char *name, enum weft_fit fit)
{
    struct weft_fits *f = context;
    char *names = f->names[fit];
    size_t used = strlen(names), size = sizeof f->names[fit];
    if (used + strlen(name) + 8 < size)
        snprintf(names + used, size - used, "%s%s", used ? ", " : "", name);
    else if (used + 5 < size && strcmp(names + used - 3, "...") != 0)
        snprintf(names + used, size - used, " ...");
    f->count[fit]++;
}

void weft_fits_print(const struct weft_fits *f, FILE *to)
{
    static const char *const words[] = {"copied", "extended to this context", "new, randomly initialised", "left out"};
    for (int i = 0; i <= WEFT_FIT_LEFT; i++)
        if (f->count[i])
            weft_say(to, "  %4d %s%s%s\n", f->count[i], words[i], i == WEFT_FIT_COPIED ? "" : ": ",
                     i == WEFT_FIT_COPIED ? "" : f->names[i]);
}
