/* SPDX-License-Identifier: MIT
 *
 * save.c - saves five checkpoints on a disk that fails (shim.c) in every way at every call, and checks the result:
 *
 *  - every folder with a final name is complete and verifies, the newest is at least as new as the last save that
 *    returned success, and the file "head" is complete;
 *  - the next save works and leaves no leftovers.
 *
 * A run starts with one good checkpoint and the leftovers of two killed processes. The third step is saved twice, the
 * second time with different values, which replaces the first.
 *
 * run-tests: 5 s, asan 4 s
 */
#define _GNU_SOURCE
#include "ckpt/ckpt.h"
#include "ops/ops.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEEP = 2, SAVES = 5, FIRST = 1, WORDS = 300 };
static const int steps[SAVES] = {10, 20, 30, 30, 40};

/* ---- a checkpoint whose values identify it */

/* Without syncing: that is left to the commit. */
static enum weft_status write_unsynced(const char *path, const char *text)
{
    struct weft_file f = {.fd = open(path, O_WRONLY | O_CREAT, 0666)};
    if (f.fd < 0)
        return FAIL(WEFT_IO, "%s cannot be created", path);
    enum weft_status status = weft_file_add(&f, text, strlen(text));
    close(f.fd);
    return status;
}

static enum weft_status write_model(const char *folder, int step, int round)
{
    char path[512], text[32];
    int32_t values[WORDS];
    for (int i = 0; i < WORDS; i++)
        values[i] = step * 1000 + i + round;
    struct weft_entry entry = {"values", WEFT_I32, 1, {WORDS}, values, 0, NULL};
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    TRY(weft_safetensors_write(path, &entry, 1, NULL));
    snprintf(path, sizeof path, "%s/config.json", folder);
    snprintf(text, sizeof text, "{\"step\": %d}\n", step);
    TRY(write_unsynced(path, text));
    return WEFT_OK;
}

static enum weft_status save(const char *run, int step, int round)
{
    char path[256];
    TRY(weft_ckpt_begin(run, step, path, sizeof path));
    TRY(write_model(path, step, round));
    TRY(weft_ckpt_commit(run, step, KEEP));
    return WEFT_OK;
}

/* A file of the run that is replaced at every save. */
static enum weft_status write_head(const char *run, int step)
{
    char path[512], text[32];
    snprintf(path, sizeof path, "%s/head", run);
    snprintf(text, sizeof text, "saved %09d whole\n", step);
    TRY(weft_file_replace(path, text, strlen(text)));
    return WEFT_OK;
}

static int read_head(const char *run)
{
    char path[512], text[64] = "", again[64];
    int step = -1;
    snprintf(path, sizeof path, "%s/head", run);
    FILE *f = fopen(path, "rb");
    if (!f || fread(text, 1, sizeof text - 1, f) == 0 || sscanf(text, "saved %d", &step) != 1)
        step = -1;
    if (f)
        fclose(f);
    snprintf(again, sizeof again, "saved %09d whole\n", step);
    return strcmp(text, again) ? -1 : step;
}

static enum weft_status verify_step(const char *folder, int step)
{
    char path[512], text[64] = "", expected[64];
    struct weft_safetensors *f;
    int32_t values[WORDS];
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *config = fopen(path, "rb");
    if (!config || fread(text, 1, sizeof text - 1, config) == 0)
        text[0] = 0;
    if (config)
        fclose(config);
    snprintf(expected, sizeof expected, "{\"step\": %d}\n", step);
    if (strcmp(text, expected))
        return FAIL(WEFT_CHECK, "%s is not complete", path);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    TRY(weft_safetensors_open(&f, path));
    enum weft_status status = weft_safetensors_read(f, "values", &(struct weft_tensor){values, WEFT_I32, 1, {WORDS}});
    weft_safetensors_close(f);
    for (int i = 0; status == WEFT_OK && i < WORDS; i++)
        if (values[i] - values[0] != i || values[0] / 1000 != step)
            return FAIL(WEFT_CHECK, "%s has wrong values", path);
    return status;
}

/* ---- the program to kill: prints what was saved successfully */

