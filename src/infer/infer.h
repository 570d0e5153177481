/* SPDX-License-Identifier: MIT
 *
 * infer.h - inference with a cache: the paged cache, and decoders that feed tokens to sequences.
 *
 * Invariants:
 *  - There is a fixed number of sequences. Each grows until it is reset. Page tables map its tokens to cache rows:
 *    nothing is moved when a sequence grows or ends, and results do not depend on which pages it uses. A forked
 *    sequence shares its full pages, which are not written to again.
 *  - The logits of a sequence have the same bits as with WEFT_FORWARD, regardless of how its tokens are divided into
 *    runs and of the other sequences in the batch. The only exception is absorbed decoding, which rounds differently.
 *  - All memory is allocated by create. A run that fails changes nothing.
 */
#ifndef WEFT_INFER_H
#define WEFT_INFER_H

#include "nn/net.h"

/* ---- cache (cache.c): memory for the slots of a net, in pages of WEFT_KEY_TILE rows */

struct weft_cache_size {
    int64_t sequences, length; /* number of sequences, and their maximum length in tokens */
    int64_t chunk;             /* maximum number of new tokens in a run */
    int64_t window;            /* number of past tokens read from rings; 0: no rings */
    uint64_t scatter;          /* key of a shuffled page order; 0: pages are in order */
    int64_t pages;             /* total number of pages; 0: enough for all sequences at their maximum length */
};

struct weft_cache {
    struct weft_cache_size size;
    const struct weft_net *net; /* defines the slots */
    struct weft_arena arena;    /* holds the tables */
    size_t *offsets;            /* offsets of the slots in `memory` */
    char *memory;
    size_t bytes;
    int64_t tiles, ring_tiles; /* pages per sequence at maximum length; pages per ring */
    int32_t *users;            /* per page: number of sequences that use it */
    int64_t *lengths;          /* tokens per sequence */
    int32_t *store;            /* page table [sequences, tiles]: the first row of each page in use */
    int32_t *ring;             /* page table of the rings [sequences, ring_tiles] */
    int32_t *free;             /* stack of the first rows of unused pages */
    int64_t free_count;
    int64_t high; /* all rows in use are below this */
};

/* Size of a token in all layers, and total sizes of the per-token slots, rings, and per-sequence slots. */
struct weft_cache_bytes {
    size_t token, store, rings, states;
};

/* Returns the size of a net that works on such a cache with at most `rows` new rows per run. */
struct weft_net_size weft_cache_net_size(const struct weft_cache_size *size, int64_t rows);
/* The net must outlive the cache. */
enum weft_status weft_cache_init(struct weft_cache *c, const struct weft_net *net, const struct weft_cache_size *size);
void weft_cache_release(struct weft_cache *c);
/* Binds the slots of a net to the cache's memory and writes its ring table. The net must have the same slots. */
enum weft_status weft_cache_bind(const struct weft_cache *c, const struct weft_net *net, struct weft_exec *exec);
/* Returns the number of pages that n more tokens of a sequence need. */
int64_t weft_cache_needs(const struct weft_cache *c, int64_t sequence, int64_t n);
/* Adds pages for n more tokens of a sequence. There must be enough free pages, and the maximum length must not be
 * exceeded. */
void weft_cache_extend(struct weft_cache *c, int64_t sequence, int64_t n);
void weft_cache_clear(struct weft_cache *c, int64_t sequence);
/* Removes the last n tokens of a sequence. Rings and states are not changed. */
void weft_cache_shorten(struct weft_cache *c, int64_t sequence, int64_t n);
/* Makes the empty sequence `to` a copy of `from`. Needs a free page if the last page of `from` is not full. */
void weft_cache_fork(struct weft_cache *c, int64_t from, int64_t to);
/* Return the row of a token in per-token slots and in rings. */
int32_t weft_cache_store_row(const struct weft_cache *c, int64_t sequence, int64_t position);
int32_t weft_cache_ring_row(const struct weft_cache *c, int64_t sequence, int64_t position);
struct weft_cache_bytes weft_cache_count(const struct weft_cache *c);

/* ---- decoder (decoder.c) */

struct weft_decoder_size {
    int64_t sequences, length; /* number of sequences, and their maximum length in tokens */
    int64_t chunk;             /* maximum number of new tokens in a run, over all sequences */
    bool expand;               /* also decode with the prefill graph: bit-identical logits */
    uint64_t scatter;          /* `scatter` and `pages`: as in weft_cache_size */
    int64_t pages;
    bool last; /* compute only the logits of the last token of each feed */
};

struct weft_decoder;

/* Creates a session that uses the model's current weights. The model must outlive the session. Free the session even if
 * this fails. */
enum weft_status weft_decoder_create(struct weft_decoder **session, const struct weft_nn *model,
                                     struct weft_decoder_size size);
void weft_decoder_free(struct weft_decoder *s);
/* Appends each feed to its sequence; a sequence can occur once per run. The logits, f32 [new tokens, V] in the order of
 * the feeds (`last`: [feeds, V]), are valid until the next run. */
enum weft_status weft_decoder_run(struct weft_decoder *s, const struct weft_feed *feeds, int count,
                                  const float **logits);
/* Clears a sequence and frees its pages. */
enum weft_status weft_decoder_reset(struct weft_decoder *s, int64_t sequence);
/* Makes the empty sequence `to` a copy of `from`. */
enum weft_status weft_decoder_fork(struct weft_decoder *s, int64_t from, int64_t to);
int64_t weft_decoder_length(const struct weft_decoder *s, int64_t sequence);
struct weft_cache_bytes weft_decoder_cache_bytes(const struct weft_decoder *s); /* `token` is the size per layer */
/* For benchmarks: append n tokens to a sequence without computing them; remove the last n tokens of all sequences;
 * start (NULL) or print a profile of the decode graph. */
void weft_decoder_skip(struct weft_decoder *s, int64_t sequence, int64_t n);
void weft_decoder_rewind(struct weft_decoder *s, int64_t n);
void weft_decoder_profile(struct weft_decoder *s, FILE *to);
int64_t weft_decoder_free_pages(const struct weft_decoder *s);
size_t weft_decoder_bytes(const struct weft_decoder *s); /* total size: cache, graphs and packed weights */

#endif
