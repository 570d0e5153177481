/* SPDX-License-Identifier: MIT
 *
 * decode.c - benchmarks decoding with a cache, against the lower bound set by memory: the time to read the packed
 * weights once and the cache of every sequence once, at the read bandwidth measured in the same run.
 *
 * The cache is filled with zeros instead of a prompt's keys and values, which cost the same. Before that, prefill is
 * measured on tokens of the first sequence.
 */
#include "bench/bench.h"
#include "dnn/dnn.h"
#include "infer/infer.h"

#include <stdlib.h>
#include <unistd.h>

enum { MOST_CHUNK = 256 };

struct decoding {
    struct weft_decoder *decoder;
    struct weft_feed *feeds;
    int32_t *tokens;
    int64_t batch;
};

/* ---- reading memory */

struct reading {
    const uint64_t *memory;
    int64_t words, tiles;
    uint64_t *sums; /* one sum per tile */
};

static void read_tile(void *context, int64_t tile, int thread)
{
    typedef uint64_t lanes __attribute__((vector_size(64)));
    const struct reading *r = context;
    const lanes *from = (const lanes *)(r->memory + tile * (r->words / r->tiles));
    lanes sum[4] = {{0}};
    (void)thread;
    for (int64_t i = 0; i < r->words / r->tiles / 8; i += 4)
        for (int j = 0; j < 4; j++)
            sum[j] += from[i + j];
    for (int j = 0; j < 4; j++)
        for (int lane = 0; lane < 8; lane++)
            r->sums[tile] += sum[j][lane];
}

static enum weft_status read_memory(void *context)
{
    const struct reading *r = context;
    weft_parallel(r->tiles, read_tile, (void *)r);
    return WEFT_OK;
}

/* ---- decoding */

/* Decodes one token of every sequence, always at the same length. */
static enum weft_status decode(void *context)
{
    const struct decoding *d = context;
    const float *logits;
    TRY(weft_decoder_run(d->decoder, d->feeds, (int)d->batch, &logits));
    weft_decoder_rewind(d->decoder, 1);
    return WEFT_OK;
}

static enum weft_status open(struct decoding *d, const struct weft_nn *model, const struct weft_decode_bench *b)
{
    d->batch = b->batch;
    d->feeds = calloc((size_t)b->batch, sizeof *d->feeds);
    d->tokens = calloc((size_t)weft_max(b->batch, b->context), sizeof *d->tokens);
    if (!d->feeds || !d->tokens)
        return FAIL(WEFT_NOMEM, "not enough memory for a batch");
    for (int64_t i = 0; i < weft_max(b->batch, b->context); i++)
        d->tokens[i] = (int32_t)weft_below(3, (uint64_t)i, (uint64_t)model->spec->vocab);
    for (int64_t i = 0; i < b->batch; i++)
        d->feeds[i] = (struct weft_feed){i, d->tokens + i, 1};
    TRY(weft_decoder_create(&d->decoder, model,
                            (struct weft_decoder_size){.sequences = b->batch,
                                                       .length = b->context,
                                                       .chunk = weft_max(b->batch, weft_min(b->context, MOST_CHUNK)),
                                                       .last = true}));
    return WEFT_OK;
}

static enum weft_status prefill(struct decoding *d, struct weft_decode_bench *b)
{
    const float *logits;
    double start = weft_seconds();
    int64_t length = weft_min(b->context, 1024);
    for (int64_t at = 0; at < length; at += MOST_CHUNK)
        TRY(weft_decoder_run(d->decoder, &(struct weft_feed){0, d->tokens + at, weft_min(MOST_CHUNK, length - at)}, 1,
                             &logits));
    b->prefill_tokens_per_s = (double)length / (weft_seconds() - start);
    TRY(weft_decoder_reset(d->decoder, 0));
    return WEFT_OK;
}

