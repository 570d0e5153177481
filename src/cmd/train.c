/* SPDX-License-Identifier: MIT
 *
 * train - trains a model on a task and scores it on held-out samples; with --out it leaves a run's folder.
 */
#include "base/json.h"
#include "bench/bench.h"
#include "check/check.h"
#include "cmd/cmd.h"
#include "train/account.h"
#include "train/record.h"

#include <string.h>
#include <unistd.h>

struct args {
    struct weft_common common;
    char *out;
    bool resume, unsafe;
    double minutes; /* 0: no limit */
    double start;
};

enum { UNSAFE = 256, RESUME, TIME };

static const struct argp_option options[] = {
    {"out", 'o', "DIR", 0, "Write config, log and checkpoints into DIR, usually runs/NAME", 0},
    {"resume", RESUME, NULL, 0,
     "Go on from the newest checkpoint in DIR, or begin if there is none; without --out, MODEL is DIR", 0},
    {"time", TIME, "MINUTES", 0, "Save and stop before so many minutes are over", 0},
    {"unsafe", UNSAFE, NULL, 0, "Train even if a gate fails; the result says so", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        a->start = weft_seconds();
        state->child_inputs[0] = &a->common;
        return 0;
    case 'o':
        a->out = arg;
        return 0;
    case RESUME:
        a->resume = true;
        return 0;
    case TIME:
        a->minutes = weft_arg_real(state, "time", arg, 1e-6, 1e9);
        return 0;
    case UNSAFE:
        a->unsafe = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&weft_model_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .doc = "Trains MODEL, a preset or a config file, on a task (--set task=NAME), then tells how it does on samples "
           "held out for validation and for the test, and the SHA-256 of its weights. First its gates are checked: see "
           "`weft verify`.\v"
           "A run in a folder can be killed at any time: with --resume it comes to the same weights and the same log. "
           "On SIGTERM and SIGUSR1 it saves and ends.",
};

/* ---- gates: before the first step */

static void tell_failure(void *context, const struct weft_check *c)
{
    (void)context;
    if (!c->passed)
        fprintf(stderr, "FAILED %s: %s: %.4g (limit %.4g): %s\n", c->gate, c->name, c->figure, c->limit, c->where);
}

static enum weft_status check_gates(const struct args *a, struct weft_gates *report)
{
    double start = weft_seconds();
    *report = (struct weft_gates){.tell = tell_failure};
    TRY(weft_gates_run(&a->common.spec, WEFT_GATES_TO_TRAIN, report));
    if (report->failed && !a->unsafe)
        return FAIL(WEFT_CHECK,
                    "%d of %d checks of the gates failed, as told above: what would be trained is not what it claims "
                    "to be. Mend it, or say --unsafe",
                    report->failed, report->checks);
    fprintf(stderr, "gates: %d of %d checks passed in %.1f s\n", report->checks - report->failed, report->checks,
            weft_seconds() - start);
    return WEFT_OK;
}

/* What was found before in the same folder by the same program holds. */
static enum weft_status check_gates_once(const struct args *a, struct weft_record *run, struct weft_gates *report)
{
    bool same = false;
    char path[4096];
    if (!run)
        return check_gates(a, report);
    snprintf(path, sizeof path, "%s/gates.json", run->folder);
    TRY(weft_stamp_load(path, run->config_sha256, &same, report));
    if (!same || (report->failed && !a->unsafe)) {
        TRY(check_gates(a, report));
        TRY(weft_stamp_save(path, run->config_sha256, report));
    }
    run->gates_checks = report->checks;
    run->gates_failed = report->failed;
    return WEFT_OK;
}

/* ---- progress: one line that is rewritten on a terminal, some twenty plain lines elsewhere */

struct line {
    bool terminal;
    double said;              /* when */
    double shares_per_tokens; /* tokens/s times this is the share of the engine's speed; 0: not measured */
    struct weft_progress last;
};

/* The means over layers, on a line of their own. */
static void tell_diagnosis(const struct line *line, const struct weft_progress *now)
{
    fprintf(stderr, "%sstep %lld/%lld", line->terminal ? "\r\033[K" : "", (long long)now->step, (long long)now->steps);
    for (int i = 0; i < now->diagnosis->count; i++)
        fprintf(stderr, "  %s %.4g", now->diagnosis->list[i].name, now->diagnosis->list[i].mean);
    fputc('\n', stderr);
}

static void tell(void *context, const struct weft_progress *now)
{
    struct line *line = context;
    bool end = now->step == now->steps;
    int64_t every = weft_max(1, now->steps / 20);
    line->last = *now;
    if (now->diagnosis)
        tell_diagnosis(line, now);
    if (!end && (line->terminal ? now->seconds - line->said < 0.1 : now->step % every != 0))
        return;
    line->said = now->seconds;
    fprintf(stderr, "%sstep %lld/%lld  loss %.4f", line->terminal ? "\r" : "", (long long)now->step,
            (long long)now->steps, now->losses.list[0].value);
    for (int i = 1; now->losses.count > 2 && i < now->losses.count; i++)
        fprintf(stderr, "%s%s %.4g%s", i == 1 ? " (" : ", ", now->losses.list[i].name, now->losses.list[i].value,
                i == now->losses.count - 1 ? ")" : "");
    fprintf(stderr, "  %.0f tokens/s", now->tokens_per_s);
    if (line->shares_per_tokens > 0)
        fprintf(stderr, " (%.0f %% of the engine)", 100 * now->tokens_per_s * line->shares_per_tokens);
    fprintf(stderr, "  %.0f s left%s", now->seconds_left, line->terminal ? "    " : "\n");
    if (line->terminal && end)
        fputc('\n', stderr);
}

/* How fast training could be at most, if it were one large product. Short runs would spend their time on that. */
static void measure_engine(struct line *line, const struct weft_trainer *t)
{
    const struct weft_spec *spec = t->model->spec;
    int64_t tokens = spec->batch * t->length; /* of a micro-batch */
    double rate, flops = weft_exec_cost(t->exec).flops / (double)tokens;
    if (flops * (double)(tokens * t->recipe->micro_batches * (t->recipe->steps - t->step)) < 1e13)
        return;
    if (weft_recipe_flops(t->recipe, spec, flops, &flops) == WEFT_OK &&
        weft_bare_rate(spec->compute, 0.2, &rate) == WEFT_OK)
        line->shares_per_tokens = flops / rate;
    else
        weft_error_clear();
}

/* ---- stopping */

static volatile sig_atomic_t caught;

static void catch (int number) { caught = number; }

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = catch, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

/* ---- the run */

struct outcome {
    struct weft_gates gates;
    struct line line;
    struct weft_scores scores;
    bool finished;
};

static enum weft_status print_result(const struct weft_common *c, const struct weft_trainer *t, const struct outcome *o)
{
    char hash[65];
    weft_params_hash(&t->model->params, hash);
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "preset", t->model->spec->preset);
    weft_result_text(r, "task", t->recipe->task->name);
    weft_result_int(r, "params", t->model->params.elements);
    weft_result_int(r, "steps", t->step);
    weft_result_real(r, "loss", t->loss);
    if (o->finished) {
        weft_result_real(r, "eval_loss", o->scores.val.loss);
        weft_result_real(r, "accuracy", o->scores.val.accuracy);
        weft_result_real(r, "test_loss", o->scores.test.loss);
        weft_result_real(r, "test_accuracy", o->scores.test.accuracy);
    }
    weft_result_real(r, "seconds", t->seconds);
    weft_result_real(r, "tokens_per_s", o->line.last.tokens_per_s);
    weft_result_int(r, "threads", weft_threads());
    weft_result_text(r, "isa", weft_isa_name(weft_isa()));
    weft_result_int(r, "gates_failed", o->gates.failed);
    weft_result_text(r, "weights_sha256", hash);
    enum weft_status status = weft_result_print(r, stdout, c->json);
    weft_result_free(r);
    return status;
}

