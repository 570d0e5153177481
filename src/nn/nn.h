/* SPDX-License-Identifier: MIT
 *
 * nn.h - models: the resolved config (spec), named weights (params), mechanisms (variants), and the graph of it all.
 *
 * Invariants:
 *  - Every part is chosen by name and is one descriptor. A part declares its weights in params() and uses them in
 *    build() under the same local names; the scope ("blocks.3.attn") is set by whoever calls it.
 *  - A spec that was resolved can be built: what is impossible was refused there, with the reason.
 *  - Weights are one flat f32 array and gradients another of the same layout. A weight's first value is a function of
 *    (seed, init_key, its name, the element) alone, so models share what they have in common.
 *  - One build serves training and evaluation: they differ in dropout and in being differentiated.
 *  - The residual stream is f32; what ops compute in between has the graph's compute dtype.
 */
#ifndef WEFT_NN_H
#define WEFT_NN_H

#include "base/opt.h"
#include "ops/ops.h"

/* ---- spec (spec.c) */

/* Parts, of which a model has exactly one each, in the order in which they are resolved; and mechanisms, each there or
 * not, in the order in which they work on the feed-forward's hidden activation. */
enum weft_part { WEFT_GEOM, WEFT_ATTN, WEFT_POS, WEFT_FFN, WEFT_NORM, WEFT_PART_COUNT };
enum weft_recip {
#define RECIP(name, symbol, help) WEFT_RECIP_##name,
#include "nn/variants.def"
    WEFT_RECIP_COUNT
};

struct weft_spec {
    const char *preset;
    int64_t layers, width, heads, ffn_width, context, vocab, batch, seed;
    int64_t init_key; /* not 0: another draw of the first weights, and of nothing else */
    double dropout;
    bool bias, tie;
    bool recompute;   /* the backward pass makes each layer's values again instead of keeping them */
    bool output_gate; /* attention's output is gated by its input */
    double ra_alpha;  /* of reciprocal attention; 0: none */
    int64_t ra_window;
    double logits_z;          /* factor of the squared log-sum-exp of the logits in the loss */
    bool aux;                 /* auxiliary losses are trained */
    bool learn_alpha, detach; /* of the mechanisms: learned mixing weights, no gradient into what they read */
    bool post;                /* norms stand behind the sums instead of before the parts */
    enum weft_dtype compute;  /* f32 or bf16 */
    const struct weft_variant *part[WEFT_PART_COUNT];
    void *options[WEFT_PART_COUNT];                     /* of each part: the struct its option table describes */
    const struct weft_variant *recip[WEFT_RECIP_COUNT]; /* NULL: not in this model */
    void *recip_options[WEFT_RECIP_COUNT];
    struct weft_spec_choice {
        int part[WEFT_PART_COUNT], dtype, norm_place;
        bool recip[WEFT_RECIP_COUNT];
    } choice; /* where the option table writes choices; the fields above say what they mean */

    /* What the parts make of the options when they are resolved. */
    int64_t head;         /* D = C/H, the width of a head's values */
    int64_t mean, spread; /* geom: of each head of queries and keys, what is linear in x, and what is activated */
    int64_t vector;       /* geom: width of a head's queries and keys made of these */
    int64_t kv_heads;     /* attn */
    int64_t latent;       /* attn: L, width of the key latent; 0: keys are not made of one */
    int64_t turned;       /* attn: width of what positions turn in a head */
    int64_t scale_width;  /* attn: scores start with the factor 1/sqrt of this */
    struct weft_arena arena;
};

/* Reads the model (a preset, a config file, or a folder with one) and the settings, and refuses what cannot be. The
 * settings are not finished: training has its own. */
enum weft_status weft_spec_init(struct weft_spec *spec, const char *model, struct weft_settings *settings);
void weft_spec_release(struct weft_spec *spec);
/* A model of the same parts at a tiny size, for checks that take seconds. Released like any. */
enum weft_status weft_spec_shrink(struct weft_spec *twin, const struct weft_spec *spec);
/* The same model with one more setting, "name=value". Released like any. */
enum weft_status weft_spec_vary(struct weft_spec *other, const struct weft_spec *spec, const char *setting);
/* Every option of the model and of its parts, with its value as one would write it. */
void weft_spec_each(const struct weft_spec *spec, void *context,
                    void (*visit)(void *context, const struct weft_opt *opt, const char *value));
