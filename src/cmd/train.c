/* SPDX-License-Identifier: MIT
 *
 * train - trains a model on a task and scores it on held-out samples; with --out it writes a run's folder.
 */
#define _GNU_SOURCE
#include "base/json.h"
#include "bench/bench.h"
#include "ckpt/ckpt.h"
#include "cmd/cmd.h"
#include "cmd/kit/progress.h"
#include "cmd/kit/ranks.h"
#include "dnn/dnn.h"
#include "run/run.h"
#include "train/record/record.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct args {
    struct weft_common common;
    const char *out;
    bool resume, unsafe;
    double minutes; /* 0: no limit */
    int64_t verify_every;
    double stall; /* seconds; 0: no limit */
};

static const struct weft_arg table[] = {
    {"out", 'o', "DIR", WEFT_ARG_FOLDER, offsetof(struct args, out),
     .help = "Write config, log and checkpoints into DIR, usually runs/NAME"},
    {"init", 'i', "PATH", WEFT_ARG_SETTING, offsetof(struct args, common.settings), .sets = "init",
     .help = "Start from the weights of a run, checkpoint or safetensors file, as far as they fit"},
    {"resume", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, resume),
     .help = "Continue from the newest checkpoint in DIR, or start if there is none; without --out, MODEL is DIR"},
    {"time", 0, "MINUTES", WEFT_ARG_REAL, offsetof(struct args, minutes),
     .help = "Save and stop before this many minutes have passed", .min = 1e-6, .max = 1e9},
    {"verify-every", 0, "STEPS", WEFT_ARG_INT, offsetof(struct args, verify_every),
     .help = "On several ranks: every STEPS steps, recompute one group of the next rank and compare", .min = 0,
     .max = 1e12},
    {"stall", 0, "SECONDS", WEFT_ARG_REAL, offsetof(struct args, stall),
     .help = "On several ranks: exit with 4 if a rank sends no heartbeat for this many seconds; 0: wait for ever",
     .initial = "300", .min = 0, .max = 1e9},
    {"unsafe", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, unsafe),
     .help = "Train even if a gate fails; the result mentions it"},
    {0},
};

/* ---- progress */

struct view {
    struct weft_line line;
    struct weft_fits fits;    /* how each initial weight matches the file of `init` */
    double shares_per_tokens; /* factor from tokens/s to the fraction of the engine's speed; 0: not measured */
};

/* Prints the means over layers on their own line. */
static void print_diagnosis(struct weft_line *line, const struct weft_progress *now)
{
    char text[1024] = "";
    size_t used = 0;
    for (int i = 0; i < now->diagnosis->count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "  %s %.4g", now->diagnosis->list[i].name,
                                 now->diagnosis->list[i].mean);
    weft_line_say(line, "step %lld/%lld%s", (long long)now->step, (long long)now->steps, text);
}

static void print_progress(void *context, const struct weft_progress *now)
{
    struct view *v = context;
    char terms[256] = "", share[64] = "";
    size_t used = 0;
    if (now->diagnosis)
        print_diagnosis(&v->line, now);
    for (int i = 1; now->losses.count > 2 && i < now->losses.count && used < sizeof terms; i++)
        used += (size_t)snprintf(terms + used, sizeof terms - used, "%s%s %.4g%s", i == 1 ? " (" : ", ",
                                 now->losses.list[i].name, now->losses.list[i].value,
                                 i == now->losses.count - 1 ? ")" : "");
    if (v->shares_per_tokens > 0)
        snprintf(share, sizeof share, " (%.0f %% of the engine)", 100 * now->tokens_per_s * v->shares_per_tokens);
    weft_line_show(&v->line, (double)now->step, (double)now->steps, "step %lld/%lld  loss %.4f%s  %.0f tokens/s%s",
                   (long long)now->step, (long long)now->steps, now->losses.list[0].value, terms, now->tokens_per_s,
                   share);
}

/* Measures the upper limit of training speed: the speed of one large matmul. Short runs skip it, because it takes too
 * long. */
static void measure_engine(struct view *v, const struct weft_spec *spec, const struct weft_progress *now)
{
    double rate, left = now->flops_per_token * (double)now->step_tokens * (double)(now->steps - now->step);
    if (left < 1e13)
        return;
    if (weft_product_rate(spec->compute, 0.2, &rate) == WEFT_OK)
        v->shares_per_tokens = now->flops_per_token / rate;
    else
        weft_error_clear();
}

/* ---- what the run reports */

static void print_failed(void *context, const struct weft_check *c)
{
    (void)context;
    weft_say(stderr, "FAILED %s: %s: %.4g (limit %.4g): %s\n", c->gate, c->name, c->figure, c->limit, c->where);
}

static void note_weight(void *context, const char *name, enum weft_fit fit)
{
    weft_fits_add(&((struct view *)context)->fits, name, fit);
}

