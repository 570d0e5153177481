/* SPDX-License-Identifier: MIT
 *
 * record.c - a run's folder: who may write into it, and resuming what is there.
 *
 * A run is its config: to resume it takes the same, except for options that change nothing in what is learned by a
 * given step, and for `steps`. Such changes are recorded, and so are another program or instruction set; other data are
 * refused.
 */
#define _GNU_SOURCE
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "train/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const may_change[] = {"steps",          "log_every",        "eval_every", "eval_samples",
                                         "diagnose_every", "checkpoint_every", "keep",       "recompute"};

static const char *in_folder(struct weft_record *record, const char *name)
{
    return weft_arena_print(&record->arena, "%s/%s", record->folder, name);
}

/* ---- the folder */

static enum weft_status check_empty(const char *folder)
{
    DIR *dir = opendir(folder);
    bool empty = true;
    if (!dir)
        return FAIL(WEFT_IO, "%s cannot be read: %s", folder, strerror(errno));
    for (struct dirent *e; empty && (e = readdir(dir));)
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    closedir(dir);
    if (!empty)
        return FAIL(WEFT_INVALID, "%s is not empty: pass --resume to continue the run in it, or give another folder",
                    folder);
    return WEFT_OK;
}

/* The log is the lock: the system lets go of it however the process ends. */
static enum weft_status open_log(struct weft_record *record)
{
    const char *path = in_folder(record, "log.jsonl");
    int fd = path ? open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666) : -1;
    if (fd < 0 && errno == ELOOP)
        return FAIL(WEFT_INVALID, "%s/log.jsonl is a symbolic link: what it points to is not written to",
                    record->folder);
    if (fd < 0)
        return FAIL(WEFT_IO, "%s/log.jsonl cannot be opened: %s", record->folder, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        int error = errno;
        close(fd);
        if (error == EWOULDBLOCK)
            return FAIL(WEFT_INVALID, "another process trains in %s: wait for it, or give another folder",
                        record->folder);
        return FAIL(WEFT_IO, "%s/log.jsonl cannot be locked: %s", record->folder, strerror(error));
    }
    record->log = fdopen(fd, "a+");
    if (!record->log) {
        close(fd);
        return FAIL(WEFT_NOMEM, "not enough memory for a log");
    }
    return WEFT_OK;
}

/* ---- the config */

enum weft_status weft_record_config(const struct weft_settings *settings, char **config, char hash[65])
{
    size_t bytes;
    struct weft_sha256 sha;
    FILE *text = open_memstream(config, &bytes);
    if (!text)
        return FAIL(WEFT_NOMEM, "not enough memory for a config");
    enum weft_status status = weft_settings_save(settings, text);
    if (fclose(text) && status == WEFT_OK)
        status = FAIL(WEFT_NOMEM, "not enough memory for a config");
    TRY(status);
    weft_sha256_init(&sha);
    weft_sha256_add(&sha, *config, bytes);
    weft_sha256_hex(&sha, hash);
    return WEFT_OK;
}

static void note_change(struct weft_record *record, const char *name, const char *before, const char *now)
{
    size_t used = strlen(record->changes);
    snprintf(record->changes + used, sizeof record->changes - used, "%s%s %s -> %s", used ? ", " : "", name, before,
             now);
}

/* The folder's config against the settings. */
struct comparison {
    struct weft_record *record;
    const char *names[WEFT_MAX_SETTINGS]; /* that the folder's config has */
    int count;
    enum weft_status status;
};

static enum weft_status differ(struct weft_record *record, const char *name, const char *before, const char *now)
{
    for (size_t i = 0; i < sizeof may_change / sizeof *may_change; i++)
        if (strcmp(name, may_change[i]) == 0) {
            note_change(record, name, before, now);
            record->may_differ = true;
            return WEFT_OK;
        }
    return FAIL(WEFT_INVALID,
                "the run in %s has %s=%s, this is %s: to continue it, run `weft train %s --resume`, or give another "
                "folder",
                record->folder, name, before, now, record->folder);
}

static enum weft_status compare_entry(void *context, const char *name, const char *value)
{
    struct comparison *c = context;
    char text[WEFT_MAX_VALUE];
    const char *now = weft_settings_value(c->record->settings, name, text);
    if (strcmp(name, "preset") == 0)
        return WEFT_OK;
    if (c->count == WEFT_MAX_SETTINGS || !(c->names[c->count++] = weft_arena_print(&c->record->arena, "%s", name)))
        return FAIL(WEFT_NOMEM, "not enough memory for the options of %s/config.json", c->record->folder);
    if (!now || strcmp(now, value) != 0)
        TRY(differ(c->record, name, value, now ? now : "without it"));
    return WEFT_OK;
}