static enum weft_status measure(struct decoding *d, struct weft_decode_bench *b, double seconds)
{
    struct reading r = {.words = (int64_t)1 << 25, .tiles = 512}; /* 256 MiB: larger than caches */
    size_t bytes = (size_t)r.words * sizeof *r.memory;
    void *memory = weft_pages_alloc(bytes);
    r.memory = memory;
    r.sums = calloc((size_t)r.tiles, sizeof *r.sums);
    struct weft_contender list[] = {{.run = decode, .context = d}, {.run = read_memory, .context = &r}};
    struct weft_contest contest = {0};
    enum weft_status status = memory && r.sums ? weft_contest(list, 2, seconds, &contest)
                                               : FAIL(WEFT_NOMEM, "not enough memory to measure the read bandwidth");
    weft_pages_free(memory, bytes);
    free(r.sums);
    TRY(status);
    double limit = (double)(b->weight_bytes + b->read_bytes) / (double)bytes * list[1].seconds;
    b->rounds = contest.rounds;
    b->step_seconds = list[0].seconds;
    b->tokens_per_s = (double)b->batch / list[0].seconds;
    b->read_gb_per_s = (double)bytes / list[1].seconds / 1e9;
    /* Compared within rounds, because the load on the machine varies. */
    b->ratio_bandwidth = limit / list[1].seconds * list[1].quotient;
    return WEFT_OK;
}

static enum weft_status run(struct decoding *d, const struct weft_nn *model, struct weft_decode_bench *b,
                            double seconds, int64_t before, FILE *profile)
{
    TRY(open(d, model, b));
    TRY(prefill(d, b));
    for (int64_t i = 0; i < b->batch; i++)
        weft_decoder_skip(d->decoder, i, b->context - 1);
    struct weft_cache_bytes cache = weft_decoder_cache_bytes(d->decoder);
    b->cache_token_bytes = (int64_t)cache.token * model->spec->layers;
    b->cache_bytes = (int64_t)(cache.store + cache.rings + cache.states);
    b->read_bytes = b->batch * b->context * b->cache_token_bytes;
    b->weight_bytes = model->params.elements * (int64_t)weft_dtype_bytes(model->spec->compute);
    if (profile)
        weft_decoder_profile(d->decoder, NULL);
    TRY(measure(d, b, seconds));
    if (profile)
        weft_decoder_profile(d->decoder, profile);
    b->resident_bytes = weft_resident_bytes() - before;
    b->rss_ratio = (double)b->resident_bytes / (double)(b->weight_bytes + b->cache_bytes);
    return WEFT_OK;
}

static enum weft_status save_initial(const struct weft_spec *spec, const char *path)
{
    struct weft_nn *model;
    enum weft_status status = weft_nn_create(&model, spec);
    if (status == WEFT_OK)
        status = weft_nn_init(model);
    if (status == WEFT_OK)
        status = weft_nn_save(model, path);
    weft_nn_free(model);
    return status;
}

/* Opens a model with weights from a file, as in normal use. */
static enum weft_status open_model(struct weft_nn **model, const struct weft_spec *spec)
{
    const char *folder = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof path, "%.4000s/weft-decode-%ld.safetensors", folder ? folder : "/tmp", (long)getpid());
    TRY(save_initial(spec, path));
    enum weft_status status = weft_nn_create(model, spec);
    if (status == WEFT_OK)
        status = weft_nn_load(*model, path);
    unlink(path);
    return status;
}

enum weft_status weft_bench_decode(const struct weft_spec *spec, double seconds, struct weft_decode_bench *b,
                                   FILE *profile)
{
    struct decoding d = {0};
    struct weft_nn *model = NULL;
    int64_t before = weft_resident_bytes();
    weft_dnn_note_speed(spec->compute);
    enum weft_status status = open_model(&model, spec);
    if (status == WEFT_OK)
        status = run(&d, model, b, seconds, before, profile);
    weft_decoder_free(d.decoder);
    weft_nn_free(model);
    free(d.feeds);
    free(d.tokens);
    return status;
}
