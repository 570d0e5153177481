/* SPDX-License-Identifier: MIT
 *
 * lab.h - what makes results believable: the op harness, the gates, and the benches.
 *
 * Invariants: nothing here prints; findings go to a callback and into a summary. A bench compares by ratio inside one
 * interleaved run; absolute times are only ever told, never judged.
 */
#ifndef WEFT_LAB_H
#define WEFT_LAB_H

#include "nn/nn.h"

/* ---- the op harness (opcheck.c): registry x cases x {f32, bf16} */

struct weft_opcheck_case {
    const char *op, *name;
    enum weft_dtype dtype;
    double error;          /* worst error against the reference, in units of what is allowed */
    double gradient_error; /* worst error of the derivative against finite differences, likewise; NAN: no derivative */
    bool failed;
    char story[200]; /* the first defect found */
};

struct weft_opcheck {
    int ops, cases, failed;
    int thread_mismatches; /* cases whose bits changed with the number of threads */
    int row_mismatches;    /* cases where the bits of a row changed with the number of rows */
};

typedef void weft_opcheck_fn(void *context, const struct weft_opcheck_case *c);

/* Every op, or the one named. Sets the thread limit to 8 while it runs. A defect is counted, not a failed status. */
enum weft_status weft_opcheck_run(const char *only_op, struct weft_opcheck *sum, weft_opcheck_fn *tell, void *context);

/* ---- what a model takes (account.c), without running it */

struct weft_account {
    int64_t params, attn_params, ffn_params, recip_params[WEFT_RECIP_COUNT], other_params; /* other: embedding, norms */
    double flops_train, flops_prefill, flops_decode; /* per token; the last two at the given length */
    int64_t state_bytes;                             /* weights, sums of gradients, moments */
    int64_t activation_bytes;                        /* the one buffer of a training step */
    int64_t recompute_saves_bytes;
    double recompute_flops_ratio;
    int64_t cache_bytes;                  /* a token's, in all layers */
    double cache_bytes_layer;             /* a token's, in one layer */
    double cache_ratio_to_mha;            /* over keys and values of as many heads as there are queries */
    int64_t window_bytes, sequence_bytes; /* besides, whatever its length: a sequence's, in all layers */
};
struct weft_recipe;
/* Without a recipe the state is that of one micro-batch a step. */
enum weft_status weft_account(const struct weft_model *model, const struct weft_recipe *recipe, int64_t length,
                              struct weft_account *account);

/* FLOPs of training a token, alone. */
enum weft_status weft_account_flops(const struct weft_model *model, double *flops);

/* Refuses, with what to change, a training run that takes more than the available bytes. */
enum weft_status weft_account_fit(const struct weft_model *model, const struct weft_recipe *recipe, int64_t available);

/* ---- gates (folder gate, gates.c first): what a model must pass before anything it shows is believed */

enum weft_gate {
    WEFT_GATE_LIVE,      /* every weight, mechanism and loss has an effect */
    WEFT_GATE_CAUSAL,    /* no row knows of later tokens */
    WEFT_GATE_CACHED,    /* chunks and single tokens through a cache give the whole sequence's logits */
    WEFT_GATE_EXACT,     /* the same bits with any number of threads */
    WEFT_GATE_GRADIENT,  /* derivatives are those of the loss */
    WEFT_GATE_ACCOUNTED, /* weights, FLOPs, memory and cache are what was predicted */
    WEFT_GATE_COUNT
};
enum {
    WEFT_GATES_ALL = (1u << WEFT_GATE_COUNT) - 1,
    /* Without these no model is trained. */
    WEFT_GATES_TO_TRAIN =
        1u << WEFT_GATE_LIVE | 1u << WEFT_GATE_CAUSAL | 1u << WEFT_GATE_CACHED | 1u << WEFT_GATE_GRADIENT
};

