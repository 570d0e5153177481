/* SPDX-License-Identifier: MIT
 *
 * gate.h - shared by the gates: the models they check (the twin, a small copy, and the model itself), graphs of them,
 * and reporting of checks.
 *
 * Invariants: the weights of the twin are initial values plus noise on every element, functions of (seed, name,
 * element). So no weight is 0 by accident, and weights that two models share have the same values. The model itself has
 * its initial weights.
 */
#ifndef WEFT_GATE_H
#define WEFT_GATE_H

#include "check/check.h"
#include "train/recipe.h"

/* Sanitizers make checks ten times slower and look for different defects. */
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) ||               \
    __has_feature(thread_sanitizer)
#define WEFT_SANITIZED 1
#else
#define WEFT_SANITIZED 0
#endif

struct weft_trial {
    const char *gate;
    const struct weft_nn *model; /* the twin */
    struct weft_itself *itself;  /* NULL: only the twin is checked */
    struct weft_gates *report;
};

/* Counts and reports one check (trial.c). `where` is a format string, used only if the check fails. */
void weft_trial_report(const struct weft_trial *t, bool passed, double figure, double limit, const char *name,
                       const char *where, ...) __attribute__((format(printf, 6, 7)));

/* A temporary folder, which is removed with its content (scratch.c). */
struct weft_scratch {
    char folder[256];
    int lock;
};
enum weft_status weft_scratch_make(struct weft_scratch *s);
void weft_scratch_remove(const struct weft_scratch *s);

/* Creates a model with noise on its weights. Free it with weft_nn_free. */
enum weft_status weft_twin_create(struct weft_nn **model, const struct weft_spec *spec);
/* Calls `check` with one thread and a trial whose model is a small twin of the model itself. */
enum weft_status weft_trial_on_twin(const struct weft_trial *t, enum weft_status (*check)(const struct weft_trial *t));

/* One planned graph of a model with its own weights and gradients: f32, or f64 in a reference execution. */
struct weft_probe {
    const struct weft_nn *model;
    struct weft_net net;
    struct weft_exec *exec;
    enum weft_dtype dtype;
    void *weights, *grads;        /* laid out like the model's */
    struct weft_value *embedding; /* gradient of the embedding; NULL unless opened with weft_probe_open_traced */
};

/* Builds and plans the graph. Close the probe even after a failure. */
enum weft_status weft_probe_open(struct weft_probe *p, const struct weft_nn *model, enum weft_use use,
                                 struct weft_net_size size, enum weft_mode mode);
/* Like weft_probe_open for TRAIN, with the gradient of the embedding as an additional output. */
enum weft_status weft_probe_open_traced(struct weft_probe *p, const struct weft_nn *model, struct weft_net_size size);
/* The second half of weft_probe_open, for callers that modify the graph first: `p` already has model, dtype and net. */
enum weft_status weft_probe_plan(struct weft_probe *p, enum weft_mode mode);
void weft_probe_close(struct weft_probe *p);
/* Sets the rows: sequences one after the other, all of this length or, with `lengths`, each with its own. */
void weft_probe_rows(struct weft_probe *p, int64_t sequences, int64_t length, const int64_t *lengths);
/* Fills all rows with random tokens and targets that depend on the key. */
void weft_probe_fill(struct weft_probe *p, uint64_t key);
/* The first function sets gradients to 0 and computes weights that are derived from others; the second does that and
 * then executes the graph. A failure is deferred until the gate has ended. */
void weft_probe_prepare(struct weft_probe *p);
void weft_probe_run(struct weft_probe *p);
/* Returns the gradient of the i-th weight; NULL: it has none. */
const struct weft_tensor *weft_probe_grad(const struct weft_probe *p, int i);

/* Computes the relative error of a reference's gradients against finite differences of the loss, along a direction
 * through all weights and without auxiliary losses (slope.c). */
#define WEFT_SLOPE_LIMIT 1e-6
enum weft_status weft_slope_error(struct weft_probe *train, struct weft_probe *loss, double *error);

typedef enum weft_status weft_gate_fn(const struct weft_trial *t);
/* Finds the cause of a gate's failure: runs the gate with layers and halves left out and with parts replaced, until the
 * time limit. Writes ", through ffn=mine in layer 1", or "" if nothing was found (culprit.c). */
void weft_culprit_find(const struct weft_trial *t, weft_gate_fn *gate, const char *check, char text[128]);
/* Writes why a weight has no gradient in this graph of a model, for example which input of its op is 0 (dead.c). */
void weft_dead_explain(const struct weft_nn *model, struct weft_net_size size, int weight, char text[160]);

