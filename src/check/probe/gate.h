/* SPDX-License-Identifier: MIT
 *
 * gate.h - shared by the gates: what they check (the twin, a small copy, and the model itself), graphs of it, and
 * reporting checks.
 *
 * Invariants: the weights of the twin are initial values plus noise on every element, functions of (seed, name,
 * element). So no weight is 0 by accident, and two models have the same values in the weights that both have. The model
 * itself has its first weights.
 */
#ifndef WEFT_GATE_H
#define WEFT_GATE_H

#include "check/check.h"
#include "train/recipe.h"

/* Under sanitizers a check takes ten times as long, and they look for something else. */
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

/* Counts and reports one check (trial.c). `where` is a format, used for failures only. */
void weft_trial_report(const struct weft_trial *t, bool passed, double figure, double limit, const char *name,
                       const char *where, ...) __attribute__((format(printf, 6, 7)));

/* A temporary folder, and its removal with all that is in it (scratch.c). */
struct weft_scratch {
    char folder[256];
    int lock;
};
enum weft_status weft_scratch_make(struct weft_scratch *s);
void weft_scratch_remove(const struct weft_scratch *s);

/* A model with noise on its weights. Freed like any. */
enum weft_status weft_twin_create(struct weft_nn **model, const struct weft_spec *spec);
/* Runs a check on a small twin of the model itself, with one thread: the trial that it gets has this twin. */
enum weft_status weft_trial_on_twin(const struct weft_trial *t, enum weft_status (*check)(const struct weft_trial *t));

/* One graph of a model, planned, with weights and gradients of its own: f32, or f64 in a reference execution. */
struct weft_probe {
    const struct weft_nn *model;
    struct weft_net net;
    struct weft_exec *exec;
    enum weft_dtype dtype;
    void *weights, *grads;        /* laid out as the model's */
    struct weft_value *embedding; /* the gradient of the embedding, where it was asked for */
};

/* To be closed even when this fails. */
enum weft_status weft_probe_open(struct weft_probe *p, const struct weft_nn *model, enum weft_use use,
                                 struct weft_net_size size, enum weft_mode mode);
/* The same for TRAIN, with the gradient of the embedding as an output. */
enum weft_status weft_probe_open_traced(struct weft_probe *p, const struct weft_nn *model, struct weft_net_size size);
/* The second half of opening, for those that change the graph before: it has a model, a dtype and a net already. */
enum weft_status weft_probe_plan(struct weft_probe *p, enum weft_mode mode);
void weft_probe_close(struct weft_probe *p);
/* Sequences one after the other, all of the same length or, with `lengths`, each of its own. */
void weft_probe_rows(struct weft_probe *p, int64_t sequences, int64_t length, const int64_t *lengths);
/* Random tokens and targets for all rows, from the key. */
void weft_probe_fill(struct weft_probe *p, uint64_t key);
/* Gradients are set to 0, and weights that follow from others are computed; then it runs. A failure is deferred until
 * the gate has ended. */
void weft_probe_prepare(struct weft_probe *p);
void weft_probe_run(struct weft_probe *p);
/* The gradient of the i-th weight; NULL: it has none. */
const struct weft_tensor *weft_probe_grad(const struct weft_probe *p, int i);

/* How much the gradients of a reference differ from differences of the loss along a direction through all weights,
 * relatively; auxiliary losses are left out (slope.c). */
#define WEFT_SLOPE_LIMIT 1e-6
enum weft_status weft_slope_error(struct weft_probe *train, struct weft_probe *loss, double *error);

typedef enum weft_status weft_gate_fn(const struct weft_trial *t);
/* Where a failure of a gate comes from: the same gate is run with layers and halves left out and with parts replaced,
 * until the time is up. Writes ", through ffn=mine in layer 1", or "" where nothing is known (culprit.c). */
void weft_culprit_find(const struct weft_trial *t, weft_gate_fn *gate, const char *check, char text[128]);
/* Why a weight has no gradient in this graph of a model: which input of its op is 0, say (dead.c). */
void weft_dead_explain(const struct weft_nn *model, struct weft_net_size size, int weight, char text[160]);

