/* SPDX-License-Identifier: MIT
 *
 * folder.c - manages the checkpoint folders of a run: RUN/.writing-STEP while one is written, RUN/step-STEP once it is
 * complete, RUN/.removing-STEP while it is removed. A folder is renamed, and the rename synced, before its files are
 * removed; otherwise, a file system might write the removal to disk before the rename.
 */
#define _GNU_SOURCE
#include "ckpt/ckpt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 4096 };

static enum weft_status print(char *path, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
static enum weft_status print(char *path, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(path, room, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room)
        return FAIL(WEFT_INVALID, "the path %.64s... is too long", path);
    return WEFT_OK;
}

static enum weft_status name_folder(char *path, size_t room, const char *run, const char *kind, int64_t step)
{
    TRY(print(path, room, "%s/%s-%09" PRId64, run, kind, step));
    return WEFT_OK;
}

/* ---- the files of a folder */

typedef enum weft_status name_fn(void *context, const char *folder, const char *name);

static enum weft_status each_name(const char *folder, name_fn *visit, void *context)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return FAIL(WEFT_IO, "%s cannot be read: %s", folder, strerror(errno));
    enum weft_status status = WEFT_OK;
    for (struct dirent *e; status == WEFT_OK && (errno = 0, e = readdir(dir));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            status = visit(context, folder, e->d_name);
    if (status == WEFT_OK && errno)
        status = FAIL(WEFT_IO, "%s cannot be read: %s", folder, strerror(errno));
    closedir(dir);
    return status;
}

static enum weft_status sync_file(void *context, const char *folder, const char *name)
{
    char path[ROOM];
    (void)context;
    TRY(print(path, sizeof path, "%s/%s", folder, name));
    TRY(weft_path_sync(path));
    return WEFT_OK;
}

static enum weft_status remove_leftover(void *context, const char *run, const char *name)
{
    char path[ROOM];
    (void)context;
    if (strncmp(name, ".writing-", 9) && strncmp(name, ".removing-", 10))
        return WEFT_OK;
    TRY(print(path, sizeof path, "%s/%s", run, name));
    TRY(weft_folder_remove(path));
    return WEFT_OK;
}

/* ---- the steps of a run, newest first */

struct steps {
    int64_t *list;
    int count;
};

static enum weft_status add_step(void *context, const char *run, const char *name)
{
    struct steps *s = context;
    char again[64];
    (void)run;
    if (strncmp(name, "step-", 5))
        return WEFT_OK;
    int64_t step = strtoll(name + 5, NULL, 10);
    snprintf(again, sizeof again, "step-%09" PRId64, step);
    if (step < 0 || strcmp(name, again)) /* skip names that Weft does not write */
        return WEFT_OK;
    int64_t *list = realloc(s->list, ((size_t)s->count + 1) * sizeof *list);
    if (!list)
        return FAIL(WEFT_NOMEM, "not enough memory to list the checkpoints");
    list[s->count++] = step;
    s->list = list;
    return WEFT_OK;
}

static int by_newest(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* Lists the steps. The caller frees the list, even after a failure. */
static enum weft_status find_steps(const char *run, struct steps *s)
{
    TRY(each_name(run, add_step, s));
    if (s->count)
        qsort(s->list, (size_t)s->count, sizeof *s->list, by_newest);
    return WEFT_OK;
}

/* ---- saving */

static enum weft_status make_run(const char *run)
{
    char parent[ROOM];
    if (mkdir(run, 0777)) {
        if (errno == EEXIST)
            return WEFT_OK;
        return FAIL(WEFT_IO, "the folder %s cannot be created: %s", run, strerror(errno));
    }
    TRY(print(parent, sizeof parent, "%s/..", run));
    TRY(weft_path_sync(parent));
    return WEFT_OK;
}

enum weft_status weft_ckpt_begin(const char *run, int64_t step, char *path, size_t room)
{
    if (step < 0)
        return FAIL(WEFT_INVALID, "step %" PRId64 " is negative", step);
    TRY(name_folder(path, room, run, ".writing", step));
    TRY(make_run(run));
    TRY(each_name(run, remove_leftover, NULL));
    if (mkdir(path, 0777))
        return FAIL(WEFT_IO, "the folder %s cannot be created: %s", path, strerror(errno));
    return WEFT_OK;
}

/* Removes the checkpoints list[first], list[first + 1], ... */
static enum weft_status remove_steps(const char *run, const struct steps *s, int first)
{
    char from[ROOM], to[ROOM];
    for (int i = first; i < s->count; i++) {
        TRY(name_folder(from, sizeof from, run, "step", s->list[i]));
        TRY(name_folder(to, sizeof to, run, ".removing", s->list[i]));
        if (rename(from, to))
            return FAIL(WEFT_IO, "%s cannot be removed: %s", from, strerror(errno));
    }
    if (first < s->count)
        TRY(weft_path_sync(run));
    for (int i = first; i < s->count; i++) {
        TRY(name_folder(to, sizeof to, run, ".removing", s->list[i]));
        TRY(weft_folder_remove(to));
    }
    return WEFT_OK;
}

enum weft_status weft_ckpt_prune(const char *run, int64_t step, int keep)
{
    struct steps s = {0};
    TRY(each_name(run, remove_leftover, NULL));
    enum weft_status status = find_steps(run, &s);
    int first = 0;
    while (first < s.count && s.list[first] >= step)
        first++;
    if (status == WEFT_OK)
        status = remove_steps(run, &s, (int)weft_min(s.count, (int64_t)first + keep - 1));
    free(s.list);
    return status;
}

/* Renames the new folder to its final name. If a run was reset to an earlier step, a folder for the same step may
 * already exist; the two are then exchanged atomically, so that the checkpoint is never missing. */
static enum weft_status publish(const char *from, const char *to, bool *exchanged)
{
    *exchanged = false;
    if (rename(from, to) == 0)
        return WEFT_OK;
    if (errno == ENOTEMPTY || errno == EEXIST) {
        *exchanged = true;
        if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0)
            return WEFT_OK;
    }
    return FAIL(WEFT_IO, "%s cannot be renamed to %s: %s%s", from, to, strerror(errno),
                *exchanged ? "; it already exists: remove it or save to a different folder" : "");
}

enum weft_status weft_ckpt_commit(const char *run, int64_t step, int keep)
{
    char from[ROOM], to[ROOM];
    bool exchanged;
    if (keep < 1)
        return FAIL(WEFT_INVALID, "cannot keep %d checkpoints: keep at least 1", keep);
    TRY(name_folder(from, sizeof from, run, ".writing", step));
    TRY(name_folder(to, sizeof to, run, "step", step));
    TRY(each_name(from, sync_file, NULL));
    TRY(weft_path_sync(from));
    TRY(publish(from, to, &exchanged));
    TRY(weft_path_sync(run));
    if (exchanged)
        TRY(weft_folder_remove(from));
    TRY(weft_ckpt_prune(run, step, keep));
    return WEFT_OK;
}

/* ---- finding */

enum weft_status weft_ckpt_steps(const char *run, int64_t **list, int *count)
{
    struct steps s = {0};
    enum weft_status status = find_steps(run, &s);
    for (int i = 0; i < s.count / 2; i++) {
        int64_t kept = s.list[i];
        s.list[i] = s.list[s.count - 1 - i];
        s.list[s.count - 1 - i] = kept;
    }
    *list = s.list;
    *count = s.count;
    return status;
}

/* Checks whether the checkpoint is intact. A damaged checkpoint is reported, but is not an error. */
static enum weft_status accept(const char *path, enum weft_status (*verify)(const char *path, void *context),
                               void *context, bool *good)
{
    enum weft_status status = verify ? verify(path, context) : WEFT_OK;
    *good = status == WEFT_OK;
    if (status == WEFT_NOMEM)
        return status;
    if (!*good) {
        size_t length = strlen(path); /* a note's key is short, and the paths of folders differ only at the end */
        weft_note_once(path + weft_max(0, (int64_t)length - 40), "skipping the damaged checkpoint %s: %s", path,
                       weft_error());
        weft_error_clear();
    }
    return WEFT_OK;
}

enum weft_status weft_ckpt_latest(const char *run, enum weft_status (*verify)(const char *path, void *context),
                                  void *context, int64_t *step, char *path, size_t room)
{
    struct steps s = {0};
    bool good = false;
    *step = -1;
    if (access(run, F_OK) && errno == ENOENT)
        return WEFT_OK;
    enum weft_status status = find_steps(run, &s);
    for (int i = 0; status == WEFT_OK && !good && i < s.count; i++) {
        status = name_folder(path, room, run, "step", s.list[i]);
        if (status == WEFT_OK)
            status = accept(path, verify, context, &good);
        if (good)
            *step = s.list[i];
    }
    free(s.list);
    return status;
}
