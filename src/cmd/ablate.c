/* SPDX-License-Identifier: MIT
 *
 * ablate - plans a study, checks every arm's gates, trains arms x learning rates x seeds, and writes the report.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/kit/planning.h"
#include "cmd/kit/progress.h"
#include "report/report.h"
#include "study/queue.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct args {
    struct weft_common common;
    const char *config, *out, *launch;
    struct weft_planning plan;
    bool slurm, watch;
    int64_t run; /* -1: all of them */
};

#define SETTINGS WEFT_ARG_STUDY_SETTING, offsetof(struct args, common.settings)
static const struct weft_arg table[] = {
    {"config", 'c', "FILE", WEFT_ARG_FILE, offsetof(struct args, config),
     .help = "Read the study from this file in Kconfig's format, for example one of those in configs/",
     .missing = "no study given: pass --config=FILE, for example --config=configs/recall-quick"},
    {"out", 'o', "DIR", WEFT_ARG_FOLDER, offsetof(struct args, out),
     .help = "Write the study to this folder (default: studies/NAME)"},
    {"steps", 0, "LIST", SETTINGS, .help = "Select steps of the RA-MLA study, for example 0,1,2,3",
     .sets = "ablation_steps"},
    {"ra-mla-ablation-step", 0, "LIST", SETTINGS, .help = "Alias of --steps", .sets = "ablation_steps"},
    {"seeds", 0, "N", SETTINGS, .help = "Train every arm with N seeds", .sets = "seeds"},
    {"budget", 0, "MINUTES", SETTINGS,
     .help = "Train every arm for the same number of steps, as many as fit into this time; the plan records the number",
     .sets = "budget"},
    {"stand-in", 0, "DIR", SETTINGS,
     .help = "Train on these token files instead of the config's; the report mentions it", .sets = "stand_in"},
    {"ladder", 0, "SIZES", SETTINGS, .help = "Run the study at several sizes: SETTING SETTING | SETTING SETTING | ...",
     .sets = "ladder"},
    {"dry-run", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, plan.dry_run),
     .help = "Only plan, run the gates, and print the table and the estimate"},
    {"slurm", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, slurm),
     .help = "Write an array job for sbatch instead of running the study"},
    {"launch", 0, "COMMAND", WEFT_ARG_TEXT, offsetof(struct args, launch),
     .help = "Start every run with this command, such as 'srun -N1 -n1 --exclusive'; slots=N sets how many run "
             "concurrently"},
    {"run", 0, "N", WEFT_ARG_INT, offsetof(struct args, run),
     .help = "Train only run N, as a task of the array job does", .initial = "-1", .max = INFINITY},
    {"watch", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, watch),
     .help = "Update the report after every run; its page reloads itself"},
    {"unsafe", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, plan.unsafe),
     .help =
         "Train even if a gate, a simulated study or the comparison of first samples fails; the report mentions it"},
    {"long", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, plan.endless),
     .help = "Run even if the study would take more than a day"},
    {0},
};

/* ---- running */

/* Adds up the estimated seconds of all runs, or of run `only` if it is not -1, and the seconds of the part that is
 * finished. A single run has no estimate, so its steps are counted instead. */
static void add_up(const struct weft_queue *q, int64_t only, double *done, double *all)
{
    *done = *all = 0;
    for (int64_t i = weft_max(0, only); i < (only < 0 ? q->count : only + 1); i++) {
        const struct weft_job *job = &q->job[i];
        const struct weft_arm *arm = &q->study->arm[job->run.arm];
        double steps = (double)arm->recipe.steps + 1; /* plus one for the final scoring */
        double seconds = arm->seconds > 0 ? arm->seconds : steps;
        double share = job->state == WEFT_RUNNING ? (double)job->step / steps
                                                  : job->state == WEFT_DONE || job->state == WEFT_FAILED;
        *done += share * seconds;
        *all += seconds;
    }
}

static void show_change(struct weft_line *line, const struct weft_queue *q, const struct weft_job *job)
{
    static const char *const states[] = {"stopped", "started", "done", "FAILED"};
    char more[sizeof job->message + 8] = "";
    if (job->state == WEFT_DONE)
        snprintf(more, sizeof more, ", test loss %.4g", job->finished.test_loss);
    bool lost = job->state == WEFT_WAITING && !job->started;
    if (job->state == WEFT_FAILED || lost)
        snprintf(more, sizeof more, ": %s", job->message);
    weft_line_say(line, "%s lr %g seed %lld: %s%s", q->study->arm[job->run.arm].name, job->run.lr,
                  (long long)job->run.seed, lost ? "lost, will be restarted" : states[job->state], more);
}

