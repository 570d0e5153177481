/* SPDX-License-Identifier: MIT
 *
 * net.h - the graph of a model: its inputs, outputs, cache slots and sizes.
 *
 * Invariants: one build serves every use; training and evaluation differ in dropout and in being differentiated. The
 * residual stream is f32; what ops compute in between has the graph's compute dtype.
 */
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include "nn/model.h"

/* What a graph is for. TRAIN and EVAL compute the loss, WATCH what weft_build_watch was given, the others logits.
 * PREFILL and DECODE read and write a cache; they are the same graph unless a part decodes differently (absorbed
 * latents). */
enum weft_use { WEFT_TRAIN, WEFT_EVAL, WEFT_WATCH, WEFT_FORWARD, WEFT_PREFILL, WEFT_DECODE };

/* How long a cache slot keeps a row: as long as the sequence lives, for the last ra_window tokens, or there is one row
 * for the whole sequence, which every token updates. */
enum weft_lifetime { WEFT_PER_TOKEN, WEFT_WINDOW, WEFT_PER_SEQUENCE };

struct weft_slot {
    const char *name; /* "blocks.0.attn.k" */
    enum weft_lifetime lifetime;
    int64_t width;
    struct weft_value *state;
};

/* The groups of nodes whose FLOPs are counted separately: what is in no half of a block (embedding, norms, loss or
 * logits), the halves, and the mechanisms, which share products. */
enum weft_group { WEFT_GROUP_OTHER, WEFT_GROUP_ATTN, WEFT_GROUP_FFN, WEFT_GROUP_RECIP, WEFT_GROUPS };

enum { WEFT_MAX_TERMS = 8 };
struct weft_term {
    const char *name;
    struct weft_value *value; /* f32 [1] */
};

/* A metric of a layer: the mean of all elements of a value. */
enum { WEFT_MAX_WATCHES = 16 }; /* names */
struct weft_watch {
    const char *name; /* the same in all layers */
    int layer;
    struct weft_value *value; /* f32 */
};

/* A graph of a model, ready to plan: what to write before a run and what to read after it. */
struct weft_net {
    struct weft_graph *g;
    enum weft_use use;
    int rows, sequences; /* symbols */
    int64_t tiles;       /* key tiles of the longest sequence */
    struct weft_value *tokens, *targets, *weight;
    struct weft_rows at;
    struct weft_value *position;   /* i32 [M]: positions that position schemes see; as at.pos */
    struct weft_value *loss;       /* what is minimised: sum over rows of weight * cross-entropy, and the other terms */
    struct weft_value *share;      /* f32 [1]: of the auxiliary terms in the loss (one over the micro-batches) */
    struct weft_value *prediction; /* i32 [M]: the most likely next token, -1 where not scored */
    struct weft_value *nll;        /* f32 [M]: cross-entropy of each row, 0 where not scored */
    struct weft_value *lse;        /* f32 [M]: log-sum-exp of its logits, 0 where not scored */
    struct weft_value *logits;     /* f32 [M, V], from FORWARD on; of the scored rows alone: [L, V] */
    struct weft_value *scored;     /* i32 [L]: the rows whose logits are wanted; NULL: all */
    int scored_rows;               /* symbol: L */
    /* f32 [M, C]: of a graph of some blocks alone, the residual stream before and after, and in training the gradient
     * of the latter */
    struct weft_value *x, *y, *dy;
    struct weft_term terms[WEFT_MAX_TERMS];
    int term_count;
    struct weft_watch *watches; /* of WATCH, layer by layer */
    int watch_count;
    struct weft_value **weights; /* by param, NULL where unused */
    /* Of cached uses: */
    bool decodes_apart; /* a part decodes differently than it prefills */
    struct weft_slot *slots;
    int slot_count, slot_room;
    int store_rows, ring_rows;       /* symbols: rows of a slot per token, rows of a ring */
    struct weft_value *store, *ring; /* i32 [M]: the row of each token in slots per token, and in rings */
    struct weft_value *ring_tiles;   /* i32 [S, tiles]: as at.tiles, of rings */
    struct weft_value *lanes;        /* i32 [S]: 0, 1, ..: the row of each sequence in slots per sequence */
};

/* How large a graph is: at most `sequences` sequences of at most `length` tokens, of which at most `rows` are new in a
 * run (0: all of them); cached: how many rows slots per token and rings have; of how many rows logits are wanted at
 * most (0: all rows); and of the uses FORWARD and TRAIN: so many blocks alone, from `first` on (0: the whole model), or
 * only their attention. */
struct weft_net_size {
    int64_t sequences, length, rows, store_rows, ring_rows, logits, blocks, first;
    bool only_attention;
};
enum weft_status weft_net_init(struct weft_net *net, const struct weft_nn *model, enum weft_use use,
                               struct weft_net_size size);
void weft_net_release(struct weft_net *net);
/* Binds weights, and gradients where the graph has them, to their memory. */
void weft_net_bind(const struct weft_net *net, struct weft_exec *exec, const struct weft_nn *model, float *grads);
/* Writes the inputs that only training has: the key of its dropout masks, and 1 as the share of auxiliary losses. */
void weft_net_step_key(const struct weft_net *net, struct weft_exec *exec, uint64_t seed, uint64_t step,
                       uint64_t first_sample);
/* Writes counts, positions and tiles of a plain batch: row b*T+t is token t of sequence b. */
void weft_net_plain_rows(const struct weft_net *net, struct weft_exec *exec, int64_t sequences, int64_t length);

#endif
