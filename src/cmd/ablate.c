/* SPDX-License-Identifier: MIT
 *
 * ablate - a study: plans it, checks every arm's gates, trains arms x learning rates x seeds, reports.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "report/report.h"
#include "study/queue.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { A_DAY = 86400 };
#define SMALLER                                                                                                        \
    "configs/gpt2-ra-mla-small has the arms of the source study at a size that takes minutes and needs no data"

struct args {
    struct weft_common common;
    const char *config;
    char *out;
    bool dry_run, slurm, unsafe, endless;
    int64_t run; /* -1: all of them */
};

enum { OUT = 256, STEPS, SEEDS, DRY_RUN, SLURM, RUN, UNSAFE, LONG };

static const struct argp_option options[] = {
    {"config", 'c', "FILE", 0, "The study: a file in Kconfig's format, as those in configs/", 0},
    {"out", 'o', "DIR", 0, "The study's folder; studies/NAME if not given", 0},
    {"steps", STEPS, "LIST", 0, "Steps of the source study, for example 0,1,2,3", 0},
    {"ra-mla-ablation-step", STEPS, "LIST", OPTION_ALIAS, NULL, 0},
    {"seeds", SEEDS, "N", 0, "Seeds that every arm is trained with", 0},
    {"dry-run", DRY_RUN, NULL, 0, "Plan, gates, table and estimate only", 0},
    {"slurm", SLURM, NULL, 0, "Write an array job for sbatch instead of running", 0},
    {"run", RUN, "N", 0, "Run that one run alone, as the array job does", 0},
    {"unsafe", UNSAFE, NULL, 0, "Train even if a gate fails; the report says so", 0},
    {"long", LONG, NULL, 0, "Run although it would take more than a day", 0},
    {0},
};

static void add(struct weft_common *c, const char *name, const char *value)
{
    char setting[1024];
    snprintf(setting, sizeof setting, "%s=%s", name, value);
    if (c->status == WEFT_OK)
        c->status = weft_settings_add(&c->settings, setting);
}

static void parse_run(struct args *a, const char *text, const struct argp_state *state)
{
    char *end;
    a->run = strtoll(text, &end, 10);
    if (end == text || *end || a->run < 0)
        argp_error(state, "--run %s: give a number from 0 up", text);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->common;
        a->run = -1;
        return 0;
    case 'c':
        a->config = arg;
        return 0;
    case 'o':
        a->out = arg;
        return 0;
    case STEPS:
        add(&a->common, "ablation_steps", arg);
        return 0;
    case SEEDS:
        add(&a->common, "seeds", arg);
        return 0;
    case RUN:
        parse_run(a, arg, state);
        return 0;
    case ARGP_KEY_END:
        if (!a->config)
            argp_error(state, "which study? Say --config FILE, for example configs/recall-quick");
        return 0;
    }
    bool *const flag = key == DRY_RUN  ? &a->dry_run
                       : key == SLURM  ? &a->slurm
                       : key == UNSAFE ? &a->unsafe
                                       : &a->endless;
    if (key != DRY_RUN && key != SLURM && key != UNSAFE && key != LONG)
        return ARGP_ERR_UNKNOWN;
    *flag = true;
    return 0;
}