/* Puts another descriptor in a variant's place, NULL puts it back. For tests that break one on purpose. */
void weft_variant_replace(const struct weft_variant *variant, const struct weft_variant *by);

/* Presets and owners of options in order; NULL past the last. For help and generated pages. */
extern const struct weft_preset weft_presets[];
const char *weft_preset_at(int i, const char **summary);
const struct weft_owner *weft_nn_owner_at(int i);
/* MODEL as commands take it: a preset's name, a config file or a folder with config.json, whose settings are loaded
 * (config.c). *preset is the preset's name. */
enum weft_status weft_model_find(const char *model, struct weft_settings *settings, const char **preset);

/* ---- weights (param.c) */

enum weft_init { WEFT_INIT_NORMAL, WEFT_INIT_CONSTANT, WEFT_INIT_UNIFORM };
#define WEFT_DEVIATION 0.02 /* of weights that no rule gives another */

struct weft_param {
    const char *name;
    int ndim;
    int64_t dim[WEFT_MAX_DIMS];
    enum weft_init init;
    double init_value;   /* standard deviation, the constant, or the largest size */
    int64_t init_blocks; /* not 0: only so many square blocks on the diagonal are filled, the rest is 0 */
    bool constant;       /* weight decay never applies, whatever the dimensions */
    bool decay;          /* weight decay applies: two and more dimensions */
    int64_t count;
    int64_t offset; /* of its first element in the flat arrays; a multiple of 64 bytes */
};

/* Declaring never fails visibly: the first failure stays in `status`. */
struct weft_params {
    struct weft_arena arena;
    enum weft_status status;
    char scope[64];
    int layer; /* of the block that declares */
    struct weft_param *list;
    int count, room;
    int64_t elements; /* of all weights */
    int64_t total;    /* of a flat array: with the gaps, which stay 0 */
    float *weights;
};

