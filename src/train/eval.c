/* SPDX-License-Identifier: MIT
 *
 * eval.c - how well a model does on samples that training never sees.
 */
#include "train/items.h"

static enum weft_status score_all(const struct weft_nn *model, const struct weft_recipe *r, struct weft_net *net,
                                  struct weft_exec *exec, struct weft_net_size size, uint64_t first,
                                  struct weft_score *score, struct weft_items *items)
{
    int64_t samples = weft_recipe_held_out(r, first, r->eval_samples), all = 0, right = 0;
    double loss = 0;
    weft_net_bind(net, exec, model, NULL);
    TRY(weft_exec_prepare(exec));
    for (int64_t done = 0, count; done < samples; done += count) {
        count = weft_min(size.sequences, samples - done);
        weft_net_plain_rows(net, exec, count, size.length);
        all += weft_recipe_fill(r, model->spec, net, exec, first + (uint64_t)done, count);
        TRY(weft_exec_run(exec));
        const int32_t *targets = weft_exec_tensor(exec, net->targets)->data;
        const int32_t *prediction = weft_exec_tensor(exec, net->prediction)->data;
        const float *nll = weft_exec_tensor(exec, net->nll)->data;
        for (int64_t i = 0; i < count * size.length; i++) {
            loss += nll[i];
            right += targets[i] >= 0 && targets[i] == prediction[i];
        }
        if (items)
            weft_items_add(items, count, size.length, weft_exec_tensor(exec, net->tokens)->data, targets, nll);
    }
    *score = (struct weft_score){loss / (double)weft_max(1, all), (double)right / (double)weft_max(1, all), all};
    return WEFT_OK;
}

static enum weft_status evaluate(const struct weft_nn *model, const struct weft_recipe *r, int64_t batch,
                                 uint64_t first, struct weft_score *score, struct weft_items *items)
{
    struct weft_net net;
    struct weft_exec *exec = NULL;
    struct weft_net_size size = {.sequences = batch, .length = r->task->length(r->task_options)};
    enum weft_status status = weft_net_init(&net, model, WEFT_EVAL, size);
    if (status == WEFT_OK)
        status = weft_exec_create(&exec, net.g, WEFT_FAST);
    if (status == WEFT_OK)
        status = score_all(model, r, &net, exec, size, first, score, items);
    weft_exec_free(exec);
    weft_net_release(&net);
    if (status == WEFT_OK && r->task->failure)
        status = r->task->failure(r->task_options);
    return status;
}

enum weft_status weft_evaluate(const struct weft_nn *model, const struct weft_recipe *r, int64_t batch, uint64_t first,
                               struct weft_score *score)
{
    return evaluate(model, r, batch, first, score, NULL);
}

enum weft_status weft_evaluate_test(const struct weft_nn *model, const struct weft_recipe *r, int64_t batch,
                                    struct weft_score *score, struct weft_items *items)
{
    TRY(weft_items_init(items, r, weft_recipe_held_out(r, WEFT_TEST, r->eval_samples)));
    TRY(evaluate(model, r, batch, WEFT_TEST, score, items));
    TRY(weft_items_finish(items));
    return WEFT_OK;
}
