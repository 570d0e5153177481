/* SPDX-License-Identifier: MIT
 *
 * job.c - starts the ranks, monitors them, and restarts them from the newest checkpoint if they fail.
 *
 * The launcher has its own process group, because otherwise a ^C on the terminal would make it terminate the ranks.
 * SIGUSR1, which launchers pass on, asks the ranks to save. A launcher may wait for a lost host. So a rank that ends
 * because it lost another rank writes the number of the lost rank to a file, and the launcher is killed if it does not
 * end within a few seconds.
 */
#define _GNU_SOURCE
#include "ckpt/ckpt.h"
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GRACE = 6 }; /* seconds from a report to SIGKILL; an earlier SIGTERM would crash Open MPI's launcher */

/* One attempt to run the ranks. */
struct attempt {
    struct weft_rank_job *job;
    char report[64]; /* path of the file where ranks report a lost rank */
    pid_t pid;
    int passed;      /* number of signals that were passed on */
    double reported; /* time when a rank reported; 0: none did */
    bool killed;     /* killed because of the report */
};

static void note(const struct weft_rank_job *job, enum weft_rank_job_notice notice)
{
    if (job->on_notice)
        job->on_notice(job->context, job, notice);
}

/* ---- starting */

/* Becomes the launcher, in the new process. Signals are blocked until this program's handlers are removed. */
static void become(const char *const *command, pid_t parent)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGUSR1};
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        sigaction(caught[i], &plain, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGUSR1);
    int null = open("/dev/null", O_RDONLY);
    if (getppid() == parent && null >= 0 && dup2(null, STDIN_FILENO) == STDIN_FILENO)
        execv(command[0], (char *const *)command);
}

static enum weft_status start(struct attempt *a)
{
    pid_t parent = getpid();
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    a->pid = fork();
    if (a->pid == 0) {
        become(a->job->command, parent);
        _exit(127);
    }
    int error = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (a->pid < 0)
        return FAIL(WEFT_NOMEM, "cannot start a process: %s", strerror(error));
    return WEFT_OK;
}

/* If the user set a number of threads, it is kept. */
static enum weft_status set_environment(const struct attempt *a)
{
    char number[16], threads[16];
    snprintf(number, sizeof number, "%d", a->job->layout.ranks);
    snprintf(threads, sizeof threads, "%d", a->job->layout.threads);
    if (setenv("WEFT_RANKS", number, 1) || setenv("OMP_NUM_THREADS", threads, !a->job->own_threads) ||
        setenv("WEFT_STALL_REPORT", a->report, 1))
        return FAIL(WEFT_NOMEM, "not enough memory for the environment");
    return WEFT_OK;
}

/* ---- monitoring */

static void read_report(struct attempt *a)
{
    FILE *f = a->reported > 0 ? NULL : fopen(a->report, "re");
    int lost;
    if (!f)
        return;
    if (fscanf(f, "%d", &lost) == 1) {
        a->reported = weft_seconds();
        a->job->lost = lost;
        note(a->job, WEFT_RANK_JOB_STALLED);
    }
    fclose(f);
}

static void kill_stalled(struct attempt *a)
{
    if (a->killed || a->reported == 0 || weft_seconds() - a->reported < GRACE)
        return;
    kill(-a->pid, SIGKILL);
    a->killed = true;
}

/* The first signal asks the ranks to save; a second one terminates them. */
static void pass_signals(struct attempt *a)
{
    int wanted = a->job->signal ? atomic_load(a->job->signal) : 0;
    if (wanted > a->passed)
        kill(a->pid, wanted == 1 ? SIGUSR1 : SIGTERM);
    a->passed = wanted;
}

