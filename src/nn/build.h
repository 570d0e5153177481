/* SPDX-License-Identifier: MIT
 *
 * build.h - the functions that build parts: weights by name, matmuls, the cache, loss terms, attention (build.c,
 * attend.c, hidden.c, block.c).
 */
#ifndef WEFT_BUILD_H
#define WEFT_BUILD_H

#include "nn/net.h"
#include "nn/part.h"

/* Where in a layer a dropout mask applies. */
enum weft_site { WEFT_SITE_EMBED, WEFT_SITE_SCORES, WEFT_SITE_ATTN, WEFT_SITE_FFN };

struct weft_build {
    struct weft_graph *g;
    const struct weft_nn *model;
    const struct weft_spec *spec; /* this layer's spec: the model's spec, unless the layer has its own */
    const struct weft_params *params;
    struct weft_net *net; /* the graph's inputs and cache slots */
    enum weft_use use;
    struct weft_rows rows;
    struct weft_value *position; /* i32 [M]: positions for the model's position scheme */
    double dropout;              /* dropout probability; 0 in evaluation */
    int layer;
    bool only_attention; /* build blocks without a feed-forward */
    enum weft_site site;
    struct weft_value *residual; /* the output of the attention or feed-forward is added to this */
    struct weft_scope {
        char text[64];
        int group; /* group of nodes to restore after a mechanism has acted */
    } scope;
    struct weft_instance *mechanism; /* the mechanisms of the model's spec, in the same order */
    struct weft_attention attention; /* attention of this layer */
    struct weft_value *lse;          /* log-sum-exps of the scores of this attention */
};

/* The hidden activation while mechanisms act on it (hidden.c): a wide base and narrow terms x W^t. */
struct weft_hidden {
    struct weft_value *base;
    struct weft_hidden_term {
        struct weft_value *x, *w, *across; /* across is w transposed */
        struct weft_hidden_term *next;
    } * terms; /* in the order in which they were added */
};

/* Sets the scope in which weights are looked up from now on, such as "blocks.3.attn". weft_build_enter sets the
 * mechanism's scope and returns the previous one, which weft_build_leave restores. */
