/* SPDX-License-Identifier: MIT
 *
 * jobs.c - runs jobs in several worker processes.
 *
 * These are processes rather than threads because gates change the number of threads of the whole process, and because
 * a crash then loses only one job. Each worker takes the next job from a table in shared memory and writes its result
 * there.
 */
#include "check/check.h"

#include <errno.h>
#include <signal.h>
#include <stdalign.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORKERS = 64 };
enum { OPEN, TAKEN, DONE };

struct job {
    int state, worker;
    alignas(max_align_t) char result[];
};

struct crew {
    const struct weft_crew *of;
    char *board; /* index of the next job, then the jobs */
    size_t bytes, stride;
    int workers;
    pid_t parent;           /* workers stop once this process has ended */
    pid_t pid[MAX_WORKERS]; /* 0: the worker has ended */
};

static struct job *job_at(const struct crew *c, int i)
{
    return (struct job *)(c->board + c->stride * ((size_t)i + 1));
}

/* ---- in a worker process */

static void work(const struct crew *c, int worker)
{
    int i;
    struct weft_threads_scope one;
    weft_threads_enter(&one, 1); /* the other processes use the other cores */
    while (getppid() == c->parent && (i = __atomic_fetch_add((int *)c->board, 1, __ATOMIC_RELAXED)) < c->of->jobs) {
        struct job *job = job_at(c, i);
        job->worker = worker;
        __atomic_store_n(&job->state, TAKEN, __ATOMIC_RELEASE);
        c->of->work(c->of->context, i, job->result);
        __atomic_store_n(&job->state, DONE, __ATOMIC_RELEASE);
    }
}

/* ---- in the main process */

static enum weft_status start(struct crew *c, int worker)
{
    pid_t pid = fork();
    if (pid < 0)
        return FAIL(WEFT_IO, "no process could be started: %s", strerror(errno));
    if (pid == 0) {
        work(c, worker);
        _exit(0);
    }
    c->pid[worker] = pid;
    return WEFT_OK;
}

/* If a worker ended during a job, the job is lost and a new worker is started. A worker that cannot be waited for has
 * also ended: other code waited for it, or the kernel reaped it because SIGCHLD is ignored. */
static enum weft_status replace_lost(struct crew *c)
{
    for (int w = 0; w < c->workers; w++) {
        int how = 0;
        bool lost = false;
        pid_t ended = c->pid[w] ? waitpid(c->pid[w], &how, WNOHANG) : 0;
        if (ended == 0 || (ended < 0 && errno == EINTR))
            continue;
        c->pid[w] = 0;
        for (int i = 0; i < c->of->jobs; i++) {
            struct job *job = job_at(c, i);
            if (job->state != TAKEN || job->worker != w)
                continue;
            c->of->lost(c->of->context, i, job->result, WIFSIGNALED(how) ? WTERMSIG(how) : 0);
            job->state = DONE;
            lost = true;
        }
        if (lost)
            TRY(start(c, w));
    }
    return WEFT_OK;
}

static enum weft_status wait_for_all(struct crew *c)
{
    const struct timespec moment = {0, 5000000};
    for (int i = 0; i < c->of->jobs; i++) {
        struct job *job = job_at(c, i);
        while (__atomic_load_n(&job->state, __ATOMIC_ACQUIRE) != DONE) {
            TRY(replace_lost(c));
            nanosleep(&moment, NULL);
        }
        TRY(c->of->done(c->of->context, i, job->result));
    }
    return WEFT_OK;
}

enum weft_status weft_crew_run(const struct weft_crew *of)
{
    struct crew c = {.of = of, .parent = getpid()};
    c.workers = (int)weft_min(weft_min(weft_threads(), MAX_WORKERS), of->jobs);
    c.stride = (sizeof(struct job) + of->bytes + alignof(struct job) - 1) / alignof(struct job) * alignof(struct job);
    c.bytes = c.stride * ((size_t)of->jobs + 1);
    c.board = mmap(NULL, c.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c.board == MAP_FAILED)
        return FAIL(WEFT_NOMEM, "not enough memory for the results of checks");
    enum weft_status status = WEFT_OK;
    for (int w = 0; w < c.workers && status == WEFT_OK; w++)
        status = start(&c, w);
    if (status == WEFT_OK)
        status = wait_for_all(&c);
    for (int w = 0; w < c.workers; w++) {
        if (c.pid[w] && status != WEFT_OK)
            kill(c.pid[w], SIGKILL);
        if (c.pid[w])
            waitpid(c.pid[w], NULL, 0);
    }
    munmap(c.board, c.bytes);
    return status;
}
