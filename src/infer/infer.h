/* SPDX-License-Identifier: MIT
 *
 * infer.h - cached inference: what a model remembers of its sequences (cache), and feeding them (session).
 *
 * Invariants:
 *  - A sequence is one of a fixed number of lanes, and grows until it is reset. What its rows are in the cache is said
 *    by tables: nothing is moved when a sequence grows or ends, and results do not depend on where its pages lie.
 *  - However the tokens of a sequence are cut into runs, and whatever is fed beside them, their logits have the same
 *    bits, which are those of WEFT_FORWARD. Only absorbed decoding rounds otherwise.
 *  - All memory is there after create. A run that is refused has changed nothing.
 */
#ifndef WEFT_INFER_H
#define WEFT_INFER_H

#include "nn/model.h"

/* ---- cache (cache.c): memory for the slots of a net, in pages of WEFT_KEY_TILE rows */

struct weft_cache_size {
    int64_t sequences, length; /* lanes, and the tokens of the longest sequence */
    int64_t chunk;             /* at most so many new tokens in a run */
    int64_t window;            /* how many tokens back rings are read; 0: there are none */
    uint64_t scatter;          /* not 0: pages are handed out in an order shuffled by this */
};

struct weft_cache {
    struct weft_cache_size size;
    const struct weft_net *net; /* whose slots it was made for */
    struct weft_arena arena;    /* of the tables */
    size_t *offsets;            /* by slot, in memory */
    char *memory;
    size_t bytes;
    int64_t tiles, ring_tiles; /* pages of the longest sequence, and of a ring */
    int64_t *lengths;          /* by sequence: tokens */
    int32_t *store;            /* [sequences, tiles]: the first row of each page in use */
    int32_t *ring;             /* [sequences, ring_tiles]: the same of rings, used in turn */
    int32_t *free;             /* first rows of the pages that nobody has; the last is handed out next */
    int64_t free_count;
    int64_t high; /* all rows in use are below this */
};

/* What a token takes, in all layers; and what there is in all of slots per token, rings, and slots per sequence. */
struct weft_cache_bytes {
    size_t token, store, rings, states;
};

/* How large a net must be that works on such a cache, with at most so many new rows. */
struct weft_net_size weft_cache_net_size(const struct weft_cache_size *size, int64_t rows);
/* The net must outlive the cache. */
enum weft_status weft_cache_init(struct weft_cache *c, const struct weft_net *net, const struct weft_cache_size *size);
void weft_cache_release(struct weft_cache *c);
/* Gives the slots of a net their memory, and tells it where rings lie. Refuses a net with other slots. */
enum weft_status weft_cache_bind(const struct weft_cache *c, const struct weft_net *net, struct weft_exec *exec);
/* Room for n more tokens of a sequence, at most up to the length. */
void weft_cache_extend(struct weft_cache *c, int64_t sequence, int64_t n);
void weft_cache_clear(struct weft_cache *c, int64_t sequence);
/* Rows of a token in slots per token and in rings. */
int32_t weft_cache_store_row(const struct weft_cache *c, int64_t sequence, int64_t position);
int32_t weft_cache_ring_row(const struct weft_cache *c, int64_t sequence, int64_t position);
struct weft_cache_bytes weft_cache_count(const struct weft_cache *c);

/* ---- session (session.c) */

struct weft_session_size {
    int64_t sequences, length; /* lanes, and the tokens of the longest sequence */
    int64_t chunk;             /* at most so many new tokens in a run, of all sequences together */
    bool expand;               /* never decode by other means than prefill: the same bits always */
    uint64_t scatter;          /* of the cache's pages */
};

/* n tokens that continue a sequence. */
struct weft_feed {
    int64_t sequence;
    const int32_t *tokens;
    int64_t n;
};

struct weft_session;

/* With the model's weights as they are now; the model must outlive the session. To be freed even when this fails. */
enum weft_status weft_session_create(struct weft_session **session, const struct weft_model *model,
                                     struct weft_session_size size);
void weft_session_free(struct weft_session *s);
/* Appends every feed to its sequence, of which a run may have one each. The logits, f32 [new tokens, V] in the order of
 * the feeds, stay until the next run. */
enum weft_status weft_session_run(struct weft_session *s, const struct weft_feed *feeds, int count,
                                  const float **logits);
/* Forgets a sequence; its lane and pages are free again. */
enum weft_status weft_session_reset(struct weft_session *s, int64_t sequence);
int64_t weft_session_length(const struct weft_session *s, int64_t sequence);
struct weft_cache_bytes weft_session_cache_bytes(const struct weft_session *s); /* `token`: of one layer */
size_t weft_session_bytes(const struct weft_session *s); /* of everything: cache, graphs, packed weights */

#endif
