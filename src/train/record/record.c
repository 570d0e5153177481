/* SPDX-License-Identifier: MIT
 *
 * record.c - manages a run's folder: locks it against other writers, and resumes the run in it.
 *
 * A run is defined by its config. To resume a run, the config must be the same, except for `steps` and for options that
 * do not change what is learned by a given step. Such changes are recorded, as are a different program or instruction
 * set; different data is an error.
 */
#define _GNU_SOURCE
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "dnn/dnn.h"
#include "train/record/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

const char *weft_record_path(struct weft_record *record, const char *name)
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
        return FAIL(WEFT_INVALID, "%s is not empty: pass --resume to continue the run in it, or a different folder",
                    folder);
    return WEFT_OK;
}

/* The log file is the lock, which the system releases however the process ends. */
static enum weft_status open_log(struct weft_record *record)
{
    const char *path = weft_record_path(record, "log.jsonl");
    int fd = path ? open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666) : -1;
    if (fd < 0 && errno == ELOOP)
        return FAIL(WEFT_INVALID, "%s/log.jsonl is a symbolic link: Weft does not write to its target", record->folder);
    if (fd < 0)
        return FAIL(WEFT_IO, "%s/log.jsonl cannot be opened: %s", record->folder, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        int error = errno;
        close(fd);
        if (error == EWOULDBLOCK)
            return FAIL(WEFT_INVALID, "another process is training in %s: wait for it, or pass a different folder",
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

/* Comparison of the folder's config with the settings. */
struct comparison {
    struct weft_record *record;
    const char *names[WEFT_MAX_SETTINGS]; /* names in the folder's config */
    int count;
    enum weft_status status;
};

static enum weft_status differ(struct weft_record *record, const char *name, const char *before, const char *now)
{
    if (weft_change_option(name) >= 0) {
        record->may_differ = true;
        return weft_change_add(record, name, before, now);
    }
    return FAIL(
        WEFT_INVALID,
        "the run in %s has %s=%s, not %s: run `weft train %s --resume` to continue it, or pass a different folder",
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

/* Checks that an option missing from the folder's config, which was written by a release without this option, is at its
 * default. Compares the value as set, because the current value may be resolved from other options. */
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

/* The process may have been killed before it wrote the config; then it wrote no checkpoint either. */
static enum weft_status compare_config(struct weft_record *record, const char *path)
{
    struct comparison c = {.record = record};
    if (!path)
        return FAIL(WEFT_NOMEM, "not enough memory for a path");
    record->changes = "";
    record->may_differ = access(path, F_OK) != 0;
    if (record->may_differ)
        return WEFT_OK;
    TRY(weft_json_load(path, compare_entry, &c));
    weft_settings_each(record->settings, &c, compare_new);
    TRY(c.status);
    return WEFT_OK;
}

/* Checks that a run can continue from its newest checkpoint before time is spent on it. */
static enum weft_status check_newest(const struct weft_record *record, int64_t steps)
{
    char newest[4096];
    int64_t step;
    struct weft_origin origin;
    TRY(weft_ckpt_latest(record->folder, NULL, NULL, &step, newest, sizeof newest));
    if (step > steps)
        return FAIL(WEFT_INVALID, "the run in %s is already at step %" PRId64 ": steps=%" PRId64 " is too small",
                    record->folder, step, steps);
    if (step < 0 || weft_state_origin(newest, &origin) != WEFT_OK) {
        weft_error_clear(); /* the run does not continue from a damaged checkpoint */
        return WEFT_OK;
    }
    if (*origin.text[WEFT_ORIGIN_PROGRAM] && strcmp(origin.text[WEFT_ORIGIN_NUMBERS], WEFT_NUMBERS) != 0)
        return FAIL(
            WEFT_INVALID,
            "the run in %s was trained by a release whose results are not bit-identical to this one's: it can be "
            "scored and compared but not resumed. Train it again in a new folder",
            record->folder);
    return WEFT_OK;
}

/* ---- the origin */

static enum weft_status other_data(const struct weft_record *record)
{
    return FAIL(
        WEFT_INVALID,
        "the data is not the data that the run in %s was trained on: restore that data, or pass a different folder",
        record->folder);
}

/* Different data is an error; other differences are recorded. */
enum weft_status weft_record_compare_origin(struct weft_record *record, const struct weft_origin *before)
{
    for (int i = 0; i < WEFT_ORIGINS; i++) {
        const char *was = before->text[i], *is = record->origin.text[i];
        if (!*was || strcmp(was, is) == 0)
            continue;
        if (i == WEFT_ORIGIN_DATA)
            return other_data(record);
        TRY(weft_change_add(record, weft_origin_name(i), was, is));
        record->may_differ |= i == WEFT_ORIGIN_ISA && !weft_dnn_same_bits(was, is);
    }
    return WEFT_OK;
}

/* A run without a checkpoint starts over; the log's head has the hash of its data. */
static enum weft_status check_first_data(const struct weft_record *record)
{
    const struct weft_expected_record *head = record->expected;
    const char *data = record->origin.text[WEFT_ORIGIN_DATA];
    if (head && head->step == 0 && *data && !strstr(head->text, data))
        return other_data(record);
    return WEFT_OK;
}

/* ---- the run */

enum weft_status weft_record_open(struct weft_record *record, const char *folder, bool resume,
                                  const struct weft_recipe *recipe, const struct weft_settings *settings)
{
    *record = (struct weft_record){.folder = folder, .settings = settings, .changes = ""};
    TRY(weft_record_config(settings, &record->config, record->config_sha256));
    TRY(weft_folder_make(folder));
    if (!resume)
        TRY(check_empty(folder));
    TRY(open_log(record));
    TRY(compare_config(record, weft_record_path(record, "config.json")));
    TRY(check_newest(record, recipe->steps));
    return WEFT_OK;
}

enum weft_status weft_record_begin(struct weft_record *record, struct weft_learner *t)
{
    char from[4096];
    struct weft_origin before = {0};
    struct weft_binding binding = {0};
    const char *path = weft_record_path(record, "config.json"), *initial = weft_record_path(record, "initial.json");
    TRY(weft_origin_find(&record->origin, t->recipe, record->gates_failed));
    TRY(weft_state_load(t, record->folder, from, &before, &binding));
    if (*from) /* only this config is protected by hashes */
        TRY(compare_config(record, weft_arena_print(&record->arena, "%s/config.json", from)));
    TRY(weft_record_compare_origin(record, &before));
    if (t->step == 0 && initial)
        TRY(weft_initial_save(t->model, initial));
    TRY(weft_log_cut(record, *from ? &binding : NULL, t->step));
    TRY(*from ? WEFT_OK : check_first_data(record));
    TRY(weft_events_open(record, *from ? t->step : -1));
    if (!*from)
        TRY(weft_log_head(record, t));
    else if (*record->changes)
        TRY(weft_log_change(record, t->step));
    if (!path || !initial)
        return FAIL(WEFT_NOMEM, "not enough memory for a path");
    TRY(weft_file_replace(path, record->config, strlen(record->config)));
    if (*from)
        TRY(weft_ckpt_prune(record->folder, t->step, (int)t->recipe->keep));
    return WEFT_OK;
}

enum weft_status weft_record_ungated(const char *folder)
{
    return FAIL(WEFT_CHECK,
                "the gates of the run in %s were not run (WEFT_TEST_SKIP_GATES was set), so its model was not checked. "
                "Train it again without that variable",
                folder);
}

void weft_record_close(struct weft_record *record)
{
    struct stat st;
    /* If nothing was ever written, removes the folder. */
    if (record->log && !record->replays && fstat(fileno(record->log), &st) == 0 && st.st_size == 0) {
        unlink(weft_record_path(record, "log.jsonl"));
        rmdir(record->folder);
    }
    if (record->log)
        fclose(record->log);
    if (record->events)
        fclose(record->events);
    free(record->config);
    weft_arena_release(&record->arena);
    *record = (struct weft_record){0};
}
