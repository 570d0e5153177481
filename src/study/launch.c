/* SPDX-License-Identifier: MIT
 *
 * launch.c - runs a training run as a process: starts it, follows its progress and reads its result.
 *
 * The run's output goes to output.txt and result.json in its folder, so that no pipe can block the run and no output is
 * lost. The run has its own process group, because a ^C on the terminal is meant for the study, which then asks its
 * runs to save. When the study's process ends for any reason, the kernel asks the run to save and end. A launcher such
 * as srun is started by a shell, which it replaces. It is stopped by SIGUSR1, which it forwards; SIGTERM would end it
 * before its run has saved.
 */
#define _GNU_SOURCE
#include "base/fields.h"
#include "base/json.h"
#include "study/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUTPUT "output.txt"
#define RESULT "result.json"

static enum weft_status in_folder(const char *folder, const char *name, char path[4096])
{
    if (snprintf(path, 4096, "%s/%s", folder, name) >= 4096)
        return FAIL(WEFT_INVALID, "the path of a run's folder is too long");
    return WEFT_OK;
}

/* ---- starting */

static const int ends[] = {SIGINT, SIGTERM, SIGHUP};

static bool put(const char *path, int flags, int at)
{
    int fd = open(path, flags, 0666);
    bool done = fd >= 0 && dup2(fd, at) == at;
    if (fd >= 0 && fd != at)
        close(fd);
    return done;
}

/* A new process: its arguments, its output files, and its parent. */
struct child {
    const char *const *words;
    const char *output, *result, *slot; /* slot: NULL without a launcher */
    pid_t parent;
};

/* Runs in the new process with signals blocked, because this program's handlers must not run there. */
static void become(const struct child *c)
{
    const int write = O_WRONLY | O_CREAT | O_TRUNC;
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        sigaction(ends[i], &plain, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, c->slot ? SIGUSR1 : SIGTERM);
    if (c->slot)
        setenv("WEFT_SLOT", c->slot, 1);
    if (getppid() == c->parent && put("/dev/null", O_RDONLY, STDIN_FILENO) && put(c->result, write, STDOUT_FILENO) &&
        put(c->output, write, STDERR_FILENO))
        execv(c->words[0], (char *const *)c->words);
}

/* Blocks signals until exec. Otherwise this program's handler would catch a signal in the new process, and the signal
 * would be lost. */
static enum weft_status begin(const struct child *c, pid_t *pid)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    *pid = fork();
    if (*pid == 0) {
        become(c);
        _exit(127);
    }
    int error = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (*pid < 0)
        return FAIL(WEFT_NOMEM, "no process could be started for %s: %s", c->output, strerror(error));
    return WEFT_OK;
}

enum weft_status weft_launch(const struct weft_launching *how, const char *folder, int threads, int slot, pid_t *pid)
{
    char output[4096], result[4096], script[4200], program[4096], number[16], place[16];
    const char *words[16];
    int n = 0;
    TRY(in_folder(folder, OUTPUT, output));
    TRY(in_folder(folder, RESULT, result));
    if (how->launcher)
        TRY(weft_program_path(program));
    if (how->launcher && snprintf(script, sizeof script, "exec %s \"$@\"", how->launcher) >= (int)sizeof script)
        return FAIL(WEFT_INVALID, "the launcher's command is too long");
    snprintf(number, sizeof number, "%d", threads);
    snprintf(place, sizeof place, "%d", slot);
    if (how->launcher) {
        words[n++] = "/bin/sh";
        words[n++] = "-c";
        words[n++] = script;
        words[n++] = "sh";
    }
    words[n++] = how->launcher ? program : weft_program(); /* the running program, even if its file was replaced */
    words[n++] = "train";
    words[n++] = folder;
    words[n++] = "--resume";
    words[n++] = "--json";
    if (threads) {
        words[n++] = "--threads";
        words[n++] = number;
    }
    if (how->unsafe)
        words[n++] = "--unsafe";
    words[n] = NULL;
    return begin(&(struct child){words, output, result, how->launcher ? place : NULL, getpid()}, pid);
}

void weft_launch_stop(const struct weft_launching *how, pid_t pid) { kill(pid, how->launcher ? SIGUSR1 : SIGTERM); }

/* ---- following */