struct showing {
    struct weft_line line;
    int64_t run; /* -1: all of them */
    bool watch;
};

/* Prints a line for every run that starts or ends, and a progress line for all runs. A report that cannot be written
 * does not stop the study: the last report gives the reason. */
static void show(void *context, const struct weft_queue *q, const struct weft_job *job)
{
    struct showing *s = context;
    double done, all;
    if (job)
        show_change(&s->line, q, job);
    if (job && job->state == WEFT_DONE && s->watch && weft_report_write(q->folder) != WEFT_OK)
        weft_error_clear();
    add_up(q, s->run, &done, &all);
    weft_line_show(&s->line, done, all, "%lld of %lld runs done, %lld running  %.0f %%",
                   (long long)weft_queue_count(q, WEFT_DONE), (long long)q->count,
                   (long long)weft_queue_count(q, WEFT_RUNNING), 100 * done / all);
}

static atomic_int caught;

static void catch (int number) { caught = number; }

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = catch, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    weft_signal_catch(SIGHUP, &action);
    action.sa_flags |= SA_RESETHAND; /* a second SIGINT ends the study immediately; its runs still save */
    sigaction(SIGINT, &action, NULL);
}

/* One rung of a ladder; a study without a ladder has only one. */
struct rung {
    const struct args *a;
    const struct weft_study *study;
    const char *folder;
    const char *const *words; /* the command that runs this rung again */
    const char *const *again; /* the command as given: the same, or the command of the whole ladder */
    int slots, threads;
    bool only;                       /* there are no other rungs */
    struct weft_simulated simulated; /* results of the simulated studies, to be recorded */
};

static enum weft_status print_result(const struct rung *g, const struct weft_queue *q)
{
    int64_t known = 0;
    for (int64_t i = 0; i < q->count; i++)
        known += q->job[i].done_before;
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "study", q->study->name);
    weft_result_text(r, "folder", g->folder);
    weft_result_int(r, "runs", q->count);
    weft_result_int(r, "done", weft_queue_count(q, WEFT_DONE));
    weft_result_int(r, "done_before", known);
    weft_result_int(r, "failed", weft_queue_count(q, WEFT_FAILED));
    return weft_result_finish(r, stdout, g->a->common.json);
}

/* Prints the finding and the path of the page. */
static enum weft_status say_finding(const char *folder)
{
    struct weft_results r;
    char text[WEFT_VERDICT_TEXT];
    enum weft_status status = weft_results_load(&r, folder);
    if (status == WEFT_OK) {
        weft_results_headline(&r, text);
        weft_say(stderr, "%s\n%s/report.html shows the curves and all numbers\n", text, folder);
    }
    weft_results_release(&r);
    return status;
}

static enum weft_status check_failures(const struct weft_queue *q)
{
    const struct weft_job *first = weft_queue_failure(q);
    if (!first)
        return WEFT_OK;
    return FAIL(WEFT_CHECK,
                "%lld of %lld runs failed; the first is arm %s, seed %lld: %s. Run the same command to retry them; the "
                "full output of that run is in %s/%s",
                (long long)weft_queue_count(q, WEFT_FAILED), (long long)q->count, q->study->arm[first->run.arm].name,
                (long long)first->run.seed, first->message, q->folder, first->run.folder);
}

/* Prints how to continue if a requested run is not done. */
static enum weft_status check_stopped(const struct rung *g, const struct weft_queue *q)
{
    bool done = g->a->run < 0 ? q->concluded : q->job[g->a->run].state == WEFT_DONE;
    if (done)
        return WEFT_OK;
    fprintf(stderr, "stopped and saved with %lld of %lld runs done. To continue: weft ",
            (long long)weft_queue_count(q, WEFT_DONE), (long long)q->count);
    weft_say_words(g->again);
    if (g->a->run >= 0)
        fprintf(stderr, " --run %lld", (long long)g->a->run);
    fputc('\n', stderr);
    return WEFT_STOPPED;
}

/* The plan is saved once this process has locked the folder; a single run uses the saved plan of the whole study. */
static enum weft_status run_queue(const struct rung *g, struct weft_queue *q)
{
    bool all_runs = g->a->run < 0, reports = all_runs && !weft_gates_skipped();
    TRY(weft_queue_init(q));
    if (all_runs)
        TRY(weft_study_save(q->study, g->folder, g->words));
    if (all_runs)
        TRY(weft_simulate_record(g->folder, &g->simulated));
    double done, all;
    struct showing *s = q->context;
    add_up(q, s->run, &done, &all);
    weft_line_init(&s->line, done);
    enum weft_status status = all_runs ? weft_queue_run_looks(q) : weft_queue_run_one(q, g->a->run);
    weft_line_end(&s->line);
    TRY(status);
    if (reports && !caught)
        TRY(weft_report_write(g->folder));
    TRY(check_failures(q));
    if (g->only)
        TRY(print_result(g, q));
    if (reports && !caught)
        TRY(say_finding(g->folder));
    return check_stopped(g, q);
}

