/* SPDX-License-Identifier: MIT
 *
 * train - trains a model on a task and scores it on held-out samples.
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "lab/lab.h"

#include <unistd.h>

struct args {
    struct weft_common common;
    bool unsafe;
};

enum { UNSAFE = 256 };

static const struct argp_option options[] = {
    {"unsafe", UNSAFE, NULL, 0, "Train even if a gate fails; the result says so", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    struct args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->common;
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
    .doc = "Trains MODEL, a preset or a config file, on a task (--set task=NAME), then tells its accuracy on held-out "
           "samples and the SHA-256 of its weights. First its gates are checked: see `weft verify`.",
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

/* ---- progress: one line that is rewritten on a terminal, some twenty plain lines elsewhere */

struct line {
    bool terminal;
    double said; /* when */
    struct weft_progress last;
};

static void tell(void *context, const struct weft_progress *now)
{
    struct line *line = context;
    bool end = now->step == now->steps;
    int64_t every = weft_max(1, now->steps / 20);
    line->last = *now;
    if (!end && (line->terminal ? now->seconds - line->said < 0.1 : now->step % every != 0))
        return;
    line->said = now->seconds;
    fprintf(stderr, "%sstep %lld/%lld  loss %.4f  %.0f tokens/s  %.0f s left%s", line->terminal ? "\r" : "",
            (long long)now->step, (long long)now->steps, now->loss, now->tokens_per_s, now->seconds_left,
            line->terminal ? "    " : "\n");
    if (line->terminal && end)
        fputc('\n', stderr);
}

/* ---- the run */

static enum weft_status print_result(const struct weft_common *c, const struct weft_gates *gates,
                                     const struct weft_trainer *t, const struct weft_progress *p,
                                     const struct weft_score *score)
{
    char hash[65];
    weft_params_hash(&t->model->params, hash);
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "preset", t->model->spec->preset);
    weft_result_text(r, "task", t->recipe->task->name);
    weft_result_int(r, "params", t->model->params.elements);
    weft_result_int(r, "steps", p->step);
    weft_result_real(r, "loss", p->loss);
    weft_result_real(r, "eval_loss", score->loss);
    weft_result_real(r, "accuracy", score->accuracy);
    weft_result_real(r, "seconds", p->seconds);
    weft_result_real(r, "tokens_per_s", p->tokens_per_s);
    weft_result_int(r, "threads", weft_threads());
    weft_result_text(r, "isa", weft_isa_name(weft_isa()));
    weft_result_int(r, "gates_failed", gates->failed);
    weft_result_text(r, "weights_sha256", hash);
    enum weft_status status = weft_result_print(r, stdout, c->json);
    weft_result_free(r);
    return status;
}

static enum weft_status train(const struct args *a, struct weft_model *model)
{
    const struct weft_common *c = &a->common;
    struct weft_gates gates;
    struct weft_trainer *t = NULL;
    struct weft_score score;
    struct line line = {.terminal = isatty(STDERR_FILENO)};
    enum weft_status status = check_gates(a, &gates);
    if (status == WEFT_OK)
        status = weft_model_init(model);
    if (status == WEFT_OK)
        status = weft_trainer_create(&t, model, &c->recipe);
    if (status == WEFT_OK) {
        weft_note_once("path", "instruction set %s (%s), %d threads", weft_isa_name(weft_isa()), weft_dnn_describe(),
                       weft_threads());
        status = weft_train(t, tell, &line, &score);
    }
    if (status == WEFT_OK)
        status = print_result(c, &gates, t, &line.last, &score);
    else if (line.terminal && line.last.step)
        fputc('\n', stderr); /* what follows does not stand behind the progress line */
    weft_trainer_free(t);
    return status;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct weft_model *model = NULL;
    enum weft_status status = weft_common_init(&a->common);
    if (status == WEFT_OK)
        status = weft_model_create(&model, &a->common.spec);
    if (status == WEFT_OK)
        status = train(a, model);
    weft_model_free(model);
    weft_common_release(&a->common);
    return status;
}

const struct weft_cmd weft_cmd_train = {"train", "train a model on a task", &argp, sizeof(struct args), run};
