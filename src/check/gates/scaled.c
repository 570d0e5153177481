/* SPDX-License-Identifier: MIT
 *
 * scaled.c - checks that with scaling=mup the effect of a weight's step does not depend on the width (coordinate check,
 * after G. Yang et al., arXiv:2203.03466).
 *
 * Copies of the twin at several widths, with the same number of heads, take a few steps along the signs of their
 * gradients, as Adam initially does, every weight with its own learning rate. After that, a step of one weight alone
 * would lower the loss by rate * sum |g|, to first order. As the width grows, this decrease must not grow, because a
 * learning rate that is right for a narrow model would then be too large for a wide one, nor may it vanish. The factor
 * that multiplies the scores must fall as 1/D. A part that does not declare how its weights scale, or declares it
 * wrongly, fails here, and the message names the weight. Auxiliary losses are left out, because a contrast of wide
 * vectors vanishes by itself.
 */
#include "check/probe/gate.h"
#include "nn/part.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>

enum { WIDTHS = 4, SEEDS = 8, STEPS = 6, SEQUENCES = 2, LENGTH = 16, TOKENS_KEY = 23 };
#define LR 0.004
/* Limits for the exponents of the width, which are -0.8 to 0.25 in sound models, and about 1 for a weight without its
 * own learning rate. */
#define MOST 0.45
#define LEAST -0.9

/* Means over seeds, for each width. */
struct effects {
    int count;                /* number of weights */
    double (*weight)[WIDTHS]; /* effect of a step of each weight */
    double score[WIDTHS];     /* factor that multiplies the scores */
};

/* ---- one model */

/* Takes a step with all weights. */
static void step(struct weft_probe *p)
{
    const struct weft_params *params = &p->model->params;
    float *weights = p->weights;
    for (int i = 0; i < params->count; i++) {
        const struct weft_tensor *g = weft_probe_grad(p, i);
        const struct weft_param *w = &params->list[i];
        for (int64_t e = 0; g && e < w->count; e++) {
            double x = weft_tensor_get(g, e);
            weights[w->offset + e] -= (float)(LR * w->rate * ((x > 0) - (x < 0)));
        }
    }
}

static double effect(const struct weft_probe *p, int i)
{
    const struct weft_tensor *g = weft_probe_grad(p, i);
    double sum = 0;
    for (int64_t e = 0; g && e < p->model->params.list[i].count; e++)
        sum += fabs(weft_tensor_get(g, e));
    return p->model->params.list[i].rate * sum;
}

/* Finds the factor that multiplies the scores in the first attention op, f32 [H], and makes it an output; NULL: there
 * is none. */
static struct weft_value *find_factor(const struct weft_net *net, int64_t heads)
{
    struct weft_node *const *nodes;
    int n = weft_graph_nodes(net->g, &nodes);
    for (int i = 0; i < n; i++)
        for (int k = 0; nodes[i]->op == weft_op(WEFT_OP_attention) && k < WEFT_MAX_ARGS; k++) {
            struct weft_value *v = nodes[i]->in[k];
            if (v && v->dtype == WEFT_F32 && v->shape.ndim == 1 && v->shape.dim[0].symbol == 0 &&
                v->shape.dim[0].times == heads) {
                weft_graph_output(net->g, v);
                return v;
            }
        }
    return NULL;
}

static void take_steps(struct weft_probe *p, const struct weft_value *factor, int width, struct effects *to)
{
    weft_probe_rows(p, SEQUENCES, weft_min(LENGTH, p->model->spec->context), NULL);
    weft_probe_fill(p, TOKENS_KEY);
    weft_tensor_set(weft_exec_tensor(p->exec, p->net.share), 0, 0);
    weft_probe_run(p);
    to->score[width] += factor ? weft_tensor_get(weft_exec_tensor(p->exec, factor), 0) / SEEDS : NAN;
    for (int i = 0; i < STEPS; i++) {
        step(p);
        weft_probe_run(p);
    }
    for (int i = 0; i < to->count; i++)
        to->weight[i][width] += effect(p, i) / SEEDS;
}

