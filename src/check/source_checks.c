/* SPDX-License-Identifier: MIT
 *
 * source_checks.c - the four checks from the code of the RA-MLA study, on tiny models: RoPE shapes, attention forward,
 * block forward, gradients. They passed there although three mechanisms were not wired in, so they are necessary but
 * not sufficient; this is why Weft has gates.
 */
#include "check/probe/gate.h"
#include "ops/ops.h"

#include <math.h>

enum { ROWS = 9, HEADS = 4, WIDTH = 8, KEY = 71 };

static void fill(struct weft_tensor *t, uint64_t key)
{
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        weft_tensor_set(t, i, weft_normal(key, (uint64_t)i));
}

static bool is_finite(const struct weft_tensor *t)
{
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        if (!isfinite(weft_tensor_get(t, i)))
            return false;
    return true;
}

static bool has_shape(const struct weft_tensor *t, int64_t rows, int64_t width)
{
    return weft_tensor_rows(t) == rows && weft_tensor_width(t) == width;
}

/* ---- a single op on rows 0, 1, .. of one sequence */

struct bench {
    struct weft_graph *g;
    struct weft_value *x[3], *seq, *pos, *tiles, *y;
    struct weft_exec *exec;
};

static void set_up(struct bench *b)
{
    struct weft_shape vector = WEFT_SHAPE(weft_fixed(ROWS)), one = WEFT_SHAPE(weft_fixed(1), weft_fixed(1));
    static const char *const names[] = {"q", "k", "v"};
    *b = (struct bench){.g = weft_graph_new(WEFT_F32)};
    for (int i = 0; i < 3; i++)
        b->x[i] = weft_graph_input(b->g, names[i], WEFT_F32, WEFT_SHAPE(weft_fixed(ROWS), weft_fixed(HEADS * WIDTH)));
    b->seq = weft_graph_input(b->g, "seq", WEFT_I32, vector);
    b->pos = weft_graph_input(b->g, "pos", WEFT_I32, vector);
    b->tiles = weft_graph_input(b->g, "tiles", WEFT_I32, one);
}

static enum weft_status run(struct bench *b)
{
    weft_graph_output(b->g, b->y);
    TRY(weft_graph_status(b->g));
    TRY(weft_exec_create(&b->exec, b->g, WEFT_FAST));
    for (int i = 0; i < 3; i++)
        fill(weft_exec_tensor(b->exec, b->x[i]), KEY + (uint64_t)i);
    for (int32_t r = 0; r < ROWS; r++) {
        ((int32_t *)weft_exec_tensor(b->exec, b->seq)->data)[r] = 0;
        ((int32_t *)weft_exec_tensor(b->exec, b->pos)->data)[r] = r;
    }
    *(int32_t *)weft_exec_tensor(b->exec, b->tiles)->data = 0;
    TRY(weft_exec_prepare(b->exec));
    TRY(weft_exec_run(b->exec));
    return WEFT_OK;
}

static void release(struct bench *b)
{
    weft_exec_free(b->exec);
    weft_graph_free(b->g);
}

/* A rotation changes neither shapes nor lengths. */
static enum weft_status check_rope(const struct weft_trial *t)
{
    const double limit = 1e-5;
    struct bench b;
    set_up(&b);
    b.y = weft_rope(b.g, b.x[0], b.pos, HEADS, &(struct weft_rope_turns){.base = 10000});
    enum weft_status status = run(&b);
    if (status == WEFT_OK) {
        const struct weft_tensor *x = weft_exec_tensor(b.exec, b.x[0]), *y = weft_exec_tensor(b.exec, b.y);
        bool shape = has_shape(y, ROWS, HEADS * WIDTH);
        double stretched = shape ? fabs(weft_tensor_rms(y) / weft_tensor_rms(x) - 1) : INFINITY;
        weft_trial_report(t, stretched <= limit, stretched, limit, "RoPE shapes", "lengths or shapes change");
    }
    release(&b);
    return status;
}

