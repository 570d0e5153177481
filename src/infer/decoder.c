/* SPDX-License-Identifier: MIT
 *
 * decoder.c - feeds tokens to sequences: checks the feeds, allocates cache pages, writes the graph's inputs, runs it.
 *
 * Two graphs share the cache: the prefill graph for any feeds, and the decode graph for feeds of one token, if the
 * model decodes differently. Otherwise only the prefill graph is planned, so that weights are packed once. Which graph
 * computes a feed depends on that feed alone: a run with both kinds of feeds is split into two runs, whose logits are
 * merged.
 */
#include "infer/infer.h"

#include <stdlib.h>
#include <string.h>

struct engine {
    struct weft_net net;
    struct weft_exec *exec;
};

struct weft_decoder {
    const struct weft_nn *model;
    struct weft_decoder_size size;
    struct weft_cache cache;
    struct engine prefill, decode; /* decode.exec is NULL if prefill is used for decoding */
    bool *fed;                     /* per sequence, used to check feeds */
    float *logits;                 /* merged logits of both graphs; NULL: there is one graph */
    size_t logits_bytes;
};

/* ---- creation */

static enum weft_status start(struct weft_decoder *s, struct engine *e)
{
    if (e == &s->decode)
        TRY(weft_exec_create_beside(&e->exec, e->net.g, s->prefill.exec));
    else
        TRY(weft_exec_create(&e->exec, e->net.g, WEFT_FAST));
    weft_net_bind(&e->net, e->exec, s->model, NULL);
    TRY(weft_cache_bind(&s->cache, &e->net, e->exec));
    TRY(weft_exec_prepare(e->exec));
    weft_params_drop(&s->model->params); /* only the packed copies are needed from here on */
    return WEFT_OK;
}

static enum weft_status check_size(const struct weft_decoder_size *size)
{
    if (size->sequences < 1 || size->length < 1 || size->chunk < 1)
        return FAIL(
            WEFT_INVALID,
            "a session of %lld sequences of %lld tokens in chunks of %lld: all three numbers must be at least 1",
            (long long)size->sequences, (long long)size->length, (long long)size->chunk);
    if (size->pages < 0)
        return FAIL(WEFT_INVALID, "a session of %lld pages: pass at least 1, or 0 for enough pages for all sequences",
                    (long long)size->pages);
    if (size->length > INT32_MAX - WEFT_KEY_TILE || size->chunk > INT32_MAX ||
        size->sequences > INT32_MAX / weft_round_up(size->length, WEFT_KEY_TILE))
        return FAIL(WEFT_INVALID, "a session of %lld sequences of %lld tokens in chunks of %lld is too large",
                    (long long)size->sequences, (long long)size->length, (long long)size->chunk);
    int64_t most = size->sequences * weft_div_up(size->length, WEFT_KEY_TILE);
    if (size->pages > most)
        return FAIL(WEFT_INVALID, "a session of %lld pages: its sequences need at most %lld", (long long)size->pages,
                    (long long)most);
    return WEFT_OK;
}

static enum weft_status build(struct weft_decoder *s)
{
    const struct weft_spec *spec = s->model->spec;
    struct weft_decoder_size *size = &s->size;
    TRY(check_size(size));
    size->chunk = weft_min(size->chunk, size->sequences * size->length);
    struct weft_cache_size cache = {size->sequences, size->length,
                                    size->chunk,     spec->ra_alpha == 0 ? 0 : spec->ra_window,
                                    size->scatter,   size->pages};
    int64_t rows = weft_min(size->sequences, size->chunk);
    struct weft_net_size prefill = weft_cache_net_size(&cache, size->chunk);
    prefill.logits = size->last ? rows : 0;
    TRY(weft_net_init(&s->prefill.net, s->model, WEFT_PREFILL, prefill));
    TRY(weft_cache_init(&s->cache, &s->prefill.net, &cache));
    TRY(start(s, &s->prefill));
    s->fed = weft_arena_alloc(&s->cache.arena, (size_t)size->sequences * sizeof *s->fed);
    if (!s->fed)
        return FAIL(WEFT_NOMEM, "not enough memory for a session");
    if (size->expand)
        return WEFT_OK;
    TRY(weft_net_init(&s->decode.net, s->model, WEFT_DECODE, weft_cache_net_size(&cache, rows)));
    if (s->decode.net.decodes_apart) {
        TRY(start(s, &s->decode));
        TRY(weft_size_mul((size_t)(size->last ? rows : size->chunk) * sizeof *s->logits, (size_t)spec->vocab,
                          &s->logits_bytes));
        if (!(s->logits = weft_pages_alloc(s->logits_bytes)))
            return FAIL(WEFT_NOMEM, "not enough memory for logits");
    }
    return WEFT_OK;
}

