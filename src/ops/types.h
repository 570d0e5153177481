/* SPDX-License-Identifier: MIT
 *
 * types.h - arguments that several ops share: rows, attention, route, rope. They are separate from ops.h, which depends
 * on ops.def, so that code that only passes them on is not recompiled when an op is added.
 *
 * Shape letters: M rows, C columns, H query heads, K key/value heads, D head width, N rows of the key store, S
 * sequences.
 */
#ifndef WEFT_OPS_TYPES_H
#define WEFT_OPS_TYPES_H

#include "graph/graph.h"

/* The sequence and position of every row of a call. Training, prefill, chunks and decoding differ only in these values.
 * In a plain batch of B sequences of T tokens, row b*T+t is position t of sequence b, and tiles[b][j] = b*T +
 * j*WEFT_KEY_TILE. */
struct weft_rows {
    struct weft_value *seq;      /* i32 [M]: sequence slot */
    struct weft_value *pos;      /* i32 [M]: absolute position in the sequence, ascending within each sequence */
    struct weft_value *tiles;    /* i32 [S, max tiles]: row of the key store where key tile j of the sequence starts */
    struct weft_value *sample;   /* i32 [S]: global sample index, for dropout masks */
    struct weft_value *step_key; /* i32 [4]: seed low, seed high, step low, step high, for dropout masks */
};

/* Keys are visited in tiles of this size, which start at absolute multiples of it; this is also the page size of a
 * key/value cache. */
#define WEFT_KEY_TILE 64

/* Inputs of attention; optional ones may be NULL. Query head h reads key/value head h / (H / K).
 *   logit[h,i,j] = scale[h] <q[i,h], k[j,kv(h)]> + key_bias[j,h] + pos_bias[h, min(pos_i - pos_j, offsets-1)] */
struct weft_attention {
    struct weft_value *q;        /* [M, H * Dk] */
    struct weft_value *k;        /* [N, K * Dk]: rows of the key store; in training, the call's own rows */
    struct weft_value *v;        /* [N, K * Dv] */
    struct weft_value *scale;    /* f32 [H], optional; default 1/sqrt(Dk) */
    struct weft_value *key_bias; /* f32 [N, H], optional */
    struct weft_value *pos_bias; /* f32 [H, offsets], optional */
    struct weft_rows rows;
    int64_t heads, kv_heads;
    double dropout; /* dropout rate of probabilities; if 0, rows.sample and rows.step_key are not needed */
    /* Reciprocal attention, if q_store is given: for 0 < i-j <= ra_window, the logit has an additional term
     *   ra_alpha (scale[h] <q_store[j,h], own key of i> + q_bias[j,h] + key_bias[i,h])
     * q_tiles and k_own are for decoding and have no derivative. */
    struct weft_value
        *q_store; /* [N, H * Dk]: the queries that belong to the rows of the key store; q itself in training */
    struct weft_value *q_bias; /* f32 [N, H], optional */
    struct weft_value
        *q_tiles; /* i32 [S, max tiles], optional: row of q_store where tile j of the sequence starts, for the tiles
                     that overlap a row's window or contain the row; default rows.tiles. With q_tiles, q_store and
                     q_bias can have any number of rows, such as a ring buffer of pages */
    struct weft_value *k_own; /* [M, H * Dq] or [M, K * Dq], optional: keys of the call's own rows, if k holds
                               * something else (latents); q_store is then H * Dq wide and scale is required.
                               * Default: the call's rows of k */
    double ra_alpha;
    int64_t ra_window;
    int layer, site;
};

/* Returns whether a node is attention whose scores are a dot product and a bias by key: no bias by distance, no
 * reciprocal term. */
bool weft_attention_is_plain(const struct weft_node *node);

/* The positions that a row gathers from: those of the k largest routes, those of all routes of at least rms_factor
 * times the routes' root mean square, or all positions. */
enum weft_route_mode { WEFT_ROUTE_TOPK, WEFT_ROUTE_RMS, WEFT_ROUTE_NONE };

/* Inputs of route: rows of u are gathered with weights from an attention node (see route.c). */
struct weft_route {
    const struct weft_attention *attention; /* inputs of the logits; v and dropout are not used */
    struct weft_value *lse;                 /* f32 [M, H]: output 1 of the attention node */
    struct weft_value *u;                   /* [N, r]: rows of the key store */
    enum weft_route_mode mode;
    int64_t topk;      /* for WEFT_ROUTE_TOPK */
    double rms_factor; /* for WEFT_ROUTE_RMS */
    bool head_max;     /* use the maximum over heads instead of the mean */
    bool renormalise;  /* scale the weights of a row to sum to 1 */
};

enum { WEFT_MAX_SPLIT = 8 }; /* maximum number of outputs of split */

/* The positive of a context in info_nce: itself, or the other half of its sequence. */
enum weft_positives { WEFT_POSITIVES_SELF, WEFT_POSITIVES_HALVES };

/* The attributes of layernorm and rmsnorm: what is added to the variance or mean square, and the type of the result. */
struct weft_norm_attr {
    double eps;
    enum weft_dtype out;
};

/* How fast rope's pairs rotate: pair i of n rotates by base^(-i/n) per token, or more slowly (rope.c). */
enum weft_rope_scaling { WEFT_ROPE_PLAIN, WEFT_ROPE_LINEAR, WEFT_ROPE_LLAMA3 };
struct weft_rope_turns {
    double base;
    enum weft_rope_scaling scaling;
    double factor, low, high; /* low, high and original are used by WEFT_ROPE_LLAMA3 only */
    int64_t original;
};

/* weft_rope_frequency returns the angle per token of pair i in a head with `width` rotating columns; weft_rope_slowed
 * returns the scaled angle for an unscaled one. */
double weft_rope_frequency(const struct weft_rope_turns *turns, int64_t i, int64_t width);
double weft_rope_slowed(const struct weft_rope_turns *turns, double frequency);

/* Returns the key of the dropout mask of one sample at one site: a hash of seed, step, sample, layer and site. The
 * element's index is the generator's counter, so the mask is independent of the number of threads, ranks and
 * micro-batches. */
uint64_t weft_dropout_key(const int32_t step_key[4], int32_t sample, int layer, int site);

/* Returns ALiBi's slope of head h. */
double weft_alibi_slope(int64_t h, int64_t heads);

/* Returns output o of the node that computes v. */
struct weft_value *weft_sibling(const struct weft_value *v, int o);

#endif
