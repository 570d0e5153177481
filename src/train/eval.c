/* SPDX-License-Identifier: MIT
 *
 * eval.c - how well a model does on samples that training never sees.
 */
#include "train/train.h"

int64_t weft_trainer_held_out(const struct weft_trainer *t, uint64_t first, int64_t wanted)
{
    const struct weft_recipe *r = t->recipe;
    return r->task->held_out ? weft_min(wanted, r->task->held_out(r->task_options, first == WEFT_TEST)) : wanted;
}

static void score_all(const struct weft_trainer *t, const struct weft_net *net, struct weft_exec *exec, uint64_t first,
                      struct weft_score *score)
{
    int64_t samples = weft_trainer_held_out(t, first, t->recipe->eval_samples), all = 0, right = 0;
    double loss = 0;
    for (int64_t done = 0, count; done < samples; done += count) {
        count = weft_min(t->model->spec->batch, samples - done);
        weft_net_plain_rows(net, exec, count, t->length);
        all += weft_trainer_fill(t, net, exec, first + (uint64_t)done, count);
        weft_exec_run(exec);
        const int32_t *targets = weft_exec_tensor(exec, net->targets)->data;
        const int32_t *prediction = weft_exec_tensor(exec, net->prediction)->data;
        const float *nll = weft_exec_tensor(exec, net->nll)->data;
        for (int64_t i = 0; i < count * t->length; i++) {
            loss += nll[i];
            right += targets[i] >= 0 && targets[i] == prediction[i];
        }
    }
    *score = (struct weft_score){loss / (double)weft_max(1, all), (double)right / (double)weft_max(1, all)};
}

enum weft_status weft_trainer_evaluate(struct weft_trainer *t, uint64_t first, struct weft_score *score)
{
    struct weft_net net;
    struct weft_exec *exec = NULL;
    enum weft_status status = weft_net_init(
        &net, t->model, WEFT_EVAL, (struct weft_net_size){.sequences = t->model->spec->batch, .length = t->length});
    if (status == WEFT_OK)
        status = weft_exec_create(&exec, net.g, WEFT_FAST);
    if (status == WEFT_OK) {
        weft_net_bind(&net, exec, t->model, NULL);
        weft_exec_prepare(exec);
        score_all(t, &net, exec, first, score);
    }
    weft_exec_free(exec);
    weft_net_release(&net);
    if (status == WEFT_OK && t->recipe->task->failure)
        status = t->recipe->task->failure(t->recipe->task_options);
    return status;
}