static void print_resumed(const struct weft_run *run)
{
    weft_say(stderr, "resuming %s from step %lld\n", run->folder, (long long)run->progress.step);
    if (*run->changes)
        weft_say(stderr, "changed: %s\n", run->changes);
    if (strstr(run->changes, "steps "))
        fputs("its learning rates now follow the new schedule, so the result differs from that of a run planned with "
              "this number of steps from the start\n",
              stderr);
    if (strstr(run->changes, "program_sha256 "))
        fputs("its results now depend on this build: a different build may not reproduce them bit for bit\n", stderr);
}

static void print_notice(void *context, const struct weft_run *run, enum weft_run_notice notice)
{
    struct view *v = context;
    switch (notice) {
    case WEFT_RUN_GATES:
        if (run->gates_checks)
            fprintf(stderr, "gates: %d of %d checks passed in %.1f s\n", run->gates_checks - run->gates_failed,
                    run->gates_checks, run->gates_seconds);
        else
            fputs("gates: not run because WEFT_TEST_SKIP_GATES is set, so reports, audits and publishing reject this "
                  "run\n",
                  stderr);
        break;
    case WEFT_RUN_ADOPTED:
        weft_say(stderr, "weights of %s (sha256 %.16s...):\n", run->recipe->init, run->model->origin);
        weft_fits_print(&v->fits, stderr);
        break;
    case WEFT_RUN_RESUMED:
        print_resumed(run);
        break;
    case WEFT_RUN_REPEATS:
        weft_note_once("repeats", "only %.6g different samples exist, so held-out samples occur in training",
                       run->different);
        break;
    case WEFT_RUN_BEGINS:
        weft_note_once("path", "instruction set %s (%s), %d threads", weft_isa_name(weft_isa()), weft_dnn_describe(),
                       weft_threads());
        if (run->comm)
            weft_note_once("ranks", "%d ranks", run->comm->size);
        measure_engine(v, run->spec, &run->progress);
        weft_line_init(&v->line, (double)run->progress.step);
    }
}

static enum weft_status print_result(const struct weft_run *run, bool json)
{
    char program[65];
    TRY(weft_program_hash(program));
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "preset", run->spec->preset);
    weft_result_text(r, "task", run->recipe->task->name);
    weft_result_int(r, "params", run->model->params.elements);
    weft_result_int(r, "steps", run->progress.step);
    weft_result_real(r, "loss", run->loss);
    if (run->finished)
        weft_scores_add(r, &run->scores, run->spec, run->recipe);
    weft_result_real(r, "seconds", run->seconds);
    weft_result_real(r, "tokens_per_s", run->progress.tokens_per_s);
    weft_result_int(r, "threads", weft_threads());
    weft_result_int(r, "ranks", run->comm ? run->comm->size : 1);
    weft_result_text(r, "isa", weft_dnn_path());
    weft_result_int(r, "moment_bytes", run->moment_bytes);
    if (run->comm) {
        weft_result_int(r, "comm_bytes", run->comm->bytes_sent);
        weft_result_real(r, "comm_s", run->comm->seconds);
        weft_result_real(r, "comm_hidden_s", run->comm->hidden);
    }
    if (run->gates_checks) {
        weft_result_real(r, "gates_seconds", run->gates_seconds);
        weft_result_int(r, "gates_failed", run->gates_failed);
    } else {
        weft_result_text(r, "gates", WEFT_GATES_NOT_RUN);
    }
    weft_result_text(r, "program_sha256", program);
    weft_result_text(r, "weights_sha256", run->weights_sha256);
    weft_result_text(r, "stream_sha256", run->stream_sha256);
    if (*run->chain)
        weft_result_text(r, "chain", run->chain);
    return weft_result_finish(r, stdout, json);
}

/* ---- stopping */

static atomic_int caught;

static void catch (int number)
{
    static const char text[] = "\nsaving after this step; press Ctrl-C again to quit without saving\n";
    int error = errno;
    caught = number;
    if (number == SIGINT)
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
    errno = error;
}

/* A second SIGINT ends the process, as without a handler. */
static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = catch, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    weft_signal_catch(SIGHUP, &action);
    action.sa_flags |= SA_RESETHAND;
    weft_signal_catch(SIGINT, &action);
}

static enum weft_status stop(const struct weft_run *run)
{
    char name[16] = "SIG";
    const char *of = caught ? sigabbrev_np(caught) : NULL, *why = of ? strncat(name, of, sizeof name - 4) : "--time";
    fprintf(stderr, "stopped by %s after step %lld of %lld", why, (long long)run->progress.step,
            (long long)run->progress.steps);
    if (run->folder) {
        fputs(", saved. To continue: ", stderr);
        weft_say_words((const char *const[]){"weft", "train", run->folder, "--resume",
                                             run->gates_failed ? "--unsafe" : NULL, NULL});
        fputc('\n', stderr);
    } else {
        fputs("; nothing was saved because there is no --out\n", stderr);
    }
    return WEFT_STOPPED;
}

/* ---- the run */

