/* SPDX-License-Identifier: MIT
 *
 * ablate - a study: plans it, checks every arm's gates, trains arms x learning rates x seeds, reports.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/progress.h"
#include "report/report.h"
#include "study/queue.h"

#include <math.h>
#include <signal.h>

enum { A_DAY = 86400 };
#define SMALLER                                                                                                        \
    "configs/gpt2-ra-mla-small has the arms of the RA-MLA study at a size that takes minutes and needs no data"

struct args {
    struct weft_common common;
    const char *config, *out;
    bool dry_run, slurm, unsafe, endless, watch;
    int64_t run; /* -1: all of them */
};

#define SETTINGS WEFT_ARG_STUDY_SETTING, offsetof(struct args, common.settings)
static const struct weft_arg table[] = {
    {"config", 'c', "FILE", WEFT_ARG_FILE, offsetof(struct args, config),
     .help = "The study: a file in Kconfig's format, as those in configs/",
     .missing = "which study? Give --config=FILE, for example configs/recall-quick"},
    {"out", 'o', "DIR", WEFT_ARG_FOLDER, offsetof(struct args, out),
     .help = "The study's folder; studies/NAME if not given"},
    {"steps", 0, "LIST", SETTINGS, .help = "Steps of the RA-MLA study, for example 0,1,2,3", .sets = "ablation_steps"},
    {"ra-mla-ablation-step", 0, "LIST", SETTINGS, .help = "The same as --steps", .sets = "ablation_steps"},
    {"seeds", 0, "N", SETTINGS, .help = "Seeds that every arm is trained with", .sets = "seeds"},
    {"dry-run", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, dry_run), .help = "Plan, gates, table and estimate only"},
    {"slurm", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, slurm),
     .help = "Write an array job for sbatch instead of running"},
    {"run", 0, "N", WEFT_ARG_INT, offsetof(struct args, run), .help = "Run only run number N, as the array job does",
     .initial = "-1", .max = INFINITY},
    {"watch", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, watch),
     .help = "Write the report again after every run; its page reloads itself"},
    {"unsafe", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, unsafe),
     .help = "Train even if a gate fails; the report says so"},
    {"long", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, endless),
     .help = "Run although it would take more than a day"},
    {0},
};

/* ---- the plan */

static void print_doing(void *context, const struct weft_study *s, int arm)
{
    (void)context;
    weft_say(stderr, "%s: gates\n", s->arm[arm].name);
}

static enum weft_status check_gates(const struct weft_study *s)
{
    for (int i = 0; i < s->arm_count; i++)
        for (int g = 0; g < s->arm[i].gate_count; g++)
            if (s->arm[i].gate[g].failed)
                return FAIL(WEFT_CHECK,
                            "arm %s fails the gate %s: %s. What would be trained is not what it claims to be: fix it, "
                            "or pass --unsafe",
                            s->arm[i].name, s->arm[i].gate[g].gate, s->arm[i].gate[g].message);
    return WEFT_OK;
}

static void print_estimate(const struct weft_study *s, const struct weft_estimate *e, FILE *to)
{
    fprintf(to, "%lld runs, %d at once with %d %s each: about %s (%s)\n", (long long)weft_study_runs(s), e->slots,
            e->threads, e->threads == 1 ? "thread" : "threads", weft_duration(e->seconds).text,
            e->timed ? "steps of every arm were timed" : "if training gets half of the machine's speed at products");
}

static enum weft_status print_plan_json(const struct weft_study *s, const struct weft_estimate *e)
{
    struct weft_result *r = weft_result_create();
    int failed = 0;
    weft_result_text(r, "study", s->name);
    weft_result_int(r, "runs", weft_study_runs(s));
    weft_result_int(r, "slots", e->slots);
    weft_result_real(r, "seconds", e->seconds);
    weft_result_text(r, "obstacle", e->obstacle);
    for (int i = 0; i < s->arm_count; i++) {
        const struct weft_account *a = &s->arm[i].account;
        char name[128];
        const struct {
            const char *key;
            double value;
        } rows[] = {{"params", (double)a->params},
                    {"flops", a->flops_train},
                    {"peak_bytes", (double)(a->state_bytes + a->activation_bytes)},
                    {"cache_bytes", (double)a->cache_bytes},
                    {"matched", (double)s->arm[i].matched}};
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            snprintf(name, sizeof name, "%s.%s", s->arm[i].name, rows[k].key);
            weft_result_int(r, name, llround(rows[k].value));
        }
        for (int g = 0; g < s->arm[i].gate_count; g++)
            failed += s->arm[i].gate[g].failed;
    }
    weft_result_int(r, "gates_failed", failed);
    enum weft_status status = weft_result_print(r, stdout, true);
    weft_result_free(r);
    return status;
}

