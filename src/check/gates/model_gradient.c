/* SPDX-License-Identifier: MIT
 *
 * model_gradient.c - compares the fast path of the model itself, in the training dtype, with its f64 reference: the
 * loss of every row and the gradient of every weight, at the configured widths and layers, on a few rows.
 *
 * Half of the rows are a sequence at the end of the context, so that position schemes see late positions. A bf16 number
 * has a relative error of up to u = 2^-9. The rounding errors on the way to a gradient are independent, so its relative
 * error grows with the square root of their number, which grows with the number N of layers. The bound is FACTOR u
 * sqrt(1 + N) or ALLOWED times the effect that the graph's roundings have with exact kernels, whichever is larger.
 * Errors of single elements average out over a tensor, so its scale (the gradient's projection on the reference) is
 * more accurate than its elements. A small gradient of a weight contains the rounding errors of larger terms that
 * cancel.
 */
#include "check/probe/gate.h"
#include "nn/part.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SEQUENCES = 2,
    SHORT = 16,
    LONG = 3 * WEFT_KEY_TILE + 8,
    LONGEST = 2048,
    TOKENS_KEY = 91,
    NOISE_KEY = 92,
    NOISES = 16381, /* a prime, so that the rows of a matrix differ */
    ATTEMPTS = 3,
    MANY = 30000000
};
#define FACTOR 8. /* square root of the number of roundings in a layer, about 64 */
#define LONG_SUMS 100.
#define SCALE_FACTOR 4.
#define FEW 8.
#define SMALL 1e-3     /* fraction of the largest gradient; rounding errors of large gradients reach smaller ones */
#define LONG_SHARE 0.1 /* fraction of the time limit of all checks */
#define ALLOWED 4.     /* allowed multiple of the effect of rounding */

/* A comparison: a model on a short sequence at the end of the context and on a longer one at its beginning. */
struct sample {
    const struct weft_nn *model;
    int64_t at_end, length; /* lengths of the short and the longer sequence in tokens */
    const char *what;
    bool noisy;     /* add noise to the weights: with initial weights scores are nearly 0, which hides their errors */
    bool slope;     /* also compare the reference's gradients with differences of its loss */
    double seconds; /* duration of the comparison */
};

static enum weft_status open_probe(struct weft_probe *p, const struct sample *s, enum weft_use use, enum weft_mode mode)
{
    int64_t context = s->model->spec->context, lengths[SEQUENCES] = {s->at_end, s->length};
    struct weft_net_size size = {.sequences = SEQUENCES, .length = weft_max(lengths[0], lengths[1])};
    TRY(weft_probe_open(p, s->model, use, size, mode));
    weft_probe_rows(p, SEQUENCES, 0, lengths);
    weft_probe_fill(p, TOKENS_KEY);
    int32_t *position = weft_exec_tensor(p->exec, p->net.position)->data;
    for (int64_t i = 0; i < lengths[0]; i++)
        position[i] += (int32_t)(context - lengths[0]);
    return WEFT_OK;
}

static int64_t rows_of(const struct sample *s) { return s->at_end + s->length; }

/* The errors of one weight's gradient. */
struct closeness {
    double error, scale; /* relative errors of the elements and of the projection on the reference */
};

static struct closeness compare(const struct weft_tensor *exact, const struct weft_tensor *fast, double least)
{
    double dot = 0, squares = 0, errors = 0;
    int64_t n = weft_tensor_count(exact);
    for (int64_t i = 0; i < n; i++) {
        double x = weft_tensor_get(exact, i), d = weft_tensor_get(fast, i) - x;
        dot += d * x;
        squares += x * x;
        errors += d * d;
    }
    double norm = fmax(sqrt(squares), least * sqrt((double)n));
    return (struct closeness){sqrt(errors) / norm, fabs(dot) / (norm * norm)};
}

/* Returns the largest error of a loss. If losses are larger than the loss of a model that guesses, the error is
 * relative to their size, because sharp logits have larger rounding errors. */
static double worst_loss(const struct weft_probe *exact, const struct weft_probe *fast)
{
    const struct weft_tensor *losses = weft_exec_tensor(exact->exec, exact->net.nll);
    double guess = log((double)exact->model->spec->vocab), size = fmax(1, weft_tensor_rms(losses) / guess);
    return weft_tensor_distance(losses, weft_exec_tensor(fast->exec, fast->net.nll)) / size;
}

/* The largest error of any weight, relative to a bound that is the same for all or, if known, to a multiple of the
 * effect of rounding on the weight. */
struct worst {
    double error, limit;
    int at;
};

static void keep_worse(struct worst *w, double error, double limit, int at)
{
    if (!(error / limit <= w->error / w->limit))
        *w = (struct worst){error, limit, at};
}