/* Returns the last bytes of a file, starting with a whole line. */
static const char *read_end(const char *folder, const char *name, char *text, size_t size)
{
    char path[4096];
    *text = 0;
    struct stat st;
    bool there = in_folder(folder, name, path) == WEFT_OK && stat(path, &st) == 0 && S_ISREG(st.st_mode);
    FILE *f = there ? fopen(path, "re") : NULL;
    if (!f)
        return text;
    bool cut = fseek(f, -(long)(size - 1), SEEK_END) == 0;
    if (!cut)
        rewind(f);
    text[fread(text, 1, size - 1, f)] = 0;
    fclose(f);
    const char *line = cut ? strchr(text, '\n') : NULL;
    return line ? line + 1 : text;
}

void weft_launched_progress(const char *folder, int64_t *step, double *loss)
{
    char text[4096];
    long long at;
    double total;
    for (const char *line = read_end(folder, "log.jsonl", text, sizeof text); line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (sscanf(line, "{\"step\": %lld, \"total\": %lf", &at, &total) == 2) {
            *step = at;
            *loss = total;
        }
    }
}

/* Returns the last error and the text after it, or NULL if there is none. Notices are not errors. */
static const char *last_error(const char *output)
{
    const char *last = NULL;
    for (const char *line = output; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, "weft: ", 6) == 0 && strncmp(line, "weft: note: ", 12) != 0)
            last = line;
    }
    return last;
}

/* Returns the last nonempty line, which a launcher may have printed. */
static const char *last_line(const char *output)
{
    const char *last = output;
    for (const char *line = output; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        last = *line ? line : last;
    }
    return last;
}

bool weft_launched_output(const char *folder, char *text, size_t size)
{
    char piece[4096];
    const char *end = read_end(folder, OUTPUT, piece, sizeof piece), *error = last_error(end);
    snprintf(text, size, "%s", error ? error : last_line(end));
    for (size_t n = strlen(text); n && text[n - 1] == '\n'; n--)
        text[n - 1] = 0;
    return error;
}

/* ---- the result */

struct reading {
    struct weft_finished *f;
    bool scored, other; /* other: trained by a different build */
};

static enum weft_status read_entry(void *context, const char *name, const char *value)
{
    struct reading *r = context;
    const struct {
        const char *name;
        double *to;
    } reals[] = {{"loss", &r->f->train_loss},       {"eval_loss", &r->f->val_loss},
                 {"accuracy", &r->f->val_accuracy}, {"test_loss", &r->f->test_loss},
                 {"seconds", &r->f->seconds},       {"test_accuracy", &r->f->test_accuracy}};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (strcmp(name, reals[i].name) == 0)
            *reals[i].to = strtod(value, NULL);
    r->scored |= strcmp(name, "test_loss") == 0;
    r->other |= strcmp(name, "program_sha256") == 0 && strcmp(value, r->f->program_sha256) != 0;
    if (strcmp(name, "steps") == 0)
        r->f->steps = strtoll(value, NULL, 10);
    else if (strcmp(name, "params") == 0)
        r->f->params = strtoll(value, NULL, 10);
    else if (strcmp(name, "threads") == 0)
        r->f->threads = (int)strtol(value, NULL, 10);
    else if (strcmp(name, "isa") == 0)
        snprintf(r->f->isa, sizeof r->f->isa, "%s", value);
    else if (strcmp(name, "weights_sha256") == 0)
        snprintf(r->f->weights_sha256, sizeof r->f->weights_sha256, "%s", value);
    else if (strcmp(name, "stream_sha256") == 0 && weft_is_sha256(value))
        snprintf(r->f->stream_sha256, sizeof r->f->stream_sha256, "%s", value);
    else if (strcmp(name, "chain") == 0 && weft_is_sha256(value))
        snprintf(r->f->chain, sizeof r->f->chain, "%s", value);
    return WEFT_OK;
}

enum weft_status weft_launched_result(const char *folder, struct weft_finished *f, bool *finished)
{
    char path[4096];
    struct reading r = {.f = f};
    TRY(in_folder(folder, RESULT, path));
    TRY(weft_json_load(path, read_entry, &r));
    if (r.other)
        return FAIL(WEFT_CHECK, "%s was written by a different build of weft: install the same build on all hosts",
                    path);
    const double reals[] = {f->train_loss, f->val_loss, f->val_accuracy, f->test_loss, f->test_accuracy, f->seconds};
    for (size_t i = 0; r.scored && i < sizeof reals / sizeof *reals; i++)
        if (!isfinite(reals[i]))
            return FAIL(WEFT_CHECK, "%s has a non-finite score", path);
    *finished = r.scored;
    return WEFT_OK;
}
