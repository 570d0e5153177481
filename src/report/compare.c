/* SPDX-License-Identifier: MIT
 *
 * compare.c - reads two runs, or two folders of runs, as a study of two arms: options from the configs, scores from the
 * logs.
 */
#include "base/json.h"
#include "report/read/results.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct reading {
    struct weft_results *r;
    struct weft_result_arm *arm;
};

static enum weft_status add_entry(void *context, const char *name, const char *value)
{
    struct reading *read = context;
    struct weft_result_entry entry = {.name = weft_arena_print(&read->r->arena, "%s", name),
                                      .value = weft_arena_print(&read->r->arena, "%s", value)};
    if (!entry.name || !entry.value)
        return WEFT_NOMEM;
    if (read->arm->entry_count == WEFT_MAX_SETTINGS)
        return FAIL(WEFT_FORMAT, "the config has more than %d options", WEFT_MAX_SETTINGS);
    read->arm->entry[read->arm->entry_count++] = entry;
    return WEFT_OK;
}

static bool is_run(const char *folder)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/config.json", folder) < (int)sizeof path && access(path, F_OK) == 0;
}

/* ---- cost */

static enum weft_status account(struct weft_result_arm *arm, const struct weft_spec *spec,
                                const struct weft_recipe *recipe)
{
    struct weft_account a;
    TRY(weft_arm_account(spec, recipe, &a));
    arm->params = a.params;
    arm->flops = a.flops_train;
    arm->state_bytes = a.state_bytes;
    arm->activation_bytes = a.activation_bytes;
    arm->peak_bytes = a.state_bytes + a.activation_bytes;
    arm->cache_bytes = (double)a.cache_bytes;
    arm->sample_tokens = recipe->task->length(recipe->task_options);
    return WEFT_OK;
}

/* Finds the options whose value is neither the default nor the value set by the preset. */
static void mark_changes(struct weft_result_arm *arm, const struct weft_settings *settings)
{
    for (int i = 0; i < arm->entry_count; i++)
        for (int k = 0; k < settings->count; k++)
            if (strcmp(arm->entry[i].name, settings->setting[k].name) == 0)
                arm->entry[i].changed = !weft_settings_is_default(settings, &settings->setting[k]);
}

static enum weft_status account_run(struct weft_result_arm *arm, const char *folder)
{
    struct weft_settings settings = {0};
    struct weft_spec spec = {0};
    struct weft_recipe recipe = {0};
    enum weft_status status = weft_spec_init(&spec, folder, &settings);
    if (status == WEFT_OK)
        status = weft_recipe_init(&recipe, &spec, &settings);
    if (status == WEFT_OK)
        status = account(arm, &spec, &recipe);
    if (status == WEFT_OK)
        mark_changes(arm, &settings);
    weft_recipe_release(&recipe);
    weft_spec_release(&spec);
    weft_settings_release(&settings);
    return status;
}

/* ---- runs */

/* Checks that runs of one arm have the same model and recipe. */
static enum weft_status check_same(const struct weft_result_arm *arm, const struct weft_result_arm *one,
                                   const char *folder)
{
    for (int i = 0; i < one->entry_count; i++) {
        const char *name = one->entry[i].name, *value = weft_result_option(arm, name);
        if (!weft_option_is_per_run(name) && (!value || strcmp(value, one->entry[i].value) != 0))
            return FAIL(WEFT_INVALID,
                        "%s has %s=%s, unlike the other runs in its folder: pass the folder of one arm, whose runs "
                        "differ only in seed and learning rate",
                        folder, name, one->entry[i].value);
    }
    return WEFT_OK;
}