/* With --resume, MODEL may be the run's folder. */
static enum weft_status choose_folder(struct args *a)
{
    if (!a->resume || a->out)
        return WEFT_OK;
    if (!weft_model_is_folder(a->common.model))
        return FAIL(WEFT_INVALID,
                    "--resume needs the folder of a run: pass it as MODEL, instead of %s, or as --out DIR",
                    a->common.model);
    a->out = a->common.model;
    return WEFT_OK;
}

static bool has_file(const char *folder, const char *name)
{
    char path[4200];
    snprintf(path, sizeof path, "%.4095s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static bool is_same(const char *folder, const char *other)
{
    struct stat one, two;
    return stat(folder, &one) == 0 && stat(other, &two) == 0 && one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

/* Fails if MODEL has weights, which training would ignore, unless --resume continues it. */
static enum weft_status check_model(const struct args *a)
{
    const char *model = a->common.model;
    char newest[4096];
    int64_t step;
    if (!weft_model_is_folder(model))
        return WEFT_OK;
    TRY(weft_ckpt_latest(model, NULL, NULL, &step, newest, sizeof newest));
    bool checkpoint = has_file(model, "model.safetensors"), run = step >= 0 || has_file(model, "log.jsonl");
    bool begins = *a->common.recipe.init && is_same(model, a->common.recipe.init);
    if (!begins && (checkpoint || (run && !(a->resume && is_same(model, a->out)))))
        return FAIL(WEFT_INVALID,
                    "%s has weights, which training would ignore. To continue a run, pass its folder and --resume; to "
                    "start a new run from its weights, pass --init %s; to start from new weights with the same config, "
                    "pass %s/config.json as MODEL",
                    model, model, model);
    return WEFT_OK;
}

/* Rank 0 prints for all ranks; the others print only their own errors. */
static enum weft_status join_ranks(struct weft_run *run, struct weft_comm *comm, double stall)
{
    int ranks;
    if (!weft_comm_launched(&ranks))
        return WEFT_OK;
    run->comm = comm;
    TRY(weft_ranks_join(comm, stall));
    if (comm->rank == 0)
        return WEFT_OK;
    weft_log_set(NULL, NULL);
    run->on_failed_check = NULL;
    run->on_notice = NULL;
    run->on_weight = NULL;
    run->on_progress = NULL;
    return WEFT_OK;
}

static enum weft_status train(struct args *a, struct weft_run *run, struct view *v)
{
    TRY(weft_common_init(&a->common));
    TRY(choose_folder(a));
    TRY(check_model(a));
    run->folder = a->out;
    if (run->folder)
        catch_signals();
    else
        weft_note_once("unsaved", "nothing will be saved because there is no --out");
    enum weft_status status = weft_run_train(run);
    weft_line_end(&v->line);
    TRY(status);
    if (run->comm && run->comm->rank > 0)
        return run->finished ? WEFT_OK : WEFT_STOPPED;
    TRY(print_result(run, a->common.json));
    return run->finished ? WEFT_OK : stop(run);
}

static enum weft_status run_command(void *args)
{
    struct args *a = args;
    struct view view = {.shares_per_tokens = 0};
    struct weft_comm comm = {.size = 1};
    struct weft_run run = {.spec = &a->common.spec,
                           .recipe = &a->common.recipe,
                           .settings = &a->common.settings,
                           .resume = a->resume,
                           .unsafe = a->unsafe,
                           .verify_every = a->verify_every,
                           .deadline = a->minutes > 0 ? weft_seconds() + 60 * a->minutes : 0,
                           .stop = &caught,
                           .context = &view,
                           .on_failed_check = print_failed,
                           .on_notice = print_notice,
                           .on_weight = note_weight,
                           .on_progress = print_progress};
    enum weft_status status = join_ranks(&run, &comm, a->stall);
    if (status == WEFT_OK)
        status = train(a, &run, &view);
    weft_run_release(&run);
    if (run.comm)
        weft_ranks_leave(&comm, status);
    return status;
}

const struct weft_cmd weft_cmd_train = {
    .name = "train",
    .summary = "train a model on a task",
    .doc = "Trains MODEL, a preset, a config file or STUDY:ARM, on a task (--set task=NAME), then scores it on samples "
           "held out for validation and testing, and prints the SHA-256 of its weights. Its gates are checked "
           "first: see `weft verify`.",
    .notes =
        "Without --out nothing is saved. A run in a folder can be killed at any time: with --resume it ends with the "
        "same weights and log, except for the log's lines on environment and time. On SIGINT (Ctrl-C), SIGTERM, SIGHUP "
        "and SIGUSR1 it saves and stops; a second SIGINT ends it immediately. A run that was stopped before its last "
        "step, including by --time, exits with 3. With --init the optimiser and the schedule start from scratch: see "
        "docs/finetuning.md. Started by `weft launch`, mpirun or srun, it trains on several ranks: see docs/ranks.md.",
    .args = table,
    .takes = WEFT_TAKES_MODEL | WEFT_TAKES_SET | WEFT_TAKES_THREADS | WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run_command,
};
