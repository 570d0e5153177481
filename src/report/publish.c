/* SPDX-License-Identifier: MIT
 *
 * publish.c - packs a study into one file for those who want to check it: NAME/ with
 *
 *     AUDIT.md             what this is, and the commands that check it
 *     MANIFEST             a SHA-256 for every other file, as sha256sum reads it
 *     study.json, NAME.config, runs.jsonl, simulated.json, report.*
 *     runs/ARM/RUN/        config, log, gates, hashes of the initial weights, and checkpoints
 *     data/                the token files, if they are small and match the hash in the logs
 *
 * Only the files in this list are packed. A folder from somebody else may lack some of them, but cannot contain links
 * (weft_results_load). The same study always gives the same bytes.
 */
#define _GNU_SOURCE
#include "report/publish.h"
#include "ckpt/ckpt.h"
#include "report/archive.h"
#include "report/read/results.h"
#include "text/text.h"
#include "train/record/record.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 4096 };                      /* capacity of paths */
static const int64_t MOST_DATA = 16 << 20; /* maximum number of bytes of data that are included */

struct publishing {
    struct weft_publish *of;
    const struct weft_results *r;
    struct weft_archive *archive;
    FILE *manifest;
    struct weft_arena *scratch;
};

/* ---- files */

static enum weft_status name_in_archive(const struct publishing *p, const char *name, char in_archive[ROOM])
{
    if (snprintf(in_archive, ROOM, "%s/%s", p->r->name, name) >= ROOM)
        return FAIL(WEFT_INVALID, "the name %.64s... is too long", name);
    return WEFT_OK;
}

static enum weft_status add_file(struct publishing *p, const char *name, const char *path)
{
    char in_archive[ROOM], hash[65];
    TRY(name_in_archive(p, name, in_archive));
    TRY(weft_archive_add_file(p->archive, in_archive, path, hash));
    fprintf(p->manifest, "%s  %s\n", hash, name);
    p->of->files++;
    return WEFT_OK;
}

/* Adds `name` in the study's folder, if it exists. */
static enum weft_status add(struct publishing *p, const char *name)
{
    char path[8192];
    if (snprintf(path, sizeof path, "%s/%s", p->r->folder, name) >= (int)sizeof path)
        return FAIL(WEFT_INVALID, "the path of %s is too long", name);
    return access(path, F_OK) ? WEFT_OK : add_file(p, name, path);
}

static enum weft_status add_all(struct publishing *p, const char *folder, const char *const *names)
{
    char name[4096];
    for (; *names; names++) {
        snprintf(name, sizeof name, "%s%s%s", folder, *folder ? "/" : "", *names);
        TRY(add(p, name));
    }
    return WEFT_OK;
}

/* ---- runs */

static enum weft_status add_checkpoints(struct publishing *p, const char *run, const int64_t *steps, int count)
{
    static const char *const files[] = {"config.json",       "model.safetensors", "optimizer.safetensors",
                                        "masks.safetensors", "tokenizer.json",    NULL};
    char folder[512];
    for (int i = p->of->all_checkpoints ? 0 : weft_max(0, count - 1); i < count; i++) {
        snprintf(folder, sizeof folder, "%s/step-%09lld", run, (long long)steps[i]);
        TRY(add_all(p, folder, files));
    }
    p->of->checkpoints += p->of->all_checkpoints ? count : weft_min(count, 1);
    return WEFT_OK;
}

/* Rejects records larger than any that Weft writes; only logs and checkpoints grow with the run. */
static enum weft_status check_size(const struct weft_finished *run, const char *name, int64_t most)
{
    char path[8192];
    struct stat st;
    snprintf(path, sizeof path, "%.4000s/%.255s", run->folder, name);
    if (stat(path, &st) == 0 && st.st_size > most)
        return FAIL(WEFT_FORMAT, "%s has %lld bytes, more than Weft ever writes, so it is not packed", path,
                    (long long)st.st_size);
    return WEFT_OK;
}

static enum weft_status add_run(struct publishing *p, const struct weft_finished *run)
{
    static const char *const files[] = {"config.json",       "gates.json", "initial.json",
                                        "items.safetensors", "log.jsonl",  NULL};
    char folder[256];
    for (int i = 0; strcmp(files[i], "log.jsonl") != 0; i++)
        TRY(check_size(run, files[i], MOST_DATA));
    int64_t *steps = NULL;
    int count = 0;
    if (!*run->chain)
        return FAIL(WEFT_INVALID, "%s was trained by an older release, whose records cannot be audited", run->folder);
    weft_run_folder(run->arm, run->lr, run->seed, folder);
    TRY(add_all(p, folder, files));
    enum weft_status status = weft_ckpt_steps(run->folder, &steps, &count);
    if (status == WEFT_OK)
        status = add_checkpoints(p, folder, steps, count);
    free(steps);
    p->of->runs++;
    return status;
}

