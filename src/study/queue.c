/* SPDX-License-Identifier: MIT
 *
 * queue.c - executes the runs of a study, several at a time, until each is in the ledger.
 *
 * A run is identified by arm, config, seed, program and, unless it is Weft's own, the matmul engine. The first file in
 * its folder is the record of its gates (gates.json), which names config, program and plan: a folder with a different
 * record, or none, belongs to a different study or build and is removed. After a kill at any moment, a run is either in
 * the ledger or resumes from its checkpoint.
 */
#define _GNU_SOURCE
#include "study/queue.h"
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "dnn/dnn.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct weft_arm *arm_of(const struct weft_queue *q, const struct weft_job *job)
{
    return &q->study->arm[job->run.arm];
}

static enum weft_status folder_of(const struct weft_queue *q, const struct weft_job *job, char path[4096])
{
    if (snprintf(path, 4096, "%s/%s", q->folder, job->run.folder) >= 4096)
        return FAIL(WEFT_INVALID, "the path of the study's folder is too long");
    return WEFT_OK;
}

static bool is_stopping(const struct weft_queue *q) { return q->signal && *q->signal; }

static void report(struct weft_queue *q, const struct weft_job *job)
{
    if (q->report)
        q->report(q->context, q, job);
}

/* ---- the jobs */

static bool is_same(const struct weft_finished *a, const struct weft_finished *b)
{
    return strcmp(a->arm, b->arm) == 0 && a->seed == b->seed && strcmp(a->config_sha256, b->config_sha256) == 0 &&
           strcmp(a->program_sha256, b->program_sha256) == 0 && weft_dnn_same_bits(a->isa, b->isa);
}

static enum weft_status init_job(struct weft_queue *q, struct weft_job *job, const struct weft_finished *list,
                                 int64_t count)
{
    char *config;
    struct weft_finished *f = &job->finished;
    enum weft_status status = weft_study_run_config(q->study, &job->run, &config, f->config_sha256);
    free(config);
    TRY(status);
    snprintf(f->arm, sizeof f->arm, "%s", arm_of(q, job)->name);
    memcpy(f->program_sha256, q->program_sha256, sizeof f->program_sha256);
    snprintf(f->isa, sizeof f->isa, "%s", weft_dnn_path());
    f->lr = job->run.lr;
    f->seed = job->run.seed;
    /* A repeat uses a different number of threads, because the number must not affect its results. */
    job->threads = arm_of(q, job)->repeats < 0 || !q->threads ? q->threads : q->threads > 1 ? q->threads - 1 : 2;
    for (int64_t i = 0; i < count && job->state == WEFT_WAITING; i++)
        if (is_same(&list[i], f)) {
            job->state = WEFT_DONE;
            job->done_before = true;
            *f = list[i];
        }
    return WEFT_OK;
}

/* Locks the folder. Runs inherit the lock and keep it until they have saved and ended, so after a kill, the next study
 * waits for them. */
static enum weft_status lock(struct weft_queue *q)
{
    const struct timespec moment = {0, 100000000};
    enum { TRIES = 600 };
    q->lock = open(q->folder, O_RDONLY | O_DIRECTORY);
    if (q->lock < 0)
        return FAIL(WEFT_IO, "%s cannot be opened: %s", q->folder, strerror(errno));
    for (int i = 0; flock(q->lock, LOCK_EX | LOCK_NB); i++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return FAIL(WEFT_IO, "%s cannot be locked: %s", q->folder, strerror(errno));
        if (i == TRIES || is_stopping(q))
            return FAIL(WEFT_INVALID, "another process runs the study in %s: wait for it, or pass a different --out",
                        q->folder);
        nanosleep(&moment, NULL);
    }
    return WEFT_OK;
}

/* ---- the learning rates */

/* Returns the mean validation loss of an arm's screening runs with a learning rate; INFINITY until all of them are
 * done. */
static double screened_loss(const struct weft_queue *q, int arm, double lr)
{
    double sum = 0;
    int64_t screening = weft_study_screening(q->study);
    for (int64_t i = 0; i < screening; i++)
        if (q->job[i].run.arm == arm && q->job[i].run.lr == lr)
            sum += q->job[i].state == WEFT_DONE ? q->job[i].finished.val_loss : INFINITY;
    return sum / (double)q->study->screen_seeds;
}