static enum weft_status measure(const struct weft_nn *model, int width, struct effects *to)
{
    int64_t length = weft_min(LENGTH, model->spec->context);
    struct weft_probe p = {.model = model, .dtype = WEFT_F32};
    struct weft_value *factor = NULL;
    enum weft_status status =
        weft_net_init(&p.net, model, WEFT_TRAIN, (struct weft_net_size){.sequences = SEQUENCES, .length = length});
    if (status == WEFT_OK) {
        factor = find_factor(&p.net, model->spec->heads);
        status = weft_probe_plan(&p, WEFT_FAST);
    }
    if (status == WEFT_OK)
        take_steps(&p, factor, width, to);
    weft_probe_close(&p);
    return status;
}

/* ---- several widths */

/* Measures a twin that is 2^width times as wide, with its own initial weights. */
static enum weft_status measure_at(const struct weft_spec *twin, int width, int seed, struct effects *to)
{
    struct weft_spec spec = *twin;
    struct weft_nn *model = NULL;
    spec.width <<= width;
    spec.ffn_width <<= width;
    spec.seed += seed;
    spec.compute = WEFT_F32;
    spec.mup_width = twin->width;
    spec.mup_head = twin->head;
    TRY(weft_spec_resolve(&spec));
    enum weft_status status = weft_nn_create(&model, &spec);
    if (status == WEFT_OK)
        status = weft_nn_init(model);
    if (status == WEFT_OK)
        status = measure(model, width, to);
    weft_nn_free(model);
    return status;
}

/* Returns the exponent of y as a power of the width, by least squares in logarithms. */
static double exponent(const double y[WIDTHS])
{
    double mean = 0, top = 0, bottom = 0;
    for (int i = 0; i < WIDTHS; i++)
        mean += log(y[i]) / WIDTHS;
    for (int i = 0; i < WIDTHS; i++) {
        double x = (i - (WIDTHS - 1) / 2.0) * log(2);
        top += x * (log(y[i]) - mean);
        bottom += x * x;
    }
    return top / bottom;
}

/* ---- the gate */

static void report(const struct weft_trial *t, const struct effects *e)
{
    const struct weft_params *p = &t->model->params;
    struct weft_spec main = *t->model->spec;
    double most = -INFINITY, least = INFINITY, factor = exponent(e->score);
    int grown = 0, lost = 0;
    main.aux = false;
    for (int i = 0; i < p->count; i++) {
        double x = exponent(e->weight[i]);
        if (weft_weight_is_idle(&main, &p->list[i]))
            continue;
        if (!(x <= most)) {
            most = x;
            grown = i;
        }
        if (!(x >= least)) {
            least = x;
            lost = i;
        }
    }
    weft_trial_report(t, most <= MOST, most, MOST, "no step does more in a wider model",
                      "a step of %s lowers the loss in proportion to width^%.2f", p->list[grown].name, most);
    weft_trial_report(t, least >= LEAST, -least, -LEAST, "no step does less in a wider model",
                      "a step of %s lowers the loss in proportion to width^%.2f", p->list[lost].name, least);
    weft_trial_report(t, fabs(factor + 1) < 1e-3, fabs(factor + 1), 1e-3, "scores are divided by the width of a head",
                      "their factor is proportional to D^%.3f", factor);
}

enum weft_status weft_gate_scaled(const struct weft_trial *t)
{
    const struct weft_spec *twin = t->model->spec;
    if (!twin->mup)
        return WEFT_OK;
    struct effects e = {.count = t->model->params.count};
    e.weight = calloc((size_t)e.count, sizeof *e.weight);
    enum weft_status status = e.weight ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory to check the model");
    for (int i = 0; i < WIDTHS * SEEDS && status == WEFT_OK; i++)
        status = measure_at(twin, i / SEEDS, i % SEEDS, &e);
    if (status == WEFT_OK)
        report(t, &e);
    free(e.weight);
    return status;
}