/* Where a run that goes on stands, and what is another than it was. */
static void tell_resumed(const struct weft_record *run, const struct weft_trainer *t)
{
    fprintf(stderr, "%s goes on from step %lld\n", run->folder, (long long)t->step);
    if (*run->changes)
        fprintf(stderr, "changed: %s\n", run->changes);
    if (strstr(run->changes, "steps "))
        fputs("its learning rates follow the other schedule from here on: this is not the run that had these steps "
              "from the start\n",
              stderr);
    if (strstr(run->changes, "isa ") || strstr(run->changes, "program_sha256 "))
        fputs("its bits from here on are those of this program and instruction set: another would not repeat them\n",
              stderr);
}

/* Samples are drawn anew for every use: where there are few, the same ones come again. */
static void warn_of_repeats(const struct weft_trainer *t)
{
    const struct weft_recipe *r = t->recipe;
    const struct weft_spec *spec = t->model->spec;
    if (!r->task->different)
        return;
    double read = (double)r->steps * (double)r->micro_batches * (double)spec->batch;
    double there = r->task->different(spec, r->task_options);
    if (read > there / 100)
        weft_note_once("repeats", "only %.6g different samples exist: held-out ones occur in training", there);
}

static enum weft_status take_steps(const struct args *a, struct weft_trainer *t, struct weft_record *run,
                                   struct outcome *o)
{
    struct weft_loop loop = {.trainer = t, .record = run, .report = tell, .context = &o->line, .signal = &caught};
    if (a->minutes > 0)
        loop.deadline = a->start + 60 * a->minutes;
    if (run) {
        TRY(weft_record_begin(run, t));
        if (t->step)
            tell_resumed(run, t);
    }
    weft_note_once("path", "instruction set %s (%s), %d threads", weft_isa_name(weft_isa()), weft_dnn_describe(),
                   weft_threads());
    warn_of_repeats(t);
    measure_engine(&o->line, t);
    enum weft_status status = weft_train(&loop, &o->finished, &o->scores);
    if (o->line.terminal && o->line.last.step && !o->finished)
        fputc('\n', stderr); /* what follows does not stand behind the progress line */
    TRY(status);
    if (!o->finished)
        fprintf(stderr, "stopped %s after step %lld of %lld%s%s\n", caught ? "by a signal" : "as the time is over",
                (long long)t->step, (long long)t->recipe->steps, run ? ", saved: --resume goes on" : "",
                run ? "" : "; nothing was saved, for there is no --out");
    return WEFT_OK;
}