struct limits {
    double error, scale, least;
};

static struct limits limits_of(const struct weft_spec *spec, const struct weft_probe *exact)
{
    double u = spec->compute == WEFT_F32 ? 0x1p-24 : 0x1p-9, depth = sqrt(1 + (double)spec->layers), largest = 0;
    double factor = spec->compute == WEFT_F32 ? LONG_SUMS : 1; /* f32 sums round at every addition; bf16 sums are f32 */
    for (int i = 0; i < exact->model->params.count; i++)
        if (weft_probe_grad(exact, i))
            largest = fmax(largest, weft_tensor_rms(weft_probe_grad(exact, i)));
    return (struct limits){factor * FACTOR * u * depth, factor * SCALE_FACTOR * u, SMALL * largest};
}

static void compare_all(const struct weft_probe *exact, const struct weft_probe *fast, const struct weft_probe *rounded,
                        const struct limits *l, struct worst *error, struct worst *scale)
{
    *error = (struct worst){0, l->error, 0};
    *scale = (struct worst){0, l->scale, 0};
    for (int i = 0; i < exact->model->params.count; i++) {
        const struct weft_tensor *a = weft_probe_grad(exact, i), *b = weft_probe_grad(fast, i);
        if (!a || weft_weight_is_idle(exact->model->spec, &exact->model->params.list[i])) /* only rounding */
            continue;
        struct closeness c = compare(a, b, l->least), by = {0};
        if (rounded)
            by = compare(a, weft_probe_grad(rounded, i), l->least);
        keep_worse(error, c.error, fmax(l->error, ALLOWED * by.error), i);
        double few = 1 + FEW / sqrt((double)weft_tensor_count(a)); /* over few elements, errors do not average out */
        keep_worse(scale, c.scale, fmax(few * l->scale, ALLOWED * fmax(by.scale, by.error)), i);
    }
}

/* ---- the reference's own gradients */

/* Adds the noise of the twin, scaled to the width: scores are then about 1, so a choice (the k largest routes) is
 * rarely between near ties. Afterwards all probes have the weights of the first one, rounded to f32. */
static void add_noise(struct weft_probe *const probes[], int count, uint64_t attempt)
{
    const struct weft_params *params = &probes[0]->model->params;
    struct weft_tensor all = {.data = probes[0]->weights, .dtype = probes[0]->dtype, .ndim = 1, .dim = {params->total}};
    double noise[NOISES], size = 0.2 * sqrt(32.0 / (double)probes[0]->model->spec->width);
    for (uint64_t i = 0; i < NOISES; i++)
        noise[i] = size * weft_normal(weft_key(NOISE_KEY, attempt), i);
    for (int i = 0; i < params->count; i++)
        for (int64_t e = 0; e < params->list[i].count; e++) {
            int64_t at = params->list[i].offset + e;
            weft_tensor_set(&all, at, (float)(params->weights[at] + noise[at % NOISES]));
        }
    for (int i = 1; i < count; i++)
        if (probes[i]->exec)
            weft_convert(probes[i]->weights, probes[i]->dtype, all.data, all.dtype, params->total);
}

static enum weft_status check_slope(const struct weft_trial *t, const struct sample *s, struct weft_probe *train)
{
    double error = INFINITY;
    struct weft_probe eval = {0};
    char name[160];
    enum weft_status status = open_probe(&eval, s, WEFT_EVAL, WEFT_REFERENCE);
    weft_probe_fill(train, TOKENS_KEY); /* the tokens of EVAL, in case others were tried before */
    for (uint64_t i = 0; status == WEFT_OK && i < ATTEMPTS && !(error <= WEFT_SLOPE_LIMIT); i++) {
        add_noise(&train, 1, i);
        status = weft_slope_error(train, &eval, &error);
    }
    weft_probe_close(&eval);
    TRY(status);
    snprintf(name, sizeof name, "gradients against differences of the loss in f64 (%s, %lld rows)", s->what,
             (long long)rows_of(s));
    weft_trial_report(t, error <= WEFT_SLOPE_LIMIT, error, WEFT_SLOPE_LIMIT, name,
                      "the slope along a direction through all weights does not match the gradients");
    return WEFT_OK;
}

/* ---- the whole comparison */

struct found {
    struct worst loss, error, scale;
};

static bool is_fine(const struct found *f)
{
    return f->loss.error <= f->loss.limit && f->error.error <= f->error.limit && f->scale.error <= f->scale.limit;
}

