/* SPDX-License-Identifier: MIT
 *
 * bench.h - speed: products, attention and training steps against the bare engine, and variants against each other.
 *
 * Invariants: nothing here prints. A bench compares by ratio inside one interleaved run; absolute times are reported,
 * never judged.
 */
#ifndef WEFT_BENCH_H
#define WEFT_BENCH_H

#include "nn/net.h"

/* One runner in an interleaved comparison (contest.c). */
struct weft_contender {
    enum weft_status (*run)(void *context);
    void *context;
    bool may_drop; /* one of several forms of the same rival: stop timing it when it is clearly not the fastest */
    bool dropped;
    double weight;                      /* in the contest's weighted quotient */
    double seconds;                     /* median of its times */
    double quotient;                    /* median over rounds of its time over the first contender's */
    double quotient_low, quotient_high; /* quartiles of the same */
};
struct weft_contest {
    int rounds;
    double weighted_quotient; /* median over rounds of (weighted times of all others) / (time of the first) */
};
enum weft_status weft_contest(struct weft_contender *list, int count, double seconds, struct weft_contest *result);
double weft_median(double *x, int n); /* sorts them */

/* The yardstick: the fastest formulation of a bare product, oneDNN's if the program has it, else the own (bare.c).
 * Those that exist are opened into the list. */
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
/* The FLOP rate of the own engine on a product of 1024 x 768 x 768, measured in about `seconds`. */
enum weft_status weft_product_rate(enum weft_dtype dtype, double seconds, double *flops_per_s);

/* The three training products at the shapes of the presets, through the graph, against the bare engine
 * (engine.c). ratio = bare time / our time: above 1 is faster than bare. */
struct weft_engine_row {
    struct weft_product product;
    double ratio, gflops, bare_gflops;
    int rounds;
    const char *bare_name;
};
typedef void weft_engine_fn(void *context, const struct weft_engine_row *row);
enum weft_status weft_bench_engine(enum weft_dtype dtype, double seconds, double *geomean, double *min,
                                   weft_engine_fn *tell, void *context);

/* Causal attention, forward and backward, 12 heads of 64, bf16 (attention.c). FLOPs are counted causally, two
 * products forward and five backward, whatever is recomputed; the product they are compared with is the fastest bare
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

/* A model on random tokens, or the attention of its first block on random rows, at its batch and context (stage.c). */
struct weft_stage {
    struct weft_nn *model;
    struct weft_net net;
    struct weft_exec *exec;
    float *grads;
};
/* The spec of a preset with the user's settings, then these, which end with NULL. `shared`: settings that have no
 * effect in it are for another model, which it is compared with. */
enum weft_status weft_stage_spec(struct weft_spec *spec, const char *preset, const struct weft_settings *user,
                                 const char *const *own, bool shared);
enum weft_status weft_stage_open(struct weft_stage *s, const struct weft_spec *spec, bool only_attention);
enum weft_status weft_stage_run(void *stage); /* forward and backward */
void weft_stage_close(struct weft_stage *s);  /* also after a failed open */

/* What a mechanism costs, as quotients over the same model without it (variants.c). */
struct weft_variant_bench {
    int64_t state_bytes; /* in: per weight that training holds */
    const char *name, *over;
    double time, flops, params;
    double time_low, time_high; /* quartiles over rounds */
    double bytes;               /* that ops read and write */
    double memory, activation;  /* planned: with the state of the weights, and without */
    double seconds;
    int rounds;
};
const char *weft_variant_bench_at(int i); /* names of variants; NULL past the last */
enum weft_status weft_bench_variant(const char *preset, const struct weft_settings *user, const char *name,
                                    double seconds, struct weft_variant_bench *bench);

/* The attention of a block, norm and projections included, forward and backward, as settings make it: quotients over
 * that of the same sizes with geom=dot and attn=full (geometry.c). */
struct weft_geometry_bench {
    double seconds, time, flops, memory;
    int64_t planned_bytes;
    int rounds;
};
enum weft_status weft_bench_geometry(const char *preset, const struct weft_settings *user, int64_t batch,
                                     int64_t length, double seconds, struct weft_geometry_bench *bench);

/* Decoding with a cache, against reading weights and cache once (decode.c). */
struct weft_decode_bench {
    int64_t batch, context; /* in: sequences, and tokens of each */
    double tokens_per_s, step_seconds, prefill_tokens_per_s;
    double ratio_bandwidth;                 /* the time to read both, over the time of a step */
    double read_gb_per_s;                   /* what this machine reads with, on as many threads */
    int64_t weight_bytes, read_bytes;       /* all weights in the compute dtype; the cache of all tokens */
    int64_t cache_bytes, cache_token_bytes; /* of the session; of a token, in all layers */
    int64_t resident_bytes;                 /* growth from before the model to after decoding */
    double rss_ratio;                       /* of that over weights and cache */
    int rounds;
};
enum weft_status weft_bench_decode(const struct weft_spec *spec, double seconds, struct weft_decode_bench *bench,
                                   FILE *profile);

/* Messages between ranks (network.c): the same on all of them, but for noise. */
struct weft_network_bench {
    double gb_per_s;   /* that a rank sends, while it receives as much */
    double message_us; /* of a message without content */
    int rounds;
};
struct weft_comm;
enum weft_status weft_bench_network(struct weft_comm *c, double seconds, struct weft_network_bench *bench);

/* Forward and backward of a model on random tokens, against its products run bare (train.c). */
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
