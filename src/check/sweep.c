/* SPDX-License-Identifier: MIT
 *
 * sweep.c - runs the gates on many small models, in processes that share the work.
 *
 * Processes, because gates change the number of threads of the whole process, and because a crash then costs only one
 * model. Each takes the next model from a table in shared memory and writes its result there.
 */
#include "check/check.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORKERS = 64 };
enum { OPEN, TAKEN, DONE };

static const enum weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16};
enum { DTYPES = 2 };

struct job {
    int state, worker;
    struct weft_sweep_result result;
};

struct board {
    int next;
    struct job jobs[];
};

struct crew {
    const struct weft_combinations *combinations;
    struct board *board;
    size_t bytes;
    int jobs, workers;
    pid_t parent;           /* workers stop when it is gone */
    pid_t pid[MAX_WORKERS]; /* 0: it has ended */
};

/* ---- in a worker process */

static void note(void *context, const struct weft_check *c)
{
    struct weft_sweep_result *r = context;
    if (!c->passed && !r->message[0])
        snprintf(r->message, sizeof r->message, "%s: %s: %.3g, limit %.3g; %s", c->gate, c->name, c->figure, c->limit,
                 c->where);
}

static void run_job(const struct crew *crew, int i)
{
    struct weft_sweep_result *r = &crew->board->jobs[i].result;
    struct weft_gates report = {.on_check = note, .context = r};
    struct weft_spec spec;
    struct weft_recipe recipe = {0};
    enum weft_status status = weft_combination_spec(&spec, crew->combinations->rows[r->row], r->dtype);
    if (status == WEFT_OK)
        status = weft_recipe_plain(&recipe, &spec);
    if (status == WEFT_OK)
        status = weft_gates_run(&spec, &recipe, WEFT_GATES_ALL, &report);
    weft_recipe_release(&recipe);
    weft_spec_release(&spec);
    r->checks = report.checks;
    r->failed = report.failed + (status != WEFT_OK);
    if (status != WEFT_OK)
        snprintf(r->message, sizeof r->message, "%s", weft_error());
}

static void work(const struct crew *crew, int worker)
{
    int i;
    struct weft_threads_scope one;
    weft_threads_enter(&one, 1); /* the other processes use the other cores */
    while (getppid() == crew->parent &&
           (i = __atomic_fetch_add(&crew->board->next, 1, __ATOMIC_RELAXED)) < crew->jobs) {
        struct job *job = &crew->board->jobs[i];
        job->worker = worker;
        __atomic_store_n(&job->state, TAKEN, __ATOMIC_RELEASE);
        run_job(crew, i);
        __atomic_store_n(&job->state, DONE, __ATOMIC_RELEASE);
    }
}

/* ---- in the main process */

static enum weft_status start(struct crew *crew, int worker)
{
    pid_t pid = fork();
    if (pid < 0)
        return FAIL(WEFT_IO, "no process could be started: %s", strerror(errno));
    if (pid == 0) {
        work(crew, worker);
        _exit(0);
    }
    crew->pid[worker] = pid;
    return WEFT_OK;
}

static void lose(struct job *job, int how)
{
    struct weft_sweep_result *r = &job->result;
    r->failed++;
    snprintf(r->message, sizeof r->message, "the process of the check ended without a result (signal %d)",
             WIFSIGNALED(how) ? WTERMSIG(how) : 0);
    job->state = DONE;
}

/* If a worker ended while it had a model, the model fails and another worker is started. A worker that cannot be waited
 * for has ended too: somebody else waited for it, or the kernel did because SIGCHLD is ignored. */
static enum weft_status replace_lost(struct crew *crew)
{
    for (int w = 0; w < crew->workers; w++) {
        int how = 0;
        bool lost = false;
        pid_t ended = crew->pid[w] ? waitpid(crew->pid[w], &how, WNOHANG) : 0;
        if (ended == 0 || (ended < 0 && errno == EINTR))
            continue;
        crew->pid[w] = 0;
        for (int i = 0; i < crew->jobs; i++)
            if (crew->board->jobs[i].state == TAKEN && crew->board->jobs[i].worker == w) {
                lose(&crew->board->jobs[i], how);
                lost = true;
            }
        if (lost)
            TRY(start(crew, w));
    }
    return WEFT_OK;
}

static enum weft_status wait_for_all(struct crew *crew, weft_sweep_fn *report, void *context)
{
    const struct timespec moment = {0, 5000000};
    for (int i = 0; i < crew->jobs; i++) {
        struct job *job = &crew->board->jobs[i];
        while (__atomic_load_n(&job->state, __ATOMIC_ACQUIRE) != DONE) {
            TRY(replace_lost(crew));
            nanosleep(&moment, NULL);
        }
        report(context, &job->result);
    }
    return WEFT_OK;
}

static enum weft_status run(struct crew *crew, weft_sweep_fn *report, void *context)
{
    for (int i = 0; i < crew->jobs; i++) {
        crew->board->jobs[i].result.row = i / DTYPES;
        crew->board->jobs[i].result.dtype = dtypes[i % DTYPES];
    }
    for (int w = 0; w < crew->workers; w++)
        TRY(start(crew, w));
    return wait_for_all(crew, report, context);
}

enum weft_status weft_sweep(const struct weft_combinations *c, weft_sweep_fn *report, void *context)
{
    struct crew crew = {.combinations = c, .jobs = c->count * DTYPES, .parent = getpid()};
    crew.workers = (int)weft_min(weft_min(weft_threads(), MAX_WORKERS), crew.jobs);
    crew.bytes = sizeof *crew.board + (size_t)crew.jobs * sizeof *crew.board->jobs;
    crew.board = mmap(NULL, crew.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (crew.board == MAP_FAILED)
        return FAIL(WEFT_NOMEM, "not enough memory for the results of checks");
    enum weft_status status = run(&crew, report, context);
    for (int w = 0; w < crew.workers; w++) {
        if (crew.pid[w] && status != WEFT_OK)
            kill(crew.pid[w], SIGKILL);
        if (crew.pid[w])
            waitpid(crew.pid[w], NULL, 0);
    }
    munmap(crew.board, crew.bytes);
    return status;
}