void weft_build_scope(struct weft_build *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct weft_scope weft_build_enter(struct weft_build *b, const struct weft_instance *m);
void weft_build_leave(struct weft_build *b, struct weft_scope before);
/* Iterates over the mechanisms of this layer: returns the first for NULL, and NULL past the last. */
struct weft_instance *weft_build_next(const struct weft_build *b, struct weft_instance *m);
/* weft_build_has returns whether the current scope has the weight `name`; weft_build_weight returns that weight. */
bool weft_build_has(const struct weft_build *b, const char *name);
struct weft_value *weft_build_weight(struct weft_build *b, const char *name);
/* Return x W^t in the compute dtype; weft_build_linear adds the bias if the model has biases. */
struct weft_value *weft_build_product(struct weft_build *b, struct weft_value *x, const char *name);
struct weft_value *weft_build_linear(struct weft_build *b, struct weft_value *x, const char *name);
/* Returns softplus(raw) + WEFT_SPREAD_LEAST, a positive spread. */
#define WEFT_SPREAD_LEAST 1e-4
struct weft_value *weft_build_spread(struct weft_build *b, struct weft_value *raw);
/* Returns residual + dropout(x W^t (+ bias)), f32: the last step of a part. */
struct weft_value *weft_build_project(struct weft_build *b, struct weft_value *x, const char *name);
/* Returns a mixing weight f32 [1]: the learned "alpha" of the scope, or the constant. */
struct weft_value *weft_build_alpha(struct weft_build *b, double alpha);
/* Returns x divided by the ratio of the model's width to mup_width, as input to weights whose values do not shrink with
 * the width, such as a tied embedding. Without mup, returns x itself. */
struct weft_value *weft_build_narrow(struct weft_build *b, struct weft_value *x);
/* Returns x, detached from the gradient if the spec sets `detach`. */
struct weft_value *weft_build_detach(struct weft_build *b, struct weft_value *x);
/* Builds the model's norm in the given scope. */
struct weft_value *weft_build_norm(struct weft_build *b, struct weft_value *x, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Returns the dtype of a norm's result: f32 in post-norm models, where the result is the residual stream itself; else
 * the compute dtype. */
enum weft_dtype weft_build_norm_dtype(const struct weft_build *b);
struct weft_value *weft_build_rotate(struct weft_build *b, struct weft_value *x, int64_t heads, enum weft_side side);
/* weft_hidden_read returns h times the mechanism's matrix, [M, N]; weft_hidden_add adds (alpha x) W^t to h;
 * weft_hidden_change replaces the base; weft_hidden_whole returns the value of h. */
struct weft_value *weft_hidden_read(struct weft_build *b, struct weft_hidden *h, struct weft_instance *m);
void weft_hidden_add(struct weft_build *b, struct weft_hidden *h, struct weft_value *x, struct weft_value *alpha,
                     const char *name);
void weft_hidden_change(struct weft_build *b, struct weft_hidden *h, struct weft_value *base);
struct weft_value *weft_hidden_whole(struct weft_build *b, struct weft_hidden *h);
/* Adds `value`, f32 [1], to a named term of the loss. */
void weft_build_loss(struct weft_build *b, const char *name, struct weft_value *value);
/* Returns the matrix that produces the model's logits. */
struct weft_value *weft_build_head(struct weft_build *b);
/* Reports a value of the layer as a metric. For graphs of the use WEFT_WATCH only. */
void weft_build_watch(struct weft_build *b, const char *name, struct weft_value *value);

/* The cache. weft_build_keep stores x for the new rows and returns x for all rows that attention reads; without a
 * cache, it returns x itself. */
static inline bool weft_build_cached(const struct weft_build *b) { return b->use >= WEFT_PREFILL; }
/* Returns whether a part must decode differently from prefill. If no part calls this function, the graph for prefill
 * also serves decoding. */
bool weft_build_decodes(struct weft_build *b);
struct weft_value *weft_build_keep(struct weft_build *b, const char *name, enum weft_lifetime lifetime,
                                   struct weft_value *x);
/* Returns the mean of x over the sequence so far or, with `whole`, over the entire sequence, including the future. */
struct weft_value *weft_build_mean(struct weft_build *b, const char *name, struct weft_value *x, bool whole);

/* The inputs of attention (attend.c): queries, keys, and values [rows of k, kv_heads * width]. The reciprocal term also
 * needs stored queries and the keys of the new rows. These are q and k themselves, unless back_q and back_k are set
 * (with absorbed latents, k does not hold keys). */
struct weft_attend {
    struct weft_qk q, k;
    struct weft_value *v;
    int64_t kv_heads;
    struct weft_qk back_q;
    struct weft_value *back_k;
};
struct weft_value *weft_build_attend(struct weft_build *b, const struct weft_attend *what);
/* Returns whether the model uses reciprocal attention. If so, queries also need their norms. */
static inline bool weft_build_both_ways(const struct weft_build *b) { return b->spec->ra_alpha != 0; }
/* Returns queries or keys as computed by the model's geometry. */
struct weft_qk weft_build_qk(struct weft_build *b, const struct weft_qk_raw *raw, bool norms);
/* Apply the mechanisms to the key latent, to raw keys, and to the heads' outputs. */
void weft_build_latent(struct weft_build *b, struct weft_value *x, struct weft_value **c);
struct weft_value *weft_build_keys(struct weft_build *b, struct weft_value *k, const char *name);
struct weft_value *weft_build_heads(struct weft_build *b, struct weft_value *o);

void weft_block_params(struct weft_params *p, const struct weft_spec *spec, int layer);
struct weft_value *weft_block(struct weft_build *b, struct weft_value *x, int layer);

#endif
