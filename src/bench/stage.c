/* SPDX-License-Identifier: MIT
 *
 * stage.c - sets up a model on random tokens, or one attention layer on random rows, for forward and backward passes;
 * shared by the benchmarks that run steps.
 */
#include "bench/bench.h"
#include "dnn/dnn.h"

#include <stdlib.h>

static void fill_rows(const struct weft_stage *s, const struct weft_value *v, uint64_t key)
{
    struct weft_tensor *t = weft_exec_tensor(s->exec, v);
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        ((float *)t->data)[i] = (float)weft_below(key, (uint64_t)i, 1 << 24) * 0x1p-23f - 1;
}

static void fill_tokens(const struct weft_stage *s)
{
    int64_t batch = s->model->spec->batch, length = s->model->spec->context, vocab = s->model->spec->vocab;
    int32_t *tokens = weft_exec_tensor(s->exec, s->net.tokens)->data;
    int32_t *targets = weft_exec_tensor(s->exec, s->net.targets)->data;
    for (int64_t i = 0; i < batch * length; i++) {
        tokens[i] = (int32_t)weft_below(1, (uint64_t)i, (uint64_t)vocab);
        targets[i] = (int32_t)weft_below(2, (uint64_t)i, (uint64_t)vocab);
    }
    *(float *)weft_exec_tensor(s->exec, s->net.weight)->data = 1 / (float)(batch * length);
}

enum weft_status weft_stage_spec(struct weft_spec *spec, const char *preset, const struct weft_settings *user,
                                 const char *const *own, bool shared)
{
    struct weft_settings settings = {0};
    enum weft_status status = WEFT_OK;
    char text[256];
    for (int i = 0; status == WEFT_OK && i < user->count; i++) {
        snprintf(text, sizeof text, "%s=%s", user->setting[i].name, user->setting[i].value);
        status = weft_settings_add(&settings, text);
    }
    for (; status == WEFT_OK && *own; own++)
        status = weft_settings_add(&settings, *own);
    if (status == WEFT_OK)
        status = weft_spec_init(spec, preset, &settings);
    if (status == WEFT_OK && !shared)
        status = weft_settings_finish(&settings);
    weft_settings_release(&settings);
    return status;
}

enum weft_status weft_stage_open(struct weft_stage *s, const struct weft_spec *spec, bool only_attention)
{
    struct weft_net_size size = {.sequences = spec->batch, .length = spec->context};
    *s = (struct weft_stage){0};
    size.blocks = size.only_attention = only_attention;
    weft_dnn_note_speed(spec->compute);
    TRY(weft_nn_create(&s->model, spec));
    TRY(weft_nn_init(s->model));
    s->grads = weft_params_array(&s->model->params);
    if (!s->grads)
        return FAIL(WEFT_NOMEM, "not enough memory for gradients");
    TRY(weft_net_init(&s->net, s->model, WEFT_TRAIN, size));
    TRY(weft_exec_create(&s->exec, s->net.g, WEFT_FAST));
    weft_net_bind(&s->net, s->exec, s->model, s->grads);
    weft_net_plain_rows(&s->net, s->exec, spec->batch, spec->context);
    weft_net_step_key(&s->net, s->exec, 1, 0, 0);
    if (only_attention) {
        fill_rows(s, s->net.x, 1);
        fill_rows(s, s->net.dy, 2);
    } else {
        fill_tokens(s);
    }
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
