/* SPDX-License-Identifier: MIT
 *
 * bench.h - benchmarks: matmuls, attention and training steps against the bare engine, and variants against each other.
 *
 * Invariants: nothing here prints. A benchmark compares by ratios within one interleaved run; absolute times are
 * reported, never judged.
 */
#ifndef WEFT_BENCH_H
#define WEFT_BENCH_H

#include "nn/net.h"

/* One runner in an interleaved comparison (contest.c). */
struct weft_contender {
    enum weft_status (*run)(void *context);
    void *context;
    bool may_drop; /* one of several formulations of a rival: not timed further once it is clearly not the fastest */
    bool dropped;
    double weight;                      /* weight of its time in weighted_quotient */
    double seconds;                     /* median time */
    double quotient;                    /* median over rounds of its time divided by the first contender's */
    double quotient_low, quotient_high; /* quartiles of that quotient */
};
struct weft_contest {
    int rounds;
    double weighted_quotient; /* median over rounds of (weighted sum of the others' times) / (time of the first) */
};
enum weft_status weft_contest(struct weft_contender *list, int count, double seconds, struct weft_contest *result);
double weft_median(double *x, int n); /* sorts x */

/* The yardstick: the fastest formulation of a bare matmul, oneDNN's if the program was built with oneDNN, otherwise
 * Weft's own (bare.c). weft_bare_open opens every formulation that exists. */
enum { WEFT_MAX_BARE = 8 };
struct weft_bare {
    int count;
    struct weft_dnn_bare *form[WEFT_MAX_BARE];
};
enum weft_status weft_bare_open(struct weft_bare *bare, const struct weft_product *product, enum weft_dtype dtype);
void weft_bare_close(struct weft_bare *bare);
/* Enter all formulations into a contest, and return the fastest one afterwards. */
int weft_bare_enter(struct weft_bare *bare, struct weft_contender *list);
const struct weft_contender *weft_bare_fastest(const struct weft_bare *bare, const struct weft_contender *list);
/* Measures the FLOP rate of Weft's own engine on a matmul of 1024 x 768 x 768, in about `seconds`. */
enum weft_status weft_product_rate(enum weft_dtype dtype, double seconds, double *flops_per_s);

/* The three training matmuls at the shapes of the presets, run through the graph, against the bare engine (engine.c).
 * ratio = bare time / our time: above 1 is faster than bare. */
struct weft_engine_row {
    struct weft_product product;
    double ratio, gflops, bare_gflops;
    int rounds;
    const char *bare_name;
};
typedef void weft_engine_fn(void *context, const struct weft_engine_row *row);
enum weft_status weft_bench_engine(enum weft_dtype dtype, double seconds, double *geomean, double *min,
                                   weft_engine_fn *tell, void *context);

/* Causal attention, forward and backward, 12 heads of width 64, bf16 (attention.c). Causal FLOPs are counted, two
 * matmuls forward and five backward, regardless of recomputation. They are compared with the fastest bare matmul of
 * 2048 x 768 x 768. */
struct weft_attention_bench {
    double share_of_product; /* FLOP rate divided by the matmul's */
    double gflops, product_gflops;
    int rounds;
    int64_t peak_bytes, planned_bytes; /* growth of resident memory, and the graph's planned memory */
};
/* `route`, if not NULL, sets how rows are gathered by the attention's routes; the inputs of the route are filled in
 * here. */
enum weft_status weft_bench_attention(int64_t batch, int64_t length, const struct weft_route *route, double seconds,
                                      struct weft_attention_bench *bench);

/* A model on random tokens, or the attention of its first block on random rows, with the spec's batch size and context
 * (stage.c). */
struct weft_stage {
    struct weft_nn *model;
    struct weft_net net;
    struct weft_exec *exec;
    float *grads;
};
/* Resolves a preset with the user's settings, then with those in `own`, a NULL-terminated list. `shared` allows
 * settings that have no effect on this model, because they are meant for the model that it is compared with. */
enum weft_status weft_stage_spec(struct weft_spec *spec, const char *preset, const struct weft_settings *user,
                                 const char *const *own, bool shared);
enum weft_status weft_stage_open(struct weft_stage *s, const struct weft_spec *spec, bool only_attention);
enum weft_status weft_stage_run(void *stage); /* forward and backward */
void weft_stage_close(struct weft_stage *s);  /* must be called even if open failed */

/* The cost of a mechanism: ratios of a model with it to the same model without it (variants.c). */
struct weft_variant_bench {
    int64_t state_bytes; /* input: bytes that training keeps per parameter */
    const char *name, *over;
    double time, flops, params;
    double time_low, time_high; /* quartiles over rounds */
    double bytes;               /* bytes read and written by ops */
    double memory, activation;  /* planned memory, with the training state of the parameters and without */
    double seconds;
    int rounds;
};
const char *weft_variant_bench_at(int i); /* name of a variant; NULL past the last */
enum weft_status weft_bench_variant(const char *preset, const struct weft_settings *user, const char *name,
                                    double seconds, struct weft_variant_bench *bench);

/* The attention of a block with the user's settings, including norm and projections, forward and backward, relative to
 * attention of the same size with geom=dot and attn=full (geometry.c). */
struct weft_geometry_bench {
    double seconds, time, flops, memory;
    int64_t planned_bytes;
    int rounds;
};
enum weft_status weft_bench_geometry(const char *preset, const struct weft_settings *user, int64_t batch,
                                     int64_t length, double seconds, struct weft_geometry_bench *bench);

/* Decoding with a cache, against the time to read weights and cache once (decode.c). */
struct weft_decode_bench {
    int64_t batch, context; /* input: number of sequences, and tokens in each */
    double tokens_per_s, step_seconds, prefill_tokens_per_s;
    double ratio_bandwidth;                 /* time to read weights and cache, divided by the time of a step */
    double read_gb_per_s;                   /* read bandwidth of this machine on the same number of threads */
    int64_t weight_bytes, read_bytes;       /* size of all weights in the compute dtype; of the cache of all tokens */
    int64_t cache_bytes, cache_token_bytes; /* size of the session's cache; of one token in all layers */
    int64_t resident_bytes;                 /* growth of resident memory from before the model to after decoding */
    double rss_ratio;                       /* resident_bytes divided by the size of weights and cache */
    int rounds;
};
enum weft_status weft_bench_decode(const struct weft_spec *spec, double seconds, struct weft_decode_bench *bench,
                                   FILE *profile);

/* Messages between ranks (network.c). All ranks get the same results, up to noise. */
struct weft_network_bench {
    double gb_per_s;   /* send bandwidth of a rank that receives the same amount */
    double message_us; /* time of an empty message */
    int rounds;
};
struct weft_comm;
enum weft_status weft_bench_network(struct weft_comm *c, double seconds, struct weft_network_bench *bench);

/* Forward and backward pass of a model on random tokens, against its matmuls run bare (train.c). */
struct weft_train_bench {
    double tokens_per_s;
    double ratio_bare;   /* step time divided by the time of its matmuls run bare */
    double step_seconds; /* medians of interleaved rounds */
    double bare_seconds;
    int rounds;
    int64_t peak_bytes;    /* growth of resident memory from before the model to after the steps */
    int64_t planned_bytes; /* planned memory: weights, gradients and the buffer */
};
/* Writes the time per op of the last runs to `profile`, unless it is NULL. */
enum weft_status weft_bench_train(struct weft_spec *spec, double seconds, struct weft_train_bench *bench,
                                  FILE *profile);

#endif