static enum weft_status train(const struct args *a, struct weft_model *model, struct weft_record *run)
{
    struct weft_trainer *t = NULL;
    struct outcome o = {.line = {.terminal = isatty(STDERR_FILENO)}};
    enum weft_status status = check_gates_once(a, run, &o.gates);
    if (status == WEFT_OK)
        status = weft_model_init(model);
    if (status == WEFT_OK)
        status = weft_trainer_create(&t, model, &a->common.recipe);
    if (status == WEFT_OK)
        status = take_steps(a, t, run, &o);
    if (status == WEFT_OK)
        status = print_result(&a->common, t, &o);
    weft_trainer_free(t);
    return status;
}

/* To resume, MODEL may be the run's folder. */
static enum weft_status choose_folder(struct args *a)
{
    if (!a->resume || a->out)
        return WEFT_OK;
    if (!weft_is_folder(a->common.model))
        return FAIL(WEFT_INVALID, "which run is to go on? Say --out DIR, or give its folder as MODEL, not %s",
                    a->common.model);
    a->out = (char *)a->common.model;
    return WEFT_OK;
}

static enum weft_status train_in_folder(struct args *a, struct weft_model *model)
{
    struct weft_record run = {0};
    TRY(choose_folder(a));
    TRY(weft_account_fit(model, &a->common.recipe, weft_free_bytes()));
    if (!a->out)
        return train(a, model, NULL);
    catch_signals();
    enum weft_status status = weft_record_open(&run, a->out, a->resume, &a->common.recipe, &a->common.settings);
    if (status == WEFT_OK)
        status = train(a, model, &run);
    weft_record_close(&run);
    return status;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct weft_model *model = NULL;
    enum weft_status status = weft_common_init(&a->common);
    if (status == WEFT_OK)
        status = weft_recipe_open(&a->common.recipe, &a->common.spec);
    if (status == WEFT_OK)
        status = weft_model_create(&model, &a->common.spec);
    if (status == WEFT_OK)
        status = train_in_folder(a, model);
    weft_model_free(model);
    weft_common_release(&a->common);
    return status;
}

const struct weft_cmd weft_cmd_train = {"train", "train a model on a task", &argp, sizeof(struct args), run};
