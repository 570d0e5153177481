/* SPDX-License-Identifier: MIT
 *
 * loading.c - mutants of loading: one part of a checkpoint is not restored, only the first span of each weight is
 * restored, or weights are restored in a different order.
 */
#include "check/mutants/mutants.h"
#include "train/record/record.h"

#include <string.h>

/* Defines a function that modifies the loaded state, and a function that installs it. */
#define LOADED(name, change)                                                                                           \
    static void name##_loaded(struct weft_learner *t) { change; }                                                      \
    static void name(void) { weft_state_loaded = name##_loaded; }

/* Sets all but the first `keep` elements of each weight in an array to 0. */
static void forget(const struct weft_params *p, float *array, int64_t keep)
{
    for (int i = 0; i < p->count; i++)
        if (p->list[i].count > keep)
            memset(array + p->list[i].offset + keep, 0, (size_t)(p->list[i].count - keep) * sizeof *array);
}

/* Transposes the square matrices with more than `more` elements. */
static void transpose(const struct weft_params *p, int64_t more)
{
    for (int i = 0; i < p->count; i++) {
        const struct weft_param *w = &p->list[i];
        float *x = p->weights + w->offset;
        int64_t n = w->dim[0];
        if (w->ndim != 2 || n != w->dim[1] || w->count <= more)
            continue;
        for (int64_t r = 0; r < n; r++)
            for (int64_t c = 0; c < r; c++) {
                float t = x[r * n + c];
                x[r * n + c] = x[c * n + r];
                x[c * n + r] = t;
            }
    }
}

/* Swaps the last two matrices of the same shape. */
static void exchange(const struct weft_params *p)
{
    for (int i = p->count - 1; i > 0; i--)
        for (int k = i - 1; k >= 0; k--) {
            const struct weft_param *a = &p->list[i], *b = &p->list[k];
            if (a->ndim != 2 || b->ndim != 2 || a->dim[0] != b->dim[0] || a->dim[1] != b->dim[1])
                continue;
            for (int64_t e = 0; e < a->count; e++) {
                float t = p->weights[a->offset + e];
                p->weights[a->offset + e] = p->weights[b->offset + e];
                p->weights[b->offset + e] = t;
            }
            return;
        }
}

/* Shifts the largest weight by one element. */
static void shift(const struct weft_params *p)
{
    const struct weft_param *w = &p->list[0];
    for (int i = 1; i < p->count; i++)
        w = p->list[i].count > w->count ? &p->list[i] : w;
    memmove(p->weights + w->offset, p->weights + w->offset + 1, (size_t)(w->count - 1) * sizeof *p->weights);
}

LOADED(transpose_squares, transpose(&t->model->params, 0))
LOADED(transpose_large_squares, transpose(&t->model->params, WEFT_SPAN))
LOADED(exchange_weights, exchange(&t->model->params))
LOADED(shift_weights, shift(&t->model->params))
LOADED(forget_weights, forget(&t->model->params, t->model->params.weights, 0))
LOADED(forget_late_weights, forget(&t->model->params, t->model->params.weights, WEFT_SPAN))
LOADED(forget_first, forget(&t->model->params, t->moments[0], 0))
LOADED(forget_late_first, forget(&t->model->params, t->moments[0], WEFT_SPAN))
LOADED(forget_second, forget(&t->model->params, t->moments[1], 0))
LOADED(forget_late_second, forget(&t->model->params, t->moments[1], WEFT_SPAN))
LOADED(restart, t->step = 0)
LOADED(step_late, t->step++)
LOADED(forget_stream, memset(t->stream, '0', sizeof t->stream - 1))
LOADED(forget_losses, memset(t->loss_chain, '0', sizeof t->loss_chain - 1))
LOADED(forget_masks, if (t->mask) t->mask[0] = 0)

#define SMALL "context=40 vocab=29 "
#define RESTORED(what) .gate = WEFT_GATE_STEPPED, .check = what
const struct weft_mutant weft_mutants_loading[] = {
    {"weights are not loaded", SMALL, RESTORED("weights that are not restored"), .install = forget_weights},
    {"weights are loaded up to the first span", SMALL, RESTORED("weights that are not restored"),
     .install = forget_late_weights},
    {"square matrices are transposed when a run is resumed", SMALL, RESTORED("weights that are not restored"),
     .install = transpose_squares},
    {"square matrices larger than a span are transposed when a run is resumed", SMALL,
     RESTORED("weights that are not restored"), .install = transpose_large_squares},
    {"two weights of the same shape are swapped when a run is resumed", SMALL,
     RESTORED("weights that are not restored"), .install = exchange_weights},
    {"the largest weight is shifted when a run is resumed", SMALL, RESTORED("weights that are not restored"),
     .install = shift_weights},
    {"first moments are not loaded", SMALL, RESTORED("first moments that are not restored"), .install = forget_first},
    {"first moments are loaded up to the first span", SMALL, RESTORED("first moments that are not restored"),
     .install = forget_late_first},
    {"second moments are not loaded", SMALL, RESTORED("second moments that are not restored"),
     .install = forget_second},
    {"second moments are loaded up to the first span", SMALL, RESTORED("second moments that are not restored"),
     .install = forget_late_second},
    {"a resumed run counts from 0", SMALL, RESTORED("steps between the saved"), .install = restart},
    {"a resumed run skips a step", SMALL, RESTORED("steps between the saved"), .install = step_late},
    {"the hash of samples is not loaded", SMALL, RESTORED("hashes of samples or losses"), .install = forget_stream},
    {"the hash of losses is not loaded", SMALL, RESTORED("hashes of samples or losses"), .install = forget_losses},
    {"masks are not loaded", SMALL, RESTORED("masks of pruned weights"), .install = forget_masks},
    {0},
};