/* Returns the largest difference between two tensors of the same shape. */
double weft_tensor_distance(const struct weft_tensor *a, const struct weft_tensor *b);

/* ---- options of a model with their values (options.c) */

enum { WEFT_MAX_OPTIONS = 256 };
struct weft_options {
    const struct weft_spec *spec;
    struct weft_option {
        const struct weft_opt *opt;
        char value[WEFT_MAX_VALUE];
    } list[WEFT_MAX_OPTIONS];
    int count;
};
void weft_options_find(struct weft_options *all, const struct weft_spec *spec);
/* Returns whether "name=value" or "name!=value" holds and, recursively, whether the needs of that option are met.
 * Returns true for NULL. */
bool weft_options_met(const struct weft_options *all, const char *needs);
/* Returns whether the option belongs to this part. */
bool weft_chosen_owns(const struct weft_chosen *c, const struct weft_opt *opt);
/* Returns whether the option's needs are met and its value is not declared to have no effect. */
bool weft_option_acts(const struct weft_options *all, const struct weft_option *o);
/* Returns whether the option acts and its value is not the default. */
bool weft_option_matters(const struct weft_options *all, const struct weft_option *o);
/* Compare two models without running them: the first compares weights and their initial values, the second the plans of
 * a step, in which each model has its own batch and context. */
enum weft_status weft_models_begin_alike(const struct weft_nn *a, const struct weft_nn *b, bool *alike);
enum weft_status weft_models_plan_alike(const struct weft_nn *a, const struct weft_nn *b, bool *alike);

/* ---- switches (switches.c): every option that has a value which switches something off */

struct weft_switch {
    char name[72], off[72];         /* "m1=yes", "m1=no" */
    const struct weft_chosen *part; /* the part that is switched or has the option; NULL: the model has it */
    bool of_mechanism;              /* it is an option of a mechanism */
    struct weft_spec spec;          /* the spec with the switch off */
    struct weft_nn *without;        /* the model of that spec; its weights are declared, but have no memory */
};
struct weft_switches {
    struct weft_switch *list;
    int count;
};
/* Finds the switches of a model. Release them even after a failure, and before the spec. */
enum weft_status weft_switches_find(struct weft_switches *all, const struct weft_spec *spec);
void weft_switches_release(struct weft_switches *all);
/* Returns whether the model has all weights that are needed with the switch off, so that both graphs can be built on
 * it. */
bool weft_switch_fits(const struct weft_switch *s, const struct weft_nn *model);
/* Returns whether switching it off in a layer must have an effect: always, only if it has one in any layer, or
 * never. */
enum weft_duty { WEFT_MUST_ACT, WEFT_ACTS_IF_ANY, WEFT_MAY_ACT };
enum weft_duty weft_switch_duty(const struct weft_switch *s, const struct weft_nn *model, int layer);
/* The effects of a switch, recorded layer by layer. */
struct weft_acts {
    struct weft_act {
        double effect;
        int layer;
    } must, if_any; /* smallest effect in layers with this duty */
    double most;    /* largest effect in any layer */
    int layers;
};
void weft_acts_note(struct weft_acts *a, enum weft_duty duty, int layer, double effect);
/* Returns the smallest effect in a layer that must have one. Effects of at most `none` do not count. If no layer has to
 * act, the effect is INFINITY. */
struct weft_act weft_acts_least(const struct weft_acts *a, double none);
/* Changes the model so that its graphs are built with the switch off in this layer (-1: in all layers and outside
 * them). */
void weft_switch_apply(const struct weft_switch *s, struct weft_nn *model, int layer);
/* For options that set the initial value of weights, such as a learned alpha. The first returns whether the layer has
 * such weights; the second shifts them, in the probe of a graph with the switch off, by the change of the initial
 * value. */