static enum weft_status read_config(struct weft_results *r, struct weft_result_arm *arm, const char *folder,
                                    struct weft_result_arm *one)
{
    char path[4096];
    *one = (struct weft_result_arm){.entry = weft_arena_alloc(&r->arena, WEFT_MAX_SETTINGS * sizeof *one->entry)};
    if (!one->entry)
        return WEFT_NOMEM;
    if (snprintf(path, sizeof path, "%s/config.json", folder) >= (int)sizeof path)
        return FAIL(WEFT_INVALID, "the path of a run's folder is too long");
    TRY(weft_json_load(path, add_entry, &(struct reading){r, one}));
    if (arm->entry)
        return check_same(arm, one, folder);
    arm->entry = one->entry;
    arm->entry_count = one->entry_count;
    TRY(account_run(arm, folder));
    return WEFT_OK;
}

static enum weft_status check_data(struct weft_result_arm *arm, const char *folder)
{
    char hash[65];
    TRY(weft_run_data_hash(folder, hash));
    if (!*arm->data_sha256)
        memcpy(arm->data_sha256, hash, sizeof hash);
    else if (*hash && strcmp(hash, arm->data_sha256) != 0)
        return FAIL(
            WEFT_INVALID,
            "%s was not trained on the same data as the other runs in its folder, so their scores cannot be compared",
            folder);
    return WEFT_OK;
}

/* Checks that the config matches the hash in the log and, for a run of a study, the seed and learning rate in the name
 * of its folder. */
static enum weft_status check_config(const char *folder, const struct weft_runlog *log, const char *lr,
                                     const char *seed)
{
    char path[4096], hash[65], named[256];
    const char *name = strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder;
    snprintf(path, sizeof path, "%.4000s/config.json", folder);
    TRY(weft_sha256_within(path, WEFT_MAX_CONFIG_BYTES, hash));
    if (*log->chain && *log->config_sha256 && strcmp(hash, log->config_sha256) != 0)
        return FAIL(WEFT_FORMAT, "%s does not match the hash recorded in the log: it was changed after the run", path);
    weft_run_folder("-", strtod(lr, NULL), strtoll(seed, NULL, 10), named);
    if (strncmp(name, "lr-", 3) == 0 && strstr(name, "-seed-") && strcmp(name, strrchr(named, '/') + 1) != 0)
        return FAIL(WEFT_FORMAT,
                    "%s has lr=%s and seed=%s, but its folder is named after a different seed or learning rate", path,
                    lr, seed);
    return WEFT_OK;
}

/* A run without a score is skipped. */
static enum weft_status add_run(struct weft_results *r, struct weft_result_arm *arm, const char *folder)
{
    struct weft_result_arm one;
    struct weft_runlog log;
    TRY(read_config(r, arm, folder, &one));
    TRY(weft_runlog_load(&log, folder, &r->arena));
    const char *lr = weft_result_option(&one, "lr"), *seed = weft_result_option(&one, "seed");
    const char *steps = weft_result_option(&one, "steps");
    r->planned++;
    if (!lr || !seed || !steps)
        return FAIL(WEFT_FORMAT, "%s/config.json has no lr, seed or steps: it is not the config of a run", folder);
    if (!log.val.count || log.steps != strtoll(steps, NULL, 10))
        return WEFT_OK;
    TRY(check_config(folder, &log, lr, seed));
    TRY(check_data(arm, folder));
    for (int i = 0; i < arm->run_count; i++)
        if (arm->run[i].lr == strtod(lr, NULL) && arm->run[i].seed == strtoll(seed, NULL, 10))
            return FAIL(WEFT_INVALID,
                        "%s is a second run with seed=%s and lr=%s, which would count twice: remove one of the two",
                        folder, seed, lr);
    arm->run[arm->run_count] = (struct weft_finished){.lr = strtod(lr, NULL),
                                                      .seed = strtoll(seed, NULL, 10),
                                                      .steps = log.steps,
                                                      .params = log.params,
                                                      .val_loss = log.val.loss[log.val.count - 1],
                                                      .val_accuracy = log.val_accuracy,
                                                      .test_loss = log.test_loss,
                                                      .test_accuracy = log.test_accuracy,
                                                      .tokens_per_s = log.tokens_per_s,
                                                      .seconds = log.seconds};
    struct weft_finished *run = &arm->run[arm->run_count++];
    memcpy(run->weights_sha256, log.weights_sha256, sizeof log.weights_sha256);
    memcpy(run->stream_sha256, log.stream_sha256, sizeof log.stream_sha256);
    run->folder = weft_arena_print(&r->arena, "%s", folder);
    if (!run->folder)
        return WEFT_NOMEM;
    r->finished++;
    return WEFT_OK;
}

