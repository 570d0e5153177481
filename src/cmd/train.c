/* SPDX-License-Identifier: MIT
 *
 * train - trains a model on a task and scores it on held-out samples.
 */
#include "base/json.h"
#include "cmd/cmd.h"

#include <unistd.h>

static error_t parse(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = state->input;
    return 0;
}

static const struct argp_child children[] = {{&weft_model_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .parser = parse,
    .children = children,
    .doc = "Trains MODEL, a preset or a config file, on a task (--set task=NAME), then tells its accuracy on held-out "
           "samples and the SHA-256 of its weights.",
};

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

static enum weft_status print_result(const struct weft_common *c, const struct weft_trainer *t,
                                     const struct weft_progress *p, const struct weft_score *score)
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
    weft_result_text(r, "weights_sha256", hash);
    enum weft_status status = weft_result_print(r, stdout, c->json);
    weft_result_free(r);
    return status;
}

static enum weft_status train(const struct weft_common *c, struct weft_model *model)
{
    struct weft_trainer *t = NULL;
    struct weft_score score;
    struct line line = {.terminal = isatty(STDERR_FILENO)};
    enum weft_status status = weft_model_init(model);
    if (status == WEFT_OK)
        status = weft_trainer_create(&t, model, &c->recipe);
    if (status == WEFT_OK) {
        weft_note_once("path", "instruction set %s (%s), %d threads", weft_isa_name(weft_isa()), weft_dnn_describe(),
                       weft_threads());
        status = weft_train(t, tell, &line, &score);
    }
    if (status == WEFT_OK)
        status = print_result(c, t, &line.last, &score);
    else if (line.terminal && line.last.step)
        fputc('\n', stderr); /* what follows does not stand behind the progress line */
    weft_trainer_free(t);
    return status;
}

static enum weft_status run(void *args)
{
    struct weft_common *c = args;
    struct weft_model *model = NULL;
    enum weft_status status = weft_common_init(c);
    if (status == WEFT_OK)
        status = weft_model_create(&model, &c->spec);
    if (status == WEFT_OK)
        status = train(c, model);
    weft_model_free(model);
    weft_common_release(c);
    return status;
}

const struct weft_cmd weft_cmd_train = {"train", "train a model on a task", &argp, sizeof(struct weft_common), run};