static enum weft_status choose_for(const struct weft_queue *q, int arm)
{
    const struct weft_study *s = q->study;
    double least = INFINITY;
    for (int k = 0; k < s->lr_count; k++) {
        double loss = screened_loss(q, arm, s->lr[k]);
        if (loss < least) {
            least = loss;
            s->arm[arm].lr = s->lr[k];
        }
    }
    if (isinf(least))
        return FAIL(WEFT_CHECK, "arm %s has no learning rate with which all screening runs succeed: see their output",
                    s->arm[arm].name);
    return WEFT_OK;
}

/* Determines the runs that are judged. */
static enum weft_status choose(struct weft_queue *q)
{
    struct weft_finished *list;
    int64_t count, screening = weft_study_screening(q->study);
    for (int i = 0; screening && i < q->study->arm_count; i++)
        if (q->study->arm[i].repeats < 0)
            TRY(choose_for(q, i));
    TRY(weft_ledger_read(q->folder, &q->arena, &list, &count));
    for (int64_t i = screening; i < q->count; i++) {
        q->job[i].run = weft_study_run_at(q->study, i);
        if (q->job[i].state == WEFT_WAITING)
            TRY(init_job(q, &q->job[i], list, count));
    }
    return WEFT_OK;
}

enum weft_status weft_queue_init(struct weft_queue *q)
{
    struct weft_finished *list;
    int64_t count, screening = weft_study_screening(q->study), open = 0;
    q->lock = -1;
    q->count = weft_study_runs(q->study);
    q->job = weft_arena_alloc(&q->arena, (size_t)q->count * sizeof *q->job);
    if (!q->job)
        return FAIL(WEFT_NOMEM, "not enough memory for a list of %lld runs", (long long)q->count);
    TRY(weft_folder_make(q->folder));
    if (!q->shared)
        TRY(lock(q));
    TRY(weft_program_hash(q->program_sha256));
    TRY(weft_study_plan_hash(q->study, q->plan_sha256));
    TRY(weft_ledger_read(q->folder, &q->arena, &list, &count));
    for (int64_t i = 0; i < q->count; i++)
        q->job[i].run = weft_study_run_at(q->study, i);
    for (int64_t i = 0; i < screening; i++) {
        TRY(init_job(q, &q->job[i], list, count));
        open += q->job[i].state == WEFT_WAITING;
    }
    if (!open)
        TRY(choose(q));
    return WEFT_OK;
}

void weft_queue_release(struct weft_queue *q)
{
    if (q->lock >= 0)
        close(q->lock);
    weft_arena_release(&q->arena);
}

int64_t weft_queue_count(const struct weft_queue *q, enum weft_job_state state)
{
    int64_t n = 0;
    for (int64_t i = 0; i < q->count; i++)
        n += q->job[i].state == state;
    return n;
}

/* ---- the folder of a run */

/* Gates check the model of the arm; they do not depend on the seed and learning rate of a run. If the plan checked only
 * a small copy, because the runs are on different hosts, each run checks its gates itself. */
static struct weft_gates sum_gates(const struct weft_arm *arm)
{
    struct weft_gates sum = {0};
    for (int i = 0; i < arm->gate_count && *arm->gate_sizes; i++) {
        sum.checks += arm->gate[i].checks;
        sum.failed += arm->gate[i].failed;
    }
    snprintf(sum.sizes, sizeof sum.sizes, "%s", arm->gate_sizes);
    return sum;
}

static enum weft_status prepare(const struct weft_queue *q, const struct weft_job *job, const char *folder)
{
    char record[4200], path[4200], hash[65], *config;
    bool same = false;
    struct weft_gates gates = {0};
    snprintf(record, sizeof record, "%s/gates.json", folder);
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (weft_gate_record_load(record, job->finished.config_sha256, &same, &gates) != WEFT_OK)
        weft_error_clear(); /* an unreadable record counts as missing */
    same = same && strcmp(gates.plan_sha256, q->plan_sha256) == 0;
    if (!same) /* the folder belongs to a different study */
        TRY(weft_folder_remove(folder));
    TRY(weft_folder_make(folder));
    gates = sum_gates(arm_of(q, job));
    memcpy(gates.plan_sha256, q->plan_sha256, sizeof gates.plan_sha256);
    if (!same) /* a record without checks contains only the plan; the run checks its gates */
        TRY(weft_gate_record_save(record, job->finished.config_sha256, &gates));
    enum weft_status status = weft_study_run_config(q->study, &job->run, &config, hash);
    if (status == WEFT_OK)
        status = weft_file_replace(path, config, strlen(config));
    free(config);
    return status;
}

