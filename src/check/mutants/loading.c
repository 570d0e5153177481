/* SPDX-License-Identifier: MIT
 *
 * loading.c - mutants of loading: a checkpoint of which one thing is not restored, or only up to the first span of a
 * weight.
 */
#include "check/mutants/mutants.h"
#include "train/record.h"

#include <string.h>

/* A function that changes what was loaded, and one that installs it. */
#define LOADED(name, change)                                                                                           \
    static void name##_loaded(struct weft_learner *t) { change; }                                                      \
    static void name(void) { weft_state_loaded = name##_loaded; }

/* Writes 0 to all but the first `keep` elements of each weight in an array. */
static void forget(const struct weft_params *p, float *array, int64_t keep)
{
    for (int i = 0; i < p->count; i++)
        if (p->list[i].count > keep)
            memset(array + p->list[i].offset + keep, 0, (size_t)(p->list[i].count - keep) * sizeof *array);
}

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
    {"first moments are not loaded", SMALL, RESTORED("first moments that are not restored"), .install = forget_first},
    {"first moments are loaded up to the first span", SMALL, RESTORED("first moments that are not restored"),
     .install = forget_late_first},
    {"second moments are not loaded", SMALL, RESTORED("second moments that are not restored"),
     .install = forget_second},
    {"second moments are loaded up to the first span", SMALL, RESTORED("second moments that are not restored"),
     .install = forget_late_second},
    {"a run that is resumed counts from 0", SMALL, RESTORED("steps between the saved"), .install = restart},
    {"a run that is resumed leaves out a step", SMALL, RESTORED("steps between the saved"), .install = step_late},
    {"the hash of samples is not loaded", SMALL, RESTORED("hashes of samples or losses"), .install = forget_stream},
    {"the hash of losses is not loaded", SMALL, RESTORED("hashes of samples or losses"), .install = forget_losses},
    {"masks are not loaded", SMALL, RESTORED("masks of pruned weights"), .install = forget_masks},
    {0},
};