enum weft_status weft_decoder_create(struct weft_decoder **session, const struct weft_nn *model,
                                     struct weft_decoder_size size)
{
    struct weft_decoder *s = *session = calloc(1, sizeof *s);
    if (!s)
        return FAIL(WEFT_NOMEM, "not enough memory for a session");
    s->model = model;
    s->size = size;
    TRY(build(s));
    return WEFT_OK;
}

void weft_decoder_free(struct weft_decoder *s)
{
    if (!s)
        return;
    struct engine *engines[] = {&s->prefill, &s->decode};
    for (int i = 0; i < 2; i++) {
        weft_exec_free(engines[i]->exec);
        weft_net_release(&engines[i]->net);
    }
    weft_cache_release(&s->cache);
    weft_pages_free(s->logits, s->logits_bytes);
    free(s);
}

/* ---- running */

static enum weft_status check_feed(const struct weft_decoder *s, const struct weft_feed *f)
{
    int64_t length = s->cache.lengths[f->sequence], vocab = s->model->spec->vocab;
    if (f->n < 1)
        return FAIL(WEFT_INVALID, "the feed of sequence %lld has %lld tokens: pass at least one",
                    (long long)f->sequence, (long long)f->n);
    if (f->n > s->size.length - length)
        return FAIL(WEFT_INVALID, "sequence %lld has %lld tokens and cannot take %lld more: the maximum length is %lld",
                    (long long)f->sequence, (long long)length, (long long)f->n, (long long)s->size.length);
    for (int64_t i = 0; i < f->n; i++)
        if (f->tokens[i] < 0 || f->tokens[i] >= vocab)
            return FAIL(WEFT_INVALID, "sequence %lld: token %lld is %d, but the vocabulary is 0 to %lld",
                        (long long)f->sequence, (long long)(length + i), (int)f->tokens[i], (long long)vocab - 1);
    return WEFT_OK;
}

static enum weft_status check_feeds(const struct weft_decoder *s, const struct weft_feed *feeds, int count)
{
    int64_t rows = 0, pages = 0;
    memset(s->fed, 0, (size_t)s->size.sequences * sizeof *s->fed);
    if (count < 1)
        return FAIL(WEFT_INVALID, "a run needs at least one feed");
    for (int i = 0; i < count; i++) {
        const struct weft_feed *f = &feeds[i];
        if (f->sequence < 0 || f->sequence >= s->size.sequences)
            return FAIL(WEFT_INVALID, "there is no sequence %lld: the session has sequences 0 to %lld",
                        (long long)f->sequence, (long long)s->size.sequences - 1);
        if (s->fed[f->sequence])
            return FAIL(WEFT_INVALID, "sequence %lld is fed twice in one run: join its tokens into one feed",
                        (long long)f->sequence);
        s->fed[f->sequence] = true;
        TRY(check_feed(s, f));
        rows += f->n;
        pages += weft_cache_needs(&s->cache, f->sequence, f->n);
    }
    if (pages > s->cache.free_count)
        return FAIL(WEFT_NOMEM,
                    "the cache has %lld free pages of %d tokens, but %lld are needed: reset a sequence, or create the "
                    "session with more pages",
                    (long long)s->cache.free_count, WEFT_KEY_TILE, (long long)pages);
    if (rows > s->size.chunk)
        return FAIL(WEFT_INVALID, "%lld new tokens in one run, but the session's chunk is %lld: feed them in parts",
                    (long long)rows, (long long)s->size.chunk);
    return WEFT_OK;
}

static int32_t *input(const struct engine *e, const struct weft_value *v) { return weft_exec_tensor(e->exec, v)->data; }

/* Writes a feed's rows starting at `row`; returns the next row. */
static int64_t write_rows(struct weft_decoder *s, const struct engine *e, const struct weft_feed *f, int64_t row)
{
    const struct weft_net *net = &e->net;
    int32_t *seq = input(e, net->at.seq), *pos = input(e, net->at.pos), *position = input(e, net->position);
    int32_t *store = input(e, net->store), *ring = input(e, net->ring);
    int64_t first = s->cache.lengths[f->sequence];
    weft_cache_extend(&s->cache, f->sequence, f->n);
    memcpy(input(e, net->tokens) + row, f->tokens, (size_t)f->n * sizeof *f->tokens);
    for (int64_t i = 0; i < f->n; i++, row++) {
        seq[row] = (int32_t)f->sequence;
        pos[row] = position[row] = (int32_t)(first + i);
        store[row] = weft_cache_store_row(&s->cache, f->sequence, first + i);
        ring[row] = weft_cache_ring_row(&s->cache, f->sequence, first + i);
    }
    return row;
}

/* Returns the graph that computes a feed. */
static const struct engine *engine_for(const struct weft_decoder *s, const struct weft_feed *f)
{
    return s->decode.exec && f->n == 1 ? &s->decode : &s->prefill;
}