static int save_all(const char *run)
{
    for (int i = 0; i < SAVES; i++)
        if (save(run, steps[i], i) == WEFT_OK) {
            dprintf(1, "saved %d\n", steps[i]);
            if (write_head(run, steps[i]) == WEFT_OK)
                dprintf(1, "head %d\n", steps[i]);
        }
    long (*count)(void) = (long (*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "weft_fault_calls");
    dprintf(1, "calls %ld\n", count ? count() : -1);
    return 0;
}

/* ---- the program that checks */

static char scratch[64], run[128];

static void set_up(void)
{
    char command[512], path[256];
    snprintf(command, sizeof command, "rm -rf '%s'*", run);
    if (system(command) || save(run, FIRST, 0) != WEFT_OK || write_head(run, FIRST) != WEFT_OK ||
        weft_ckpt_begin(run, FIRST + 1, path, sizeof path) != WEFT_OK || write_model(path, FIRST + 1, 0) != WEFT_OK) {
        printf("Bail out! %s\n", weft_error());
        exit(1);
    }
    snprintf(path, sizeof path, "%s/.removing-000000000", run);
    mkdir(path, 0777);
    write_model(path, 0, 0);
}

struct outcome {
    int saved, head;
    long calls;
    int status;
};

static struct outcome run_child(const char *how, long at)
{
    struct outcome t = {FIRST, FIRST, 0, 0};
    char self[512] = "", shim[600], number[32], line[128];
    int ends[2];
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0 || pipe(ends))
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        snprintf(number, sizeof number, "%ld", at);
        setenv("WEFT_FAULT_UNDER", run, 1);
        setenv("WEFT_FAULT_HOW", how, 1);
        setenv("WEFT_FAULT_AT", number, 1);
        setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
        char *program = strdup(self);
        snprintf(shim, sizeof shim, "%s/shim.so", dirname(self));
        setenv("LD_PRELOAD", shim, 1);
        execl(program, program, "save", run, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *f = fdopen(ends[0], "r");
    while (fgets(line, sizeof line, f)) {
        sscanf(line, "saved %d", &t.saved);
        sscanf(line, "head %d", &t.head);
        sscanf(line, "calls %ld", &t.calls);
    }
    fclose(f);
    waitpid(child, &t.status, 0);
    return t;
}

/* Verifies every folder with a final name; counts them and all other names. */
static enum weft_status verify_run(int *newest, int *folders, int *others)
{
    char path[400];
    enum weft_status status = WEFT_OK;
    *newest = *folders = *others = 0;
    DIR *dir = opendir(run);
    for (struct dirent *e; dir && status == WEFT_OK && (e = readdir(dir));) {
        int step;
        if (sscanf(e->d_name, "step-%d", &step) == 1) {
            snprintf(path, sizeof path, "%s/%.200s", run, e->d_name);
            status = verify_step(path, step);
            *newest = step > *newest ? step : *newest;
            ++*folders;
        } else if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, "head")) {
            ++*others;
        }
    }
    if (dir)
        closedir(dir);
    return status;
}

static enum weft_status verify_any(const char *path, void *context)
{
    (void)context;
    TRY(verify_step(path, atoi(strrchr(path, '-') + 1)));
    return WEFT_OK;
}

static enum weft_status check_outcome(const struct outcome *t)
{
    char path[512];
    int newest, folders, others, head = read_head(run);
    int64_t latest;
    TRY(verify_run(&newest, &folders, &others));
    TRY(weft_ckpt_latest(run, verify_any, NULL, &latest, path, sizeof path));
    if (latest != newest || latest < t->saved)
        return FAIL(WEFT_CHECK, "the latest checkpoint is %" PRId64 ", but saving %d had succeeded", latest, t->saved);
    if (head < t->head)
        return FAIL(WEFT_CHECK, "the head is %d, but writing %d had succeeded", head, t->head);
    TRY(save(run, 99, 0));
    TRY(write_head(run, 99));
    TRY(verify_run(&newest, &folders, &others));
    if (newest != 99 || folders != KEEP || others || read_head(run) != 99)
        return FAIL(WEFT_CHECK, "after one more save there are %d checkpoints and %d other names", folders, others);
    return WEFT_OK;
}

/* How the program must end: normally, normally with everything saved, or killed. */
enum end { ENDS, SAVED, KILLED };

/* Tries one kind of failure at every call; prints a TAP line. */
static int try_all(int number, const char *how, enum end end, long calls)
{
    int bad = 0;
    for (long at = 1; at <= calls; at += STRIDE) {
        set_up();
        struct outcome t = run_child(how, at);
        bool ended = end == KILLED ? WIFSIGNALED(t.status) && WTERMSIG(t.status) == SIGKILL : t.status == 0;
        ended &= end != SAVED || t.head == steps[SAVES - 1];
        if (!ended || check_outcome(&t) != WEFT_OK) {
            bad++;
            printf("# %s at call %ld: %s\n", how, at, ended ? weft_error() : "the program ended in the wrong way");
        }
    }
    printf("%s %d - %s at call 1, %d, ... %ld\n", bad ? "not ok" : "ok", number, how, 1 + STRIDE, calls);
    return bad;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *how;
        enum end end;
    } ways[] = {{"fail", ENDS}, {"full", ENDS}, {"short", SAVED}, {"kill", KILLED}, {"cut", KILLED}, {"torn", KILLED}};
    enum { WAYS = sizeof ways / sizeof ways[0] };
    if (argc == 3)
        return save_all(argv[2]);
    snprintf(scratch, sizeof scratch, "%s/weft-fault-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(scratch))
        return 1;
    snprintf(run, sizeof run, "%s/run", scratch);
    set_up();
    struct outcome whole = run_child("", 0);
    int bad = whole.calls < 50 || whole.saved != steps[SAVES - 1] || check_outcome(&whole) != WEFT_OK;
    printf("%s 1 - without a fault: %ld calls\n", bad ? "not ok" : "ok", whole.calls);
    for (int i = 0; i < WAYS; i++)
        bad += try_all(i + 2, ways[i].how, ways[i].end, whole.calls);
    printf("1..%d\n", WAYS + 1);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    return system(command) || bad;
}