/* Of float tensors: the root mean square, and the largest difference between two of the same shape. */
double weft_tensor_rms(const struct weft_tensor *x);
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
/* Whether "name=value" or "name!=value" holds (NULL: always does), and what that option needs as well. */
bool weft_options_met(const struct weft_options *all, const char *needs);
/* Whether an option is one of this part's. */
bool weft_chosen_owns(const struct weft_chosen *c, const struct weft_opt *opt);
/* Whether what the option needs is there, and its value is not one that changes nothing by definition. */
bool weft_option_acts(const struct weft_options *all, const struct weft_option *o);
/* Whether its value is not the default, and makes a difference by definition. */
bool weft_option_matters(const struct weft_options *all, const struct weft_option *o);
/* Whether two models differ in what is known before they run: weights and their first values; or in the plan of a step
 * with their own batch and context. */
enum weft_status weft_models_begin_alike(const struct weft_nn *a, const struct weft_nn *b, bool *alike);
enum weft_status weft_models_plan_alike(const struct weft_nn *a, const struct weft_nn *b, bool *alike);

/* ---- what a model can do without (switches.c): every option that has a value which switches something off */

struct weft_switch {
    char name[72], off[72];         /* "m1=yes", "m1=no" */
    const struct weft_chosen *part; /* that is switched, or whose option it is; NULL: the model's own */
    bool of_mechanism;              /* one of the options of a mechanism */
    struct weft_spec spec;          /* without it */
    struct weft_nn *without;        /* its weights are declared, but have no memory */
};
struct weft_switches {
    struct weft_switch *list;
    int count;
};
/* To be released even when this fails; before the spec. */
enum weft_status weft_switches_find(struct weft_switches *all, const struct weft_spec *spec);
void weft_switches_release(struct weft_switches *all);
/* Whether the model has all weights that it has without the switch: then graphs of it can be built either way. */
bool weft_switch_fits(const struct weft_switch *s, const struct weft_nn *model);
/* Whether switching it off in a layer must make a difference: always, if it does in some layer, or not necessarily. */
enum weft_duty { WEFT_MUST_ACT, WEFT_ACTS_IF_ANY, WEFT_MAY_ACT };
enum weft_duty weft_switch_duty(const struct weft_switch *s, const struct weft_nn *model, int layer);
/* The effects of a switch, one layer after the other. */
struct weft_acts {
    struct weft_act {
        double effect;
        int layer;
    } must, if_any; /* the least of the layers with this duty */
    double most;    /* of all */
    int layers;
};
void weft_acts_note(struct weft_acts *a, enum weft_duty duty, int layer, double effect);
/* The least effect that counts, given which effects are none at all; INFINITY: no layer has to act. */
struct weft_act weft_acts_least(const struct weft_acts *a, double none);
/* Graphs of the model are built without it in this layer (-1: in all and around them). */
void weft_switch_apply(const struct weft_switch *s, struct weft_nn *model, int layer);
/* If the option is the initial value of weights (a learned alpha): whether the layer has such, and in the probe of a
 * graph without the switch, moves them to where they would have started. */
bool weft_switch_starts(const struct weft_switch *s, const struct weft_nn *model, int layer);
void weft_switch_weights(const struct weft_switch *s, const struct weft_probe *p, int layer);
/* The effects of all switches on the loss of the model itself, after it has learned a little (model_effects.c). */
enum weft_status weft_check_effects(const struct weft_trial *t, const struct weft_nn *learned);
/* The gradient of a whole batch is the sum of those of its parts (batches.c). */
enum weft_status weft_check_batches(const struct weft_trial *t);
/* The roles and groups of all weights are what this graph of the model does with them (roles.c). */
enum weft_status weft_check_roles(const struct weft_trial *t, const struct weft_net *train);
/* Every row of a table that a batch reaches has a gradient of its own, in the model itself (table_rows.c). */
enum weft_status weft_check_table_rows(const struct weft_trial *t);
/* Of so many rows that dropout may each remove whole, by an embedding: how many may be gone by chance. */
double weft_dropped_whole(const struct weft_spec *spec, int64_t rows);
/* Sequences that are forked in a cache, from its beginning and near the end of the context (forked.c). */
enum weft_status weft_check_forks(const struct weft_trial *t, const struct weft_nn *model);
enum weft_status weft_check_late_forks(const struct weft_trial *t, const struct weft_nn *model);
/* Scores that a geometry declares to be distances are such (metric.c). */
enum weft_status weft_check_metric(const struct weft_trial *t);
/* Whether a part declares that the weight has no gradient by mathematics (live.c). */
bool weft_weight_is_idle(const struct weft_spec *spec, const struct weft_param *w);