static void report(const struct weft_trial *t, const struct sample *s, const char *what, const char *where,
                   struct worst worst)
{
    char name[160];
    snprintf(name, sizeof name, "%s in %s against f64 (%s, %lld rows)", what, weft_dtype_name(s->model->spec->compute),
             s->what, (long long)rows_of(s));
    weft_trial_report(t, worst.error <= worst.limit, worst.error, worst.limit, name, "%s", where);
}

/* If the general bound is exceeded, exact kernels whose results are rounded as in the graph show the effect of rounding
 * on that weight. The gradient of a temperature, for example, is a small difference of large sums. */
static enum weft_status compare_runs(const struct sample *s, struct weft_probe *exact, struct weft_probe *fast,
                                     struct weft_probe *rounded, struct found *f)
{
    struct limits l = limits_of(s->model->spec, exact);
    f->loss = (struct worst){worst_loss(exact, fast), l.error, 0};
    compare_all(exact, fast, NULL, &l, &f->error, &f->scale);
    if (is_fine(f))
        return WEFT_OK;
    if (!rounded->exec) {
        TRY(open_probe(rounded, s, WEFT_TRAIN, WEFT_ROUNDED));
        weft_convert(rounded->weights, rounded->dtype, fast->weights, fast->dtype, s->model->params.total);
    }
    weft_probe_run(rounded);
    f->loss.limit = fmax(l.error, ALLOWED * worst_loss(exact, rounded));
    compare_all(exact, fast, rounded, &l, &f->error, &f->scale);
    return WEFT_OK;
}

/* A choice between near ties (the k largest routes) may differ from the reference's. With initial weights, which are
 * small, all routes are near ties. So it is enough if one of a few samples agrees; all but the first have noisy
 * weights. */
static enum weft_status compare_samples(const struct weft_trial *t, const struct sample *s, struct weft_probe *exact,
                                        struct weft_probe *fast, struct weft_probe *rounded)
{
    const struct weft_params *p = &s->model->params;
    struct weft_probe *const probes[] = {fast, exact, rounded};
    struct found f;
    for (uint64_t i = 0; i == 0 || (i < ATTEMPTS && !is_fine(&f)); i++) {
        if (s->noisy || i > 0)
            add_noise(probes, 3, i);
        for (int k = 0; k < 3; k++)
            if (probes[k]->exec)
                weft_probe_fill(probes[k], TOKENS_KEY + i);
        weft_probe_run(exact);
        weft_probe_run(fast);
        TRY(compare_runs(s, exact, fast, rounded, &f));
    }
    report(t, s, "losses of rows", "a row's loss differs", f.loss);
    report(t, s, "gradients", p->list[f.error.at].name, f.error);
    report(t, s, "scale of gradients", p->list[f.scale.at].name, f.scale);
    return WEFT_OK;
}

static enum weft_status check(const struct weft_trial *t, struct sample *s)
{
    double start = weft_seconds();
    struct weft_probe exact = {0}, fast = {0}, rounded = {0};
    enum weft_status status = open_probe(&exact, s, WEFT_TRAIN, WEFT_REFERENCE);
    if (status == WEFT_OK)
        status = open_probe(&fast, s, WEFT_TRAIN, WEFT_FAST);
    if (status == WEFT_OK)
        status = compare_samples(t, s, &exact, &fast, &rounded);
    weft_probe_close(&fast);
    weft_probe_close(&rounded);
    s->seconds = weft_seconds() - start;
    if (status == WEFT_OK && s->slope)
        status = check_slope(t, s, &exact);
    weft_probe_close(&exact);
    return status;
}

/* Checks the model as it is, and compares gradients through every layer with differences of the loss. For the
 * differences, dropout and `detach` are switched off: EVAL has no dropout, and a detached gradient is not the
 * derivative. */
static enum weft_status check_all_layers(const struct weft_trial *t, struct sample *s)
{
    struct weft_spec plain = *s->model->spec;
    struct weft_nn model = *s->model;
    struct weft_probe train = {0};
    s->slope = plain.dropout == 0 && !plain.detach;
    TRY(check(t, s));
    if (s->slope)
        return WEFT_OK;
    plain.dropout = 0;
    plain.detach = false;
    model.spec = &plain;
    struct sample whole = {&model, s->at_end, s->length, s->what, .slope = true};
    enum weft_status status = open_probe(&train, &whole, WEFT_TRAIN, WEFT_REFERENCE);
    if (status == WEFT_OK)
        status = check_slope(t, &whole, &train);
    weft_probe_close(&train);
    return status;
}

/* ---- where sequences begin */