/* An option that the folder's config does not have, because the program that wrote it did not, must be at its default.
 * What was asked for is compared, not the value as it is: that may be resolved from others. */
static void compare_new(void *context, const struct weft_opt *opt, const char *value)
{
    struct comparison *c = context;
    const struct weft_settings *s = c->record->settings;
    const char *asked = weft_preset_value(s->preset, opt->name);
    for (int i = 0; i < c->count; i++)
        if (strcmp(c->names[i], opt->name) == 0)
            return;
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->setting[i].name, opt->name) == 0)
            asked = s->setting[i].value;
    if (c->status == WEFT_OK && asked && !weft_opt_same(opt, asked, opt->initial))
        c->status = differ(c->record, opt->name, opt->initial, value);
}

/* A kill may have come before the config was written; then nothing else was either. */
static enum weft_status compare_config(struct weft_record *record, const char *path)
{
    struct comparison c = {.record = record};
    if (!path)
        return FAIL(WEFT_NOMEM, "not enough memory for a path");
    *record->changes = 0;
    record->may_differ = false;
    if (access(path, F_OK))
        return WEFT_OK;
    TRY(weft_json_load(path, compare_entry, &c));
    weft_settings_each(record->settings, &c, compare_new);
    TRY(c.status);
    return WEFT_OK;
}

/* Whether a run can go on from its newest checkpoint, before time is spent on it. */
static enum weft_status check_newest(const struct weft_record *record, int64_t steps)
{
    char newest[4096];
    int64_t step;
    struct weft_origin origin;
    TRY(weft_ckpt_latest(record->folder, NULL, NULL, &step, newest, sizeof newest));
    if (step > steps)
        return FAIL(WEFT_INVALID, "the run in %s is at step %" PRId64 " already: steps=%" PRId64 " is too few",
                    record->folder, step, steps);
    if (step < 0 || weft_state_origin(newest, &origin) != WEFT_OK) {
        weft_error_clear(); /* a damaged one is not the one to go on from */
        return WEFT_OK;
    }
    if (*origin.text[WEFT_ORIGIN_PROGRAM] && strcmp(origin.text[WEFT_ORIGIN_NUMBERS], WEFT_NUMBERS) != 0)
        return FAIL(WEFT_INVALID,
                    "the run in %s was trained by another release, whose results had other bits: it can be scored and "
                    "compared but not resumed. Train it again in another folder",
                    record->folder);
    return WEFT_OK;
}

/* ---- the origin */

/* Other data are refused, other changes noted. */
static enum weft_status compare_origin(struct weft_record *record, const struct weft_origin *before)
{
    for (int i = 0; i < WEFT_ORIGINS; i++) {
        const char *was = before->text[i], *is = record->origin.text[i];
        if (!*was || strcmp(was, is) == 0)
            continue;
        if (i == WEFT_ORIGIN_DATA)
            return FAIL(WEFT_INVALID,
                        "the data are not those that the run in %s was trained on: bring those back, or give another "
                        "folder",
                        record->folder);
        note_change(record, weft_origin_name(i), was, is);
        record->may_differ |= i == WEFT_ORIGIN_ISA && !weft_dnn_same_bits(was, is);
    }
    return WEFT_OK;
}

/* ---- the run */

enum weft_status weft_record_open(struct weft_record *record, const char *folder, bool resume,
                                  const struct weft_recipe *recipe, const struct weft_settings *settings)
{
    *record = (struct weft_record){.folder = folder, .settings = settings};
    TRY(weft_record_config(settings, &record->config, record->config_sha256));
    TRY(weft_folder_make(folder));
    if (!resume)
        TRY(check_empty(folder));
    TRY(open_log(record));
    TRY(compare_config(record, in_folder(record, "config.json")));
    TRY(check_newest(record, recipe->steps));
    return WEFT_OK;
}

