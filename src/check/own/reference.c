/* SPDX-License-Identifier: MIT
 *
 * reference.c - compares a model with its author's own definition, which no gate can know. Weights, tokens and targets
 * of the model's small copy are written to a file; the author's program computes logits, loss and gradients from them.
 *
 * The f64 execution of the graph evaluates the same formula, so it must agree up to the rounding of a program that may
 * compute or write in f32. The fast path must agree as far as its dtype allows.
 */
#include "check/own/reference.h"
#include "nn/part.h"

#include <math.h>
#include <string.h>

#define TINY 1e-30 /* avoids a division by 0 */

enum { TOKENS_KEY = 91 };

/* ---- parts with a definition */

/* Parts for which tests/golden has PyTorch models, which tests/golden_models.c verifies. */
static const char *const defined[] = {"geom=dot", "geom=w2",     "geom=overlap", "attn=full",      "attn=latent",
                                      "pos=none", "pos=learned", "pos=rope",     "pos=alibi",      "pos=relative",
                                      "ffn=gelu", "ffn=swiglu",  "ffn=ws",       "norm=layernorm", "norm=rmsnorm",
                                      "m1=yes",   "m2=yes",      "m3=yes"};

bool weft_part_is_defined(const struct weft_part *part)
{
    for (size_t i = 0; i < sizeof defined / sizeof *defined; i++)
        if (strcmp(part->owner.name, defined[i]) == 0)
            return true;
    return false;
}

/* ---- the copy and its graphs */

static enum weft_status open_probe(struct weft_probe *p, const struct weft_nn *model, enum weft_use use,
                                   enum weft_mode mode)
{
    struct weft_net_size size = weft_reference_size(model);
    TRY(weft_probe_open(p, model, use, size, mode));
    weft_probe_rows(p, size.sequences, size.length, NULL);
    weft_probe_fill(p, TOKENS_KEY);
    return WEFT_OK;
}

/* Creates the same small copy of the model as the gates, without dropout. */
static enum weft_status make_copy(struct weft_spec *tiny, const struct weft_spec *spec, struct weft_nn **copy)
{
    *copy = NULL;
    TRY(weft_spec_shrink(tiny, spec));
    tiny->dropout = 0;
    TRY(weft_twin_create(copy, tiny));
    return WEFT_OK;
}

enum weft_status weft_reference_inputs(const struct weft_spec *spec, const char *path)
{
    struct weft_spec tiny = {0};
    struct weft_nn *copy = NULL;
    struct weft_probe p = {0};
    enum weft_status status = make_copy(&tiny, spec, &copy);
    if (status == WEFT_OK)
        status = open_probe(&p, copy, WEFT_TRAIN, WEFT_REFERENCE);
    if (status == WEFT_OK)
        status = weft_reference_write(&p, path);
    weft_probe_close(&p);
    weft_nn_free(copy);
    weft_spec_release(&tiny);
    return status;
}

/* ---- comparing */

/* The tensor with the largest error so far, and its element with the largest error. */
struct worst {
    double error; /* root mean square of the difference, relative to the tensor's root mean square */
    const char *tensor;
    int64_t element;
    double is, wanted;
};

/* Keeps the larger error in `worst`. If `is` is NULL, as for a weight without a gradient, all values are 0. */
static void compare(struct worst *worst, const char *tensor, const struct weft_tensor *is,
                    const struct weft_tensor *wanted, double scale)
{
    struct worst w = {.tensor = tensor};
    double largest = -1, squares = 0;
    int64_t n = weft_tensor_count(wanted);
    for (int64_t e = 0; e < n; e++) {
        double a = is ? weft_tensor_get(is, e) : 0, b = weft_tensor_get(wanted, e), off = fabs(a - b);
        squares += off * off;
        if (!(off <= largest)) {
            largest = off;
            w.element = e;
            w.is = a;
            w.wanted = b;
        }
    }
    w.error = sqrt(squares / (double)weft_max(1, n)) / scale;
    if (isnan(w.error))
        w.error = INFINITY;
    if (!worst->tensor || w.error > worst->error)
        *worst = w;
}

struct way {
    const char *name;
    enum weft_mode mode;
    enum weft_dtype dtype;
    double limit;
};

