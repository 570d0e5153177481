/* SPDX-License-Identifier: MIT
 *
 * inputs.c - checks the inputs that the trainer writes into its graph, at the recipe's own batch and length: samples,
 * rows, the weights of the losses, and the key of dropout's masks, even at very late steps.
 */
#include "check/trainer/stepped.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The number of inputs that are not as defined, and the first of them. */
struct wrong {
    int64_t count, row;
    const char *what;
};

static void compare(struct wrong *w, const char *what, int64_t row, double is, double must)
{
    if (!(fabs(is - must) <= 1e-6 * fabs(must)) && w->count++ == 0) {
        w->what = what;
        w->row = row;
    }
}

static const int32_t *ints(const struct weft_learner *t, const struct weft_value *v)
{
    return weft_exec_tensor(t->exec, v)->data;
}

static uint64_t sample_at(const struct weft_learner *t, int64_t micro_batch, int64_t b)
{
    uint64_t batches = (uint64_t)t->step * (uint64_t)t->recipe->micro_batches + (uint64_t)micro_batch;
    return batches * (uint64_t)t->model->spec->batch + (uint64_t)b;
}

/* ---- samples */

/* Compares the samples of the last micro-batch, which are still in the graph. Returns the number of scored tokens in
 * all micro-batches. */
static int64_t compare_samples(struct wrong *w, const struct weft_learner *t, int32_t *tokens, int32_t *targets)
{
    const struct weft_recipe *r = t->recipe;
    int64_t T = t->length, B = t->model->spec->batch, M = r->micro_batches, scored = 0;
    for (int64_t i = 0; i < M * B; i++) {
        int64_t b = i % B;
        r->task->sample(t->model->spec, r->task_options, sample_at(t, i / B, b), tokens, targets);
        for (int64_t p = 0; p < T; p++) {
            scored += targets[p] != -1;
            if (i / B < M - 1)
                continue;
            compare(w, "the token", b * T + p, ints(t, t->net.tokens)[b * T + p], tokens[p]);
            compare(w, "the target", b * T + p, ints(t, t->net.targets)[b * T + p], targets[p]);
        }
        if (i / B == M - 1)
            compare(w, "the index of the sample", b * T, (uint32_t)ints(t, t->net.at.sample)[b],
                    (uint32_t)sample_at(t, M - 1, b));
    }
    return scored;
}

/* ---- rows: row bT + p is token p of sequence b */

static void compare_rows(struct wrong *w, const struct weft_learner *t)
{
    const struct weft_net *net = &t->net;
    int64_t T = t->length, B = t->model->spec->batch;
    compare(w, "the number of rows", 0, (double)weft_tensor_count(weft_exec_tensor(t->exec, net->tokens)),
            (double)(B * T));
    for (int64_t b = 0, row = 0; b < B; b++) {
        for (int64_t p = 0; p < T; p++, row++) {
            compare(w, "the sequence", row, ints(t, net->at.seq)[row], (double)b);
            compare(w, "the place in the sequence", row, ints(t, net->at.pos)[row], (double)p);
            compare(w, "the position", row, ints(t, net->position)[row], (double)p);
        }
        for (int64_t j = 0; j < net->tiles; j++)
            compare(w, "a tile", b * T + j * WEFT_KEY_TILE, ints(t, net->at.tiles)[b * net->tiles + j],
                    (double)(b * T + j * WEFT_KEY_TILE));
    }
}

/* ---- the key: seed and step, low words first */

static void compare_key(struct wrong *w, const struct weft_learner *t, uint64_t step)
{
    uint64_t seed = (uint64_t)t->model->spec->seed;
    const uint32_t must[] = {(uint32_t)seed, (uint32_t)(seed >> 32), (uint32_t)step, (uint32_t)(step >> 32)};
    for (int i = 0; i < 4; i++)
        compare(w, "the key", (int64_t)step, (uint32_t)ints(t, t->net.at.step_key)[i], must[i]);
}

/* Overwrites the keys; the trainer writes its inputs again before it uses them. */
static void compare_far(struct wrong *w, const struct weft_learner *t)
{
    const uint64_t steps[] = {
        1, 2, 63, 64, 65, 128, 1000, 4096, 1 << 16, (uint64_t)t->recipe->steps - 1, ((uint64_t)1 << 32) + 3};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        uint64_t first = steps[i] * (uint64_t)t->recipe->micro_batches * (uint64_t)t->model->spec->batch;
        weft_net_step_key(&t->net, t->exec, (uint64_t)t->model->spec->seed, steps[i], first);
        compare_key(w, t, steps[i]);
        for (int64_t b = 0; b < t->model->spec->batch; b++)
            compare(w, "the index of the sample", b, (uint32_t)ints(t, t->net.at.sample)[b],
                    (uint32_t)(first + (uint64_t)b));
    }
}

enum weft_status weft_check_inputs(const struct weft_trial *t, const struct weft_learner *trainer)
{
    char name[160];
    struct wrong w = {.what = ""}, far = {.what = ""};
    int32_t *sample = calloc((size_t)trainer->length, 2 * sizeof *sample);
    if (!sample)
        return FAIL(WEFT_NOMEM, "not enough memory for samples");
    int64_t scored = compare_samples(&w, trainer, sample, sample + trainer->length);
    free(sample);
    compare_rows(&w, trainer);
    compare_key(&w, trainer, (uint64_t)trainer->step);
    compare(&w, "the weight of a token", 0, weft_tensor_get(weft_exec_tensor(trainer->exec, trainer->net.weight), 0),
            1 / (double)weft_max(1, scored));
    compare(&w, "the weight of a micro-batch", 0,
            weft_tensor_get(weft_exec_tensor(trainer->exec, trainer->net.share), 0),
            1 / (double)trainer->recipe->micro_batches);
    snprintf(name, sizeof name, "the trainer's inputs at step %lld that are not as defined",
             (long long)trainer->step + 1);
    weft_trial_report(t, w.count == 0, (double)w.count, 0, name, "%s at row %lld", w.what, (long long)w.row);
    if (trainer->step > 0)
        return WEFT_OK;
    compare_far(&far, trainer);
    weft_trial_report(t, far.count == 0, (double)far.count, 0, "keys of dropout's masks at far steps, not as defined",
                      "%s at step or sample %lld", far.what, (long long)far.row);
    return WEFT_OK;
}
