/* SPDX-License-Identifier: MIT
 *
 * nn.h - models: the resolved config (spec), named weights (params), mechanisms (variants), and the graph of it all.
 *
 * Invariants:
 *  - Every part is chosen by name and is one descriptor. A part declares its weights in params() and uses them in
 *    build() under the same local names; the scope ("blocks.3.attn") is set by whoever calls it.
 *  - A spec that was resolved can be built: what is impossible was refused there, with the reason.
 *  - Weights are one flat f32 array and gradients another of the same layout. A weight's first value is a function of
 *    (seed, its name, the element) alone, so models share what they have in common.
 *  - One build serves training and evaluation: they differ in dropout and in being differentiated.
 *  - The residual stream is f32; what ops compute in between has the graph's compute dtype.
 */
#ifndef WEFT_NN_H
#define WEFT_NN_H

#include "base/opt.h"
#include "ops/ops.h"

/* ---- spec (spec.c) */

enum weft_part { WEFT_ATTN, WEFT_FFN, WEFT_NORM, WEFT_POS, WEFT_PART_COUNT };

struct weft_spec {
    const char *preset;
    int64_t layers, width, heads, ffn_width, context, vocab, batch, seed;
    double dropout;
    bool bias, tie;
    bool recompute;          /* the backward pass makes each layer's values again instead of keeping them */
    bool post;               /* norms stand behind the sums instead of before the parts */
    enum weft_dtype compute; /* f32 or bf16 */
    const struct weft_variant *part[WEFT_PART_COUNT];
    void *options[WEFT_PART_COUNT]; /* of each part: the struct its option table describes */
    struct weft_spec_choice {
        int part[WEFT_PART_COUNT], dtype, norm_place;
    } choice; /* where the option table writes choices; the fields above say what they mean */
    struct weft_arena arena;
};

/* Reads the preset and the settings and refuses what cannot be. The settings are not finished: training has its own. */
enum weft_status weft_spec_init(struct weft_spec *spec, const char *preset, struct weft_settings *settings);
void weft_spec_release(struct weft_spec *spec);

/* Presets and owners of options in order; NULL past the last. For help and generated pages. */
const char *weft_preset_at(int i, const char **summary);
const struct weft_owner *weft_nn_owner_at(int i);
/* MODEL as commands take it: a preset's name, a config file or a folder with config.json, whose settings are loaded
 * (config.c). *preset is the preset's name. */
enum weft_status weft_model_find(const char *model, struct weft_settings *settings, const char **preset);

/* ---- weights (param.c) */

enum weft_init { WEFT_INIT_NORMAL, WEFT_INIT_CONSTANT };
#define WEFT_DEVIATION 0.02 /* of weights that no rule gives another */

struct weft_param {
    const char *name;
    int ndim;
    int64_t dim[WEFT_MAX_DIMS];
    enum weft_init init;
    double init_value; /* standard deviation, or the constant */
    bool decay;        /* weight decay applies: two and more dimensions */
    int64_t count;
    int64_t offset; /* of its first element in the flat arrays; a multiple of 64 bytes */
};

/* Declaring never fails visibly: the first failure stays in `status`. */
struct weft_params {
    struct weft_arena arena;
    enum weft_status status;
    char scope[64];
    struct weft_param *list;
    int count, room;
    int64_t elements; /* of all weights */
    int64_t total;    /* of a flat array: with the gaps, which stay 0 */
    float *weights;
};