static enum weft_status run_rung(const struct rung *g)
{
    struct showing showing = {.run = g->a->run, .watch = g->a->watch && g->a->run < 0};
    struct weft_queue q = {.study = g->study,
                           .folder = g->folder,
                           .slots = g->slots,
                           .threads = g->threads,
                           .launching = {g->a->launch, g->a->plan.unsafe},
                           .shared = g->a->run >= 0,
                           .signal = &caught,
                           .report = show,
                           .context = &showing};
    enum weft_status status = run_queue(g, &q);
    weft_queue_release(&q);
    return status;
}

/* ---- the command */

/* The command that repeats this one. */
struct command {
    struct weft_arena arena;
    char copy[4096]; /* path of the config's copy */
    const char *words[2 * WEFT_MAX_SETTINGS + 10];
};

static enum weft_status make_command(const struct args *a, const char *config, const char *out,
                                     const struct weft_settings *s, struct command *c)
{
    int n = 0;
    const char *const head[] = {"ablate", "--config", config, "--out", out};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        c->words[n++] = head[i];
    if (a->plan.unsafe)
        c->words[n++] = "--unsafe";
    if (a->plan.endless)
        c->words[n++] = "--long";
    if (a->launch) {
        c->words[n++] = "--launch";
        c->words[n++] = a->launch;
    }
    for (int i = 0; i < s->count; i++) {
        c->words[n++] = "--set";
        c->words[n] = weft_arena_print(&c->arena, "%s=%s", s->setting[i].name, s->setting[i].value);
        if (!c->words[n++])
            return FAIL(WEFT_NOMEM, "not enough memory for a command");
    }
    return WEFT_OK;
}

static enum weft_status write_job(const struct rung *g)
{
    char path[4096];
    TRY(weft_study_save(g->study, g->folder, g->words));
    TRY(weft_simulate_record(g->folder, &g->simulated));
    snprintf(path, sizeof path, "%s/study.sbatch", g->folder);
    TRY(weft_study_slurm(g->study, path, g->words, g->threads));
    printf("%s\n", path);
    return WEFT_OK;
}

/* The state of one command. */
struct work {
    struct weft_study_ladder ladder;
    struct weft_estimate estimate[WEFT_MAX_RUNGS];
    struct command whole, own[WEFT_MAX_RUNGS];
    char folder[WEFT_MAX_RUNGS][4096];
    struct weft_rungs rungs;
};

/* A launcher sets the number of threads of its runs, unless --threads is given. */
static int launch_threads(const struct args *a, int here)
{
    return a->launch && !a->slurm ? (int)a->common.threads : here;
}

static enum weft_status do_rung(const struct args *a, struct work *w, int i)
{
    struct weft_study *s = &w->ladder.rung[i].study;
    struct command *own = &w->own[i];
    struct rung g = {.a = a,
                     .study = s,
                     .folder = w->folder[i],
                     .words = own->words,
                     .again = w->ladder.count == 1 ? own->words : w->whole.words,
                     .slots = w->estimate[i].slots,
                     .threads = launch_threads(a, w->estimate[i].threads),
                     .only = w->ladder.count == 1};
    if (!g.only)
        weft_say(stderr, "rung %d of %d\n", i + 1, w->ladder.count);
    TRY(weft_study_copy_path(s->name, g.folder, own->copy)); /* to rerun it, even if the config is replaced */
    TRY(make_command(a, own->copy, g.folder, &w->ladder.rung[i].settings, own));
    TRY(weft_planning_check(&a->plan, s, g.folder, &g.simulated));
    if (a->plan.dry_run)
        return WEFT_OK;
    return a->slurm ? write_job(&g) : run_rung(&g);
}

/* Prints the finding of all rungs and the path of the page. */
static enum weft_status conclude(const struct args *a, struct work *w)
{
    TRY(weft_rungs_conclude(&w->rungs, &w->ladder, a->out));
    TRY(weft_rungs_print(&w->rungs, a->common.json, stdout));
    weft_say(stderr, "%s/ladder.html has the pictures\n", a->out);
    return WEFT_OK;
}

