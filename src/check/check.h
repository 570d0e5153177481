/* SPDX-License-Identifier: MIT
 *
 * check.h - checks ops and models: the op harness, the gates, combinations of options, and mutants.
 *
 * Invariants: nothing here prints; results go to a callback and into a summary.
 */
#ifndef WEFT_CHECK_H
#define WEFT_CHECK_H

#include "train/recipe.h"

/* ---- the op harness (opcheck.c): registry x cases x {f32, bf16} */

struct weft_opcheck_case {
    const char *op, *name;
    enum weft_dtype dtype;
    double error;          /* largest difference from the reference, relative to the tolerance */
    double gradient_error; /* the same for the derivative, compared with finite differences; NAN: the op has no
                              derivative */
    bool failed;
    char message[200]; /* the first defect */
};

struct weft_opcheck {
    int ops, cases, failed;
    int thread_mismatches; /* number of cases whose results changed with the number of threads */
    int row_mismatches;    /* number of cases in which the result of a row changed with the number of rows */
};

typedef void weft_opcheck_fn(void *context, const struct weft_opcheck_case *c);

/* Checks all ops, or only `only_op`. Each op is checked on its first case and then on every `every`-th. Defects are
 * counted and do not make this function fail; running out of memory does. */
enum weft_status weft_opcheck_run(const char *only_op, int every, struct weft_opcheck *sum, weft_opcheck_fn *report,
                                  void *context);

/* ---- gates (gates.c): checks that a model must pass before its results count */

enum weft_gate {
    WEFT_GATE_LIVE,      /* every weight, mechanism and loss has an effect */
    WEFT_GATE_CAUSAL,    /* no row depends on later tokens */
    WEFT_GATE_ISOLATED,  /* no sequence depends on the others in its batch */
    WEFT_GATE_CACHED,    /* chunks and single tokens fed through a cache give the same logits as the whole sequence */
    WEFT_GATE_EXACT,     /* the same bits with any number of threads */
    WEFT_GATE_GRADIENT,  /* gradients are the derivatives of the loss */
    WEFT_GATE_SCALED,    /* with scaling=mup, the effect of a step does not depend on the width */
    WEFT_GATE_STEPPED,   /* the trainer follows its definition */
    WEFT_GATE_FORMED,    /* the forms of whole graphs, from which models are exported, compute the same */
    WEFT_GATE_ACCOUNTED, /* weights, FLOPs, memory and cache are as predicted */
    WEFT_GATE_COUNT
};
enum { WEFT_GATES_ALL = (1u << WEFT_GATE_COUNT) - 1 };

/* The callback that receives every check (weft.h), and the counts of checks. */
struct weft_gates {
    weft_check_fn *on_check; /* may be NULL */
    void *context;
    int checks, failed;
    char sizes[160]; /* layers, width, sequences, tokens and dtype of the model itself; "": only the twin was checked */
    char plan_sha256[65]; /* recorded SHA-256 of the study's plan; "": not part of a study */
};

/* Returns the name of the i-th gate, or NULL past the last one. */
const char *weft_gate_at(int i, const char **summary);
/* Runs the gates in the bit set `which` on the twin and, if a recipe with opened data is given, on the model itself as
 * it is trained. Defects are counted and do not make this function fail. */
enum weft_status weft_gates_run(const struct weft_spec *spec, const struct weft_recipe *recipe, unsigned which,
                                struct weft_gates *report);

/* Returns whether WEFT_TEST_SKIP_GATES=1 is set. Runs and studies then skip the gates and record that they did. The
 * variable is meant for tests of other features: reports, audits and publishing reject such runs. */
bool weft_gates_skipped(void);

/* Read and write the results of the gates in a run's folder (record.c). A record is valid (*same) if config, program
 * and instruction set match; a record of skipped gates is valid only if gates are skipped now. Loading fills `report`
 * even from an invalid record. */
enum weft_status weft_gate_record_load(const char *path, const char *config_sha256, bool *same,
                                       struct weft_gates *report);
enum weft_status weft_gate_record_save(const char *path, const char *config_sha256, const struct weft_gates *report);

/* ---- a user's own reference (reference.c): see docs/reference.md */

/* Writes weights, tokens and targets of a small copy of the model as safetensors, with its options as metadata. */
enum weft_status weft_reference_inputs(const struct weft_spec *spec, const char *path);
/* Reads the logits, loss and gradients that a user computed from these inputs, and compares them with the model's, in
 * f64 and on the fast path. A missing tensor is an error; differences are reported. */
enum weft_status weft_reference_check(const struct weft_spec *spec, const char *path, struct weft_gates *report);
struct weft_part;
/* Returns whether the tests compare the part with an independent definition. */
bool weft_part_is_defined(const struct weft_part *part);

/* ---- combinations of a model's options (combine.c), all at one tiny size */

