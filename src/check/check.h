/* SPDX-License-Identifier: MIT
 *
 * check.h - checks of ops and models: the op harness, the gates, combinations of choices, and mutants.
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
    double error;          /* largest error against the reference, relative to the tolerance */
    double gradient_error; /* the same of the derivative against finite differences; NAN: it has no derivative */
    bool failed;
    char message[200]; /* the first defect */
};

struct weft_opcheck {
    int ops, cases, failed;
    int thread_mismatches; /* cases whose bits changed with the number of threads */
    int row_mismatches;    /* cases where the bits of a row changed with the number of rows */
};

typedef void weft_opcheck_fn(void *context, const struct weft_opcheck_case *c);

/* Every op, or only one; of its cases the first, and then one of `every`. A defect is counted; it is not a failure of
 * this function. A case that there is no memory for is. */
enum weft_status weft_opcheck_run(const char *only_op, int every, struct weft_opcheck *sum, weft_opcheck_fn *report,
                                  void *context);

/* ---- gates (gates.c): checks that a model must pass before its results count */

enum weft_gate {
    WEFT_GATE_LIVE,      /* every weight, mechanism and loss has an effect */
    WEFT_GATE_CAUSAL,    /* no row depends on later tokens */
    WEFT_GATE_ISOLATED,  /* no sequence depends on the others of its batch */
    WEFT_GATE_CACHED,    /* chunks and single tokens through a cache give the whole sequence's logits */
    WEFT_GATE_EXACT,     /* the same bits with any number of threads */
    WEFT_GATE_GRADIENT,  /* gradients are the derivatives of the loss */
    WEFT_GATE_SCALED,    /* with scaling=mup, steps do as much at every width */
    WEFT_GATE_STEPPED,   /* the trainer does what its definition says */
    WEFT_GATE_ACCOUNTED, /* weights, FLOPs, memory and cache are as predicted */
    WEFT_GATE_COUNT
};
enum { WEFT_GATES_ALL = (1u << WEFT_GATE_COUNT) - 1 };

/* Who receives every check (weft.h), and how many there were. */
struct weft_gates {
    weft_check_fn *on_check; /* may be NULL */
    void *context;
    int checks, failed;
    char sizes[160]; /* of the model itself: layers, width, sequences, tokens, dtype; "": only the twin was checked */
    char plan_sha256[65]; /* of the study whose run was checked, in its record; "": none */
};

/* NULL past the last. */
const char *weft_gate_at(int i, const char **summary);
/* The gates of the bit set on a small copy of the model and, with a recipe whose data are open, on the model itself as
 * it is trained. A defect is counted; it is not a failure of this function. */
enum weft_status weft_gates_run(const struct weft_spec *spec, const struct weft_recipe *recipe, unsigned which,
                                struct weft_gates *report);

/* Whether WEFT_TEST_SKIP_GATES=1 is set: runs and studies then skip the gates and record that. It is for tests of other
 * things. Reports, audits and publishing refuse such runs. */
bool weft_gates_skipped(void);

/* The result of the gates as a file in a run's folder (record.c). It is valid if config, program and instruction set
 * are the same. A record of skipped gates is valid only where they are skipped. The report has what the record says,
 * valid or not. */
enum weft_status weft_gate_record_load(const char *path, const char *config_sha256, bool *same,
                                       struct weft_gates *report);
enum weft_status weft_gate_record_save(const char *path, const char *config_sha256, const struct weft_gates *report);

/* ---- a reference of one's own (reference.c): see docs/reference.md */

/* Writes weights, tokens and targets of a small copy of the model as safetensors, its options as metadata. */
enum weft_status weft_reference_inputs(const struct weft_spec *spec, const char *path);
/* Compares logits, loss and gradients in a file, which somebody computed from these, with those of the model: in f64
 * and on the fast path. What the file lacks is an error; what differs is reported. */
enum weft_status weft_reference_check(const struct weft_spec *spec, const char *path, struct weft_gates *report);
struct weft_part;
/* Whether the tests compare the part with an independent definition. */
bool weft_part_is_defined(const struct weft_part *part);

/* ---- combinations of a model's choices (combine.c), all at one tiny size */

enum { WEFT_MAX_COMBINATIONS = 8192 };
struct weft_combinations {
    struct weft_arena arena;
    int count;
    const char *rows[WEFT_MAX_COMBINATIONS]; /* settings, separated by spaces */
    int64_t tuples;                          /* of values that occur in some row */
    int64_t impossible;                      /* tuples for which no legal row was found */
};

