/* SPDX-License-Identifier: MIT
 *
 * queue.h - executes the runs of a study as processes, several at a time, until each is in the ledger.
 */
#ifndef WEFT_QUEUE_H
#define WEFT_QUEUE_H

#include "study/study.h"

#include <stdatomic.h>
#include <sys/types.h>

/* ---- a run (launch.c) */

/* How the runs of a study are started. */
struct weft_launching {
    const char *launcher; /* shell command prepended to the run's, such as srun with its options; NULL: run here */
    bool unsafe;
};
/* Starts `weft train FOLDER --resume` as a process, which saves and ends when the calling process ends. threads: number
 * of threads, 0 if the launcher sets it; slot: index among the concurrent runs, passed to a launcher as WEFT_SLOT. */
enum weft_status weft_launch(const struct weft_launching *how, const char *folder, int threads, int slot, pid_t *pid);
/* Asks the process to save and end. */
void weft_launch_stop(const struct weft_launching *how, pid_t pid);
/* Read the last step in the run's log, if any, and the error at the end of its output. If Weft printed no error,
 * weft_launched_output returns false and writes the last line. */
void weft_launched_progress(const char *folder, int64_t *step, double *loss);
bool weft_launched_output(const char *folder, char *text, size_t size);
/* Reads the result of a run that has ended; finished: whether it has all scores. A result of a program other than
 * f->program_sha256 is an error. */
enum weft_status weft_launched_result(const char *folder, struct weft_finished *f, bool *finished);

/* ---- all of them (queue.c) */

enum weft_job_state { WEFT_WAITING, WEFT_RUNNING, WEFT_DONE, WEFT_FAILED };
struct weft_job {
    struct weft_study_run run;
    enum weft_job_state state;
    int threads, slot;
    pid_t pid;
    int how;      /* exit status of a simulated run, as from waitpid */
    bool started; /* whether this process has started it and need not restart it */
    int losses;   /* number of times the launcher lost it since its last progress */
    int64_t lost_at;
    double ready; /* time at which it may be restarted */
    int64_t step; /* last step in the log of a running job */
    double loss;
    bool done_before; /* whether it was already in the ledger */
    struct weft_finished finished;
    char message[600]; /* reason of the failure */
};

/* Simulates a run instead of starting a process: writes the files that a run leaves in its folder, and returns an exit
 * status. */
typedef int weft_simulate_fn(void *simulation, const struct weft_job *job, const char *folder);

/* All runs of a study; those in the ledger are already done. A run's folder left by a different build or config is
 * removed. `report` is called when the state of a job has changed, and several times a second with NULL. */
struct weft_queue {
    const struct weft_study *study;
    const char *folder;
    int slots, threads;
    struct weft_launching launching;
    bool shared;        /* whether other processes execute other runs of the study */
    atomic_int *signal; /* nonzero: all runs save and end */
    void (*report)(void *context, const struct weft_queue *q, const struct weft_job *job);
    void *context;
    weft_simulate_fn *simulate; /* for simulated studies (room `simulate`); NULL: runs are processes */
    void *simulation;
    /* Filled in: */
    struct weft_job *job;
    int64_t count;
    bool concluded; /* the plan needs no more runs, although some may be waiting */
    char program_sha256[65], plan_sha256[65];
    int lock;
    struct weft_arena arena;
};
/* Creates the folder and, unless it is shared, locks it, waiting for a process that uses it. The caller must set the
 * fields above `job` first. Release the queue even after a failure. */
enum weft_status weft_queue_init(struct weft_queue *q);
void weft_queue_release(struct weft_queue *q);
/* Starts the waiting jobs of the first `seeds` seeds and waits for them. A failed run does not stop the others; a
 * stopped run waits for the next call. */
enum weft_status weft_queue_run(struct weft_queue *q, int64_t seeds);
/* Runs one job. */
enum weft_status weft_queue_run_one(struct weft_queue *q, int64_t i);
/* Returns the first judged run that failed, or NULL. */
const struct weft_job *weft_queue_failure(const struct weft_queue *q);
int64_t weft_queue_count(const struct weft_queue *q, enum weft_job_state state);

#endif
