/* SPDX-License-Identifier: MIT
 *
 * build.h - what parts are built with: weights by name, products, the cache, terms of the loss, attention (build.c,
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
    const struct weft_spec *spec; /* of this layer: the model's, but for a layer of another spec */
    const struct weft_params *params;
    struct weft_net *net; /* the graph's inputs and cache slots */
    enum weft_use use;
    struct weft_rows rows;
    struct weft_value *position; /* i32 [M]: what position schemes see */
    double dropout;              /* 0 in evaluation */
    int layer;
    bool only_attention; /* blocks have no feed-forward */
    enum weft_site site;
    struct weft_value *residual; /* what the output of the attention or feed-forward is added to */
    struct weft_scope {
        char text[64];
        int group; /* of nodes; kept here while a mechanism is at work */
    } scope;
    struct weft_instance *mechanism; /* those of the model's spec, in its order */
    struct weft_attention attention; /* of this layer */
    struct weft_value *lse;          /* its log-sum-exps */
};

/* The hidden activation while mechanisms work on it (hidden.c): a wide base and narrow terms x W^t. */
struct weft_hidden {
    struct weft_value *base;
    struct weft_hidden_term {
        struct weft_value *x, *w, *across; /* across: w transposed, as rows */
        struct weft_hidden_term *next;
    } * terms; /* in the order in which they were added */
};

/* The scope of what follows, "blocks.3.attn". Entering a mechanism's scope returns the one to go back to. */
void weft_build_scope(struct weft_build *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct weft_scope weft_build_enter(struct weft_build *b, const struct weft_instance *m);
void weft_build_leave(struct weft_build *b, struct weft_scope before);
/* The mechanisms that work in this layer, one after the other: the first for NULL; NULL past the last. */
struct weft_instance *weft_build_next(const struct weft_build *b, struct weft_instance *m);
/* The weight `name` of the present scope, and whether there is one. */
bool weft_build_has(const struct weft_build *b, const char *name);
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
/* x divided by how many times as wide as usual the model is: what reads it through weights that do not shrink with the
 * width, as a tied embedding. Without mup x itself. */
struct weft_value *weft_build_narrow(struct weft_build *b, struct weft_value *x);
/* x without gradient where the spec says detach. */
struct weft_value *weft_build_detach(struct weft_build *b, struct weft_value *x);
/* The norm of the model under a scope of its own. */
struct weft_value *weft_build_norm(struct weft_build *b, struct weft_value *x, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The dtype of a norm's result: f32 in post-norm models, whose result is the residual stream itself. */
enum weft_dtype weft_build_norm_dtype(const struct weft_build *b);
struct weft_value *weft_build_rotate(struct weft_build *b, struct weft_value *x, int64_t heads, enum weft_side side);
/* Reads h through the matrix of a mechanism, [M, N]; adds (alpha x) W^t to h; replaces the base; and computes h. */
struct weft_value *weft_hidden_read(struct weft_build *b, struct weft_hidden *h, struct weft_instance *m);
void weft_hidden_add(struct weft_build *b, struct weft_hidden *h, struct weft_value *x, struct weft_value *alpha,
                     const char *name);
void weft_hidden_change(struct weft_build *b, struct weft_hidden *h, struct weft_value *base);
struct weft_value *weft_hidden_whole(struct weft_build *b, struct weft_hidden *h);
/* Adds f32 [1] to a named term of the loss. */
void weft_build_loss(struct weft_build *b, const char *name, struct weft_value *value);
/* The matrix that the model's logits are made with. */
struct weft_value *weft_build_head(struct weft_build *b);
/* Reports a value of the layer as a metric; only in graphs of the use WEFT_WATCH. */
void weft_build_watch(struct weft_build *b, const char *name, struct weft_value *value);

/* The cache: stores x of the new rows and returns x of all rows to be read. Without a cache that is x itself. */
static inline bool weft_build_cached(const struct weft_build *b) { return b->use >= WEFT_PREFILL; }
/* Whether to decode differently than prefill; a part that asks and gets true must do so. If no part asks, the graph of
 * prefill serves decoding too. */
bool weft_build_decodes(struct weft_build *b);
struct weft_value *weft_build_keep(struct weft_build *b, const char *name, enum weft_lifetime lifetime,
                                   struct weft_value *x);
/* The mean of x over the sequence so far (over all of it, future included: `whole`). */
struct weft_value *weft_build_mean(struct weft_build *b, const char *name, struct weft_value *x, bool whole);

/* What attention works on (attend.c): queries, keys, and values [rows of k, kv_heads * width]. Scores that go back from
 * a token to those before it (reciprocal attention) need queries that stay and keys of the new rows: q and k
 * themselves, unless back_q and back_k say otherwise (absorbed latents have no keys in k). */
struct weft_attend {
    struct weft_qk q, k;
    struct weft_value *v;
    int64_t kv_heads;
    struct weft_qk back_q;
    struct weft_value *back_k;
};
struct weft_value *weft_build_attend(struct weft_build *b, const struct weft_attend *what);
/* Whether scores go both ways (reciprocal attention): then queries need their norms, too. */
static inline bool weft_build_both_ways(const struct weft_build *b) { return b->spec->ra_alpha != 0; }
/* Queries or keys as the model's geometry makes them. */
struct weft_qk weft_build_qk(struct weft_build *b, const struct weft_qk_raw *raw, bool norms);
/* Applies the mechanisms to the key latent, to raw keys, and to the heads' outputs. */
void weft_build_latent(struct weft_build *b, struct weft_value *x, struct weft_value **c);
struct weft_value *weft_build_keys(struct weft_build *b, struct weft_value *k, const char *name);
struct weft_value *weft_build_heads(struct weft_build *b, struct weft_value *o);

void weft_block_params(struct weft_params *p, const struct weft_spec *spec, int layer);
struct weft_value *weft_block(struct weft_build *b, struct weft_value *x, int layer);

#endif
