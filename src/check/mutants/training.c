/* SPDX-License-Identifier: MIT
 *
 * training.c - mutants of optimisers, tasks and dropout.
 *
 * A broken optimiser or task replaces the recipe's under the same name. Errors of a trainer (a wrong rate, no
 * clipping, decay of the wrong weights) are simulated by an optimiser that changes the values it is given.
 */
#include "check/mutants/mutants.h"

#include <assert.h>
#include <string.h>

/* ---- optimisers */

static const struct weft_optim *sound_optim;
static struct weft_optim broken_optim;

static struct weft_optim *break_optim(struct weft_recipe *r)
{
    sound_optim = r->optim;
    broken_optim = *r->optim;
    r->optim = &broken_optim;
    return &broken_optim;
}

/* Defines an update that changes its inputs, and the function that installs it. */
#define UPDATE(name, change)                                                                                           \
    static void name##_update(const void *options, const struct weft_update *given, const struct weft_span *piece)     \
    {                                                                                                                  \
        struct weft_update u = *given;                                                                                 \
        struct weft_span span = *piece;                                                                                \
        change;                                                                                                        \
        sound_optim->update(options, &u, &span);                                                                       \
    }                                                                                                                  \
    static void name(struct weft_recipe *r) { break_optim(r)->update = name##_update; }

UPDATE(late_rate, u.lr *= (double)(u.step - 1) / (double)u.step)
UPDATE(no_clip, u.grad_scale = 1)
UPDATE(decay_all, span.decay = true)
UPDATE(decay_none, span.decay = false)
UPDATE(one_rate, span.rate = 1)
UPDATE(early_correction, u.step++)
UPDATE(forget_last, span.count -= span.count > 64)
UPDATE(forget_moments, if (u.step > 1) memset(u.moments[0] + span.first, 0, (size_t)span.count * sizeof(float)))
UPDATE(swap_moments, float *m = u.moments[0]; u.moments[0] = u.moments[1]; u.moments[1] = m)

UPDATE(move_others, if (span.first > 0) u.weights[span.first - 1] += 0.01F)
UPDATE(forget_embedding, if (span.first == 0) return )
UPDATE(forget_vectors, if (!span.decay) return )
static void no_limit(struct weft_recipe *r) { break_optim(r)->limit = NULL; }

/* ---- tasks */

static const struct weft_task *sound_task;
static struct weft_task broken_task;

#define SAMPLE(name, before, after)                                                                                    \
    static void name##_sample(const struct weft_spec *given, const void *options, uint64_t index, int32_t *tokens,     \
                              int32_t *targets)                                                                        \
    {                                                                                                                  \
        struct weft_spec spec = *given;                                                                                \
        int64_t length = sound_task->length(options);                                                                  \
        before;                                                                                                        \
        sound_task->sample(&spec, options, index, tokens, targets);                                                    \
        for (int64_t i = 0; i < length; i++) {                                                                         \
            after;                                                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    static void name(struct weft_recipe *r)                                                                            \
    {                                                                                                                  \
        sound_task = r->task;                                                                                          \
        broken_task = *r->task;                                                                                        \
        broken_task.sample = name##_sample;                                                                            \
        r->task = &broken_task;                                                                                        \
    }

static uint64_t drawn;

SAMPLE(target_is_token, , if (targets[i] >= 0) targets[i] = tokens[i])
SAMPLE(score_everything, , if (targets[i] < 0) targets[i] = tokens[(i + 1) % length])
SAMPLE(score_less, , if (i % 4 == 0) targets[i] = -1)
SAMPLE(repeat_samples, index = index / WEFT_HELD_OUT * WEFT_HELD_OUT, )
SAMPLE(repeat_late, index = index < WEFT_HELD_OUT ? index % 4096 : index, )
SAMPLE(leave_out_token, spec.vocab--, )
SAMPLE(train_on_validation, index %= WEFT_HELD_OUT, )
SAMPLE(ignore_index, index += 7 * drawn++, )
SAMPLE(ignore_seed, spec.seed = 1, )

static bool held_out(uint64_t index) { return index >= WEFT_HELD_OUT; }
static bool tested(uint64_t index) { return index >= WEFT_TEST; }

/* In a few samples, some or all labels are wrong or not scored. */
SAMPLE(wrong_in_5003, , if (index % 5003 == 4999 && i + 1 == length) targets[i] ^= 1)
SAMPLE(wrong_after_32000, , if (index % 1501 == 1 && index > 32000 && !held_out(index) && i == 17) targets[i] ^= 1)
SAMPLE(wrong_in_last_quarter, , if (index % 1999 == 3 && index > 24000 && !held_out(index) && i > 15) targets[i] ^= 1)
SAMPLE(wrong_in_validation, , if (index % 100 == 77 && held_out(index) && !tested(index) && i == 20) targets[i] ^= 1)
SAMPLE(wrong_in_test, , if (index % 100 == 51 && tested(index)) targets[i] = targets[i] < 0 ? -1 : !targets[i])
SAMPLE(unscored_in_4001, , if (index % 4001 == 4000) targets[i] = -1)

/* ---- dropout */

/* The attributes of the op in ops/dropout.c. */
struct dropout {
    double p;
    int layer, site;
};
enum { STEP_KEY = 4 };

static void (*change_dropout)(struct dropout *d, int32_t key[4]);

static void drop(const struct weft_call *call, void (*kernel)(const struct weft_call *))
{
    struct weft_call changed = *call;
    struct dropout d = *(const struct dropout *)call->attr;
    struct weft_tensor step_key = *call->in[STEP_KEY];
    int32_t key[4];
    memcpy(key, step_key.data, sizeof key);
    change_dropout(&d, key);
    step_key.data = key;
    changed.attr = &d;
    changed.in[STEP_KEY] = &step_key;
    kernel(&changed);
}

static void drop_run(const struct weft_call *call) { drop(call, weft_sound_op(WEFT_OP_dropout)->fwd.run); }
static void drop_ref(const struct weft_call *call) { drop(call, weft_sound_op(WEFT_OP_dropout)->fwd.ref); }
static void drop_bwd_run(const struct weft_call *call) { drop(call, weft_sound_op(WEFT_OP_dropout)->bwd.run); }
static void drop_bwd_ref(const struct weft_call *call) { drop(call, weft_sound_op(WEFT_OP_dropout)->bwd.ref); }

static void break_dropout(void (*change)(struct dropout *d, int32_t key[4]))
{
    struct weft_op *op = weft_break_op(WEFT_OP_dropout);
    assert(op->attr_bytes == sizeof(struct dropout));
    change_dropout = change;
    op->fwd.run = drop_run;
    op->fwd.ref = drop_ref;
    op->bwd.run = drop_bwd_run;
    op->bwd.ref = drop_bwd_ref;
}

static void halve_rate(struct dropout *d, int32_t key[4]) { d->p /= 2; }
static void share_layers(struct dropout *d, int32_t key[4]) { d->layer = 0; }
static void share_sites(struct dropout *d, int32_t key[4]) { d->site = 0; }
static void forget_step(struct dropout *d, int32_t key[4]) { key[2] = key[3] = 0; }
static void count_to_64(struct dropout *d, int32_t key[4]) { key[2] &= 63; }
static void forget_seed(struct dropout *d, int32_t key[4]) { key[0] = key[1] = 0; }

static void drop_half(void) { break_dropout(halve_rate); }
static void drop_alike_in_layers(void) { break_dropout(share_layers); }
static void drop_alike_at_sites(void) { break_dropout(share_sites); }
static void drop_alike_in_steps(void) { break_dropout(forget_step); }
static void drop_alike_later(void) { break_dropout(count_to_64); }
static void drop_alike_by_seeds(void) { break_dropout(forget_seed); }

/* ---- the list */

#define UPDATES .gate = WEFT_GATE_STEPPED, .check = "against plain ones"
#define SAMPLES .gate = WEFT_GATE_STEPPED, .check = "samples of recall against its definition"
#define WRONG(which) .gate = WEFT_GATE_STEPPED, .check = "samples of " which " that are wrong"
#define MASKS .gate = WEFT_GATE_STEPPED, .check = "masks drop the same by chance only"
#define SMALL "context=40 vocab=29 "

const struct weft_mutant weft_mutants_training[] = {
    {"the learning rate is one step late", SMALL, UPDATES, .change_recipe = late_rate},
    {"gradients are not clipped", SMALL, UPDATES, .training = "clip=0.01", .change_recipe = no_clip},
    {"vectors are decayed", SMALL, UPDATES, .change_recipe = decay_all},
    {"nothing is decayed", SMALL, UPDATES, .change_recipe = decay_none},
    {"all weights have the same learning rate", SMALL "scaling=mup", UPDATES, .change_recipe = one_rate},
    {"moments are corrected for one step too many", SMALL, UPDATES, .change_recipe = early_correction},
    {"the last element of large weights is not updated", SMALL, UPDATES, .change_recipe = forget_last},
    {"the first moment is reset at every step after the first", SMALL, UPDATES, .change_recipe = forget_moments},
    {"moments are swapped", SMALL, UPDATES, .change_recipe = swap_moments},
    {"the embedding is not trained", SMALL, UPDATES, .change_recipe = forget_embedding},
    {"the optimiser leaves vectors as they are", SMALL, .gate = WEFT_GATE_LIVE, .check = "leave as they are",
     .change_recipe = forget_vectors},
    {"pruned weights are moved", SMALL, .gate = WEFT_GATE_STEPPED, .check = "pruned weights that are not 0",
     .training = "prune=0.9", .change_recipe = move_others},
    {"pruned channels are moved", SMALL, .gate = WEFT_GATE_STEPPED, .check = "pruned weights that are not 0",
     .training = "prune_channels=0.9", .change_recipe = move_others},
    {"spikes are not cut", SMALL, UPDATES, .training = "optim=adamwspam", .change_recipe = no_limit},
    {"targets are the tokens themselves", SMALL, SAMPLES, .change_recipe = target_is_token},
    {"unpredictable tokens are scored", SMALL, SAMPLES, .change_recipe = score_everything},
    {"a quarter of the answers are not scored", SMALL, SAMPLES, .change_recipe = score_less},
    {"all samples are the same", SMALL, .gate = WEFT_GATE_STEPPED,
     .check = "equal samples of training, validation and test", .change_recipe = repeat_samples},
    {"samples repeat after 4096", SMALL, .gate = WEFT_GATE_STEPPED, .check = "samples that recur",
     .change_recipe = repeat_late},
    {"a token is never drawn", SMALL, .gate = WEFT_GATE_STEPPED, .check = "drawn as often as others",
     .change_recipe = leave_out_token},
    {"validation samples are training samples", SMALL, .gate = WEFT_GATE_STEPPED,
     .check = "equal samples of training, validation and test", .change_recipe = train_on_validation},
    {"samples depend on previously drawn samples", SMALL, .gate = WEFT_GATE_STEPPED,
     .check = "samples that differ when they are drawn again", .change_recipe = ignore_index},
    {"samples do not depend on the seed", SMALL, .gate = WEFT_GATE_STEPPED, .check = "another seed gives too",
     .change_recipe = ignore_seed},
    {"one label in 5003 is wrong", SMALL "batch=32", WRONG("training"), .training = "steps=1000",
     .change_recipe = wrong_in_5003},
    {"one label in 1501 is wrong after step 1000", SMALL "batch=32", WRONG("training"), .training = "steps=2000",
     .change_recipe = wrong_after_32000},
    {"one fuzzy answer in 1999 is wrong in the last quarter", SMALL "vocab=36 batch=32", WRONG("training"),
     .training = "task=fuzzy steps=1000", .change_recipe = wrong_in_last_quarter},
    {"one mqar sample in 4001 is not scored", SMALL "vocab=64 batch=8", WRONG("training"),
     .training = "task=mqar mqar_length=32 steps=4000", .change_recipe = unscored_in_4001},
    {"one validation label in 100 is wrong", SMALL, WRONG("validation"), .change_recipe = wrong_in_validation},
    {"one test answer of entailment in 100 is wrong", SMALL "vocab=80", WRONG("the test"),
     .training = "task=entailment", .change_recipe = wrong_in_test},
    {"dropout has half its rate", SMALL "dropout=0.2", .gate = WEFT_GATE_STEPPED, .check = "share of zeros",
     .install = drop_half},
    {"all layers drop the same", SMALL "dropout=0.2", MASKS, .install = drop_alike_in_layers},
    {"all sites drop the same", SMALL "dropout=0.2", MASKS, .install = drop_alike_at_sites},
    {"all steps drop the same", SMALL "dropout=0.2", MASKS, .install = drop_alike_in_steps},
    {"masks repeat after 64 steps", SMALL "dropout=0.2", MASKS, .install = drop_alike_later},
    {"all seeds drop the same", SMALL "dropout=0.2", MASKS, .install = drop_alike_by_seeds},
    {0},
};
