/* SPDX-License-Identifier: MIT
 *
 * launch - trains on several ranks: prints where they run, starts them with mpirun, and continues a failed run.
 */
#include "launch/launch.h"
#include "cmd/cmd.h"
#include "study/study.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct args {
    struct weft_common common;
    int64_t ranks, min_ranks, restarts; /* 0: not given */
    const char *hosts, *mpirun;
    bool dry_run, slurm;
    struct weft_arg_list words;
};

static const struct weft_arg table[] = {
    {"ranks", 'n', "R", WEFT_ARG_INT, offsetof(struct args, ranks),
     .help = "Start R ranks (default: as many as the hosts have, or one per NUMA node of this host)", .min = 1,
     .max = 65536},
    {"hosts", 'H', "LIST", WEFT_ARG_TEXT, offsetof(struct args, hosts),
     .help = "Run on these hosts: NAME:RANKS,NAME:RANKS"},
    {"restarts", 0, "N", WEFT_ARG_INT, offsetof(struct args, restarts),
     .help = "Continue from the newest checkpoint after a failure, at most N times", .initial = "10", .max = INFINITY},
    {"min-ranks", 0, "R", WEFT_ARG_INT, offsetof(struct args, min_ranks),
     .help = "Continue with as few as R ranks: without the lost host, or with one rank fewer after two "
             "failures without a new checkpoint",
     .min = 1, .max = 65536},
    {"mpirun", 0, "PROGRAM", WEFT_ARG_TEXT, offsetof(struct args, mpirun),
     .help = "Use this launcher of Open MPI or MPICH (default: the first of mpirun.openmpi, mpirun and mpirun.mpich)"},
    {"dry-run", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, dry_run), .help = "Only print layout and command"},
    {"slurm", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, slurm),
     .help = "Print a script for sbatch instead of running; Slurm replaces --hosts and --mpirun"},
    {NULL, 0, "-- train", WEFT_ARG_TEXT, offsetof(struct args, words), .many = true,
     .help = "The command `train` with its arguments, after --",
     .missing = "nothing to run: pass the command after --, as in `weft launch -n 2 -- train gpt2 --out runs/a`"},
    {0},
};

/* ---- signals */

static atomic_int caught;

static void catch (int number)
{
    (void)number;
    atomic_fetch_add(&caught, 1);
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = catch, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    weft_signal_catch(SIGHUP, &action);
    sigaction(SIGINT, &action, NULL);
}

/* ---- what is reported */

static void print_layout(const struct weft_layout *l)
{
    char bound[64] = "not bound";
    if (l->per_node)
        snprintf(bound, sizeof bound, "bound to NUMA nodes, %d on each", l->per_node);
    fprintf(stderr,
            "layout: %d rank%s on %d host%s, at most %d on each (%d cores, %d NUMA node%s), %d thread%s each, %s\n",
            l->ranks, l->ranks == 1 ? "" : "s", l->hosts, l->hosts == 1 ? "" : "s", l->per_host, l->cores, l->nodes,
            l->nodes == 1 ? "" : "s", l->threads, l->threads == 1 ? "" : "s", bound);
    if (l->per_host > l->cores)
        fputs("there are more ranks than cores, so ranks share cores\n", stderr);
    else if (l->per_host < l->nodes)
        fputs("there are more NUMA nodes than ranks: one rank per node is faster\n", stderr);
}

static void print_command(const char *const *command)
{
    fputs("starting: ", stderr);
    weft_say_words(command);
    fputc('\n', stderr);
}