static int is_visible(const struct dirent *e) { return e->d_name[0] != '.'; }

/* Adds the runs sorted by name, so that the first config does not depend on the file system. */
static enum weft_status add_runs(struct weft_results *r, struct weft_result_arm *arm, const char *folder)
{
    struct dirent **list = NULL;
    enum weft_status status = WEFT_OK;
    int count = scandir(folder, &list, is_visible, alphasort);
    if (count < 0)
        return FAIL(WEFT_IO, "%s cannot be read: %s", folder, strerror(errno));
    arm->run = weft_arena_alloc(&r->arena, (size_t)count * sizeof *arm->run);
    for (int i = 0; i < count; i++) {
        const char *path = arm->run ? weft_arena_print(&r->arena, "%s/%s", folder, list[i]->d_name) : NULL;
        if (!path)
            status = WEFT_NOMEM;
        if (status == WEFT_OK && is_run(path))
            status = add_run(r, arm, path);
        free(list[i]);
    }
    free(list);
    if (status == WEFT_OK && !arm->entry)
        return FAIL(
            WEFT_INVALID,
            "%s is neither the folder of a run nor a folder of runs: `weft train --out` creates the folder of a run",
            folder);
    return status;
}

static enum weft_status add_arm(struct weft_results *r, const char *name, const char *folder)
{
    struct weft_result_arm *arm = &r->arm[r->arm_count++];
    arm->name = name;
    arm->description = weft_arena_print(&r->arena, "%s", folder);
    if (!arm->description)
        return WEFT_NOMEM;
    TRY(weft_folder_is_plain(folder));
    if (!is_run(folder))
        return add_runs(r, arm, folder);
    arm->run = weft_arena_alloc(&r->arena, sizeof *arm->run);
    if (!arm->run)
        return WEFT_NOMEM;
    TRY(add_run(r, arm, folder));
    return WEFT_OK;
}

enum weft_status weft_results_single(struct weft_results *r, const char *folder)
{
    *r = (struct weft_results){0};
    r->arm = weft_arena_alloc(&r->arena, sizeof *r->arm);
    if (!r->arm)
        return WEFT_NOMEM;
    return add_arm(r, "run", folder);
}

/* ---- both arms */

/* Both sides must use the same kind of loss: if any run has no test loss, all runs use the validation loss. */
static bool use_validation(struct weft_results *r)
{
    bool lacking = false;
    for (int i = 0; i < r->arm_count; i++)
        for (int k = 0; k < r->arm[i].run_count; k++)
            lacking |= isnan(r->arm[i].run[k].test_loss);
    for (int i = 0; lacking && i < r->arm_count; i++)
        for (int k = 0; k < r->arm[i].run_count; k++)
            r->arm[i].run[k].test_loss = r->arm[i].run[k].val_loss;
    return lacking;
}

enum weft_status weft_results_pair(struct weft_results *r, const char *a, const char *b, bool *by_val)
{
    *r = (struct weft_results){0};
    r->arm = weft_arena_alloc(&r->arena, 2 * sizeof *r->arm);
    if (!r->arm)
        return WEFT_NOMEM;
    TRY(add_arm(r, "A", a));
    TRY(add_arm(r, "B", b));
    *by_val = use_validation(r);
    weft_results_choose_lr(r);
    TRY(weft_results_check_samples(r));
    TRY(weft_results_judge(r));
    if (!*by_val && !r->not_comparable)
        TRY(weft_results_test_noise(r));
    return WEFT_OK;
}