/* Trains one run of a study, as a task of an array job. */
static enum weft_status run_single(const struct args *a, struct work *w)
{
    if (w->ladder.count > 1)
        return FAIL(WEFT_INVALID,
                    "--run selects a run of one study, but this is a ladder: run the command of a rung, which is in "
                    "%s/rung-1/study.json and so on",
                    a->out);
    struct weft_study *s = &w->ladder.rung[0].study;
    struct rung g = {.a = a,
                     .study = s,
                     .folder = a->out,
                     .words = w->whole.words,
                     .again = w->whole.words,
                     .slots = 1,
                     .threads = launch_threads(a, weft_threads()),
                     .only = true};
    TRY(weft_study_plan(s));
    TRY(weft_study_fix_steps(s, g.folder, NULL));
    TRY(weft_simulate_once(g.folder, a->plan.unsafe, &g.simulated));
    return run_rung(&g);
}

static enum weft_status run_all(const struct args *a, struct work *w)
{
    for (int i = 0; i < w->ladder.count; i++)
        TRY(weft_study_ladder_folder(&w->ladder, i, a->out, w->folder[i]));
    TRY(weft_planning_estimate(&a->plan, &w->ladder, w->folder, w->estimate));
    for (int i = 0; i < w->ladder.count; i++)
        TRY(do_rung(a, w, i));
    if (a->plan.dry_run)
        return a->common.json ? weft_planning_json(&w->ladder, w->estimate) : WEFT_OK;
    return w->ladder.count > 1 && !a->slurm ? conclude(a, w) : WEFT_OK;
}

/* Sets the number of runs that are launched concurrently: slots or, if the study does not set slots, the number of
 * Slurm nodes. */
static enum weft_status choose_places(struct weft_study_ladder *l)
{
    const char *nodes = getenv("SLURM_JOB_NUM_NODES");
    long count = nodes ? strtol(nodes, NULL, 10) : 0;
    for (int i = 0; i < l->count; i++) {
        int64_t *slots = &l->rung[i].study.slots;
        if (!*slots && count < 1)
            return FAIL(WEFT_INVALID, "--launch needs the number of concurrent runs: pass --set slots=N");
        *slots = *slots ? *slots : weft_min(count, 4096);
    }
    return WEFT_OK;
}

static enum weft_status run_work(struct args *a, struct work *w)
{
    TRY(weft_study_ladder_init(&w->ladder, a->config, &a->common.settings));
    struct weft_study *first = &w->ladder.rung[0].study;
    if (!a->out && !(a->out = weft_arena_print(&first->arena, "studies/%s", first->name)))
        return FAIL(WEFT_NOMEM, "not enough memory for a path");
    if (a->launch && strpbrk(a->launch, "\n\r\t"))
        return FAIL(WEFT_INVALID, "the --launch command has several lines: put it into a script");
    if (a->launch)
        TRY(choose_places(&w->ladder));
    TRY(make_command(a, a->config, a->out, &a->common.settings, &w->whole));
    catch_signals();
    return a->run >= 0 ? run_single(a, w) : run_all(a, w);
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct work *w = calloc(1, sizeof *w);
    a->plan.json = a->common.json;
    a->plan.elsewhere = a->slurm || a->launch;
    enum weft_status status = w ? run_work(a, w) : FAIL(WEFT_NOMEM, "not enough memory for a study");
    for (int i = 0; w && i < WEFT_MAX_RUNGS; i++)
        weft_arena_release(&w->own[i].arena);
    if (w) {
        weft_arena_release(&w->whole.arena);
        weft_rungs_release(&w->rungs);
        weft_study_ladder_release(&w->ladder);
    }
    free(w);
    return status;
}

const struct weft_cmd weft_cmd_ablate = {
    .name = "ablate",
    .summary = "run a study: check, train and compare arms x learning rates x seeds",
    .doc = "Runs a study: its arms, each with the same learning rates and seeds, every run in its own process. First "
           "it prints the estimated time, runs simulated studies (once for each program), compares the first samples "
           "of all arms, checks every arm's gates, and prints the cost of each arm. With a ladder, it does all this at "
           "every size, and reports whether a gain survives scale.",
    .notes = "The same command continues a study that was interrupted, at any moment and for any reason. Finished runs "
             "are not repeated. With --launch, runs are started on different hosts, and restarted if a host fails. On "
             "SIGINT and SIGTERM the runs save and end. See docs/studies.md.",
    .args = table,
    .takes = WEFT_TAKES_STUDY_SET | WEFT_TAKES_THREADS | WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
