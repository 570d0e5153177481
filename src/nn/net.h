/* SPDX-License-Identifier: MIT
 *
 * net.h - the graph of a model: its inputs, outputs, cache slots and sizes.
 *
 * Invariants: one build function serves every use; training and evaluation differ only in dropout and differentiation.
 * The residual stream is f32; the values between ops have the graph's compute dtype.
 */
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include "nn/model.h"

/* The use of a graph. TRAIN and EVAL compute the loss, WATCH computes the metrics passed to weft_build_watch, and the
 * others compute logits. PREFILL and DECODE read and write a cache; they are the same graph unless a part decodes
 * differently (absorbed latents). */
enum weft_use { WEFT_TRAIN, WEFT_EVAL, WEFT_WATCH, WEFT_FORWARD, WEFT_PREFILL, WEFT_DECODE };

/* How long a cache slot keeps rows: a row per token for the lifetime of the sequence, a row per token for the last
 * ra_window tokens, or one row per sequence, which every token updates. */
enum weft_lifetime { WEFT_PER_TOKEN, WEFT_WINDOW, WEFT_PER_SEQUENCE };

struct weft_slot {
    const char *name; /* such as "blocks.0.attn.k" */
    enum weft_lifetime lifetime;
    int64_t width;
    struct weft_value *state;
};

/* Groups of nodes whose FLOPs are counted separately: nodes outside the halves of blocks (embedding, norms, loss or
 * logits), each of the two halves, and the mechanisms, which share matmuls. */
enum weft_group { WEFT_GROUP_OTHER, WEFT_GROUP_ATTN, WEFT_GROUP_FFN, WEFT_GROUP_RECIP, WEFT_GROUPS };

enum { WEFT_MAX_TERMS = 8 };
struct weft_term {
    const char *name;
    struct weft_value *value; /* f32 [1] */
};

/* A metric of a layer: the mean over all elements of a value. */
enum { WEFT_MAX_WATCHES = 16 }; /* maximum number of names */
struct weft_watch {
    const char *name; /* the same in all layers */
    int layer;
    struct weft_value *value; /* f32 */
};

/* A graph of a model, ready to plan, with its inputs and outputs. */
struct weft_net {
    struct weft_graph *g;
    enum weft_use use;
    int rows, sequences; /* symbols */
    int64_t tiles;       /* key tiles of a sequence of maximum length */
    struct weft_value *tokens, *targets, *weight;
    struct weft_rows at;
    struct weft_value *position;   /* i32 [M]: positions for the model's position scheme; otherwise like at.pos */
    struct weft_value *loss;       /* the objective: sum over rows of weight * cross-entropy, plus the other terms */
    struct weft_value *share;      /* f32 [1]: coefficient of the auxiliary loss terms: 1 / number of micro-batches */
    struct weft_value *prediction; /* i32 [M]: most likely next token of each row; -1 if the row is not scored */
    struct weft_value *nll;        /* f32 [M]: cross-entropy of each row; 0 if the row is not scored */
    struct weft_value *lse;        /* f32 [M]: log-sum-exp of each row's logits; 0 if the row is not scored */
    struct weft_value *logits;     /* f32 [M, V], in FORWARD, PREFILL and DECODE; [L, V] if `scored` selects rows */
    struct weft_value *scored;     /* i32 [L]: rows whose logits are computed; NULL: all */
    int scored_rows;               /* symbol: L */
    /* f32 [M, C]: in a graph of selected blocks, the residual stream before and after them and, in training, the
     * gradient with respect to the latter */
    struct weft_value *x, *y, *dy;
    struct weft_term terms[WEFT_MAX_TERMS];
    int term_count;
    struct weft_watch *watches; /* in order of layers; only in WATCH */
    int watch_count;
    struct weft_value **weights; /* by index of the param; NULL: unused */
    /* The rest is for cached uses: */
    bool decodes_apart; /* a part decodes differently from prefill */
    struct weft_slot *slots;
    int slot_count, slot_room;
    int store_rows, ring_rows;       /* symbols: rows of a per-token slot, and of a ring */
    struct weft_value *store, *ring; /* i32 [M]: each token's row in per-token slots, and in rings */
    struct weft_value *ring_tiles;   /* i32 [S, tiles]: like at.tiles, for rings */
    struct weft_value *lanes;        /* i32 [S]: each sequence's row in per-sequence slots: 0, 1, ... */
};

/* The size of a graph: the maximum number of sequences, of tokens in a sequence (`length`), and of new rows per run
 * (`rows`; 0: sequences * length). For cached uses, `store_rows` and `ring_rows` are the numbers of rows of per-token
 * slots and of rings. `logits` is the maximum number of rows whose logits are computed (0: all rows). For FORWARD and
 * TRAIN, `blocks` is the number of blocks to build, starting at `first` (0: the whole model), and only_attention builds
 * only their attention. */
struct weft_net_size {
    int64_t sequences, length, rows, store_rows, ring_rows, logits, blocks, first;
    bool only_attention;
};
enum weft_status weft_net_init(struct weft_net *net, const struct weft_nn *model, enum weft_use use,
                               struct weft_net_size size);
/* Like weft_net_init, but TRAIN is not differentiated: for the form of the graph (graph/form.h). */
enum weft_status weft_net_draw(struct weft_net *net, const struct weft_nn *model, enum weft_use use,
                               struct weft_net_size size);
void weft_net_release(struct weft_net *net);
/* Binds weights and, if the graph has them, gradients to their memory. */
void weft_net_bind(const struct weft_net *net, struct weft_exec *exec, const struct weft_nn *model, float *grads);
/* Writes the inputs that exist only in training: the key of the dropout masks, and 1 as the coefficient of the
 * auxiliary losses. */
void weft_net_step_key(const struct weft_net *net, struct weft_exec *exec, uint64_t seed, uint64_t step,
                       uint64_t first_sample);
/* Writes the counts, positions and tiles of a plain batch: row b*T+t is token t of sequence b. */
void weft_net_plain_rows(const struct weft_net *net, struct weft_exec *exec, int64_t sequences, int64_t length);

#endif