/* ---- running */

/* Returns the smallest slot that no running job uses. */
static int free_slot(const struct weft_queue *q)
{
    int slot = 0;
    for (int64_t i = 0; i < q->count; i++)
        if (q->job[i].state == WEFT_RUNNING && q->job[i].slot == slot) {
            slot++;
            i = -1;
        }
    return slot;
}

static enum weft_status start(struct weft_queue *q, struct weft_job *job)
{
    char folder[4096];
    TRY(folder_of(q, job, folder));
    TRY(prepare(q, job, folder));
    job->slot = free_slot(q);
    if (q->simulate)
        job->how = q->simulate(q->simulation, job, folder);
    else
        TRY(weft_launch(&q->launching, folder, job->threads, job->slot, &job->pid));
    job->state = WEFT_RUNNING;
    job->started = true;
    report(q, job);
    return WEFT_OK;
}

/* Returns whether a launcher lost the run, for example because its host failed. Every failed run counts as lost, unless
 * Weft printed an error or the command could not be run. An error just after a loss counts as another loss, because the
 * lost run may still be running, or the disk may still hold its lock. */
static bool is_lost(const struct weft_queue *q, const struct weft_job *job, const char *folder, int how)
{
    enum { NOT_RUN = 126, NOT_FOUND };
    char text[600];
    if (!q->launching.launcher)
        return false;
    int code = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
    bool error = code > 0 && code < WEFT_EXIT_STOPPED && weft_launched_output(folder, text, sizeof text);
    bool again = job->losses && job->step <= job->lost_at;
    return (!error || again) && code != NOT_RUN && code != NOT_FOUND;
}

/* Schedules a restart of the run from its newest checkpoint after a pause; returns false if the run made no progress
 * after pauses of every length. */
static bool try_again(struct weft_job *job)
{
    static const double pauses[] = {5, 25, 125}; /* in seconds; network disks keep the locks of a lost host for 90 s */
    enum { TIMES = sizeof pauses / sizeof *pauses };
    job->losses = job->step > job->lost_at ? 1 : job->losses + 1;
    job->lost_at = job->step;
    if (job->losses > TIMES)
        return false;
    job->ready = weft_seconds() + pauses[job->losses - 1];
    job->started = false;
    return true;
}