bool weft_switch_starts(const struct weft_switch *s, const struct weft_nn *model, int layer);
void weft_switch_weights(const struct weft_switch *s, const struct weft_probe *p, int layer);
/* Checks the effects of all switches on the loss of the model itself after a few steps (model_effects.c). */
enum weft_status weft_check_effects(const struct weft_trial *t, const struct weft_nn *learned);
/* Checks that the gradient of a batch is the sum of the gradients of its parts (batches.c). */
enum weft_status weft_check_batches(const struct weft_trial *t);
/* Compares the declared roles and groups of all weights with their use in this graph of the model (roles.c). */
enum weft_status weft_check_roles(const struct weft_trial *t, const struct weft_net *train);
/* Checks, in the model itself, that every row of a table that a batch reaches has its own gradient (table_rows.c). */
enum weft_status weft_check_table_rows(const struct weft_trial *t);
/* Returns how many of `rows` rows the dropout after the embedding may set entirely to 0 by chance. */
double weft_dropped_whole(const struct weft_spec *spec, int64_t rows);
/* Check sequences that are forked in a cache, from its beginning and near the end of the context (forked.c). */
enum weft_status weft_check_forks(const struct weft_trial *t, const struct weft_nn *model);
enum weft_status weft_check_late_forks(const struct weft_trial *t, const struct weft_nn *model);
/* Checks that scores which a geometry declares to be distances are distances (metric.c). */
enum weft_status weft_check_metric(const struct weft_trial *t);
/* Returns whether a part declares that the gradient of the weight is identically 0 (live.c). */
bool weft_weight_is_idle(const struct weft_spec *spec, const struct weft_param *w);

/* ---- the model itself (own_size.c): its size, context, dtype and initial weights, and the graphs that train and score
 * it. Each graph is built when it is first needed. The graphs have the model's batch, limited to 1024 rows but at least
 * 2 sequences, each as long as the context. */

/* Maximum number of values in the logits of a whole pass. Longer sequences are truncated. */
enum { WEFT_MOST_LOGITS = 1 << 27 };

struct weft_itself {
    const struct weft_recipe *recipe; /* points to `unpruned`, since pruning has its own check */
    struct weft_recipe unpruned;
    struct weft_pruning pruning;
    struct weft_nn *model;
    struct weft_probe train, eval; /* `train` with the model's dropout */
    int64_t sequences, length;
    double run_seconds;       /* duration of one run of `train` */
    double seconds;           /* time limit for all checks of the model itself */
    double begun, gate_begun; /* start of these checks, and of the current gate */
};

enum weft_status weft_itself_init(struct weft_itself *it, const struct weft_spec *spec,
                                  const struct weft_recipe *recipe);
void weft_itself_release(struct weft_itself *it);
enum weft_status weft_itself_train(struct weft_itself *it);
enum weft_status weft_itself_eval(struct weft_itself *it);
/* Estimates the duration of training, by running the training graph if it has not run yet, and sets the time limit. */
enum weft_status weft_itself_measure(struct weft_itself *it);
/* Closes both graphs until they are needed again, for checks that need as much memory as training. */
void weft_itself_make_room(struct weft_itself *it);
/* Returns whether the current gate has used less than this fraction of the time limit, and all gates together less than
 * 80% of it. Checks that sample continue as long as this is true. */
bool weft_itself_has_time(const struct weft_itself *it, double share);
/* Returns how many of `all` items that take `each` seconds fit into this fraction of the time limit and into `most`
 * seconds (a limit for runs that take weeks). */
int64_t weft_itself_fits(const struct weft_itself *it, double share, double most, double each, int64_t all);
/* Writes "12 x 768, 2 x 1024 tokens, bf16". */
void weft_itself_describe(const struct weft_itself *it, char text[160]);

/* The gates on the twin. */
enum weft_status weft_gate_live(const struct weft_trial *t);
enum weft_status weft_gate_causal(const struct weft_trial *t);
enum weft_status weft_gate_cached(const struct weft_trial *t);
enum weft_status weft_gate_exact(const struct weft_trial *t);
enum weft_status weft_gate_gradient(const struct weft_trial *t);
enum weft_status weft_gate_scaled(const struct weft_trial *t);
enum weft_status weft_gate_stepped(const struct weft_trial *t);
enum weft_status weft_gate_formed(const struct weft_trial *t);
enum weft_status weft_gate_accounted(const struct weft_trial *t);
enum weft_status weft_gate_isolated(const struct weft_trial *t);
/* The gates on the model itself. */
enum weft_status weft_gate_live_itself(const struct weft_trial *t);
enum weft_status weft_gate_causal_itself(const struct weft_trial *t);
enum weft_status weft_gate_isolated_itself(const struct weft_trial *t);
enum weft_status weft_gate_cached_itself(const struct weft_trial *t);
enum weft_status weft_gate_exact_itself(const struct weft_trial *t);
enum weft_status weft_gate_gradient_itself(const struct weft_trial *t);
enum weft_status weft_gate_stepped_itself(const struct weft_trial *t);
enum weft_status weft_gate_accounted_itself(const struct weft_trial *t);

#endif
