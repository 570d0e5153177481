/* SPDX-License-Identifier: MIT
 *
 * eval.c - scores a model on samples that training never sees.
 */
#include "train/score/evaluate.h"
#include "train/score/items.h"

#include <stdlib.h>
#include <string.h>

/* The results of one run's samples, in order. */
struct results {
    int64_t count; /* number of samples */
    const int32_t *tokens, *targets, *prediction;
    const float *nll;
};

struct scoring {
    const struct weft_recipe *recipe;
    const struct weft_nn *model;
    struct weft_net net;
    struct weft_exec *exec;
    struct weft_net_size size;
    uint64_t first;
    struct weft_comm *comm;
    struct weft_items *items; /* receives the cost of each item; NULL: not wanted */
    double loss;
    int64_t tokens, right;
};

static void add_results(struct scoring *s, const struct results *r)
{
    for (int64_t i = 0; i < r->count * s->size.length; i++) {
        s->loss += r->nll[i];
        s->tokens += r->targets[i] >= 0;
        s->right += r->targets[i] >= 0 && r->targets[i] == r->prediction[i];
    }
    if (s->items && r->count)
        weft_items_add(s->items, r->count, s->size.length, r->tokens, r->targets, r->nll);
}

static enum weft_status run(struct scoring *s, int64_t done, int64_t count, struct results *r)
{
    weft_net_plain_rows(&s->net, s->exec, count, s->size.length);
    weft_recipe_fill(s->recipe, s->model->spec, &s->net, s->exec, s->first + (uint64_t)done, count);
    TRY(weft_exec_run(s->exec));
    *r = (struct results){
        count, weft_exec_tensor(s->exec, s->net.tokens)->data, weft_exec_tensor(s->exec, s->net.targets)->data,
        weft_exec_tensor(s->exec, s->net.prediction)->data, weft_exec_tensor(s->exec, s->net.nll)->data};
    return WEFT_OK;
}

/* Runs the next samples on each rank, in order, and sends all results to all ranks. `all` has space for the four arrays
 * of each rank. */
static enum weft_status run_ranks(struct scoring *s, int64_t done, int64_t samples, int32_t *all)
{
    struct weft_comm *c = s->comm;
    const int64_t batch = s->size.sequences, each = batch * s->size.length;
    struct results mine = {0};
    int64_t count = weft_max(0, weft_min(batch, samples - done - c->rank * batch));
    if (count)
        TRY(run(s, done + c->rank * batch, count, &mine));
    const void *arrays[] = {mine.tokens, mine.targets, mine.prediction, mine.nll};
    for (int i = 0; count && i < 4; i++)
        memcpy(all + (4 * c->rank + i) * each, arrays[i], (size_t)(count * s->size.length) * sizeof *all);
    c->phase = "scoring held-out samples";
    TRY(weft_comm_gather(c, all, 4 * (size_t)each * sizeof *all));
    for (int r = 0; r < c->size; r++) {
        const int32_t *of = all + 4 * r * each;
        count = weft_max(0, weft_min(batch, samples - done - r * batch));
        add_results(s, &(struct results){count, of, of + each, of + 2 * each, (const float *)(of + 3 * each)});
    }
    return WEFT_OK;
}

static enum weft_status score_on_ranks(struct scoring *s, int64_t samples)
{
    const int64_t round = s->comm->size * s->size.sequences;
    int32_t *all = calloc((size_t)(round * s->size.length), 4 * sizeof *all);
    enum weft_status status = all ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for the scores of all ranks");
    for (int64_t done = 0; status == WEFT_OK && done < samples; done += round)
        status = run_ranks(s, done, samples, all);
    free(all);
    return status;
}

static enum weft_status score_alone(struct scoring *s, int64_t samples)
{
    struct results r;
    for (int64_t done = 0; done < samples; done += r.count) {
        TRY(run(s, done, weft_min(s->size.sequences, samples - done), &r));
        add_results(s, &r);
    }
    return WEFT_OK;
}

static enum weft_status score_all(struct scoring *s)
{
    int64_t samples = weft_recipe_held_out(s->recipe, s->first, s->recipe->eval_samples);
    weft_net_bind(&s->net, s->exec, s->model, NULL);
    TRY(weft_exec_prepare(s->exec));
    TRY(s->comm && s->comm->size > 1 ? score_on_ranks(s, samples) : score_alone(s, samples));
    return WEFT_OK;
}

static enum weft_status evaluate(const struct weft_nn *model, const struct weft_recipe *r, struct weft_comm *comm,
                                 int64_t batch, uint64_t first, struct weft_score *score, struct weft_items *items)
{
    struct scoring s = {.recipe = r, .model = model, .first = first, .comm = comm, .items = items};
    s.size = (struct weft_net_size){.sequences = batch, .length = r->task->length(r->task_options)};
    enum weft_status status = weft_net_init(&s.net, model, WEFT_EVAL, s.size);
    if (status == WEFT_OK)
        status = weft_exec_create(&s.exec, s.net.g, WEFT_FAST);
    if (status == WEFT_OK)
        status = score_all(&s);
    weft_exec_free(s.exec);
    weft_net_release(&s.net);
    double tokens = (double)weft_max(1, s.tokens);
    *score = (struct weft_score){s.loss / tokens, (double)s.right / tokens, s.tokens};
    if (status == WEFT_OK && r->task->failure)
        status = r->task->failure(r->task_options);
    return status;
}

enum weft_status weft_evaluate(const struct weft_nn *model, const struct weft_recipe *r, struct weft_comm *comm,
                               int64_t batch, uint64_t first, struct weft_score *score)
{
    return evaluate(model, r, comm, batch, first, score, NULL);
}

enum weft_status weft_evaluate_test(const struct weft_nn *model, const struct weft_recipe *r, struct weft_comm *comm,
                                    int64_t batch, struct weft_score *score, struct weft_items *items)
{
    TRY(weft_items_init(items, r, weft_recipe_held_out(r, WEFT_TEST, r->eval_samples)));
    TRY(evaluate(model, r, comm, batch, WEFT_TEST, score, items));
    TRY(weft_items_finish(items));
    return WEFT_OK;
}
