/* SPDX-License-Identifier: MIT
 *
 * ops.h - the ops: builders, the registry, and the few attributes that more than one file needs.
 *
 * Shape letters are those of the documentation: M rows, C width, H query heads, K key/value heads, D head width.
 */
#ifndef WEFT_OPS_H
#define WEFT_OPS_H

#include "dnn/dnn.h"
#include "graph/graph.h"

/* What every row of a call belongs to. Training, prefill, chunks and decoding differ in these numbers only.
 * A plain batch of B sequences of T tokens is the identity case: row b*T+t is position t of sequence b, and
 * tiles[b][j] = b*T + j*WEFT_KEY_TILE. */
struct weft_rows {
    struct weft_value *seq;      /* i32 [M]: which sequence slot */
    struct weft_value *pos;      /* i32 [M]: absolute position in it. Rows of a sequence are in ascending position. */
    struct weft_value *tiles;    /* i32 [S, max tiles]: row of the key store where key tile j of the sequence begins */
    struct weft_value *sample;   /* i32 [S]: global sample index, for dropout masks */
    struct weft_value *step_key; /* i32 [4]: seed low, seed high, step low, step high, for dropout masks */
};

/* Keys are visited in tiles that begin at absolute multiples of this; it is also the page of a key/value cache. */
#define WEFT_KEY_TILE 64

/* Inputs of attention; the optional ones may be NULL. Heads h of H query heads read key/value head h / (H / K).
 *   logit[h,i,j] = scale[h] <q[i,h], k[j,kv(h)]> + key_bias[j,h] + pos_bias[h, min(pos_i - pos_j, offsets-1)] */
struct weft_attention {
    struct weft_value *q;        /* [M, H * Dk] */
    struct weft_value *k;        /* [N, K * Dk]: rows of the key store; the call's own rows in training */
    struct weft_value *v;        /* [N, K * Dv] */
    struct weft_value *scale;    /* f32 [H], optional: 1/sqrt(Dk) without it */
    struct weft_value *key_bias; /* f32 [N, H], optional */
    struct weft_value *pos_bias; /* f32 [H, offsets], optional */
    struct weft_rows rows;
    int64_t heads, kv_heads;
    double dropout; /* of probabilities; 0: none, and rows.sample and rows.step_key are not needed */
    /* Reciprocal attention, when q_store is given: for 0 < i-j <= ra_window the logit gains
     *   ra_alpha (scale[h] <q_store[j,h], own key of i> + q_bias[j,h] + key_bias[i,h])
     * The last two are for decoding and have no derivative. */
    struct weft_value *q_store; /* [N, H * Dk]: queries of the key store's rows; q itself in training */
    struct weft_value *q_bias;  /* f32 [N, H], optional */
    struct weft_value *q_tiles; /* i32 [S, max tiles], optional: row of q_store where tile j of the sequence begins, for
                                 * tiles that a row's window or the row itself stands in; rows.tiles without it. q_store
                                 * and q_bias may then have any number of rows: a ring of pages */
    struct weft_value *k_own;   /* [M, H * Dq] or [M, K * Dq], optional: the keys of the call's own rows, where k holds
                                 * something else (latents); q_store is then H * Dq wide and scale must be given. k's
                                 * own rows without it */
    double ra_alpha;
    int64_t ra_window;
    int layer, site;
};

/* Which positions a row gathers from: the k largest routes, those not far below their root mean square, or all. */
enum weft_route_mode { WEFT_ROUTE_TOPK, WEFT_ROUTE_RMS, WEFT_ROUTE_NONE };

/* Rows of u gathered by where an attention node looks (see route.c). */
struct weft_route {
    const struct weft_attention *attention; /* what its logits are made of; v and dropout are not read */
    struct weft_value *lse;                 /* f32 [M, H]: output 1 of that node */
    struct weft_value *u;                   /* [N, r]: rows of the key store */
    enum weft_route_mode mode;
    int64_t topk;      /* of WEFT_ROUTE_TOPK */
    double rms_factor; /* of WEFT_ROUTE_RMS */
    bool head_max;     /* the maximum over heads instead of the mean */
    bool renormalise;  /* weights of a row sum to 1 */
};

enum { WEFT_MAX_SPLIT = 8 }; /* parts that split cuts */

/* What a context is drawn towards in info_nce: nothing but itself, or the other half of its sequence. */
enum weft_positives { WEFT_POSITIVES_SELF, WEFT_POSITIVES_HALVES };

/* Key of the dropout mask of one sample at one site: fold of seed, step, sample, layer and site; the element counts
 * inside. The same for any number of threads, ranks and micro-batches. */
uint64_t weft_dropout_key(const int32_t step_key[4], int32_t sample, int layer, int site);

/* Output o of the node that made v. */
struct weft_value *weft_sibling(const struct weft_value *v, int o);

/* Descriptor externs, builder prototypes and ids, all from ops.def. */
enum weft_op_id {
#define OP(name, parameters) WEFT_OP_##name,
#include "ops/ops.def"
#undef OP
    WEFT_OP_COUNT
};
#define OP(name, parameters) struct weft_value *weft_##name parameters;
#include "ops/ops.def"
#undef OP

/* The descriptor that runs on this machine (the highest compiled level the processor has). */
const struct weft_op *weft_op(enum weft_op_id id);
/* Puts another descriptor in its place, NULL puts the right one back. For tests that break an op on purpose. */
void weft_op_replace(enum weft_op_id id, const struct weft_op *op);
/* For a case's build(): an input [rows, width], the rows counted by the symbol "rows"; floats are differentiated. Width
 * 0 means [rows]. */
struct weft_value *weft_case_input(struct weft_graph *g, const char *name, enum weft_dtype dtype, int64_t rows,
                                   int64_t width);
/* A graph that may be differentiated: weft_graph_create with this room's arithmetic. */
struct weft_graph *weft_graph_new(enum weft_dtype compute);

#endif