/* Few legal combinations in which all pairs (strength 2) or triples (3) of values occur, the same for the same seed. */
enum weft_status weft_combinations_cover(struct weft_combinations *c, int strength, uint64_t seed);
/* Random legal combinations. */
enum weft_status weft_combinations_draw(struct weft_combinations *c, int count, uint64_t seed);
void weft_combinations_release(struct weft_combinations *c);
/* The model of such a row. */
enum weft_status weft_combination_spec(struct weft_spec *spec, const char *settings, enum weft_dtype dtype);

/* ---- jobs in as many processes as there are threads (jobs.c), each with one thread */

struct weft_crew {
    int jobs;
    size_t bytes;                                                   /* of a job's result, which begins as zeros */
    void (*work)(void *context, int job, void *result);             /* in one of the processes */
    void (*lost)(void *context, int job, void *result, int signal); /* its process ended; 0: by itself */
    enum weft_status (*done)(void *context, int job, void *result); /* in order; a failure ends all */
    void *context;
};
/* Must be called before anything has run on several threads, since fork copies only the calling one. */
enum weft_status weft_crew_run(const struct weft_crew *crew);

/* ---- running the gates on combinations (sweep.c), by a crew */

struct weft_sweep_result {
    int row; /* of the combinations */
    enum weft_dtype dtype;
    int checks, failed;
    char message[400]; /* the first failure */
};
typedef void weft_sweep_fn(void *context, const struct weft_sweep_result *result);

/* All gates, on twin and model, in f32 and in bf16. Results are reported in order. */
enum weft_status weft_sweep(const struct weft_combinations *c, weft_sweep_fn *report, void *context);

/* ---- mutants (mutants.c): parts broken on purpose, each with the gate that must detect it */

struct weft_place; /* mutants.h */
struct weft_mutant {
    const char *name;
    const char *settings; /* of the model, at the size of combinations unless they say otherwise */
    const char *broken;   /* additional settings, if these are the defect; NULL: none */
    enum weft_gate gate;
    const char *check;    /* part of the name of the check that must fail */
    bool bf16;            /* else f32 */
    bool twin_only;       /* it has no derivative, so only its gate runs, on the twin */
    bool levels;          /* it shows only where the processor has several */
    const char *training; /* settings of the recipe; NULL: defaults that fit the model */
    /* What is broken; each may be NULL. */
    const struct weft_place *place;
    const char *culprit; /* what the failure must name, such as "m1=yes in layer"; NULL: part and layer of the place */
    void (*install)(void);
    void (*change_recipe)(struct weft_recipe *recipe);
};
const struct weft_mutant *weft_mutant_at(int i); /* NULL past the last */
int weft_mutant_count(void);
struct weft_mutant_result {
    bool caught;       /* its gate fails, in its check */
    bool alarm;        /* a gate fails on the sound model; then the mutant is not run */
    bool asked, named; /* whether the failure must name a part and a layer, and does so rightly */
    char message[400]; /* of the failure, or says that there was none */
};
/* Runs gates on the sound model and on the mutant: all of them, or only its own. */
enum weft_status weft_mutant_run(const struct weft_mutant *m, unsigned gates, struct weft_mutant_result *result);
/* All mutants through all gates, by a crew. Results are reported in order. */
typedef void weft_mutant_fn(void *context, const struct weft_mutant *m, const struct weft_mutant_result *result);
enum weft_status weft_mutants_run(weft_mutant_fn *report, void *context);

/* ---- the four checks of the RA-MLA study's code (source_checks.c) */
enum weft_status weft_source_checks(struct weft_gates *report);

/* ---- the same bits on every machine (hashes.c) */

struct weft_hashes_case {
    const char *model, *settings, *dtype;
    const char *wanted; /* the hash that every machine must get; NULL: not recorded */
    char hash[65];      /* what this one got */
};
typedef void weft_hashes_fn(void *context, const struct weft_hashes_case *c);
/* Trains the models of hashes.def one after the other, all or those of one preset. */
enum weft_status weft_hashes_run(const char *preset, weft_hashes_fn *report, void *context);
/* Trains combinations in which all pairs of choices occur, one of `every` so many, to compare them between machines. */
enum weft_status weft_hashes_pairs(int every, weft_hashes_fn *report, void *context);

#endif
