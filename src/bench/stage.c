/* SPDX-License-Identifier: MIT
 *
 * stage.c - a model on random tokens, ready to take forward and backward passes: what benches of whole steps share.
 */
#include "bench/bench.h"

#include <stdlib.h>

static void fill(struct weft_stage *s)
{
    int64_t batch = s->model->spec->batch, length = s->model->spec->context, vocab = s->model->spec->vocab;
    weft_net_plain_rows(&s->net, s->exec, batch, length);
    weft_net_step_key(&s->net, s->exec, 1, 0, 0);
    int32_t *tokens = weft_exec_tensor(s->exec, s->net.tokens)->data;
    int32_t *targets = weft_exec_tensor(s->exec, s->net.targets)->data;
    for (int64_t i = 0; i < batch * length; i++) {
        tokens[i] = (int32_t)weft_below(1, (uint64_t)i, (uint64_t)vocab);
        targets[i] = (int32_t)weft_below(2, (uint64_t)i, (uint64_t)vocab);
    }
    *(float *)weft_exec_tensor(s->exec, s->net.weight)->data = 1 / (float)(batch * length);
}

enum weft_status weft_stage_open(struct weft_stage *s, const struct weft_spec *spec)
{
    *s = (struct weft_stage){0};
    TRY(weft_nn_create(&s->model, spec));
    TRY(weft_nn_init(s->model));
    s->grads = weft_params_array(&s->model->params);
    if (!s->grads)
        return FAIL(WEFT_NOMEM, "not enough memory for gradients");
    TRY(weft_net_init(&s->net, s->model, WEFT_TRAIN,
                      (struct weft_net_size){.sequences = spec->batch, .length = spec->context}));
    TRY(weft_exec_create(&s->exec, s->net.g, WEFT_FAST));
    weft_net_bind(&s->net, s->exec, s->model, s->grads);
    fill(s);
    TRY(weft_exec_prepare(s->exec));
    return WEFT_OK;
}

enum weft_status weft_stage_run(void *stage) { return weft_exec_run(((struct weft_stage *)stage)->exec); }

void weft_stage_close(struct weft_stage *s)
{
    weft_exec_free(s->exec);
    weft_net_release(&s->net);
    if (s->model)
        weft_params_array_free(&s->model->params, s->grads);
    weft_nn_free(s->model);
    *s = (struct weft_stage){0};
}