static void fail(const struct weft_queue *q, struct weft_job *job, const char *folder, int how, enum weft_status read)
{
    char *text = job->message;
    size_t size = sizeof job->message;
    job->state = WEFT_FAILED;
    if (read == WEFT_CHECK || (read != WEFT_OK && !q->launching.launcher))
        snprintf(text, size, "its result cannot be used: %s", weft_error());
    else if (WIFSIGNALED(how))
        snprintf(text, size, "ended by signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
    else if (WEXITSTATUS(how) == 0 && !q->launching.launcher)
        snprintf(text, size, "it ended without a score");
    else if (!weft_launched_output(folder, text, size) && !*text)
        snprintf(text, size, "it exited with code %d and printed nothing", WEXITSTATUS(how));
}

/* Handles the end of a run. A run that was stopped, alone or with the study, waits until the study is continued. */
static enum weft_status finish(struct weft_queue *q, struct weft_job *job, int how)
{
    char folder[4096];
    bool finished = false, stopped = is_stopping(q) || (WIFEXITED(how) && WEXITSTATUS(how) == WEFT_EXIT_STOPPED);
    struct weft_finished *f = &job->finished;
    TRY(folder_of(q, job, folder));
    enum weft_status read = WEFT_OK;
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
        read = weft_launched_result(folder, f, &finished);
    if (finished && read == WEFT_OK) {
        f->tokens_per_s = f->seconds > 0 ? weft_arm_tokens(arm_of(q, job)) / f->seconds : 0;
        TRY(weft_ledger_add(q->folder, f));
        job->state = WEFT_DONE;
    } else if (stopped) {
        job->state = WEFT_WAITING;
    } else {
        fail(q, job, folder, how, read);
        if (read != WEFT_CHECK && is_lost(q, job, folder, how) && try_again(job))
            job->state = WEFT_WAITING;
    }
    weft_error_clear();
    report(q, job);
    return WEFT_OK;
}

/* Marks a run as failed because its exit status is unknown: a different process waited for it, or the kernel discarded
 * the status because SIGCHLD is ignored. */
static void give_up(struct weft_queue *q, struct weft_job *job)
{
    job->state = WEFT_FAILED;
    snprintf(job->message, sizeof job->message, "the process cannot be waited for: %s", strerror(errno));
    report(q, job);
}

/* Calls waitpid with WNOHANG. A simulated run ends as soon as it starts. */
static pid_t wait_for(const struct weft_queue *q, const struct weft_job *job, int *how)
{
    *how = job->how;
    return q->simulate ? job->pid : waitpid(job->pid, how, WNOHANG);
}

static enum weft_status collect(struct weft_queue *q, int64_t first, int64_t end, int *running)
{
    char folder[4096];
    enum weft_status status = WEFT_OK;
    for (int64_t i = first; i < end; i++) {
        struct weft_job *job = &q->job[i];
        int how = 0;
        if (job->state != WEFT_RUNNING)
            continue;
        pid_t ended = wait_for(q, job, &how);
        if (ended == job->pid) {
            --*running;
            enum weft_status finished = finish(q, job, how);
            status = status == WEFT_OK ? finished : status;
        } else if (ended < 0 && errno != EINTR) {
            --*running;
            give_up(q, job);
        } else if (folder_of(q, job, folder) == WEFT_OK) {
            weft_launched_progress(folder, &job->step, &job->loss);
        }
    }
    return status;
}

static void stop(const struct weft_queue *q)
{
    for (int64_t i = 0; i < q->count; i++)
        if (q->job[i].state == WEFT_RUNNING)
            weft_launch_stop(&q->launching, q->job[i].pid);
}

/* Returns the first waiting job that is ready at this moment; `end` if there is none. */
static int64_t find_next(const struct weft_queue *q, int64_t first, int64_t end, double moment)
{
    for (int64_t i = first; i < end; i++)
        if (q->job[i].state == WEFT_WAITING && !q->job[i].started && q->job[i].ready <= moment)
            return i;
    return end;
}

/* Runs the jobs from `first` to `end` - 1. After an error in this process, no more jobs are started. */
static enum weft_status run_jobs(struct weft_queue *q, int64_t first, int64_t end)
{
    const struct timespec moment = {0, 50000000};
    enum weft_status status = WEFT_OK;
    int running = 0;
    bool stopped = false;
    while (running || (find_next(q, first, end, INFINITY) < end && status == WEFT_OK && !stopped)) {
        for (int64_t next; running < q->slots && status == WEFT_OK && !stopped; running++) {
            if ((next = find_next(q, first, end, weft_seconds())) == end)
                break;
            status = start(q, &q->job[next]);
            if (status != WEFT_OK)
                break;
        }
        if (!stopped && (is_stopping(q) || status != WEFT_OK)) {
            stopped = true;
            stop(q);
        }
        enum weft_status collected = collect(q, first, end, &running);
        status = status == WEFT_OK ? collected : status;
        report(q, NULL);
        if (running || find_next(q, first, end, INFINITY) < end)
            nanosleep(&moment, NULL);
    }
    return status;
}

/* A screening run that fails, for example because it diverges, rules out its learning rate. */
enum weft_status weft_queue_run(struct weft_queue *q, int64_t seeds)
{
    int64_t screening = weft_study_screening(q->study);
    TRY(run_jobs(q, 0, screening));
    if (is_stopping(q))
        return WEFT_OK;
    TRY(choose(q));
    TRY(run_jobs(q, screening, screening + seeds * q->study->arm_count));
    return WEFT_OK;
}

const struct weft_job *weft_queue_failure(const struct weft_queue *q)
{
    for (int64_t i = weft_study_screening(q->study); i < q->count; i++)
        if (q->job[i].state == WEFT_FAILED)
            return &q->job[i];
    return NULL;
}

enum weft_status weft_queue_run_one(struct weft_queue *q, int64_t i)
{
    if (i < 0 || i >= q->count)
        return FAIL(WEFT_INVALID, "there is no run %lld: the study has %lld runs, numbered from 0", (long long)i,
                    (long long)q->count);
    if (isnan(q->job[i].run.lr))
        return FAIL(WEFT_INVALID,
                    "run %lld needs a learning rate, which the screening runs 0 to %lld choose: finish them first",
                    (long long)i, (long long)weft_study_screening(q->study) - 1);
    return run_jobs(q, i, i + 1);
}