/* Refuses what cannot run or would take too long; a dry run only prints it. */
static enum weft_status check_estimate(const struct args *a, const struct weft_estimate *e)
{
    bool endless = e->seconds > A_DAY && !a->endless && !a->slurm;
    if (!*e->obstacle && !endless)
        return WEFT_OK;
    enum weft_status status =
        *e->obstacle ? FAIL(WEFT_INVALID, "the study cannot run here; %s. " SMALLER, e->obstacle)
                     : FAIL(WEFT_INVALID,
                            "the study would take about %s on this machine: pass --long to run it anyway. " SMALLER,
                            weft_duration(e->seconds).text);
    if (!a->dry_run)
        return status;
    fprintf(stderr, "%s\n", weft_error());
    weft_error_clear();
    return WEFT_OK;
}

/* Gates, table and estimate. What is not trained here is checked on small copies only: the runs check the models
 * themselves. */
static enum weft_status plan(const struct args *a, struct weft_study *s, struct weft_estimate *e)
{
    FILE *to = a->dry_run && !a->common.json ? stdout : stderr;
    TRY(weft_study_plan(s));
    TRY(weft_study_estimate(s, e));
    enum weft_status possible = check_estimate(a, e);
    if (possible != WEFT_OK)
        print_estimate(s, e, to);
    TRY(possible);
    TRY(weft_study_gates(s, !a->dry_run && !a->slurm, print_doing, NULL));
    weft_study_print(s, to);
    if (!a->unsafe)
        TRY(check_gates(s));
    print_estimate(s, e, to);
    if (a->dry_run && a->common.json)
        TRY(print_plan_json(s, e));
    return WEFT_OK;
}

/* ---- running */

/* Estimated seconds: of all runs, and of the part that is done. */
static void add_up(const struct weft_queue *q, double *done, double *all)
{
    *done = *all = 0;
    for (int64_t i = 0; i < q->count; i++) {
        const struct weft_job *job = &q->job[i];
        const struct weft_arm *arm = &q->study->arm[job->run.arm];
        double steps = (double)arm->recipe.steps + 1; /* scoring comes after the last */
        double share = job->state == WEFT_RUNNING ? (double)job->step / steps
                                                  : job->state == WEFT_DONE || job->state == WEFT_FAILED;
        *done += share * arm->seconds;
        *all += arm->seconds;
    }
}

static void show_change(struct weft_line *line, const struct weft_queue *q, const struct weft_job *job)
{
    static const char *const states[] = {"stopped", "started", "done", "FAILED"};
    char more[sizeof job->message + 8] = "";
    if (job->state == WEFT_DONE)
        snprintf(more, sizeof more, ", test loss %.4g", job->finished.test_loss);
    if (job->state == WEFT_FAILED)
        snprintf(more, sizeof more, ": %s", job->message);
    weft_line_say(line, "%s lr %g seed %lld: %s%s", q->study->arm[job->run.arm].name, job->run.lr,
                  (long long)job->run.seed, states[job->state], more);
}

struct showing {
    struct weft_line line;
    bool watch;
};

/* Prints a line for every run that starts or ends; the progress line is that of all runs. A report that cannot be
 * written now does not stop the study: the last one says why. */
static void show(void *context, const struct weft_queue *q, const struct weft_job *job)
{
    struct showing *s = context;
    double done, all;
    if (job)
        show_change(&s->line, q, job);
    if (job && job->state == WEFT_DONE && s->watch && weft_report_write(q->folder) != WEFT_OK)
        weft_error_clear();
    add_up(q, &done, &all);
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
    sigaction(SIGHUP, &action, NULL);
    action.sa_flags |= SA_RESETHAND; /* a second SIGINT ends the study at once; its runs still save */
    sigaction(SIGINT, &action, NULL);
}

static enum weft_status print_result(const struct args *a, const struct weft_queue *q)
{
    int64_t known = 0;
    for (int64_t i = 0; i < q->count; i++)
        known += q->job[i].done_before;
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "study", q->study->name);
    weft_result_text(r, "folder", a->out);
    weft_result_int(r, "runs", q->count);
    weft_result_int(r, "done", weft_queue_count(q, WEFT_DONE));
    weft_result_int(r, "done_before", known);
    weft_result_int(r, "failed", weft_queue_count(q, WEFT_FAILED));
    enum weft_status status = weft_result_print(r, stdout, a->common.json);
    weft_result_free(r);
    return status;
}

/* The finding, and where the page is. */
static enum weft_status say_finding(const struct args *a)
{
    struct weft_results r;
    char text[WEFT_VERDICT_TEXT];
    enum weft_status status = weft_results_load(&r, a->out);
    if (status == WEFT_OK) {
        weft_results_headline(&r, text);
        weft_say(stderr, "%s\n%s/report.html has the curves and all numbers\n", text, a->out);
    }
    weft_results_release(&r);
    return status;
}

static enum weft_status check_failures(const struct args *a, const struct weft_queue *q)
{
    const struct weft_job *first = weft_queue_failure(q);
    if (!first)
        return WEFT_OK;
    return FAIL(
        WEFT_CHECK,
        "%lld of %lld runs failed, the first of them arm %s, seed %lld: %s. The same command tries them again; the "
        "full output of this run is in %s/%s",
        (long long)weft_queue_count(q, WEFT_FAILED), (long long)q->count, q->study->arm[first->run.arm].name,
        (long long)first->run.seed, first->message, a->out, first->run.folder);
}