enum { WEFT_MAX_COMBINATIONS = 8192 };
struct weft_combinations {
    struct weft_arena arena;
    int count;
    const char *rows[WEFT_MAX_COMBINATIONS]; /* settings, separated by spaces */
    int64_t tuples;                          /* number of tuples of values that occur in some row */
    int64_t impossible;                      /* number of tuples for which no legal row was found */
};

/* Finds a small set of legal combinations in which all pairs (strength 2) or triples (3) of values occur. The result
 * depends only on the seed. */
enum weft_status weft_combinations_cover(struct weft_combinations *c, int strength, uint64_t seed);
/* Draws random legal combinations. */
enum weft_status weft_combinations_draw(struct weft_combinations *c, int count, uint64_t seed);
void weft_combinations_release(struct weft_combinations *c);
/* Creates the spec of the model with the settings of a row. */
enum weft_status weft_combination_spec(struct weft_spec *spec, const char *settings, enum weft_dtype dtype);

/* ---- jobs run by single-threaded worker processes, one per thread (jobs.c) */

struct weft_crew {
    int jobs;
    size_t bytes;                                       /* size of a job's result, which is initially zeroed */
    void (*work)(void *context, int job, void *result); /* runs in one of the processes */
    void (*lost)(void *context, int job, void *result, int signal); /* its process died (signal 0: it exited) */
    enum weft_status (*done)(void *context, int job, void *result); /* called in order; a failure stops all jobs */
    void *context;
};
/* Runs the jobs. Must be called before anything has run on several threads, since fork copies only the calling
 * thread. */
enum weft_status weft_crew_run(const struct weft_crew *crew);

/* ---- the gates on combinations (sweep.c), run by a crew */

struct weft_sweep_result {
    int row; /* index of the combination */
    enum weft_dtype dtype;
    int checks, failed;
    char message[400]; /* the first failure */
};
typedef void weft_sweep_fn(void *context, const struct weft_sweep_result *result);

/* Runs all gates on the twin and on the model itself, in f32 and in bf16. Results are reported in order. */
enum weft_status weft_sweep(const struct weft_combinations *c, weft_sweep_fn *report, void *context);

/* ---- mutants (mutants.c): parts broken on purpose, each with the gate that must detect it */

struct weft_place; /* mutants.h */
struct weft_mutant {
    const char *name;
    const char *settings; /* settings of the model; sizes default to those of combinations */
    const char *broken;   /* additional settings that cause the defect; NULL: none */
    enum weft_gate gate;
    const char *check;    /* part of the name of the check that must fail */
    bool bf16;            /* the model runs in bf16, not f32 */
    bool twin_only;       /* has no derivative, so only `gate` runs, and only on the twin */
    bool levels;          /* can be caught only if the processor has several instruction-set levels */
    const char *training; /* settings of the recipe; NULL: defaults that fit the model */
    /* The defect. Each member may be NULL. */
    const struct weft_place *place;
    const char *culprit; /* what the failure must name, such as "m1=yes in layer"; NULL: part and layer of `place` */
    void (*install)(void);
    void (*change_recipe)(struct weft_recipe *recipe);
};
const struct weft_mutant *weft_mutant_at(int i); /* NULL past the last */
int weft_mutant_count(void);
struct weft_mutant_result {
    bool caught;       /* the expected gate fails in the expected check */
    bool alarm;        /* a gate fails on the sound model, so the mutant was not run */
    bool asked, named; /* whether the failure must name a part and a layer; whether it names the right ones */
    char message[400]; /* message of the failure, or "no check failed" */
};
/* Runs the given gates on the sound model and on the mutant. */
enum weft_status weft_mutant_run(const struct weft_mutant *m, unsigned gates, struct weft_mutant_result *result);
/* Runs all mutants through all gates, using a crew. Results are reported in order. */
typedef void weft_mutant_fn(void *context, const struct weft_mutant *m, const struct weft_mutant_result *result);
enum weft_status weft_mutants_run(weft_mutant_fn *report, void *context);

/* ---- the four checks of the RA-MLA study's code (source_checks.c) */
enum weft_status weft_source_checks(struct weft_gates *report);

/* ---- the same bits on every machine (hashes.c) */

struct weft_hashes_case {
    const char *model, *settings, *dtype;
    const char *wanted; /* the hash expected on every machine; NULL: not recorded */
    char hash[65];      /* the hash on this machine */
};
typedef void weft_hashes_fn(void *context, const struct weft_hashes_case *c);
/* Trains the models of hashes.def one after the other; with `preset`, only this preset's models. */
enum weft_status weft_hashes_run(const char *preset, weft_hashes_fn *report, void *context);
/* Trains every `every`-th of the combinations in which all pairs of option values occur, to compare their hashes
 * between machines. */
enum weft_status weft_hashes_pairs(int every, weft_hashes_fn *report, void *context);

#endif