static void report(const struct weft_trial *t, const struct way *way, const char *what, const struct worst *w)
{
    char name[160];
    snprintf(name, sizeof name, "%s in %s against the reference", what, way->name);
    weft_trial_report(t, w->error <= way->limit, w->error, way->limit, name,
                      "%s, element %lld is %.8g, but the reference has %.8g", w->tensor, (long long)w->element, w->is,
                      w->wanted);
}

static enum weft_status compare_logits(const struct weft_trial *t, const struct way *way,
                                       const struct weft_reference *w)
{
    struct weft_probe p;
    struct worst worst = {0};
    enum weft_status status = open_probe(&p, t->model, WEFT_FORWARD, way->mode);
    if (status == WEFT_OK) {
        weft_probe_run(&p);
        compare(&worst, "logits", weft_exec_tensor(p.exec, p.net.logits), &w->logits,
                fmax(TINY, weft_tensor_rms(&w->logits)));
        report(t, way, "logits", &worst);
    }
    weft_probe_close(&p);
    return status;
}

/* If large terms cancel, the error is relative to them, so the scale is at least 1e-3 of the largest gradient. */
static void compare_gradients(const struct weft_trial *t, const struct way *way, const struct weft_probe *p,
                              const struct weft_reference *w)
{
    const struct weft_params *params = &p->model->params;
    struct worst worst = {0};
    double floor = TINY;
    char what[64];
    for (int i = 0; i < params->count; i++)
        floor = fmax(floor, 1e-3 * weft_tensor_rms(&w->grad[i]));
    for (int i = 0; i < params->count; i++)
        compare(&worst, params->list[i].name, weft_probe_grad(p, i), &w->grad[i],
                fmax(floor, weft_tensor_rms(&w->grad[i])));
    snprintf(what, sizeof what, "gradients of %d weights", params->count);
    report(t, way, what, &worst);
}

static enum weft_status compare_training(const struct weft_trial *t, const struct way *way,
                                         const struct weft_reference *w)
{
    struct weft_probe p;
    struct worst loss = {0};
    enum weft_status status = open_probe(&p, t->model, WEFT_TRAIN, way->mode);
    if (status == WEFT_OK) {
        weft_probe_run(&p);
        compare(&loss, "loss", weft_exec_tensor(p.exec, p.net.loss), &w->loss, fmax(TINY, weft_tensor_rms(&w->loss)));
        report(t, way, "loss", &loss);
        if (way->dtype == WEFT_F32)
            compare_gradients(t, way, &p, w);
    }
    weft_probe_close(&p);
    return status;
}

/* The largest errors in 1200 random combinations, which are correct by definition, were 2e-3 in f32 (gradients) and
 * 0.28 in bf16 (logits, if near ties are resolved differently). So the fast path checks the formula in f32, and only
 * gross errors in bf16, where some gradients have relative errors above 1. */
static enum weft_status compare_all(const struct weft_trial *t, const struct weft_reference *w)
{
    static const struct way ways[] = {{"f64", WEFT_REFERENCE, WEFT_F32, 1e-5},
                                      {"f32", WEFT_FAST, WEFT_F32, 1e-2},
                                      {"bf16", WEFT_FAST, WEFT_BF16, 0.5}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct weft_spec spec = *t->model->spec;
        struct weft_nn model = *t->model;
        model.spec = &spec;
        if (ways[i].dtype == WEFT_BF16 && spec.compute != WEFT_BF16)
            continue;
        spec.compute = ways[i].dtype;
        struct weft_trial trial = {t->gate, &model, NULL, t->report};
        TRY(compare_logits(&trial, &ways[i], w));
        TRY(compare_training(&trial, &ways[i], w));
        TRY(weft_deferred());
    }
    return WEFT_OK;
}

enum weft_status weft_reference_check(const struct weft_spec *spec, const char *path, struct weft_gates *to)
{
    struct weft_spec tiny = {0};
    struct weft_nn *copy = NULL;
    struct weft_reference w = {0};
    enum weft_status status = make_copy(&tiny, spec, &copy);
    if (status == WEFT_OK)
        status = weft_reference_read(&w, copy, path);
    if (status == WEFT_OK)
        status = compare_all(&(struct weft_trial){"reference", copy, NULL, to}, &w);
    weft_arena_release(&w.arena);
    weft_nn_free(copy);
    weft_spec_release(&tiny);
    return status;
}