/* Prints how to continue if a run that was asked for is not done. */
static enum weft_status check_stopped(const struct args *a, const struct weft_queue *q, const char *const *words)
{
    bool done = a->run < 0 ? q->concluded : q->job[a->run].state == WEFT_DONE;
    if (done)
        return WEFT_OK;
    fprintf(stderr, "stopped and saved with %lld of %lld runs done. To continue: weft ",
            (long long)weft_queue_count(q, WEFT_DONE), (long long)q->count);
    weft_say_words(words);
    if (a->run >= 0)
        fprintf(stderr, " --run %lld", (long long)a->run);
    fputc('\n', stderr);
    return WEFT_STOPPED;
}

/* The plan is saved once this process has the folder; that of a single run is the whole study's. */
static enum weft_status run_queue(const struct args *a, struct weft_queue *q, const char *const *words)
{
    TRY(weft_queue_init(q));
    if (a->run < 0)
        TRY(weft_study_save(q->study, a->out, words));
    double done, all;
    add_up(q, &done, &all);
    struct showing *s = q->context;
    weft_line_init(&s->line, done);
    enum weft_status status = a->run < 0 ? weft_queue_run_looks(q) : weft_queue_run_one(q, a->run);
    weft_line_end(&s->line);
    TRY(status);
    if (a->run < 0 && !caught)
        TRY(weft_report_write(a->out));
    TRY(check_failures(a, q));
    TRY(print_result(a, q));
    if (a->run < 0 && !caught)
        TRY(say_finding(a));
    return check_stopped(a, q, words);
}

static enum weft_status run_all(const struct args *a, const struct weft_study *s, int slots, int threads,
                                const char *const *words)
{
    struct showing showing = {.watch = a->watch && a->run < 0};
    struct weft_queue q = {.study = s,
                           .folder = a->out,
                           .slots = slots,
                           .threads = threads,
                           .unsafe = a->unsafe,
                           .shared = a->run >= 0,
                           .signal = &caught,
                           .report = show,
                           .context = &showing};
    catch_signals();
    enum weft_status status = run_queue(a, &q, words);
    weft_queue_release(&q);
    return status;
}

/* ---- the command */

/* The command that does the same again. */
struct command {
    struct weft_arena arena;
    const char *words[2 * WEFT_MAX_SETTINGS + 8];
};

static enum weft_status make_command(const struct args *a, struct command *c)
{
    const struct weft_settings *s = &a->common.settings;
    int n = 0;
    const char *const head[] = {"ablate", "--config", a->config, "--out", a->out};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        c->words[n++] = head[i];
    if (a->unsafe)
        c->words[n++] = "--unsafe";
    if (a->endless)
        c->words[n++] = "--long";
    for (int i = 0; i < s->count; i++) {
        c->words[n++] = "--set";
        c->words[n] = weft_arena_print(&c->arena, "%s=%s", s->setting[i].name, s->setting[i].value);
        if (!c->words[n++])
            return FAIL(WEFT_NOMEM, "not enough memory for a command");
    }
    return WEFT_OK;
}

static enum weft_status write_job(const struct args *a, const struct weft_study *s, const struct command *c,
                                  const struct weft_estimate *e)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/study.sbatch", a->out);
    TRY(weft_study_slurm(s, path, c->words, e->threads));
    printf("%s\n", path);
    return WEFT_OK;
}

static enum weft_status run_study(const struct args *a, struct weft_study *s, const struct command *c)
{
    struct weft_estimate e;
    if (a->run >= 0) {
        TRY(weft_study_plan(s));
        return run_all(a, s, 1, weft_threads(), c->words);
    }
    TRY(plan(a, s, &e));
    if (a->dry_run)
        return WEFT_OK;
    if (!a->slurm)
        return run_all(a, s, e.slots, e.threads, c->words);
    TRY(weft_study_save(s, a->out, c->words));
    return write_job(a, s, c, &e);
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct weft_study s = {0};
    struct command c = {0};
    enum weft_status status = weft_study_init(&s, a->config, &a->common.settings);
    if (status == WEFT_OK && !a->out && !(a->out = weft_arena_print(&s.arena, "studies/%s", s.name)))
        status = FAIL(WEFT_NOMEM, "not enough memory for a path");
    if (status == WEFT_OK)
        status = make_command(a, &c);
    if (status == WEFT_OK)
        status = run_study(a, &s, &c);
    weft_arena_release(&c.arena);
    weft_study_release(&s);
    return status;
}

const struct weft_cmd weft_cmd_ablate = {
    .name = "ablate",
    .summary = "a study: arms x learning rates x seeds, gated, trained, reported",
    .doc = "Runs a study: its arms, each with the same learning rates and seeds, every run a process of its own. First "
           "every arm's gates are checked, and what each arm takes and how long everything takes is printed.",
    .notes = "The same command continues what was interrupted, at any moment and by anything. Runs that are done are "
             "not trained again. SIGINT and SIGTERM save and end. See docs/studies.md.",
    .args = table,
    .takes = WEFT_TAKES_STUDY_SET | WEFT_TAKES_THREADS | WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