struct weft_check {
    const char *gate;
    char name[96];
    bool passed;
    double figure, limit;
    char where[160]; /* of a failure: tensor, position, number of threads */
};
typedef void weft_check_fn(void *context, const struct weft_check *check);

/* Who is told of every check, and how many there were. */
struct weft_gates {
    weft_check_fn *tell;
    void *context;
    int checks, failed;
};

/* NULL past the last. */
const char *weft_gate_at(int i, const char **summary);
/* The gates of the bit set on a tiny twin of the model, in the model's dtype. A defect is counted, not a failed status.
 */
enum weft_status weft_gates_run(const struct weft_spec *spec, unsigned which, struct weft_gates *report);

/* What the gates found, in a file beside a run (gate/stamp.c). It is the same, and the report is filled in, if config,
 * program and instruction set are. */
enum weft_status weft_stamp_load(const char *path, const char *config_sha256, bool *same, struct weft_gates *report);
enum weft_status weft_stamp_save(const char *path, const char *config_sha256, const struct weft_gates *report);

/* ---- combinations of a model's choices (gate/combine.c), all at one tiny size */

enum { WEFT_MAX_COMBINATIONS = 8192 };
struct weft_combinations {
    struct weft_arena arena;
    int count;
    const char *rows[WEFT_MAX_COMBINATIONS]; /* settings with spaces between */
    int64_t tuples;                          /* of values that occur in some row */
    int64_t impossible;                      /* tuples that no legal row was found for */
};

/* Few legal combinations in which all pairs (strength 2) or triples (3) of values occur, the same for the same seed. */
enum weft_status weft_combinations_cover(struct weft_combinations *c, int strength, uint64_t seed);
/* Legal combinations by chance. */
enum weft_status weft_combinations_draw(struct weft_combinations *c, int count, uint64_t seed);
void weft_combinations_release(struct weft_combinations *c);
/* The model of such a row. */
enum weft_status weft_combination_spec(struct weft_spec *spec, const char *settings, enum weft_dtype dtype);

/* ---- running them through the gates (gate/sweep.c), in processes of their own, as many as there are threads */

struct weft_sweep_result {
    int row; /* of the combinations */
    enum weft_dtype dtype;
    int checks, failed;
    char story[400]; /* the first failure */
};
typedef void weft_sweep_fn(void *context, const struct weft_sweep_result *result);

/* In f32 the gates live, causal, cached and gradient, in bf16 causal, cached and exact. Results are told in order. To
 * be called before anything ran on several threads: a process that is copied loses them. */
enum weft_status weft_sweep(const struct weft_combinations *c, weft_sweep_fn *tell, void *context);

/* ---- mutants (gate/mutants.c): parts broken on purpose, each with the gate that must notice */

struct weft_mutant {
    const char *name;
    const char *settings; /* of the model, at the size of combinations */
    const char *broken;   /* more settings, where these are what is wrong; NULL: none */
    enum weft_gate gate;
    const char *check; /* a part of the name of the check that must fail */
    void (*install)(void);
};
const struct weft_mutant *weft_mutant_at(int i); /* NULL past the last */
/* Caught: the gate passes without the mutant, and with it fails by that check. `story` is of the failure, or says what
 * was missed. */
enum weft_status weft_mutant_run(const struct weft_mutant *m, bool *caught, char story[400]);

/* ---- the four checks that the source study's code came with (gate/source_checks.c) */
enum weft_status weft_source_checks(struct weft_gates *report);

/* ---- benches */

/* One runner in an interleaved comparison (bench/contest.c). */
struct weft_contender {
    void (*run)(void *context);
    void *context;
    bool may_drop; /* one of several forms of the same rival: stop timing it when it is clearly not the fastest */
    bool dropped;
    double weight;   /* in the contest's weighted quotient */
    double seconds;  /* median of its times */
    double quotient; /* median over rounds of its time over the first contender's */
};
struct weft_contest {
    int rounds;
    double weighted_quotient; /* median over rounds of (weighted times of all others) / (time of the first) */
};
enum weft_status weft_contest(struct weft_contender *list, int count, double seconds, struct weft_contest *result);

