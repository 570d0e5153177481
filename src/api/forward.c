/* SPDX-License-Identifier: MIT
 *
 * forward.c - runs forward passes without a cache, through a whole model or some of its blocks.
 */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

struct weft_forward {
    const struct weft_model *model;
    struct weft_net_size size;
    struct weft_net net;
    struct weft_exec *exec;
};

/* ---- creation */

static enum weft_status build(struct weft_forward *f)
{
    TRY(weft_net_init(&f->net, f->model->nn, WEFT_FORWARD, f->size));
    TRY(weft_exec_create(&f->exec, f->net.g, WEFT_FAST));
    weft_net_bind(&f->net, f->exec, f->model->nn, NULL);
    TRY(weft_exec_prepare(f->exec));
    return WEFT_OK;
}

static enum weft_status create(struct weft_forward **forward, const struct weft_model *model, struct weft_net_size size)
{
    TRY(weft_model_has_weights(model));
    if (size.sequences < 1 || size.length < 1)
        return FAIL(WEFT_INVALID, "a forward pass of %lld sequences of %lld tokens: both numbers must be at least 1",
                    (long long)size.sequences, (long long)size.length);
    struct weft_forward *f = calloc(1, sizeof *f);
    if (!f)
        return FAIL(WEFT_NOMEM, "not enough memory for a forward pass");
    f->model = model;
    f->size = size;
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, model->threads);
    enum weft_status status = build(f);
    weft_threads_leave(&scope);
    if (status == WEFT_OK)
        *forward = f;
    else
        weft_forward_free(f);
    return status;
}

enum weft_status weft_forward_create(struct weft_forward **forward, const struct weft_model *model, int64_t sequences,
                                     int64_t length)
{
    GIVEN(forward);
    *forward = NULL;
    GIVEN(model);
    TRY(create(forward, model, (struct weft_net_size){.sequences = sequences, .length = length}));
    return WEFT_OK;
}

enum weft_status weft_forward_create_blocks(struct weft_forward **forward, const struct weft_model *model,
                                            int64_t sequences, int64_t length, int64_t first, int64_t blocks)
{
    GIVEN(forward);
    *forward = NULL;
    GIVEN(model);
    const struct weft_spec *spec = &model->resolved.spec;
    if (first < 0 || blocks < 1 || first >= spec->layers || blocks > spec->layers - first)
        return FAIL(WEFT_INVALID, "cannot select %lld blocks starting at block %lld: the model has blocks 0 to %lld",
                    (long long)blocks, (long long)first, (long long)spec->layers - 1);
    if (first > 0 && spec->mechanism_count)
        return FAIL(WEFT_INVALID,
                    "cannot start at block %lld: the model's mechanisms read values of the previous block; "
                    "start at block 0",
                    (long long)first);
    TRY(create(forward, model,
               (struct weft_net_size){.sequences = sequences, .length = length, .blocks = blocks, .first = first}));
    return WEFT_OK;
}

void weft_forward_free(struct weft_forward *f)
{
    if (!f)
        return;
    weft_exec_free(f->exec);
    weft_net_release(&f->net);
    free(f);
}

/* ---- running */

static enum weft_status begin(struct weft_forward *f, int64_t sequences, int64_t length)
{
    if (sequences < 1 || length < 1 || sequences > f->size.sequences || length > f->size.length)
        return FAIL(WEFT_INVALID,
                    "%lld sequences of %lld tokens: this forward pass was created for 1 to %lld sequences of "
                    "1 to %lld tokens",
                    (long long)sequences, (long long)length, (long long)f->size.sequences, (long long)f->size.length);
    weft_net_plain_rows(&f->net, f->exec, sequences, length);
    return WEFT_OK;
}

static enum weft_status run(struct weft_forward *f, const struct weft_value *from, const void *in,
                            const struct weft_value *to, float *out)
{
    const struct weft_tensor *x = weft_exec_tensor(f->exec, from), *y = weft_exec_tensor(f->exec, to);
    memcpy(x->data, in, (size_t)weft_tensor_count(x) * sizeof(float)); /* i32 has the same size */
    TRY(weft_exec_run(f->exec));
    memcpy(out, y->data, (size_t)weft_tensor_count(y) * sizeof *out);
    return WEFT_OK;
}

enum weft_status weft_forward_tokens(struct weft_forward *forward, int64_t sequences, int64_t length,
                                     const int32_t *tokens, float *logits)
{
    GIVEN(forward);
    GIVEN(tokens);
    GIVEN(logits);
    if (forward->net.x)
        return FAIL(WEFT_INVALID, "this forward pass runs blocks: pass activations instead of tokens");
    TRY(begin(forward, sequences, length));
    TRY(weft_tokens_valid(forward->model, "token", tokens, sequences * length, 0));
    TRY(run(forward, forward->net.tokens, tokens, forward->net.logits, logits));
    return WEFT_OK;
}

enum weft_status weft_forward_activations(struct weft_forward *forward, int64_t sequences, int64_t length,
                                          const float *x, float *y)
{
    GIVEN(forward);
    GIVEN(x);
    GIVEN(y);
    if (!forward->net.x)
        return FAIL(WEFT_INVALID, "this forward pass runs the whole model: pass tokens instead of activations");
    TRY(begin(forward, sequences, length));
    TRY(run(forward, forward->net.x, x, forward->net.y, y));
    return WEFT_OK;
}