/* The first row can only attend to itself. */
static enum weft_status check_attention(const struct weft_trial *t)
{
    const double limit = 1e-5;
    struct bench b;
    set_up(&b);
    b.y = weft_attention(b.g, &(struct weft_attention){.q = b.x[0],
                                                       .k = b.x[1],
                                                       .v = b.x[2],
                                                       .rows = {.seq = b.seq, .pos = b.pos, .tiles = b.tiles},
                                                       .heads = HEADS,
                                                       .kv_heads = HEADS});
    enum weft_status status = run(&b);
    if (status == WEFT_OK) {
        const struct weft_tensor *v = weft_exec_tensor(b.exec, b.x[2]), *o = weft_exec_tensor(b.exec, b.y);
        double error = has_shape(o, ROWS, HEADS * WIDTH) && is_finite(o) ? 0 : INFINITY;
        for (int64_t i = 0; error < INFINITY && i < HEADS * WIDTH; i++)
            error = fmax(error, fabs(weft_tensor_get(o, i) - weft_tensor_get(v, i)));
        weft_trial_report(t, error <= limit, error, limit, "attention forward",
                          "the first row is not equal to its own value");
    }
    release(&b);
    return status;
}

/* ---- whole models */

static enum weft_status run_model(struct weft_probe *p, const struct weft_nn *model, enum weft_use use)
{
    TRY(weft_probe_open(p, model, use, (struct weft_net_size){.sequences = 2, .length = ROWS}, WEFT_FAST));
    weft_probe_rows(p, 2, ROWS, NULL);
    weft_probe_fill(p, KEY);
    weft_probe_run(p);
    return weft_deferred();
}

static enum weft_status check_block(const struct weft_trial *t)
{
    struct weft_probe p = {0};
    enum weft_status status = run_model(&p, t->model, WEFT_FORWARD);
    if (status == WEFT_OK) {
        const struct weft_tensor *logits = weft_exec_tensor(p.exec, p.net.logits);
        bool good = has_shape(logits, 2 * ROWS, t->model->spec->vocab) && is_finite(logits);
        weft_trial_report(t, good, !good, 0, "block forward", "the logits are not finite or have the wrong shape");
    }
    weft_probe_close(&p);
    return status;
}

static enum weft_status check_gradients(const struct weft_trial *t)
{
    struct weft_probe p = {0};
    enum weft_status status = run_model(&p, t->model, WEFT_TRAIN);
    const char *first = NULL;
    int bad = 0;
    for (int i = 0; status == WEFT_OK && i < t->model->params.count; i++) {
        const struct weft_tensor *grad = weft_probe_grad(&p, i);
        if (grad && is_finite(grad))
            continue;
        first = first ? first : t->model->params.list[i].name;
        bad++;
    }
    if (status == WEFT_OK)
        weft_trial_report(t, bad == 0, bad, 0, "gradients", "%s has no gradient or a non-finite one", first);
    weft_probe_close(&p);
    return status;
}

static enum weft_status check_model(struct weft_trial *t, const struct weft_spec *spec)
{
    struct weft_nn *model = NULL;
    enum weft_status status = weft_twin_create(&model, spec);
    t->model = model;
    if (status == WEFT_OK)
        status = check_block(t);
    if (status == WEFT_OK)
        status = check_gradients(t);
    weft_nn_free(model);
    return status;
}

enum weft_status weft_source_checks(struct weft_gates *report)
{
    struct weft_trial t = {.gate = "source", .report = report};
    struct weft_spec spec;
    TRY(check_rope(&t));
    TRY(check_attention(&t));
    enum weft_status status = weft_combination_spec(&spec, "attn=latent m1=yes m2=yes m3=yes", WEFT_F32);
    if (status == WEFT_OK)
        status = check_model(&t, &spec);
    weft_spec_release(&spec);
    return status;
}
