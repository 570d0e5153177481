/* SPDX-License-Identifier: MIT
 *
 * queue.h - runs a study: its runs as processes, several at a time, until each is in the ledger.
 */
#ifndef WEFT_QUEUE_H
#define WEFT_QUEUE_H

#include "study/study.h"

#include <stdatomic.h>
#include <sys/types.h>

/* ---- a run (launch.c) */

/* How all runs of a study are started. */
struct weft_launching {
    const char *launcher; /* shell command prepended to the run's, such as srun with its options; NULL: run here */
    bool unsafe;
};
/* Starts a process, `weft train FOLDER --resume`. When this process ends, the run also saves and ends. threads: 0: set
 * by the launcher; slot: index among the concurrent runs, a launcher's WEFT_SLOT. */
enum weft_status weft_launch(const struct weft_launching *how, const char *folder, int threads, int slot, pid_t *pid);
/* Asks the process to save and end. */
void weft_launch_stop(const struct weft_launching *how, pid_t pid);
/* Read the last step in its log, if any, and the error at the end of its output; without an error from Weft, the latter
 * returns false and the last line. */
void weft_launched_progress(const char *folder, int64_t *step, double *loss);
bool weft_launched_output(const char *folder, char *text, size_t size);
/* Reads its result after it has ended; finished: it has all scores. A result of a program other than f->program_sha256
 * is an error. */
enum weft_status weft_launched_result(const char *folder, struct weft_finished *f, bool *finished);

/* ---- all of them (queue.c) */

enum weft_job_state { WEFT_WAITING, WEFT_RUNNING, WEFT_DONE, WEFT_FAILED };
struct weft_job {
    struct weft_study_run run;
    enum weft_job_state state;
    int threads, slot;
    pid_t pid;
    int how;      /* exit status of a simulated run, as from waitpid */
    bool started; /* by this process, and not to be restarted */
    int losses;   /* number of times the launcher lost it since its last progress */
    int64_t lost_at;
    double ready; /* time at which it may be restarted */
    int64_t step; /* last step in the log of a running job */
    double loss;
    bool done_before; /* it was already in the ledger */
    struct weft_finished finished;
    char message[600]; /* reason of the failure */
};

/* Replaces starting a process: writes the files that a run leaves in its folder, and returns its exit status. */
typedef int weft_simulate_fn(void *simulation, const struct weft_job *job, const char *folder);

/* All runs of a study; those in the ledger are already done. A run's folder left by a different build or config is
 * removed. `report` is called when the state of a job has changed, and with NULL several times a second. */
struct weft_queue {
    const struct weft_study *study;
    const char *folder;
    int slots, threads;
    struct weft_launching launching;
    bool shared;        /* further processes do further runs of the study */
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
/* The caller sets the fields above `job`. Creates the folder and, unless it is shared, locks it: waits for another
 * process that uses it. Release also after a failure. */
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