static enum weft_status follow(struct attempt *a)
{
    int how;
    for (;;) {
        pid_t pid = waitpid(a->pid, &how, WNOHANG);
        if (pid == a->pid)
            break;
        if (pid < 0 && errno != EINTR)
            return FAIL(WEFT_IO, "cannot wait for the launcher: %s", strerror(errno));
        pass_signals(a);
        read_report(a);
        kill_stalled(a);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    read_report(a);
    a->job->code = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    if (a->job->code && a->reported > 0) /* launchers may replace the ranks' exit code */
        a->job->code = WEFT_EXIT_STALLED;
    return WEFT_OK;
}

static enum weft_status try_once(struct attempt *a, bool resume)
{
    struct weft_rank_job *job = a->job;
    struct weft_arena arena = {0};
    const char **command = NULL;
    char *hosts = job->hosts.count ? weft_hosts_print(&job->hosts) : NULL;
    weft_layout_make(&job->layout, job->ranks, &job->hosts, "/sys/devices/system/node");
    enum weft_status status = set_environment(a);
    if (status == WEFT_OK)
        status = weft_mpirun_words(&job->mpirun, &job->layout, hosts, job->words, resume, &arena, &command);
    job->command = command;
    job->lost = -1;
    if (status == WEFT_OK) {
        note(job, WEFT_RANK_JOB_STARTS);
        status = start(a);
    }
    if (status == WEFT_OK)
        status = follow(a);
    job->command = NULL;
    weft_arena_release(&arena);
    free(hosts);
    return status;
}

/* Each attempt has its own file, because ranks of the previous one may still be ending. */
static enum weft_status try_reported(struct weft_rank_job *job, bool resume)
{
    struct attempt a = {.job = job};
    const char *folder = getenv("TMPDIR");
    if (snprintf(a.report, sizeof a.report, "%s/weft-launch-XXXXXX", folder ? folder : "/tmp") >= (int)sizeof a.report)
        strcpy(a.report, "/tmp/weft-launch-XXXXXX");
    int fd = mkstemp(a.report);
    if (fd < 0)
        return FAIL(WEFT_IO, "%s cannot be created: %s", a.report, strerror(errno));
    close(fd);
    enum weft_status status = try_once(&a, resume);
    unlink(a.report);
    return status;
}

/* ---- after a failure */

static bool asks_to_resume(const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], "--resume") == 0)
            return true;
    return false;
}

static bool may_shrink(const struct weft_rank_job *job, int to) { return job->min_ranks && to >= job->min_ranks; }

/* Removes the host of a lost rank if enough slots remain; otherwise drops one rank if there was no progress. */
static void shrink(struct weft_rank_job *job, bool progress)
{
    int now = job->layout.ranks, host = weft_hosts_find(&job->hosts, job->lost);
    int left = host < 0 ? 0 : (int)weft_min(now, job->hosts.slots - job->hosts.list[host].slots);
    job->ranks = now;
    if (left > 0 && may_shrink(job, left)) {
        weft_hosts_drop(&job->hosts, host);
        job->ranks = left;
    } else if (!progress && now > 1 && may_shrink(job, now - 1)) {
        job->ranks--;
    } else if (!progress) {
        job->end = "there was no new checkpoint since the previous failure";
    }
}

static enum weft_status judge(struct weft_rank_job *job, int64_t *failed_at)
{
    char newest[4096];
    job->end = NULL;
    job->step = -1;
    if (job->folder)
        TRY(weft_ckpt_latest(job->folder, NULL, NULL, &job->step, newest, sizeof newest));
    bool progress = job->attempt == 0 || job->step > *failed_at;
    *failed_at = job->step;
    if (job->signal && atomic_load(job->signal))
        job->end = "it was asked to stop";
    else if (!job->folder)
        job->end = "without --out there is no checkpoint to resume from";
    else if (job->attempt >= job->restarts)
        job->end = "it was restarted as often as --restarts allows";
    else
        shrink(job, progress);
    note(job, WEFT_RANK_JOB_FAILED);
    return WEFT_OK;
}

enum weft_status weft_rank_job_run(struct weft_rank_job *job)
{
    int64_t failed_at = -1;
    bool asked = asks_to_resume(job->words);
    job->own_threads = getenv("OMP_NUM_THREADS") != NULL;
    for (job->attempt = 0;; job->attempt++) {
        TRY(try_reported(job, job->attempt > 0 && !asked));
        if (job->code == 0 || job->code == 2 || job->code == WEFT_EXIT_STOPPED)
            return WEFT_OK;
        TRY(judge(job, &failed_at));
        if (job->end)
            return WEFT_OK;
    }
}