static void print_notice(void *context, const struct weft_rank_job *job, enum weft_rank_job_notice notice)
{
    char how[64], at[64] = "before the first checkpoint";
    (void)context;
    switch (notice) {
    case WEFT_RANK_JOB_STARTS:
        print_layout(&job->layout);
        print_command(job->command);
        break;
    case WEFT_RANK_JOB_STALLED:
        if (job->lost >= 0)
            fprintf(stderr, "weft launch: rank %d is lost\n", job->lost);
        break;
    case WEFT_RANK_JOB_FAILED:
        snprintf(how, sizeof how, "exit code %d", job->code);
        if (job->code > 128)
            snprintf(how, sizeof how, "signal %d", job->code - 128);
        if (job->step >= 0)
            snprintf(at, sizeof at, "after the checkpoint of step %lld", (long long)job->step);
        fprintf(stderr, "weft launch: the ranks failed (%s) %s; ", how, at);
        if (job->end)
            fprintf(stderr, "not restarted: %s\n", job->end);
        else
            fprintf(stderr, "restarting, %d of at most %d times\n", job->attempt + 1, job->restarts);
    }
}

/* ---- the command */

/* Returns the folder of a run from its arguments: --out, or MODEL with --resume. */
static const char *find_folder(const char *const *words)
{
    const char *folder = NULL, *model = NULL;
    bool resume = false;
    for (int i = 1; words[i]; i++) {
        const char *word = words[i];
        if ((strcmp(word, "--out") == 0 || strcmp(word, "-o") == 0) && words[i + 1])
            folder = words[i + 1];
        else if (strncmp(word, "--out=", 6) == 0)
            folder = word + 6;
        else if (!model && weft_is_folder(word))
            model = word;
        resume |= strcmp(word, "--resume") == 0;
    }
    return folder ? folder : resume ? model : NULL;
}

/* Returns the arguments of the command, without a preceding `weft`. */
static const char *const *command_words(const struct args *a)
{
    const char *const *words = a->words.item, *slash = strrchr(*words, '/');
    return words[1] && strcmp(slash ? slash + 1 : *words, "weft") == 0 ? words + 1 : words;
}

static enum weft_status check(const void *args)
{
    const struct args *a = args;
    const char *command = *command_words(a);
    if (strcmp(command, "train") != 0)
        return FAIL(WEFT_INVALID,
                    "only `train` runs on several ranks, not `%s`: use `weft launch -n 2 -- train gpt2 ...`", command);
    if (a->ranks && a->min_ranks > a->ranks)
        return FAIL(WEFT_INVALID, "--min-ranks %lld exceeds the %lld ranks", (long long)a->min_ranks,
                    (long long)a->ranks);
    return WEFT_OK;
}

static enum weft_status show_job(const struct weft_rank_job *job)
{
    struct weft_layout layout;
    struct weft_arena arena = {0};
    const char **command;
    char *hosts = job->hosts.count ? weft_hosts_print(&job->hosts) : NULL;
    weft_layout_make(&layout, job->ranks, &job->hosts, "/sys/devices/system/node");
    print_layout(&layout);
    enum weft_status status = weft_mpirun_words(&job->mpirun, &layout, hosts, job->words, false, &arena, &command);
    if (status == WEFT_OK)
        print_command(command);
    weft_arena_release(&arena);
    free(hosts);
    return status;
}

/* ---- Slurm */

static bool has_word(const char *const *words, const char *word)
{
    while (*words && strcmp(*words, word) != 0)
        words++;
    return *words;
}

/* Slurm signals the shell before the time limit; the shell forwards the signal through srun to the ranks, which save,
 * and the job is requeued. `wait` also returns when a signal arrives, so it is repeated. */