/* The fastest of oneDNN's formulations of a product (bench/bare.c). Those that exist are opened into the list. */
enum { WEFT_MAX_BARE = 8 };
struct weft_bare {
    int count;
    struct weft_dnn_bare *form[WEFT_MAX_BARE];
};
enum weft_status weft_bare_open(struct weft_bare *bare, const struct weft_product *product, enum weft_dtype dtype);
void weft_bare_close(struct weft_bare *bare);
/* Enters all forms into a contest, and reads off the fastest afterwards. */
int weft_bare_enter(struct weft_bare *bare, struct weft_contender *list);
const struct weft_contender *weft_bare_fastest(const struct weft_bare *bare, const struct weft_contender *list);
/* What the machine does with a product of 1024 x 768 x 768, measured in about so many seconds. */
enum weft_status weft_bare_rate(enum weft_dtype dtype, double seconds, double *flops_per_s);

/* The three training products at the shapes of the presets, through the graph, against the bare engine
 * (bench/engine.c). ratio = bare time / our time: above 1 is faster than bare. */
struct weft_engine_row {
    struct weft_product product;
    double ratio, gflops, bare_gflops;
    int rounds;
    const char *bare_name;
};
typedef void weft_engine_fn(void *context, const struct weft_engine_row *row);
enum weft_status weft_bench_engine(enum weft_dtype dtype, double seconds, double *geomean, double *min,
                                   weft_engine_fn *tell, void *context);

/* Causal attention, forward and backward, 12 heads of 64, bf16 (bench/attention.c). FLOPs are counted causally, two
 * products forward and five backward, whatever is recomputed; the product they are held against is the fastest bare
 * 2048 x 768 x 768. */
struct weft_attention_bench {
    double share_of_product; /* FLOP rate over the product's */
    double gflops, product_gflops;
    int rounds;
    int64_t peak_bytes, planned_bytes; /* of the graph: growth of resident memory, and the plan */
};
/* `route`, when given, says how rows are gathered by the attention's routes; its inputs are filled in here. */
enum weft_status weft_bench_attention(int64_t batch, int64_t length, const struct weft_route *route, double seconds,
                                      struct weft_attention_bench *bench);

/* A model on random tokens, at its batch and context (bench/stage.c). */
struct weft_stage {
    struct weft_model *model;
    struct weft_net net;
    struct weft_exec *exec;
    float *grads;
};
enum weft_status weft_stage_open(struct weft_stage *s, const struct weft_spec *spec);
void weft_stage_run(void *stage);            /* forward and backward */
void weft_stage_close(struct weft_stage *s); /* also after a failed open */

/* What a mechanism costs, as quotients over the same model without it (bench/variants.c). */
struct weft_variant_bench {
    int64_t state_bytes; /* in: per weight that training holds */
    const char *name, *over;
    double time, flops, params;
    double memory, activation; /* planned: with the state of the weights, and without */
    double seconds;
    int rounds;
};
const char *weft_variant_bench_at(int i); /* names of variants; NULL past the last */
enum weft_status weft_bench_variant(const char *preset, const struct weft_settings *user, const char *name,
                                    double seconds, struct weft_variant_bench *bench);

/* Forward and backward of a model on random tokens, against its products run bare (bench/train.c). */
struct weft_train_bench {
    double tokens_per_s;
    double ratio_bare;   /* step time over the time of its products run bare */
    double step_seconds; /* medians of interleaved rounds */
    double bare_seconds;
    int rounds;
    int64_t peak_bytes;    /* growth of resident memory from before the model to after the steps */
    int64_t planned_bytes; /* what was planned: weights, gradients and the buffer */
};
/* `profile`, when given, gets the time per op of the last runs. */
enum weft_status weft_bench_train(struct weft_spec *spec, double seconds, struct weft_train_bench *bench,
                                  FILE *profile);

#endif
