/* SPDX-License-Identifier: MIT
 *
 * queue.h - running a study: its runs as processes, some at once, until each is in the ledger.
 */
#ifndef WEFT_QUEUE_H
#define WEFT_QUEUE_H

#include "study/study.h"

#include <signal.h>
#include <sys/types.h>

/* ---- a run (launch.c) */

/* A process of its own, `weft train FOLDER --resume`. It ends with this one, after it saved. */
enum weft_status weft_launch(const char *folder, int threads, bool unsafe, pid_t *pid);
/* How far its log is, if it has one; and the end of what it told. */
void weft_launched_progress(const char *folder, int64_t *step, double *loss);
void weft_launched_output(const char *folder, char *text, size_t size);
/* Its result, when it has ended; not finished: it was stopped. */
enum weft_status weft_launched_result(const char *folder, struct weft_finished *f, bool *finished);

/* ---- all of them (queue.c) */

enum weft_job_state { WEFT_WAITING, WEFT_RUNNING, WEFT_DONE, WEFT_FAILED };
struct weft_job {
    struct weft_study_run run;
    enum weft_job_state state;
    int threads;
    pid_t pid;
    int64_t step; /* of what runs, as far as it told */
    double loss;
    bool known; /* done before: it stood in the ledger */
    struct weft_finished finished;
    char message[600]; /* of a failure */
};

/* All runs of a study, those that are done taken from the ledger. A run that another program or config left in its
 * folder is removed. `report` is called when a job's state has changed, and with NULL some times a second. */
struct weft_queue {
    const struct weft_study *study;
    const char *folder;
    int slots, threads;
    bool unsafe, shared;                 /* shared: other processes run other runs of the study */
    const volatile sig_atomic_t *signal; /* ends all runs, which save, when it is not 0 */
    void (*report)(void *context, const struct weft_queue *q, const struct weft_job *job);
    void *context;
    /* Filled in: */
    struct weft_job *job;
    int64_t count;
    char program_sha256[65];
    int lock;
    struct weft_arena arena;
};
/* Fields above `job` are the caller's. Makes the folder and, unless it is shared, holds it for this process alone: one
 * that works on it is waited for. Release also after a failure. */
enum weft_status weft_queue_init(struct weft_queue *q);
void weft_queue_release(struct weft_queue *q);
/* Runs what waits, and waits for it; a run that fails stays so and stops nothing. */
enum weft_status weft_queue_run(struct weft_queue *q);
/* Runs one job. */
enum weft_status weft_queue_run_one(struct weft_queue *q, int64_t i);
int64_t weft_queue_count(const struct weft_queue *q, enum weft_job_state state);

/* ---- telling how far it is (queue_view.c): weft_queue_view is its `report`, a view its context. */
struct weft_queue_view {
    FILE *to;
    bool terminal;
    double start;
    /* Its own: */
    bool drawn;
    double said;
};
void weft_queue_view(void *view, const struct weft_queue *q, const struct weft_job *job);
struct weft_words {
    char text[40];
};
struct weft_words weft_duration(double seconds); /* "3.5 hours" */

#endif