static const struct argp_child children[] = {{&weft_common_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .doc = "Runs a study: its arms, each with the same learning rates and seeds, every run a process of its own. First "
           "every arm's gates are checked; what each arm takes and how long all takes is told.\v"
           "The same command goes on with what was interrupted, at any moment and by anything. Runs that are done "
           "are not trained again. SIGINT and SIGTERM save and end. See docs/studies.md.",
};

/* ---- the plan */

static void tell_plan(void *context, const struct weft_study *s, int arm, const char *doing)
{
    (void)context;
    fprintf(stderr, "%s: %s\n", s->arm[arm].name, doing);
}

static enum weft_status check_gates(const struct weft_study *s)
{
    for (int i = 0; i < s->arm_count; i++)
        for (int g = 0; g < s->arm[i].gate_count; g++)
            if (s->arm[i].gate[g].failed)
                return FAIL(WEFT_CHECK,
                            "arm %s fails the gate %s: %s. What would be trained is not what it claims to be: mend it, "
                            "or say --unsafe",
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

/* Refuses what cannot be or would take too long; a dry run only tells of it. */
static enum weft_status check_estimate(const struct args *a, const struct weft_estimate *e)
{
    bool endless = e->seconds > A_DAY && !a->endless && !a->slurm;
    if (!*e->obstacle && !endless)
        return WEFT_OK;
    enum weft_status status =
        *e->obstacle
            ? FAIL(WEFT_INVALID, "the study cannot run here; %s. " SMALLER, e->obstacle)
            : FAIL(WEFT_INVALID,
                   "the study would take about %s on this machine: say --long to run it all the same. " SMALLER,
                   weft_duration(e->seconds).text);
    if (!a->dry_run)
        return status;
    fprintf(stderr, "%s\n", weft_error());
    weft_error_clear();
    return WEFT_OK;
}

/* Table and estimate. */
static enum weft_status plan(const struct args *a, struct weft_study *s, struct weft_estimate *e)
{
    FILE *to = a->dry_run && !a->common.json ? stdout : stderr;
    TRY(weft_study_plan(s, true, tell_plan, NULL));
    weft_study_print(s, to);
    if (!a->unsafe)
        TRY(check_gates(s));
    TRY(weft_study_estimate(s, e));
    print_estimate(s, e, to);
    TRY(check_estimate(a, e));
    if (a->dry_run && a->common.json)
        TRY(print_plan_json(s, e));
    return WEFT_OK;
}

/* ---- running */

static volatile sig_atomic_t caught;

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

static enum weft_status check_failures(const struct args *a, const struct weft_queue *q)
{
    for (int64_t i = 0; i < q->count; i++)
        if (q->job[i].state == WEFT_FAILED)
            return FAIL(
                WEFT_CHECK,
                "%lld of %lld runs failed, the first of them arm %s, seed %lld: %s. The same command tries them "
                "again; the full output of this run is in %s/%s",
                (long long)weft_queue_count(q, WEFT_FAILED), (long long)q->count, q->study->arm[q->job[i].run.arm].name,
                (long long)q->job[i].run.seed, q->job[i].message, a->out, q->job[i].run.folder);
    return WEFT_OK;
}

/* Prints how to continue if a run that was asked for is not done. */
static enum weft_status check_stopped(const struct args *a, const struct weft_queue *q, const char *const *words)
{
    bool done = a->run < 0 ? !weft_queue_count(q, WEFT_WAITING) : q->job[a->run].state == WEFT_DONE;
    if (done)
        return WEFT_OK;
    fprintf(stderr, "stopped and saved with %lld of %lld runs done. To continue: weft ",
            (long long)weft_queue_count(q, WEFT_DONE), (long long)q->count);
    weft_shell_words(words, stderr);
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
    TRY(a->run < 0 ? weft_queue_run(q) : weft_queue_run_one(q, a->run));
    if (a->run < 0 && !caught)
        TRY(weft_report_write(a->out));
    TRY(check_failures(a, q));
    TRY(print_result(a, q));
    return check_stopped(a, q, words);
}

static enum weft_status run_all(const struct args *a, const struct weft_study *s, int slots, int threads,
                                const char *const *words)
{
    struct weft_queue_view view = {.to = stderr, .terminal = isatty(STDERR_FILENO), .start = weft_seconds()};
    struct weft_queue q = {.study = s,
                           .folder = a->out,
                           .slots = slots,
                           .threads = threads,
                           .unsafe = a->unsafe,
                           .shared = a->run >= 0,
                           .signal = &caught,
                           .report = weft_queue_view,
                           .context = &view};
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
            return FAIL(WEFT_NOMEM, "no memory for a command");
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
        TRY(weft_study_plan(s, false, tell_plan, NULL));
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
    enum weft_status status = a->common.status;
    if (status == WEFT_OK)
        status = weft_study_init(&s, a->config, &a->common.settings);
    if (status == WEFT_OK && !a->out && !(a->out = weft_arena_print(&s.arena, "studies/%s", s.name)))
        status = FAIL(WEFT_NOMEM, "no memory for a path");
    if (status == WEFT_OK)
        status = make_command(a, &c);
    if (status == WEFT_OK)
        status = run_study(a, &s, &c);
    weft_arena_release(&c.arena);
    weft_study_release(&s);
    weft_settings_release(&a->common.settings);
    return status;
}

const struct weft_cmd weft_cmd_ablate = {"ablate", "a study: arms x learning rates x seeds, gated, trained, reported",
                                         &argp, sizeof(struct args), run};