static enum weft_status print_script(const struct weft_rank_job *job)
{
    struct weft_layout l;
    char program[4096], here[4096];
    TRY(weft_program_path(program));
    if (!getcwd(here, sizeof here))
        return FAIL(WEFT_IO, "the path of the current folder cannot be determined: %s", strerror(errno));
    if (!job->folder)
        return FAIL(WEFT_INVALID, "a job that can be requeued needs a folder to continue from: pass --out");
    weft_layout_make(&l, job->ranks, &job->hosts, "/sys/devices/system/node");
    printf("#!/bin/sh\n#SBATCH --job-name=weft\n#SBATCH --ntasks=%d\n#SBATCH --cpus-per-task=%d\n", l.ranks, l.threads);
    fputs(
        "#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --signal=B:USR1@120\n"
        "# Before the time limit the ranks save and the job is requeued; it is also requeued after a failure, at most\n"
        "# this many times:\n",
        stdout);
    printf("restarts=%d\ncd ", job->restarts);
    weft_shell_words((const char *const[]){here, NULL}, stdout);
    fputs(" || exit 1\nstopped=\ntrap 'stopped=yes; kill -USR1 \"$ranks\"' USR1 TERM\n", stdout);
    fputs("srun --mpi=pmix --cpus-per-task=\"$SLURM_CPUS_PER_TASK\" ", stdout);
    weft_shell_words((const char *const[]){program, NULL}, stdout);
    fputc(' ', stdout);
    weft_shell_words(job->words, stdout);
    fputs(has_word(job->words, "--resume") ? " &\n" : " --resume &\n", stdout);
    fputs("ranks=$!\ncode=0\nwhile kill -0 \"$ranks\" 2>/dev/null; do\n    wait \"$ranks\"\n    code=$?\ndone\n"
          "case $code in\n0 | 1 | 2) exit $code ;; # done, or an error that would recur\n"
          "3) [ \"$stopped\" ] || exit 3 ;;\n"
          "*) [ \"${SLURM_RESTART_COUNT:-0}\" -lt $restarts ] || exit $code ;;\nesac\n"
          "exec scontrol requeue \"$SLURM_JOB_ID\"\n",
          stdout);
    return WEFT_OK;
}

static enum weft_status launch(const struct args *a, struct weft_rank_job *job)
{
    TRY(weft_hosts_parse(&job->hosts, a->hosts));
    if (a->ranks && job->hosts.count && a->ranks > job->hosts.slots)
        return FAIL(
            WEFT_INVALID,
            "%lld ranks do not fit on hosts with %d slots: set the number of ranks per host, as in --hosts a:2,b:2",
            (long long)a->ranks, job->hosts.slots);
    if (a->slurm)
        return print_script(job);
    TRY(weft_mpirun_find(&job->mpirun, a->mpirun));
    if (a->dry_run)
        return show_job(job);
    catch_signals();
    TRY(weft_rank_job_run(job));
    return WEFT_OK;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    const char *const *words = command_words(a);
    struct weft_rank_job job = {.words = words,
                                .folder = find_folder(words),
                                .ranks = (int)a->ranks,
                                .min_ranks = (int)a->min_ranks,
                                .restarts = (int)weft_min(a->restarts, 1000000),
                                .signal = &caught,
                                .on_notice = print_notice};
    enum weft_status status = launch(a, &job);
    weft_hosts_release(&job.hosts);
    TRY(status);
    if (job.code == WEFT_EXIT_STOPPED)
        return WEFT_STOPPED;
    if (job.code) /* its ranks have printed the reason */
        exit(job.code);
    return WEFT_OK;
}

const struct weft_cmd weft_cmd_launch = {
    .name = "launch",
    .summary = "train on several ranks and continue after failures",
    .doc = "Starts `weft train` on several ranks with the launcher of Open MPI or MPICH, on this host or on --hosts, "
           "and prints where they run. The weights are the same as with one process, bit for bit. When ranks fail, the "
           "run continues from its newest checkpoint (--resume), unless it has saved none since the previous failure.",
    .notes =
        "Exits with the launcher's code: 0 when the run is finished, 3 when it was stopped, 4 when a rank was lost. On "
        "SIGINT (Ctrl-C), SIGTERM, SIGHUP and SIGUSR1 the ranks save and stop; a second signal ends them immediately. "
        "OMP_NUM_THREADS, or --threads of `weft train`, sets the number of threads per rank. See docs/ranks.md.",
    .args = table,
    .check = check,
    .args_bytes = sizeof(struct args),
    .run = run,
};