/* Checks that with relative position schemes the losses of a sequence do not depend on where it begins. */
static enum weft_status check_distances(const struct weft_trial *t, const struct sample *s)
{
    const double limit = 1e-6;
    struct weft_probe p = {0}, *const probes[] = {&p};
    int64_t room = s->model->spec->context - s->at_end, worst_at = 0;
    double before[2 * SHORT], worst = 0;
    if (weft_spec_pos(s->model->spec)->embed || room == 0)
        return WEFT_OK;
    enum weft_status status = open_probe(&p, s, WEFT_EVAL, WEFT_REFERENCE);
    /* across powers of two, where tables end and numbers wrap; finally at the end of the context */
    for (int64_t shift = 0, power = s->at_end; status == WEFT_OK; power *= 2) {
        int32_t *position = weft_exec_tensor(p.exec, p.net.position)->data;
        if (shift == 0)
            add_noise(probes, 1, 0);
        for (int64_t i = 0; i < s->at_end; i++)
            position[i] = (int32_t)(shift + i);
        weft_probe_run(&p);
        for (int64_t i = 0; i < s->at_end; i++) {
            double loss = weft_tensor_get(weft_exec_tensor(p.exec, p.net.nll), i);
            before[i] = shift == 0 ? loss : before[i];
            if (!(fabs(loss - before[i]) <= worst)) {
                worst = fabs(loss - before[i]);
                worst_at = shift;
            }
        }
        if (shift == room)
            break;
        shift = weft_min(room, power - s->at_end / 2);
    }
    weft_probe_close(&p);
    TRY(status);
    weft_trial_report(t, worst <= limit, worst, limit,
                      "only distances between positions matter, over the whole context",
                      "losses change when all positions move by %lld", (long long)worst_at);
    return WEFT_OK;
}

/* ---- two layers and a small vocabulary, for which the reference is affordable on more rows */

static enum weft_status vary(struct weft_spec *to, const struct weft_spec *from, const char *name, int64_t most,
                             int64_t own)
{
    char text[64];
    snprintf(text, sizeof text, "%s=%lld", name, (long long)weft_min(most, own));
    TRY(weft_spec_vary(to, from, text));
    return WEFT_OK;
}

/* Checks several tiles of keys, also against finite differences of the loss. Then checks, with noise, as much of the
 * context as time allows, estimated from the time per row in the check of the whole model. */
static enum weft_status check_part(const struct weft_trial *t, const struct weft_nn *model, double seconds_per_row)
{
    const struct weft_itself *it = t->itself;
    int64_t context = model->spec->context;
    double share = (double)model->params.elements / (double)it->model->params.elements;
    double affordable = LONG_SHARE * it->seconds / (seconds_per_row * share);
    struct sample s = {model, weft_min(SHORT, context), weft_min(LONG, context), "2 layers", .slope = true};
    TRY(check(t, &s));
    s = (struct sample){model, s.at_end, s.length, "2 layers with noise", .noisy = true};
    s.length = weft_max(s.length, weft_min(context, (int64_t)fmin(affordable, LONGEST)));
    TRY(check(t, &s));
    s.length = s.at_end;
    TRY(check_distances(t, &s));
    return WEFT_OK;
}

static enum weft_status check_two_layers(const struct weft_trial *t, double seconds_per_row)
{
    struct weft_spec narrow = {0}, shallow = {0};
    struct weft_nn *model = NULL;
    const struct weft_spec *spec = t->itself->model->spec;
    enum weft_status status = vary(&narrow, spec, "vocab", 256, spec->vocab);
    if (status == WEFT_OK)
        status = vary(&shallow, &narrow, "layers", 2, spec->layers);
    shallow.detach = false; /* a gradient that is cut off on purpose is not the derivative */
    shallow.dropout = 0;    /* EVAL has no dropout */
    if (status == WEFT_OK)
        status = weft_nn_create(&model, &shallow);
    if (status == WEFT_OK)
        status = weft_nn_init(model);
    if (status == WEFT_OK) {
        model->left_out = t->itself->model->left_out;
        status = check_part(t, model, seconds_per_row);
    }
    weft_nn_free(model);
    weft_spec_release(&shallow);
    weft_spec_release(&narrow);
    return status;
}

enum weft_status weft_gate_gradient_itself(const struct weft_trial *t)
{
    struct weft_itself *it = t->itself;
    /* Large models, whose reference is slow, use half as many rows. */
    int64_t rows = it->model->params.elements > MANY ? SHORT / 2 : SHORT;
    struct sample s = {it->model, weft_min(rows, it->length), weft_min(rows, it->length), "all layers"};
    TRY(weft_itself_measure(it));
    TRY(weft_check_batches(t));
    TRY(check_all_layers(t, &s));
    TRY(check_two_layers(t, s.seconds / (double)(2 * s.length)));
    return WEFT_OK;
}