void weft_params_scope(struct weft_params *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void weft_params_vector(struct weft_params *p, const char *name, int64_t n, double constant);
void weft_params_matrix(struct weft_params *p, const char *name, int64_t rows, int64_t columns, double deviation);
/* A weight by its fields; name, ndim and dim at least. The functions around are the usual cases. */
void weft_params_add(struct weft_params *p, struct weft_param w);
/* A linear layer: the matrix [out, in] and, in models with biases, `name`_bias [out]. */
void weft_params_linear(struct weft_params *p, const struct weft_spec *spec, const char *name, int64_t out, int64_t in);
/* The same for a projection into the residual stream: its deviation falls with depth. */
void weft_params_project(struct weft_params *p, const struct weft_spec *spec, const char *name, int64_t out,
                         int64_t in);

/* One flat zeroed array as large as all weights; freed by weft_params_array_free. */
float *weft_params_array(const struct weft_params *p);
void weft_params_array_free(const struct weft_params *p, float *array);
enum weft_status weft_params_alloc(struct weft_params *p);               /* makes the weights, all 0 */
enum weft_status weft_params_init(struct weft_params *p, uint64_t seed); /* makes and fills the weights */
void weft_params_release(struct weft_params *p);
int weft_params_find(const struct weft_params *p, const char *name); /* -1: none */
/* SHA-256 of every name, shape and f32 weight in order. */
void weft_params_hash(const struct weft_params *p, char hex[65]);

/* ---- building (build.c, attend.c, block.c) */

/* Where a random mask stands in a layer. */
enum weft_site { WEFT_SITE_EMBED, WEFT_SITE_SCORES, WEFT_SITE_ATTN, WEFT_SITE_FFN };

/* What a graph is for. Training and evaluation give the loss, watching what weft_build_watch was told, the others
 * logits. PREFILL and DECODE read and write a cache; they are the same graph but for parts that decode by other means
 * (latents, absorbed). */
enum weft_use { WEFT_TRAIN, WEFT_EVAL, WEFT_WATCH, WEFT_FORWARD, WEFT_PREFILL, WEFT_DECODE };

/* How long the rows of a cache slot matter: as long as the sequence; for the last ra_window tokens; or there is one row
 * for the whole sequence, which every token changes. */
enum weft_lifetime { WEFT_PER_TOKEN, WEFT_WINDOW, WEFT_PER_SEQUENCE };

struct weft_slot {
    const char *name; /* "blocks.0.attn.k" */
    enum weft_lifetime lifetime;
    int64_t width;
    struct weft_value *state;
};

/* Something a layer made for the next one, and the factor that its use is to have. */
struct weft_carry {
    struct weft_value *value, *alpha;
};

enum { WEFT_MAX_TERMS = 8 };
struct weft_term {
    const char *name;
    struct weft_value *value; /* f32 [1] */
};

/* Something to know of a layer: the mean of all elements of a value. */
enum { WEFT_MAX_WATCHES = 4 }; /* names */
struct weft_watch {
    const char *name; /* the same in all layers */
    int layer;
    struct weft_value *value; /* f32 */
};

struct weft_build {
    struct weft_graph *g;
    const struct weft_spec *spec;
    const struct weft_params *params;
    struct weft_net *net; /* whose slots and inputs they are */
    enum weft_use use;
    struct weft_rows rows;
    struct weft_value *place; /* i32 [M]: the position that position schemes see */
    double dropout;           /* 0 in evaluation */
    int layer;
    enum weft_site site;
    struct weft_value *residual; /* what the part's output is added to */
    char scope[64];
    /* From part to part: */
    struct weft_attention attention; /* of this layer */
    struct weft_value *lse;          /* its log-sum-exps */
    struct weft_value *latent;       /* this layer's key latent, where a mechanism wants one */
    struct weft_carry gate;          /* f32 [M, H]: M1's, of the layer before */
    struct weft_carry context;       /* [M, L]: M3's, of the layer before */
};

enum weft_side { WEFT_QUERY, WEFT_KEY };

/* Queries or keys before a geometry made points of them. What is shared by all heads has 1 head. */
struct weft_rays {
    enum weft_side side;
    int64_t heads;
    struct weft_value *mean;   /* [M, heads * mean] */
    struct weft_value *raw;    /* [M, heads * spread], before weft_build_spread; or NULL, and */
    struct weft_value *spread; /* [M, spread_heads * spread], positive; both NULL where the geometry has none */
    struct weft_value
        *turned; /* [M, turned_heads * R]: more of the mean, turned; NULL: positions turn the mean itself */
    int64_t spread_heads, turned_heads;
};

struct weft_points {
    struct weft_value *vectors; /* [M, heads * width] */
    struct weft_value *norms;   /* f32 [M, heads]: half of it is taken off a score; NULL where the geometry has none */
};

/* The hidden activation while mechanisms work on it (hidden.c): a wide base and narrow terms x W^t. */
struct weft_hidden {
    struct weft_value *base;
    struct {
        struct weft_value *x, *w, *across; /* across: w transposed, as rows */
    } term[WEFT_RECIP_COUNT];
    int terms;
    struct weft_value *matrix[WEFT_RECIP_COUNT], *read[WEFT_RECIP_COUNT]; /* base through each mechanism's matrix */
};

struct weft_variant {
    const char *name;
    const char *summary;     /* the formula in one line */
    struct weft_owner owner; /* its options, named "part=name" */
    size_t options_bytes;
    /* Optional: fills in what the options left open and refuses what is impossible with this spec. */
    enum weft_status (*resolve)(struct weft_spec *spec, void *options);
    /* Optional: makes its own sizes tiny, for checks. Resolved again afterwards. */
    void (*shrink)(const struct weft_spec *spec, void *options);
    /* Optional: its weights, in its scope. attn: but for the output projection. pos: those of the embedding. */
    void (*params)(struct weft_params *p, const struct weft_spec *spec);
    /* Optional: whether the gradient of this weight is 0 by mathematics, so that nobody takes it for dead. */
    bool (*idle)(const struct weft_spec *spec, const char *name);
    /* attn: the heads' outputs [M, H * D]. ffn: the hidden activation [M, F]. norm: norm(x). pos: the embedding with
     * positions; NULL: unchanged. */
    struct weft_value *(*build)(struct weft_build *b, struct weft_value *x);

    /* ffn: */
    const char *output; /* name of the projection that ends it */
    bool gated;         /* two matrices make the hidden activation */

    /* geom: points from rays; norms are made when asked for. scale: f32 [H], NULL: 1/sqrt(scale_width). */
    struct weft_points (*points)(struct weft_build *b, const struct weft_rays *rays, bool norms);
    struct weft_value *(*scale)(struct weft_build *b);
    bool linear; /* a key's vector is linear in its mean: it can be absorbed into the queries */
    bool normed; /* points have norms */

    /* pos, all optional: queries or keys [M, heads * R] turned; f32 [H, offsets] added to the scores by distance, with
     * its weights in the scope of the attention. */
    struct weft_value *(*turn)(struct weft_build *b, struct weft_value *x, int64_t heads, enum weft_side side);
    struct weft_value *(*bias)(struct weft_build *b);
    void (*bias_params)(struct weft_params *p, const struct weft_spec *spec);

    /* recip, all optional: what it does with the hidden activation, and the matrix [N, F] through which it reads it;
     * the key latent c (NULL: attention has none), and raw keys (`name`: "wu" the means, "wu_spread" the spreads). */
    void (*hidden)(struct weft_build *b, struct weft_hidden *h);
    struct weft_value *(*reads)(struct weft_build *b);
    void (*latent)(struct weft_build *b, struct weft_value *x, struct weft_value **c);
    struct weft_value *(*keys)(struct weft_build *b, struct weft_value *k, const char *name);
};

#define ATTN(name) extern const struct weft_variant weft_attn_##name;
#define GEOM(name) extern const struct weft_variant weft_geom_##name;
#define FFN(name) extern const struct weft_variant weft_ffn_##name;
#define NORM(name) extern const struct weft_variant weft_norm_##name;
#define POS(name) extern const struct weft_variant weft_pos_##name;
#define RECIP(name, symbol, help) extern const struct weft_variant weft_recip_##name;
#include "nn/variants.def"

void weft_build_scope(struct weft_build *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The weight `name` of the present scope. */
struct weft_value *weft_build_weight(struct weft_build *b, const char *name);
/* x W^t in the compute dtype; with the bias where the model has biases. */
struct weft_value *weft_build_product(struct weft_build *b, struct weft_value *x, const char *name);
struct weft_value *weft_build_linear(struct weft_build *b, struct weft_value *x, const char *name);
/* softplus(raw) + WEFT_SPREAD_LEAST: a positive spread. */
#define WEFT_SPREAD_LEAST 1e-4
struct weft_value *weft_build_spread(struct weft_build *b, struct weft_value *raw);
/* residual + dropout(x W^t (+ bias)), f32: how a part ends. */
struct weft_value *weft_build_project(struct weft_build *b, struct weft_value *x, const char *name);
/* A mixing weight f32 [1]: the learned "alpha" of the scope, or the constant. */
struct weft_value *weft_build_alpha(struct weft_build *b, double alpha);
/* x without gradient, where the spec says so. */
struct weft_value *weft_build_detach(struct weft_build *b, struct weft_value *x);
/* The norm of the model under a scope of its own. */
struct weft_value *weft_build_norm(struct weft_build *b, struct weft_value *x, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What a norm gives: post-norm's results are the residual stream itself, hence f32; pre-norm's feed products. */
enum weft_dtype weft_build_norm_dtype(const struct weft_build *b);
struct weft_value *weft_build_turn(struct weft_build *b, struct weft_value *x, int64_t heads, enum weft_side side);
/* h through the matrix of a mechanism, [M, N]; h += (alpha x) W^t; another base; and h itself. */
struct weft_value *weft_hidden_read(struct weft_build *b, struct weft_hidden *h, int recip);
void weft_hidden_add(struct weft_build *b, struct weft_hidden *h, struct weft_value *x, struct weft_value *alpha,
                     const char *name);
void weft_hidden_change(struct weft_build *b, struct weft_hidden *h, struct weft_value *base);
struct weft_value *weft_hidden_whole(struct weft_build *b, struct weft_hidden *h);
/* Adds f32 [1] to a named term of the loss. */
void weft_build_loss(struct weft_build *b, const char *name, struct weft_value *value);
/* Makes a value of the layer known by a name; parts do so in graphs of the use WEFT_WATCH alone. */
void weft_build_watch(struct weft_build *b, const char *name, struct weft_value *value);

/* The cache: x of the new rows goes in, x of all rows that are to be read comes out. Without a cache that is x. */
static inline bool weft_build_cached(const struct weft_build *b) { return b->use >= WEFT_PREFILL; }
/* Whether to decode by other means than prefill; a part that is told so must. Where no part asks, prefill's graph
 * decodes too. */
bool weft_build_decodes(struct weft_build *b);
struct weft_value *weft_build_keep(struct weft_build *b, const char *name, enum weft_lifetime lifetime,
                                   struct weft_value *x);
/* The mean of x over the sequence so far (over all of it, future included: `whole`). */
struct weft_value *weft_build_mean(struct weft_build *b, const char *name, struct weft_value *x, bool whole);

/* What attention works on (attend.c): points, and values [rows of k, kv_heads * width]. Scores that go back from a
 * token to those before it (reciprocal attention) need queries that stay and keys of the new rows: q and k themselves,
 * unless back_q and back_k say otherwise (absorbed latents have no keys in k). */
struct weft_attend {
    struct weft_points q, k;
    struct weft_value *v;
    int64_t kv_heads;
    struct weft_points back_q;
    struct weft_value *back_k;
};
struct weft_value *weft_build_attend(struct weft_build *b, const struct weft_attend *what);
/* Whether queries need their norms: for scores that go both ways. */
static inline bool weft_build_both_ways(const struct weft_build *b) { return b->spec->ra_alpha != 0; }
/* What mechanisms add to the key latent and to raw keys. */
void weft_build_latent(struct weft_build *b, struct weft_value *x, struct weft_value **c);
struct weft_value *weft_build_keys(struct weft_build *b, struct weft_value *k, const char *name);

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

/* ---- weights on disk (weights.c): safetensors under the weights' own names */

enum weft_status weft_model_save(const struct weft_model *model, const char *path); /* a file; f32 */
/* The folder with config.json and model.safetensors that a path means: itself, or a run's newest good checkpoint. */
enum weft_status weft_model_folder(const char *path, char *folder, size_t room);
/* The weights of a file or of such a folder, instead of first values or in their place. The names must be the model's,
 * none missing and none more, and the shapes too; whatever does not fit is named. Narrower floats are widened. */
enum weft_status weft_model_load(struct weft_model *model, const char *path);

/* ---- the graph of a model (model.c) */

/* A graph of a model, ready to plan: what to write before a run and what to read after it. */
struct weft_net {
    struct weft_graph *g;
    enum weft_use use;
    int rows, sequences; /* symbols */
    int64_t tiles;       /* key tiles of the longest sequence */
    struct weft_value *tokens, *targets, *weight;
    struct weft_rows at;
    struct weft_value *place;      /* i32 [M]: positions that position schemes see; as at.pos */
    struct weft_value *loss;       /* what is trained: sum over rows of weight * cross-entropy, and the other terms */
    struct weft_value *share;      /* f32 [1]: of the auxiliary terms in the loss (one over the micro-batches) */
    struct weft_value *prediction; /* i32 [M]: the most likely next token, -1 where not scored */
    struct weft_value *nll,
        *lse; /* f32 [M]: cross-entropy of each row, log-sum-exp of its logits; both 0 where not scored */
    struct weft_value *logits; /* f32 [M, V], of the uses that give them */
    struct weft_term terms[WEFT_MAX_TERMS];
    int term_count;
    struct weft_watch *watches; /* of the use that has them, layer by layer */
    int watch_count;
    struct weft_value **weights; /* by param, NULL where unused */
    /* Of cached uses: */
    bool apart; /* a part decodes by other means than it prefills */
    struct weft_slot *slots;
    int slot_count, slot_room;
    int store_rows, ring_rows;       /* symbols: rows of a slot per token, rows of a ring */
    struct weft_value *store, *ring; /* i32 [M]: the row of each token in slots per token, and in rings */
    struct weft_value *ring_tiles;   /* i32 [S, tiles]: as at.tiles, of rings */
    struct weft_value *lanes;        /* i32 [S]: 0, 1, ..: the row of each sequence in slots per sequence */
};

/* How large a graph is: at most `sequences` sequences of at most `length` tokens, of which at most `rows` are new in a
 * run (0: all of them); cached: how many rows slots per token and rings have. */
struct weft_net_size {
    int64_t sequences, length, rows, store_rows, ring_rows;
};
enum weft_status weft_net_init(struct weft_net *net, const struct weft_model *model, enum weft_use use,
                               struct weft_net_size size);
void weft_net_release(struct weft_net *net);
/* Gives weights, and gradients where the graph has them, their memory. */
void weft_net_bind(const struct weft_net *net, struct weft_exec *exec, const struct weft_model *model, float *grads);
/* Writes what training alone has: whose dropout masks these are, and the share of auxiliary losses: all. */
void weft_net_stamp(const struct weft_net *net, struct weft_exec *exec, uint64_t seed, uint64_t step,
                    uint64_t first_sample);
/* Writes counts, positions and tiles of a plain batch: row b*T+t is token t of sequence b. */
void weft_net_plain_rows(const struct weft_net *net, struct weft_exec *exec, int64_t sequences, int64_t length);

#endif