void weft_params_scope(struct weft_params *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void weft_params_vector(struct weft_params *p, const char *name, int64_t n, double constant);
void weft_params_matrix(struct weft_params *p, const char *name, int64_t rows, int64_t columns, double deviation);
/* A linear layer: the matrix [out, in] and, in models with biases, `name`_bias [out]. */
void weft_params_linear(struct weft_params *p, const struct weft_spec *spec, const char *name, int64_t out, int64_t in);
/* The same for a projection into the residual stream: its deviation falls with depth. */
void weft_params_project(struct weft_params *p, const struct weft_spec *spec, const char *name, int64_t out,
                         int64_t in);

/* One flat zeroed array as large as all weights; freed by weft_params_array_free. */
float *weft_params_array(const struct weft_params *p);
void weft_params_array_free(const struct weft_params *p, float *array);
enum weft_status weft_params_init(struct weft_params *p, uint64_t seed); /* makes and fills the weights */
void weft_params_release(struct weft_params *p);
int weft_params_find(const struct weft_params *p, const char *name); /* -1: none */
/* SHA-256 of every name, shape and f32 weight in order. */
void weft_params_hash(const struct weft_params *p, char hex[65]);

/* ---- building (block.c) */

/* Where a random mask stands in a layer. */
enum weft_site { WEFT_SITE_EMBED, WEFT_SITE_SCORES, WEFT_SITE_ATTN, WEFT_SITE_FFN };

struct weft_build {
    struct weft_graph *g;
    const struct weft_spec *spec;
    const struct weft_params *params;
    struct weft_value **weights; /* of each param, once it has been used */
    struct weft_rows rows;
    double dropout; /* 0 in evaluation */
    int layer;
    enum weft_site site;
    struct weft_value *residual; /* what the part's output is added to */
    char scope[64];
};

struct weft_variant {
    const char *name;
    const char *summary;     /* the formula in one line */
    struct weft_owner owner; /* its options, named "part=name" */
    size_t options_bytes;
    bool gated; /* ffn: two matrices make the hidden activation */
    /* Optional: fills in what the options left open and refuses what is impossible with this spec. */
    enum weft_status (*resolve)(const struct weft_spec *spec, void *options);
    void (*params)(struct weft_params *p, const struct weft_spec *spec); /* NULL: it has none */
    /* attn, ffn: residual + part(x). norm: norm(x). pos: x with positions, of the embedding; NULL: unchanged. */
    struct weft_value *(*build)(struct weft_build *b, struct weft_value *x);
    /* pos: queries or keys [M, heads * D] turned by their positions; NULL: unchanged. */
    struct weft_value *(*turn)(struct weft_build *b, struct weft_value *x, int64_t heads);
};

#define ATTN(name) extern const struct weft_variant weft_attn_##name;
#define FFN(name) extern const struct weft_variant weft_ffn_##name;
#define NORM(name) extern const struct weft_variant weft_norm_##name;
#define POS(name) extern const struct weft_variant weft_pos_##name;
#include "nn/variants.def"

void weft_build_scope(struct weft_build *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The weight `name` of the present scope. */
struct weft_value *weft_build_weight(struct weft_build *b, const char *name);
/* x W^t (+ bias) in the compute dtype. */
struct weft_value *weft_build_linear(struct weft_build *b, struct weft_value *x, const char *name);
/* residual + dropout(x W^t (+ bias)), f32: how a part ends. */
struct weft_value *weft_build_project(struct weft_build *b, struct weft_value *x, const char *name);
/* The norm of the model under a scope of its own. */
struct weft_value *weft_build_norm(struct weft_build *b, struct weft_value *x, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What a norm gives: post-norm's results are the residual stream itself, hence f32; pre-norm's feed products. */
enum weft_dtype weft_build_norm_dtype(const struct weft_build *b);
struct weft_value *weft_build_turn(struct weft_build *b, struct weft_value *x, int64_t heads);

void weft_block_params(struct weft_params *p, const struct weft_spec *spec, int layer);
struct weft_value *weft_block(struct weft_build *b, struct weft_value *x, int layer);

/* ---- model (model.c) */

struct weft_model {
    const struct weft_spec *spec;
    struct weft_params params;
};

/* The spec must outlive the model. The weights are known from here on, but have no memory yet. */
enum weft_status weft_model_create(struct weft_model **model, const struct weft_spec *spec);
enum weft_status weft_model_init(struct weft_model *model); /* memory for the weights, and their first values */
void weft_model_free(struct weft_model *model);

/* A graph of a model, ready to plan: what to write before a run and what to read after it. */
struct weft_net {
    struct weft_graph *g;
    int rows, sequences; /* symbols */
    int64_t tiles;       /* key tiles of the longest sequence */
    struct weft_value *tokens, *targets, *weight;
    struct weft_rows at;
    struct weft_value *loss;       /* sum over rows of weight * cross-entropy */
    struct weft_value *prediction; /* i32 [M]: the most likely next token */
    struct weft_value **weights;   /* by param, NULL where unused */
};

enum weft_use { WEFT_TRAIN, WEFT_EVAL };

/* For at most `sequences` sequences of at most `length` tokens. */
enum weft_status weft_net_init(struct weft_net *net, const struct weft_model *model, enum weft_use use,
                               int64_t sequences, int64_t length);
void weft_net_release(struct weft_net *net);
/* Gives weights, and gradients where the graph has them, their memory. */
void weft_net_bind(const struct weft_net *net, struct weft_exec *exec, const struct weft_model *model, float *grads);
/* Writes counts, positions and tiles of a plain batch: row b*T+t is token t of sequence b. */
void weft_net_plain_rows(const struct weft_net *net, struct weft_exec *exec, int64_t sequences, int64_t length);

#endif
