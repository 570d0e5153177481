/* SPDX-License-Identifier: MIT
 *
 * missing.c - finds planned runs that are missing, and runs on disk that the ledger does not count.
 *
 * A study with several looks needs only the seeds up to the look that gave its verdicts.
 */
#include "report/read/results.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

static int64_t needed_seeds(const struct weft_results *r)
{
    int look = 0;
    for (int i = 1; i < r->arm_count; i++)
        look = (int)weft_max(look, r->arm[i].found.look);
    return look && !weft_results_open(r) ? r->looks.seeds[look - 1] : r->seed_count;
}

static bool has_run(const struct weft_result_arm *arm, double lr, int64_t seed)
{
    for (int i = 0; i < arm->run_count; i++)
        if (arm->run[i].seed == seed && (lr == 0 || arm->run[i].lr == lr))
            return true;
    return false;
}

static void name_seed(const struct weft_result_arm *arm, double lr, int64_t seed, weft_note_fn *found, void *context)
{
    char text[256];
    snprintf(text, sizeof text, "%.100s: the run of seed %lld%s%s is planned but not in the ledger", arm->name,
             (long long)seed, lr != 0 ? " with lr=" : "", lr != 0 ? weft_lr_text(lr).text : "");
    found(context, true, text);
}

/* Names each planned run of an arm that is missing. */
static int64_t name_planned(const struct weft_results *r, const struct weft_result_arm *arm, int64_t seeds,
                            weft_note_fn *found, void *context)
{
    int64_t missing = 0, screened = r->screen_seeds && !arm->repeats ? r->screen_seeds : 0;
    int each = r->screen_seeds ? 1 : (int)weft_max(1, r->lr_count);
    for (int64_t k = 0; k < seeds; k++)
        for (int i = 0; i < each; i++) {
            double lr = each > 1 ? r->lr[i] : 0;
            bool has = has_run(arm, lr, arm->first_seed + k);
            if (!has)
                name_seed(arm, lr, arm->first_seed + k, found, context);
            missing += !has;
        }
    for (int64_t k = 0; k < screened; k++)
        for (int64_t i = 0; i < r->lr_count; i++) {
            int64_t seed = arm->first_seed + WEFT_SCREEN_OFFSET + k;
            bool has = has_run(arm, r->lr[i], seed);
            if (!has)
                name_seed(arm, r->lr[i], seed, found, context);
            missing += !has;
        }
    return missing;
}

static bool is_in_results(const struct weft_results *r, const char *folder)
{
    for (int i = 0; i < r->arm_count; i++)
        for (int k = 0; k < r->arm[i].run_count; k++)
            if (strcmp(r->arm[i].run[k].folder, folder) == 0)
                return true;
    return false;
}

/* Names each run in the folder of an arm that does not count. */
static int64_t name_others_of(const struct weft_results *r, const char *arm, weft_note_fn *found, void *context)
{
    char path[4096], text[4300];
    const struct dirent *entry;
    int64_t others = 0;
    snprintf(path, sizeof path, "%.3000s/runs/%.255s", r->folder, arm);
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof path, "%.3000s/runs/%.255s/%.255s", r->folder, arm, entry->d_name);
        if (strncmp(entry->d_name, "lr-", 3) != 0 || is_in_results(r, path))
            continue;
        snprintf(text, sizeof text, "%s is a run without a valid line in the ledger", path);
        found(context, true, text);
        others++;
    }
    if (dir)
        closedir(dir);
    return others;
}

static int64_t name_others(const struct weft_results *r, weft_note_fn *found, void *context)
{
    char path[4096];
    const struct dirent *entry;
    int64_t others = 0;
    snprintf(path, sizeof path, "%.3000s/runs", r->folder);
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            others += name_others_of(r, entry->d_name, found, context);
    if (dir)
        closedir(dir);
    return others;
}

int64_t weft_results_missing(const struct weft_results *r, weft_note_fn *found, void *context)
{
    int64_t missing = 0, seeds = needed_seeds(r);
    for (int i = 0; i < r->arm_count; i++)
        missing += name_planned(r, &r->arm[i], seeds, found, context);
    return missing + name_others(r, found, context);
}