enum weft_status weft_record_begin(struct weft_record *record, struct weft_learner *t)
{
    int64_t kept;
    char from[4096];
    struct weft_origin before = {0};
    struct weft_binding binding = {0};
    const char *path = in_folder(record, "config.json"), *initial = in_folder(record, "initial.json");
    TRY(weft_origin_find(&record->origin, t->recipe, record->gates_failed));
    TRY(weft_state_load(t, record->folder, from, &before, &binding));
    if (*from) /* the one config that hashes vouch for */
        TRY(compare_config(record, weft_arena_print(&record->arena, "%s/config.json", from)));
    TRY(compare_origin(record, &before));
    if (t->step == 0 && initial)
        TRY(weft_initial_save(t->model, initial));
    TRY(weft_log_cut(record, *from ? &binding : NULL, t->step, &kept));
    TRY(weft_events_open(record, t->step));
    if (kept == 0)
        TRY(weft_log_head(record, t));
    if (*record->changes)
        TRY(weft_log_change(record, t->step));
    if (!path || !initial)
        return FAIL(WEFT_NOMEM, "not enough memory for a path");
    TRY(weft_file_replace(path, record->config, strlen(record->config)));
    if (*from)
        TRY(weft_ckpt_prune(record->folder, t->step, (int)t->recipe->keep));
    return WEFT_OK;
}

/* ---- a replay: the trainer's model has its initial weights */

static enum weft_status begin_replay(struct weft_record *record, const char *checkpoint, struct weft_learner *t,
                                     FILE *log)
{
    struct weft_origin before = {0};
    struct weft_binding binding = {0};
    const char *initial = in_folder(record, "initial.json");
    TRY(initial ? weft_initial_check(t->model, initial) : FAIL(WEFT_NOMEM, "not enough memory for a path"));
    record->log = tmpfile();
    record->events = tmpfile();
    if (!record->log || !record->events)
        return FAIL(WEFT_IO, "no temporary file could be made: %s", strerror(errno));
    TRY(weft_origin_find(&record->origin, t->recipe, 0));
    if (checkpoint) {
        TRY(weft_state_load_from(t, checkpoint, &before, &binding));
        TRY(compare_origin(record, &before));
        if (strcmp(binding.config, record->config_sha256) != 0)
            return FAIL(WEFT_INVALID, "%s was saved with other options than the run has now", checkpoint);
    }
    TRY(weft_log_expect(record, log, checkpoint ? &binding : NULL, t->step));
    if (!checkpoint)
        TRY(weft_log_head(record, t));
    return WEFT_OK;
}

static enum weft_status open_old_log(struct weft_record *record, FILE **log)
{
    const char *path = in_folder(record, "log.jsonl");
    if (!path)
        return FAIL(WEFT_NOMEM, "not enough memory for a path");
    TRY(weft_input_open(path, log));
    return WEFT_OK;
}

enum weft_status weft_record_read(struct weft_record *record, const char *folder)
{
    FILE *log;
    *record = (struct weft_record){.folder = folder, .replays = true};
    TRY(open_old_log(record, &log));
    enum weft_status status = weft_log_expect(record, log, NULL, 0);
    fclose(log);
    return status;
}

enum weft_status weft_record_replay(struct weft_record *record, const char *folder, const char *checkpoint,
                                    struct weft_learner *t, const struct weft_settings *settings)
{
    FILE *log;
    *record = (struct weft_record){.folder = folder, .settings = settings, .replays = true};
    TRY(weft_record_config(settings, &record->config, record->config_sha256));
    TRY(open_old_log(record, &log));
    enum weft_status status = begin_replay(record, checkpoint, t, log);
    fclose(log);
    return status;
}

enum weft_status weft_record_replayed(const struct weft_record *record, int64_t step)
{
    const struct weft_expected_record *e = record->expected;
    if (e && e->step <= step)
        return FAIL(WEFT_CHECK, "%s/log.jsonl has a record of step %" PRId64 " that does not come: %s}", record->folder,
                    e->step, e->text);
    return WEFT_OK;
}

void weft_record_close(struct weft_record *record)
{
    struct stat st;
    /* Where nothing was ever written no folder is left behind. */
    if (record->log && !record->replays && fstat(fileno(record->log), &st) == 0 && st.st_size == 0) {
        unlink(in_folder(record, "log.jsonl"));
        rmdir(record->folder);
    }
    if (record->log)
        fclose(record->log);
    if (record->events)
        fclose(record->events);
    free(record->config);
    free(record->last);
    weft_arena_release(&record->arena);
    *record = (struct weft_record){0};
}