/* ---- data: token files of the splits, their hash trees, tokenizer and index, and no other files of the folder */

static bool is_data(const char *name)
{
    static const char *const splits[] = {"train", "val", "test"}, tree[] = ".tree";
    char file[256];
    size_t n = strlen(name);
    snprintf(file, sizeof file, "%.*s", (int)(weft_ends_in(name, tree) ? n - strlen(tree) : n), name);
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
        if (weft_is_shard(file, splits[i]))
            return true;
    return strcmp(name, "data.json") == 0 || strcmp(name, "tokenizer.json") == 0;
}

static int is_packed(const struct dirent *e) { return is_data(e->d_name); }

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* Returns the number of bytes of a regular file; for anything else, a number above MOST_DATA. */
static int64_t size_of(const char *folder, const char *name)
{
    char path[8192];
    struct stat st;
    snprintf(path, sizeof path, "%.4000s/%.255s", folder, name);
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : MOST_DATA + 1;
}

static enum weft_status add_data_files(struct publishing *p, const char *folder, struct dirent **list, int count)
{
    char path[8192], name[512];
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%.4000s/%.255s", folder, list[i]->d_name);
        snprintf(name, sizeof name, "data/%.255s", list[i]->d_name);
        TRY(add_file(p, name, path));
    }
    p->of->data_included = true;
    return WEFT_OK;
}

/* Checks whether the folder contains the data that the runs were trained on, by the hash in their logs. */
static enum weft_status has_data(const struct publishing *p, bool *same)
{
    struct weft_arm *arm = calloc(1, sizeof *arm);
    struct weft_runlog log;
    char hash[65] = "";
    bool there = false;
    enum weft_status status = arm ? weft_result_arm_configure(&p->r->arm[0], NULL, arm, &there) : WEFT_NOMEM;
    if (status == WEFT_OK && there)
        status = weft_recipe_open(&arm->recipe, &arm->spec);
    if (status == WEFT_OK && there)
        weft_origin_data(&arm->recipe, hash);
    if (arm)
        weft_result_arm_release(arm);
    free(arm);
    TRY(status);
    TRY(weft_runlog_load(&log, p->r->arm[0].run[0].folder, p->scratch));
    *same = *hash && strcmp(hash, log.data_sha256) == 0;
    return WEFT_OK;
}

static enum weft_status add_listed(struct publishing *p, const char *folder, struct dirent **list, int count)
{
    int64_t bytes = 0;
    bool same = false;
    for (int i = 0; i < count && bytes <= MOST_DATA; i++)
        bytes += size_of(folder, list[i]->d_name);
    if (count == 0 || bytes > MOST_DATA)
        return WEFT_OK;
    TRY(has_data(p, &same));
    if (same)
        return add_data_files(p, folder, list, count);
    weft_note_once(folder, "%s does not contain the data that the runs were trained on, so the data is not included",
                   folder);
    return WEFT_OK;
}

/* All arms of a study use the same data. */
static enum weft_status add_data(struct publishing *p)
{
    const char *folder = weft_result_option(&p->r->arm[0], "data");
    struct dirent **list = NULL;
    p->of->data_needed = folder && *folder && strcmp(folder, "none") != 0;
    int count = p->of->data_needed && p->r->arm[0].run_count ? scandir(folder, &list, is_packed, by_name) : 0;
    enum weft_status status = add_listed(p, folder, list, weft_max(0, count));
    for (int i = 0; i < count; i++)
        free(list[i]);
    free(list);
    return status;
}

/* ---- the page */

static void print_command(FILE *to, const char *command, const char *more, const char *why)
{
    int width = 42 - (int)strlen(command);
    fprintf(to, "    %s%-*s # %s\n", command, (int)weft_max(0, width), more, why);
}

static void ignore(void *context, bool warning, const char *text) { (void)context, (void)warning, (void)text; }