/* ---- the model itself (own_size.c): its size, context, dtype and first weights, and the graphs that train and score
 * it. Each graph is made when it is first asked for. Its batch is the model's own, and at least 2 sequences, but not
 * more than so many rows; its sequences are as long as the context. */

/* Numbers in the logits of a whole pass, at most: longer sequences are cut. */
enum { WEFT_MOST_LOGITS = 1 << 27 };

struct weft_itself {
    const struct weft_recipe *recipe; /* `unpruned`: pruning has a check of its own */
    struct weft_recipe unpruned;
    struct weft_pruning pruning;
    struct weft_nn *model;
    struct weft_probe train, eval; /* TRAIN has the model's own dropout */
    int64_t sequences, length;
    double run_seconds;       /* of one run of TRAIN */
    double seconds;           /* what all checks of the model itself may take */
    double begun, gate_begun; /* when they began, and when the gate that runs now did */
};

enum weft_status weft_itself_init(struct weft_itself *it, const struct weft_spec *spec,
                                  const struct weft_recipe *recipe);
void weft_itself_release(struct weft_itself *it);
enum weft_status weft_itself_train(struct weft_itself *it);
enum weft_status weft_itself_eval(struct weft_itself *it);
/* How long training takes, and so what checks may take: by running the graph that trains, unless it is known. */
enum weft_status weft_itself_measure(struct weft_itself *it);
/* Closes both graphs until they are asked for again, for checks that take as much memory as training does. */
void weft_itself_make_room(struct weft_itself *it);
/* Whether the gate that runs now has not used up this share of the time yet, nor all of them most of it: checks that
 * sample continue while it is so. */
bool weft_itself_has_time(const struct weft_itself *it, double share);
/* How many of `all`, each of so many seconds, fit into a share of the time and into `most` seconds, which is for runs
 * of weeks. */
int64_t weft_itself_fits(const struct weft_itself *it, double share, double most, double each, int64_t all);
/* "12 x 768, 2 x 1024 tokens, bf16" */
void weft_itself_describe(const struct weft_itself *it, char text[160]);

enum weft_status weft_gate_live(const struct weft_trial *t);
enum weft_status weft_gate_causal(const struct weft_trial *t);
enum weft_status weft_gate_cached(const struct weft_trial *t);
enum weft_status weft_gate_exact(const struct weft_trial *t);
enum weft_status weft_gate_gradient(const struct weft_trial *t);
enum weft_status weft_gate_scaled(const struct weft_trial *t);
enum weft_status weft_gate_stepped(const struct weft_trial *t);
enum weft_status weft_gate_accounted(const struct weft_trial *t);
enum weft_status weft_gate_isolated(const struct weft_trial *t);
/* The same of the model itself. */
enum weft_status weft_gate_live_itself(const struct weft_trial *t);
enum weft_status weft_gate_causal_itself(const struct weft_trial *t);
enum weft_status weft_gate_isolated_itself(const struct weft_trial *t);
enum weft_status weft_gate_cached_itself(const struct weft_trial *t);
enum weft_status weft_gate_exact_itself(const struct weft_trial *t);
enum weft_status weft_gate_gradient_itself(const struct weft_trial *t);
enum weft_status weft_gate_stepped_itself(const struct weft_trial *t);
enum weft_status weft_gate_accounted_itself(const struct weft_trial *t);

#endif
