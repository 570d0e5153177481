/* SPDX-License-Identifier: MIT
 *
 * effects.c - runs a model with and without one switch, in f32.
 *
 * An effect counts if it is larger than the effect of rounding, which is measured by flipping the last bit of every
 * second weight. Initial weights are small, and in a narrow model their products may have less effect than rounding. So
 * an effect that is too small is measured again with noise on all weights, which shows the effect of everything that is
 * wired in.
 */
#include "check/probe/effects.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_KEY = 74, NOISE_KEY = 75, MOST_SCORED = 256, MOST_SEQUENCES = 16, TIMES_ROUNDING = 4 };
#define LEAST_EFFECT 4e-6 /* nats; f32 stores a loss of 11 nats in steps of 1e-6 */

static int64_t stride(const struct weft_effects *e)
{
    return weft_div_up(e->size.sequences * e->size.length, MOST_SCORED) | 1; /* odd, to vary the scored positions */
}

int64_t weft_effects_late(const struct weft_effects *e) { return e->size.length - weft_max(1, e->size.length / 4); }

/* Scores only some rows, since the matmul with a large vocabulary costs as much as a third of the model. */
static void thin_out(const struct weft_effects *e, const struct weft_probe *p)
{
    int32_t *targets = weft_exec_tensor(p->exec, p->net.targets)->data;
    for (int64_t row = 0; row < e->size.sequences * e->size.length; row++)
        if ((row + 1) % stride(e) && (row + 1) % e->size.length)
            targets[row] = -1;
}

static void flip_bits(const struct weft_probe *p)
{
    uint32_t *bits = p->weights;
    for (int64_t i = 0; i < p->model->params.total; i += 2)
        bits[i] ^= 1;
}

/* Adds noise that keeps the size of activations; vectors get a standard deviation of 0.2. */
static void shake(const struct weft_probe *p, const float *noise)
{
    float *weights = p->weights;
    for (int i = 0; i < p->model->params.count; i++) {
        const struct weft_param *w = &p->model->params.list[i];
        float size = w->group >= WEFT_TRAINED_VECTOR ? 0.2f : 1 / sqrtf((float)w->dim[w->ndim - 1]);
        for (int64_t e = w->offset; e < w->offset + w->count; e++)
            weights[e] += size * noise[e % WEFT_NOISES];
    }
}

/* Computes the losses with the switch off in a layer (-1: in all). If `s` is NULL, the model is unchanged. */
static enum weft_status run(struct weft_effects *e, const struct weft_losses_of *in, const struct weft_switch *s,
                            int layer, bool rounded)
{
    struct weft_nn model = e->model;
    struct weft_probe p;
    if (s)
        weft_switch_apply(s, &model, layer);
    enum weft_status status = weft_probe_open(&p, &model, WEFT_EVAL, e->size, WEFT_FAST);
    if (status == WEFT_OK) {
        weft_probe_rows(&p, e->size.sequences, e->size.length, NULL);
        weft_probe_fill(&p, TOKENS_KEY);
        thin_out(e, &p);
        if (s)
            weft_switch_weights(s, &p, layer);
        if (in->noise)
            shake(&p, in->noise);
        if (rounded)
            flip_bits(&p);
        weft_probe_run(&p);
        for (int64_t row = 0; row < e->size.sequences * e->size.length; row++)
            e->nll[row] = weft_tensor_get(weft_exec_tensor(p.exec, p.net.nll), row);
    }
    weft_probe_close(&p);
    return status;
}

/* Returns the effect in the last run. NaN counts as no effect, because finding NaN is not the purpose of this gate. */
static struct weft_effect effect_of(const struct weft_effects *e, const struct weft_losses_of *in)
{
    double squares[2] = {0};
    int64_t rows[2] = {0};
    for (int64_t row = 0; row < e->size.sequences * e->size.length; row++) {
        bool late = row % e->size.length >= weft_effects_late(e);
        double d = e->nll[row] - in->nll[row];
        if (in->nll[row] == 0) /* not scored */
            continue;
        squares[late] += d * d;
        rows[late]++;
    }
    return (struct weft_effect){sqrt((squares[0] + squares[1]) / (double)weft_max(1, rows[0] + rows[1])),
                                sqrt(squares[1] / (double)weft_max(1, rows[1]))};
}

/* Computes the losses with nothing switched off, and the effect of rounding on them. */
static enum weft_status run_plain(struct weft_effects *e, struct weft_losses_of *in)
{
    size_t rows = (size_t)(e->size.sequences * e->size.length);
    in->nll = calloc(rows, sizeof *in->nll);
    if (!in->nll)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    TRY(run(e, in, NULL, -1, false));
    memcpy(in->nll, e->nll, rows * sizeof *in->nll);
    TRY(run(e, in, NULL, -1, true));
    in->limit = fmax(LEAST_EFFECT, TIMES_ROUNDING * effect_of(e, in).all);
    return WEFT_OK;
}

/* An effect that is too small is measured again with noise. Rounding may have more effect there, so the result is
 * scaled by the ratio of the limits. */
enum weft_status weft_effects_measure(struct weft_effects *e, const struct weft_switch *s, int layer,
                                      struct weft_effect *effect)
{
    if (!e->plain.nll)
        TRY(run_plain(e, &e->plain));
    TRY(run(e, &e->plain, s, layer, false));
    *effect = effect_of(e, &e->plain);
    bool is_loss = layer < 0 && effect->all == 0; /* or there is no effect; gradients decide which */
    if (is_loss || (effect->all > e->plain.limit && effect->late > e->plain.limit))
        return WEFT_OK;
    if (!e->shaken.nll) {
        for (int i = 0; i < WEFT_NOISES; i++)
            e->noise[i] = (float)weft_normal(NOISE_KEY, (uint64_t)i);
        e->shaken.noise = e->noise;
        TRY(run_plain(e, &e->shaken));
    }
    TRY(run(e, &e->shaken, s, layer, false));
    struct weft_effect louder = effect_of(e, &e->shaken);
    double scale = e->plain.limit / e->shaken.limit;
    effect->all = fmax(effect->all, scale * louder.all);
    effect->late = fmax(effect->late, scale * louder.late);
    return WEFT_OK;
}

enum weft_status weft_effects_init(struct weft_effects *e, const struct weft_nn *learned, int64_t length)
{
    *e = (struct weft_effects){.model = *learned, .size = {.length = length}};
    e->size.sequences = weft_max(1, weft_min(MOST_SEQUENCES, MOST_SCORED / length));
    TRY(weft_spec_vary(&e->spec, learned->spec, "dtype=f32"));
    e->model.spec = &e->spec;
    e->nll = calloc((size_t)(e->size.sequences * length), sizeof *e->nll);
    if (!e->nll)
        return FAIL(WEFT_NOMEM, "not enough memory to check the model");
    return WEFT_OK;
}

void weft_effects_release(struct weft_effects *e)
{
    free(e->nll);
    free(e->plain.nll);
    free(e->shaken.nll);
    weft_spec_release(&e->spec);
}