/* Runs the feeds of one graph; the logits are in the order of these feeds. */
static enum weft_status run_engine(struct weft_decoder *s, const struct engine *e, const struct weft_feed *feeds,
                                   int count)
{
    int64_t rows = 0, scored = 0;
    for (int i = 0; i < count; i++) {
        if (engine_for(s, &feeds[i]) != e)
            continue;
        rows = write_rows(s, e, &feeds[i], rows);
        if (e->net.scored)
            input(e, e->net.scored)[scored++] = (int32_t)rows - 1;
    }
    if (e->net.scored)
        weft_exec_count(e->exec, e->net.scored_rows, scored);
    memcpy(input(e, e->net.at.tiles), s->cache.store,
           (size_t)(s->size.sequences * s->cache.tiles) * sizeof *s->cache.store);
    weft_exec_count(e->exec, e->net.rows, rows);
    weft_exec_count(e->exec, e->net.store_rows, s->cache.high);
    TRY(weft_exec_run(e->exec));
    weft_params_drop(&s->model->params); /* releases the memory of the embedding rows that were read */
    return WEFT_OK;
}

static const float *logits_of(const struct engine *e) { return weft_exec_tensor(e->exec, e->net.logits)->data; }

static void join_logits(struct weft_decoder *s, const struct weft_feed *feeds, int count)
{
    const float *from[2] = {logits_of(&s->prefill), logits_of(&s->decode)};
    float *to = s->logits;
    for (int i = 0; i < count; i++) {
        int which = engine_for(s, &feeds[i]) == &s->decode;
        size_t numbers = (size_t)(s->size.last ? 1 : feeds[i].n) * (size_t)s->model->spec->vocab;
        memcpy(to, from[which], numbers * sizeof *to);
        from[which] += numbers;
        to += numbers;
    }
}

enum weft_status weft_decoder_run(struct weft_decoder *s, const struct weft_feed *feeds, int count,
                                  const float **logits)
{
    TRY(check_feeds(s, feeds, count));
    const struct engine *first = engine_for(s, &feeds[0]), *other = NULL;
    for (int i = 1; i < count; i++)
        other = engine_for(s, &feeds[i]) == first ? other : engine_for(s, &feeds[i]);
    TRY(run_engine(s, first, feeds, count));
    if (other)
        TRY(run_engine(s, other, feeds, count));
    if (other)
        join_logits(s, feeds, count);
    *logits = other ? s->logits : logits_of(first);
    return WEFT_OK;
}

enum weft_status weft_decoder_reset(struct weft_decoder *s, int64_t sequence)
{
    if (sequence < 0 || sequence >= s->size.sequences)
        return FAIL(WEFT_INVALID, "there is no sequence %lld: the session has sequences 0 to %lld", (long long)sequence,
                    (long long)s->size.sequences - 1);
    weft_cache_clear(&s->cache, sequence);
    return WEFT_OK;
}

enum weft_status weft_decoder_fork(struct weft_decoder *s, int64_t from, int64_t to)
{
    int64_t last = s->size.sequences - 1;
    if (from < 0 || from > last || to < 0 || to > last || from == to)
        return FAIL(WEFT_INVALID, "sequence %lld cannot be forked to %lld: pass two different sequences from 0 to %lld",
                    (long long)from, (long long)to, (long long)last);
    if (s->cache.lengths[to])
        return FAIL(WEFT_INVALID, "sequence %lld has %lld tokens: reset it before forking into it", (long long)to,
                    (long long)s->cache.lengths[to]);
    if (s->cache.lengths[from] % WEFT_KEY_TILE && !s->cache.free_count)
        return FAIL(WEFT_NOMEM, "the cache has no free page: reset a sequence, or create the session with more pages");
    weft_cache_fork(&s->cache, from, to);
    return WEFT_OK;
}

int64_t weft_decoder_length(const struct weft_decoder *s, int64_t sequence) { return s->cache.lengths[sequence]; }

struct weft_cache_bytes weft_decoder_cache_bytes(const struct weft_decoder *s)
{
    struct weft_cache_bytes bytes = weft_cache_count(&s->cache);
    bytes.token /= (size_t)s->model->spec->layers;
    return bytes;
}

void weft_decoder_skip(struct weft_decoder *s, int64_t sequence, int64_t n)
{
    weft_cache_extend(&s->cache, sequence, n);
}

void weft_decoder_rewind(struct weft_decoder *s, int64_t n)
{
    for (int64_t i = 0; i < s->size.sequences; i++)
        weft_cache_shorten(&s->cache, i, n);
}

void weft_decoder_profile(struct weft_decoder *s, FILE *to)
{
    struct weft_exec *exec = s->decode.exec ? s->decode.exec : s->prefill.exec;
    if (to)
        weft_exec_profile_print(exec, to);
    else
        weft_exec_profile(exec, true);
}

int64_t weft_decoder_free_pages(const struct weft_decoder *s) { return s->cache.free_count; }

size_t weft_decoder_bytes(const struct weft_decoder *s)
{
    size_t decode = s->decode.exec ? weft_exec_bytes(s->decode.exec) : 0;
    return s->cache.bytes + weft_exec_bytes(s->prefill.exec) + decode;
}
