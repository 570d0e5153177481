/* SPDX-License-Identifier: MIT
 *
 * exact.c - checks on the twin that loss and gradients, with dropout, have the same bits with any number of threads and
 * at every instruction-set level of this processor, and steps also on any number of ranks (ranked.c). On the model
 * itself it runs the recipe's own micro-batch with two numbers of threads and, if there is time, at two levels.
 */
#include "check/trainer/ranked.h"
#include "dnn/dnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 2, TOKENS_KEY = 41 };
enum { SLOWER = 16 }; /* maximum factor by which a level is slower than the next one */

/* The result with one thread. */
struct result {
    float loss;
    float *grads;
};

static enum weft_status run(const struct weft_nn *model, struct weft_net_size size, struct weft_probe *p)
{
    TRY(weft_probe_open(p, model, WEFT_TRAIN, size, WEFT_FAST));
    weft_probe_rows(p, size.sequences, size.length, NULL);
    weft_probe_fill(p, TOKENS_KEY);
    weft_probe_run(p);
    return WEFT_OK;
}

static void compare(const struct weft_trial *t, const struct weft_probe *p, const struct result *one, const char *name)
{
    const struct weft_params *params = &p->model->params;
    const float *loss = weft_exec_tensor(p->exec, p->net.loss)->data, *grads = p->grads;
    const char *first = memcmp(loss, &one->loss, sizeof *loss) == 0 ? NULL : "the loss";
    int differing = first != NULL;
    for (int i = 0; i < params->count; i++) {
        const struct weft_param *w = &params->list[i];
        if (memcmp(grads + w->offset, one->grads + w->offset, (size_t)w->count * sizeof *grads) == 0)
            continue;
        first = first ? first : w->name;
        differing++;
    }
    weft_trial_report(t, differing == 0, differing, 0, name, "%s", first ? first : "");
}

static enum weft_status check_threads(const struct weft_trial *t, const struct weft_nn *model, struct result *one)
{
    static const int counts[] = {1, 2, 3, 4, 8};
    const struct weft_net_size size = {.sequences = SEQUENCES, .length = model->spec->context};
    for (int i = 0; i < 5; i++) {
        struct weft_probe p = {0};
        struct weft_threads_scope scope;
        char name[96];
        snprintf(name, sizeof name, "tensors that differ with %d threads", counts[i]);
        weft_threads_enter(&scope, counts[i]);
        weft_threads_even();
        enum weft_status status = run(model, size, &p);
        weft_threads_leave(&scope);
        if (status == WEFT_OK && i > 0)
            compare(t, &p, one, name);
        else if (status == WEFT_OK) {
            one->loss = *(const float *)weft_exec_tensor(p.exec, p.net.loss)->data;
            memcpy(one->grads, p.grads, (size_t)model->params.total * sizeof *one->grads);
        }
        weft_probe_close(&p);
        TRY(status);
    }
    return WEFT_OK;
}

static enum weft_status check_level(const struct weft_trial *t, const struct weft_nn *model, struct weft_net_size size,
                                    const struct result *one, int below, const char *what)
{
    struct weft_probe p = {0};
    struct weft_threads_scope scope;
    char name[96];
    weft_threads_enter(&scope, 0);
    weft_isa_lower(below);
    snprintf(name, sizeof name, "%s that differ at level %s", what, weft_isa_name(weft_isa()));
    enum weft_status status = run(model, size, &p);
    weft_threads_leave(&scope);
    if (status == WEFT_OK)
        compare(t, &p, one, name);
    weft_probe_close(&p);
    return status;
}

/* An external engine may give different bits at each level, so levels are not compared. */
static int levels_below(void) { return strchr(weft_dnn_path(), '-') ? 0 : (int)weft_isa(); }

static enum weft_status check(const struct weft_trial *t, const struct weft_nn *model, struct result *one)
{
    const struct weft_net_size size = {.sequences = SEQUENCES, .length = model->spec->context};
    TRY(check_threads(t, model, one));
    TRY(weft_check_ranks(t));
    for (int below = 1; below <= levels_below(); below++)
        TRY(check_level(t, model, size, one, below, "tensors"));
    return WEFT_OK;
}

enum weft_status weft_gate_exact(const struct weft_trial *t)
{
    struct weft_spec masked = *t->model->spec;
    struct weft_nn model = *t->model;
    masked.dropout = 0.1;
    model.spec = &masked;
    struct result one = {0, calloc((size_t)model.params.total, sizeof(float))};
    enum weft_status status =
        one.grads ? check(t, &model, &one) : FAIL(WEFT_NOMEM, "not enough memory to check the model");
    free(one.grads);
    return status;
}

/* ---- the model itself */

/* Compares with the next lower level, unless that is the lowest, which is slow because it emulates the others. */
static enum weft_status check_levels(const struct weft_trial *t)
{
    struct weft_itself *it = t->itself;
    struct weft_probe *p = &it->train;
    if (levels_below() < 2 || SLOWER * it->run_seconds >= 0.1 * it->seconds)
        return WEFT_OK;
    TRY(weft_itself_train(it));
    weft_probe_fill(p, TOKENS_KEY);
    weft_probe_run(p);
    struct weft_net_size size = {.sequences = it->sequences, .length = it->length};
    struct result usual = {*(const float *)weft_exec_tensor(p->exec, p->net.loss)->data, p->grads};
    return check_level(t, it->model, size, &usual, 1, "tensors of the model itself");
}

/* Runs all rows of the recipe's micro-batch in one call, because kernels may divide a larger number of rows
 * differently. */
static enum weft_status run_batch(const struct weft_itself *it, int threads, struct weft_probe *p)
{
    struct weft_threads_scope scope;
    const struct weft_net_size size = {.sequences = it->model->spec->batch,
                                       .length = it->recipe->task->length(it->recipe->task_options)};
    weft_threads_enter(&scope, threads);
    enum weft_status status = run(it->model, size, p);
    weft_threads_leave(&scope);
    return status;
}

static enum weft_status check_batch(const struct weft_trial *t, struct result *usual)
{
    const struct weft_itself *it = t->itself;
    struct weft_probe p = {0};
    char name[128];
    int threads = weft_threads(), other = threads == 1 ? 2 : threads - 1;
    enum weft_status status = run_batch(it, threads, &p);
    if (status == WEFT_OK) {
        usual->loss = *(const float *)weft_exec_tensor(p.exec, p.net.loss)->data;
        memcpy(usual->grads, p.grads, (size_t)it->model->params.total * sizeof *usual->grads);
    }
    weft_probe_close(&p);
    TRY(status);
    status = run_batch(it, other, &p);
    if (status == WEFT_OK) {
        snprintf(name, sizeof name, "tensors of the model itself that differ with %d thread%s (%lld rows)", other,
                 other == 1 ? "" : "s", (long long)weft_tensor_count(weft_exec_tensor(p.exec, p.net.tokens)));
        compare(t, &p, usual, name);
    }
    weft_probe_close(&p);
    return status;
}

enum weft_status weft_gate_exact_itself(const struct weft_trial *t)
{
    struct weft_itself *it = t->itself;
    TRY(weft_itself_measure(it));
    if (weft_recipe_groups(it->recipe) > 1)
        TRY(weft_trial_on_twin(t, weft_check_ranks_division));
    TRY(check_levels(t));
    weft_itself_make_room(it);
    struct result usual = {0, calloc((size_t)it->model->params.total, sizeof(float))};
    enum weft_status status =
        usual.grads ? check_batch(t, &usual) : FAIL(WEFT_NOMEM, "not enough memory to check the model");
    free(usual.grads);
    return status;
}