static void print_page(const struct publishing *p, const char *data_sha256, FILE *to)
{
    const struct weft_results *r = p->r;
    const char *data = p->of->data_included ? " --data data" : p->of->data_needed ? " --data FOLDER" : "";
    fprintf(to, "# Audit of the study %s\n\n", r->name);
    fprintf(to, "%lld runs, made with Weft %s (SHA-256 of the program: `%s`). The results are in `report.md`.\n\n",
            (long long)p->of->runs, r->version, r->program_sha256);
    if (p->of->data_needed)
        fprintf(to, "The data has the fingerprint `%s` %s.\n\n", data_sha256,
                p->of->data_included ? "and is in `data/`"
                                     : "and is too large to be included: prepare it in FOLDER as the authors did");
    int64_t missing = weft_results_missing(r, ignore, NULL);
    if (missing)
        fprintf(to, "**%lld planned runs are missing or do not count.** `weft audit` names them and fails.\n\n",
                (long long)missing);
    fprintf(to, "Run these commands in this folder, with the same version of Weft, on any machine:\n\n");
    print_command(to, "sha256sum --check MANIFEST", "", "the files match the published ones");
    print_command(to, "weft report .", "", "the verdicts follow from the runs, and the ledger agrees with the logs");
    print_command(to, "weft audit .", data, "every run is repeated and must be bit-identical");
    if (p->of->all_checkpoints)
        print_command(to, "weft audit . --segments 1", data, "less work: one segment of every run, drawn at random");
    fprintf(to,
            "\nThe plan has the hash `%s`. No audit can show that the plan existed before the runs: check whether the "
            "authors published this hash beforehand. Nor can an audit show that no other studies were run and "
            "discarded. The recorded program, processor, threads and times are unverified claims. Weft's docs/trust.md "
            "explains these limits.\n",
            r->plan_sha256);
}

static enum weft_status add_text(struct publishing *p, const char *name, FILE *from, char **text, char hash[65])
{
    char in_archive[ROOM];
    if (!weft_output_close(from))
        return FAIL(WEFT_NOMEM, "not enough memory for %s", name);
    TRY(name_in_archive(p, name, in_archive));
    return weft_archive_add_text(p->archive, in_archive, *text, hash);
}

static enum weft_status add_page(struct publishing *p)
{
    char hash[65] = "", *text = NULL;
    size_t bytes;
    if (p->of->data_needed && p->r->arm[0].run_count)
        TRY(weft_run_data_hash(p->r->arm[0].run[0].folder, hash));
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return FAIL(WEFT_NOMEM, "not enough memory for a page");
    print_page(p, hash, to);
    enum weft_status status = add_text(p, "AUDIT.md", to, &text, hash);
    fprintf(p->manifest, "%s  AUDIT.md\n", hash);
    free(text);
    return status;
}

/* ---- the whole archive */

/* Adds the copy of the config that the recorded command uses to repeat the study; older releases kept no copy. */
static enum weft_status add_config(struct publishing *p)
{
    char name[ROOM];
    if (snprintf(name, sizeof name, "%s.config", p->r->name) >= (int)sizeof name)
        return FAIL(WEFT_INVALID, "the name %.64s... is too long", p->r->name);
    return size_of(p->r->folder, name) <= MOST_DATA ? add(p, name) : WEFT_OK;
}

/* The study's name becomes the name of the folder in the archive. */
static enum weft_status check_name(const struct weft_results *r)
{
    if (!*r->name || *r->name == '.' || strchr(r->name, '/'))
        return FAIL(WEFT_INVALID, "study.json: \"name\" cannot be the name of a folder");
    return WEFT_OK;
}

static enum weft_status add_study(struct publishing *p)
{
    static const char *const files[] = {"study.json", "runs.jsonl",        "report.html", "report.md",
                                        "report.csv", WEFT_SIMULATED_FILE, NULL};
    TRY(add_all(p, "", files));
    TRY(add_config(p));
    for (int i = 0; i < p->r->arm_count; i++)
        for (int k = 0; k < p->r->arm[i].run_count; k++)
            TRY(add_run(p, &p->r->arm[i].run[k]));
    if (p->of->runs == 0)
        return FAIL(WEFT_INVALID, "%s has no finished run", p->r->folder);
    TRY(add_data(p));
    TRY(add_page(p));
    return WEFT_OK;
}

static enum weft_status publish(struct publishing *p)
{
    char *manifest = NULL, hash[65];
    size_t bytes;
    TRY(weft_archive_create(&p->archive, p->of->file));
    p->manifest = open_memstream(&manifest, &bytes);
    if (!p->manifest)
        return FAIL(WEFT_NOMEM, "not enough memory for a manifest");
    enum weft_status status = add_study(p);
    if (status == WEFT_OK)
        status = add_text(p, "MANIFEST", p->manifest, &manifest, hash);
    else
        fclose(p->manifest);
    if (status == WEFT_OK)
        status = weft_archive_finish(p->archive);
    free(manifest);
    return status;
}

enum weft_status weft_publish(struct weft_publish *of)
{
    struct weft_results r;
    struct weft_arena scratch = {0};
    struct publishing p = {.of = of, .r = &r, .scratch = &scratch};
    TRY(weft_report_write(of->folder));
    enum weft_status status = weft_results_load(&r, of->folder);
    if (status == WEFT_OK)
        status = check_name(&r);
    if (status == WEFT_OK)
        status = publish(&p);
    weft_archive_free(p.archive);
    weft_arena_release(&scratch);
    weft_results_release(&r);
    TRY(status);
    return weft_sha256_file(of->file, of->sha256);
}
