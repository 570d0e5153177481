/* SPDX-License-Identifier: MIT
 *
 * metric.c - checks that scores which a geometry declares to be squared distances are distances: with the same raw
 * vectors as queries and keys, a point has distance 0 to itself and a positive one to others, the distance is
 * symmetric, and it is never longer than the path through a third point. A geometry whose distance lacks a term may
 * still train; this check detects that without knowing the formula.
 *
 * The attention of each block runs alone, in f64, on sequences of two points. The second row's output lies between the
 * values of the two points, and its position between them gives the difference of the two scores.
 */
#include "check/probe/gate.h"
#include "nn/part.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 4, PAIRS = POINTS * (POINTS - 1), MOST_HEADS = 16, POINTS_KEY = 76 };
#define LIMIT 1e-6

struct points {
    double square[MOST_HEADS][POINTS][POINTS]; /* score of a point with itself minus its score with a different point */
};

/* ---- weights: the same for queries and keys, and the identity for the output */

static double *weights_of(const struct weft_probe *p, int layer, const char *name, const struct weft_param **w)
{
    char full[64];
    snprintf(full, sizeof full, "blocks.%d.attn.%s", layer, name);
    int i = weft_params_find(&p->model->params, full);
    *w = i < 0 ? NULL : &p->model->params.list[i];
    return i < 0 ? NULL : (double *)p->weights + (*w)->offset;
}

static void make_alike(const struct weft_probe *p, int layer)
{
    static const char *const pairs[][2] = {
        {"wq", "wk"}, {"wq_bias", "wk_bias"}, {"wq_spread", "wk_spread"}, {"wq_spread_bias", "wk_spread_bias"}};
    const struct weft_param *a, *b;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const double *from = weights_of(p, layer, pairs[i][0], &a);
        double *to = weights_of(p, layer, pairs[i][1], &b);
        if (from && to)
            memcpy(to, from, (size_t)a->count * sizeof *to);
    }
    double *out = weights_of(p, layer, "wo", &a), *bias = weights_of(p, layer, "wo_bias", &b);
    for (int64_t i = 0; i < a->count; i++)
        out[i] = i / a->dim[1] == i % a->dim[1];
    if (bias)
        memset(bias, 0, (size_t)b->count * sizeof *bias);
}

/* ---- points */

/* Sets a and b to the n-th ordered pair. */
static void pair_at(int n, int *a, int *b)
{
    *a = n / (POINTS - 1);
    *b = n % (POINTS - 1);
    *b += *b >= *a;
}

static void write_points(const struct weft_probe *p)
{
    struct weft_tensor *x = weft_exec_tensor(p->exec, p->net.x);
    int64_t width = weft_tensor_width(x);
    for (int n = 0; n < PAIRS; n++) {
        int of[2];
        pair_at(n, &of[0], &of[1]);
        for (int64_t e = 0; e < 2 * width; e++)
            weft_tensor_set(x, 2 * n * width + e,
                            weft_normal(weft_key(POINTS_KEY, (uint64_t)of[e / width]), (uint64_t)(e % width)));
    }
}

/* Returns one element of the output of attention, which is added to a row. */
static double added(const struct weft_probe *p, int64_t row, int64_t e)
{
    const struct weft_tensor *x = weft_exec_tensor(p->exec, p->net.x), *y = weft_exec_tensor(p->exec, p->net.y);
    int64_t at = row * weft_tensor_width(x) + e;
    return weft_tensor_get(y, at) - weft_tensor_get(x, at);
}

/* Computes the squared distances from the outputs. The first row of a sequence attends only to itself, so its output is
 * its value. */
static void read_points(const struct weft_probe *p, struct points *found)
{
    const struct weft_spec *spec = p->model->spec;
    int64_t first_row[POINTS];
    for (int n = 0; n < PAIRS; n++) {
        int a, b;
        pair_at(n, &a, &b);
        first_row[a] = 2 * n;
    }
    for (int n = 0; n < PAIRS; n++)
        for (int64_t h = 0; h < spec->heads && h < MOST_HEADS; h++) {
            double along = 0, length = 0;
            int a, b;
            pair_at(n, &a, &b);
            for (int64_t e = h * spec->head; e < (h + 1) * spec->head; e++) {
                double own = added(p, first_row[b], e), to = added(p, first_row[a], e) - own;
                along += (added(p, 2 * n + 1, e) - own) * to;
                length += to * to;
            }
            found->square[h][b][a] = log((length - along) / along);
        }
}

/* ---- the check */

/* The largest violation of the rules of a distance. */
struct breach {
    double most;
    const char *what;
    int layer;
};

static void note(struct breach *worst, double error, const char *what, int layer)
{
    if (!(error <= worst->most))
        *worst = (struct breach){isnan(error) ? INFINITY : error, what, layer};
}

static void judge_head(double d[POINTS][POINTS], struct breach *worst, int layer)
{
    for (int a = 0; a < POINTS; a++)
        for (int b = 0; b < POINTS; b++) {
            if (a == b)
                continue;
            note(worst, fabs(d[a][b] - d[b][a]) / fmax(1, fabs(d[a][b])),
                 "the distance between two points depends on the direction", layer);
            note(worst, -d[a][b], "a point is closer to another than to itself", layer);
            for (int c = 0; c < POINTS; c++)
                if (c != a && c != b)
                    note(worst, sqrt(fmax(0, d[a][b])) - sqrt(fmax(0, d[a][c])) - sqrt(fmax(0, d[c][b])),
                         "the path through a third point is shorter", layer);
        }
}

static enum weft_status measure(const struct weft_nn *model, int layer, struct breach *worst)
{
    struct weft_probe p;
    struct points found = {0};
    struct weft_net_size size = {.sequences = PAIRS, .length = 2, .blocks = 1, .first = layer, .only_attention = true};
    enum weft_status status = weft_probe_open(&p, model, WEFT_FORWARD, size, WEFT_REFERENCE);
    if (status == WEFT_OK) {
        weft_probe_rows(&p, PAIRS, 2, NULL);
        make_alike(&p, layer);
        write_points(&p);
        weft_probe_run(&p);
        read_points(&p, &found);
        for (int64_t h = 0; h < model->spec->heads && h < MOST_HEADS; h++)
            judge_head(found.square[h], worst, layer);
    }
    weft_probe_close(&p);
    return status;
}

static enum weft_status measure_all(const struct weft_trial *t, const struct weft_nn *model)
{
    struct breach worst = {.what = ""};
    for (int layer = 0; layer < model->spec->layers; layer++)
        TRY(measure(model, layer, &worst));
    weft_trial_report(t, worst.most <= LIMIT, worst.most, LIMIT, "scores of the geometry are minus squared distances",
                      "layer %d: %s", worst.layer, worst.what);
    return WEFT_OK;
}

enum weft_status weft_check_metric(const struct weft_trial *t)
{
    struct weft_spec spec;
    struct weft_nn *model = NULL;
    if (!weft_spec_geom(t->model->spec)->metric)
        return WEFT_OK;
    enum weft_status status = weft_spec_vary(
        &spec, t->model->spec,
        "attn=full pos=none kv_heads=0 head_width=0 output_gate=no norm_place=pre ra_alpha=0 qk_norm=no");
    if (status == WEFT_OK)
        status = weft_twin_create(&model, &spec);
    if (status == WEFT_OK)
        status = measure_all(t, model);
    weft_nn_free(model);
    weft_spec_release(&spec);
    return status;
}
