/* SPDX-License-Identifier: MIT
 *
 * train - trains a model on a task and scores it on held-out samples.
 */
#include "train/train.h"
#include "base/json.h"
#include "cmd/cmd.h"

#include <stdlib.h>
#include <unistd.h>

struct args {
    const char *model;
    struct weft_settings settings;
    enum weft_status status; /* of the first option that was none */
    bool json;
};

static const struct argp_option options[] = {
    {"set", 's', "NAME=VALUE", 0,
     "Set an option of the model or of training (see `weft help options`); may be repeated", 0},
    {"threads", 't', "N", 0, "Threads to use; 0, the default, is one per core. Results do not depend on it", 0},
    {"json", 'j', NULL, 0, "Print one flat JSON object", 0},
    {0},
};

static enum weft_status set_threads(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < 0 || n > 4096)
        return FAIL(WEFT_INVALID, "--threads %s: give a number from 0 to 4096", text);
    return weft_threads_set((int)n);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case 's':
        if (a->status == WEFT_OK)
            a->status = weft_settings_add(&a->settings, arg);
        return 0;
    case 't':
        if (a->status == WEFT_OK)
            a->status = set_threads(arg);
        return 0;
    case 'j':
        a->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->model)
            return ARGP_ERR_UNKNOWN;
        a->model = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which MODEL? `weft help models` lists them");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "MODEL",
    "Trains MODEL on a task (--set task=NAME), then tells its accuracy on held-out samples and the SHA-256 of its "
    "weights.",
    NULL,
    NULL,
    NULL};

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

static enum weft_status print_result(const struct args *a, const struct weft_trainer *t, const struct weft_progress *p,
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
    weft_result_text(r, "weights_sha256", hash);
    enum weft_status status = weft_result_print(r, stdout, a->json);
    weft_result_free(r);
    return status;
}

static enum weft_status train(const struct args *a, struct weft_model *model, const struct weft_recipe *recipe)
{
    struct weft_trainer *t = NULL;
    struct weft_score score;
    struct line line = {.terminal = isatty(STDERR_FILENO)};
    enum weft_status status = weft_model_init(model);
    if (status == WEFT_OK)
        status = weft_trainer_create(&t, model, recipe);
    if (status == WEFT_OK) {
        weft_note_once("path", "instruction set %s (%s), %d threads", weft_isa_name(weft_isa()), weft_dnn_describe(),
                       weft_threads());
        status = weft_train(t, tell, &line, &score);
    }
    if (status == WEFT_OK)
        status = print_result(a, t, &line.last, &score);
    else if (line.terminal && line.last.step)
        fputc('\n', stderr); /* what follows does not stand behind the progress line */
    weft_trainer_free(t);
    return status;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    struct weft_spec spec = {0};
    struct weft_recipe recipe = {0};
    struct weft_model *model = NULL;
    enum weft_status status = a->status;
    if (status == WEFT_OK)
        status = weft_spec_init(&spec, a->model, &a->settings);
    if (status == WEFT_OK)
        status = weft_recipe_init(&recipe, &spec, &a->settings);
    if (status == WEFT_OK)
        status = weft_model_create(&model, &spec);
    if (status == WEFT_OK)
        status = train(a, model, &recipe);
    weft_model_free(model);
    weft_recipe_release(&recipe);
    weft_spec_release(&spec);
    weft_settings_release(&a->settings);
    return status;
}

const struct weft_cmd weft_cmd_train = {"train", "train a model on a task", &argp, sizeof(struct args), run};
