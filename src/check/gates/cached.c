/* SPDX-License-Identifier: MIT
 *
 * cached.c - checks that sequences fed through a cache give the same logits as whole sequences.
 *
 * Two sequences are fed in parallel, with their pages in shuffled order: first in random chunks, then token by token.
 * The logits must have the same bits. Then the sequences are decoded as a user would decode them, starting with a
 * chunk. The bits must again be the same, unless latents are absorbed, which rounds differently. In f32 the absorbed
 * result is compared with the whole pass; a choice between near ties (the k largest routes) may differ, so it is enough
 * if one of a few token sequences agrees. In bf16 such choices differ everywhere, so both results are compared with
 * f64: for one of the sequences, the error of absorbing must not be much larger than the error of the whole pass.
 */
#include "check/probe/gate.h"
#include "infer/infer.h"
#include "nn/part.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 2, MOST = 17, TOKENS_KEY = 31, CHUNKS_KEY = 32, SCATTER = 33, ATTEMPTS = 3 };
enum { LARGE = 150 }; /* maximum number of tokens in a chunk for the model itself */

struct stage {
    const struct weft_nn *model;
    int64_t length, chunk; /* tokens in a sequence; maximum number of tokens in a chunk */
    struct weft_decoder *expanding, *decoding;
    struct weft_probe whole, exact; /* exact: f64, opened when needed */
    struct weft_tensor got;         /* logits from a session, in the layout of `whole` */
};

static const struct weft_tensor *logits_of(const struct weft_probe *p)
{
    return weft_exec_tensor(p->exec, p->net.logits);
}

/* ---- feeding */

/* Returns the number of tokens of a sequence to feed next, given the number fed so far. */
typedef int64_t cut_fn(const struct stage *s, int64_t sequence, int64_t done);

static int64_t random_chunk(const struct stage *s, int64_t sequence, int64_t done)
{
    return 1 + (int64_t)weft_below(CHUNKS_KEY, (uint64_t)(2 * done + sequence), (uint64_t)s->chunk);
}

static int64_t single(const struct stage *s, int64_t sequence, int64_t done) { return 1; }

static int64_t chunk_then_single(const struct stage *s, int64_t sequence, int64_t done)
{
    return sequence == 0 && done == 0 ? s->chunk : 1;
}

/* Feeds single tokens around the boundaries of pages and at the end, and chunks between them. */
static int64_t single_at_pages(const struct stage *s, int64_t sequence, int64_t done)
{
    enum { AROUND = 2 };
    int64_t into = (done + AROUND) % WEFT_KEY_TILE;
    if (done < AROUND || into < 2 * AROUND || done >= s->length - AROUND)
        return 1;
    return weft_min(s->chunk, weft_min(WEFT_KEY_TILE - into, s->length - AROUND - done));
}

/* Feeds both sequences from the beginning. */
static enum weft_status feed(struct stage *s, struct weft_decoder *session, cut_fn *cut)
{
    const int32_t *tokens = weft_exec_tensor(s->whole.exec, s->whole.net.tokens)->data;
    int64_t V = weft_tensor_width(&s->got), length = weft_tensor_rows(&s->got) / SEQUENCES, done[SEQUENCES] = {0};
    for (int64_t i = 0; i < SEQUENCES; i++)
        TRY(weft_decoder_reset(session, i));
    while (done[0] < length || done[1] < length) {
        struct weft_feed feeds[SEQUENCES];
        const float *logits;
        int count = 0;
        for (int64_t i = 0; i < SEQUENCES; i++)
            if (done[i] < length)
                feeds[count++] = (struct weft_feed){i, tokens + i * length + done[i],
                                                    weft_min(cut(s, i, done[i]), length - done[i])};
        TRY(weft_decoder_run(session, feeds, count, &logits));
        for (int k = 0; k < count; k++) {
            int64_t i = feeds[k].sequence, n = feeds[k].n;
            memcpy((float *)s->got.data + (i * length + done[i]) * V, logits, (size_t)(n * V) * sizeof *logits);
            logits += n * V;
            done[i] += n;
        }
    }
    return WEFT_OK;
}

/* ---- the checks */

static void check_bits(const struct weft_trial *t, const struct stage *s, const char *name)
{
    const struct weft_tensor *want = logits_of(&s->whole);
    int64_t V = weft_tensor_width(want), rows = weft_tensor_rows(want), length = rows / SEQUENCES;
    int64_t differing = 0, first = 0;
    for (int64_t r = 0; r < rows; r++) {
        size_t at = (size_t)(r * V) * sizeof(float);
        if (memcmp((char *)s->got.data + at, (char *)want->data + at, (size_t)V * sizeof(float)) == 0)
            continue;
        if (differing++ == 0 || r % length < first % length)
            first = r;
    }
    weft_trial_report(t, differing == 0, (double)differing, 0, name,
                      "starting at position %lld of sequence %lld, by up to %g", (long long)(first % length),
                      (long long)(first / length), weft_tensor_distance(&s->got, want));
}

static void run_whole(struct stage *s, uint64_t key)
{
    weft_probe_fill(&s->whole, key);
    weft_probe_run(&s->whole);
}

static enum weft_status check_absorbed_f32(const struct weft_trial *t, struct stage *s)
{
    const double limit = 1e-4;
    double error = INFINITY;
    uint64_t tried = 0;
    char name[96];
    while (!(error <= limit) && tried < ATTEMPTS) {
        run_whole(s, TOKENS_KEY + tried++);
        TRY(feed(s, s->decoding, chunk_then_single));
        error = weft_tensor_distance(&s->got, logits_of(&s->whole)) / weft_tensor_rms(logits_of(&s->whole));
    }
    snprintf(name, sizeof name, "error of absorbed decoding, in the logits' rms (%d of %d tries)", (int)tried,
             ATTEMPTS);
    weft_trial_report(t, error <= limit, error, limit, name, "the whole pass and absorbed decoding disagree");
    return WEFT_OK;
}

static double rms_error(const struct weft_tensor *a, const struct weft_tensor *exact)
{
    int64_t n = weft_tensor_count(a);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = weft_tensor_get(a, i) - weft_tensor_get(exact, i);
        sum += d * d;
    }
    return sqrt(sum / (double)n);
}

static enum weft_status check_absorbed_bf16(const struct weft_trial *t, struct stage *s)
{
    const double limit = 2;
    int64_t length = s->length;
    double absorbed = INFINITY, whole = 1;
    TRY(weft_probe_open(&s->exact, s->model, WEFT_FORWARD,
                        (struct weft_net_size){.sequences = SEQUENCES, .length = length}, WEFT_REFERENCE));
    weft_probe_rows(&s->exact, SEQUENCES, length, NULL);
    for (uint64_t i = 0; i < ATTEMPTS && !(absorbed <= limit * whole); i++) {
        run_whole(s, TOKENS_KEY + i);
        TRY(feed(s, s->decoding, chunk_then_single));
        weft_probe_fill(&s->exact, TOKENS_KEY + i);
        weft_probe_run(&s->exact);
        absorbed = rms_error(&s->got, logits_of(&s->exact));
        whole = rms_error(logits_of(&s->whole), logits_of(&s->exact));
    }
    weft_trial_report(t, absorbed <= limit * whole, absorbed / whole, limit,
                      "error of absorbed decoding, in that of the whole pass", "%.3g and %.3g", absorbed, whole);
    return WEFT_OK;
}

/* Checks the model itself in any dtype. A decoder that uses wrong weights or rows has a large error. */
static void check_absorbed_itself(const struct weft_trial *t, const struct stage *s)
{
    const double limit = s->model->spec->compute == WEFT_F32 ? 1e-3 : 0.1;
    double error = rms_error(&s->got, logits_of(&s->whole)) / weft_tensor_rms(logits_of(&s->whole));
    weft_trial_report(t, error <= limit, error, limit, "error of absorbed decoding, in the logits' rms",
                      "the whole pass and absorbed decoding disagree");
}

static enum weft_status open_all(struct stage *s)
{
    struct weft_decoder_size size = {
        .sequences = SEQUENCES, .length = s->length, .chunk = SEQUENCES * s->chunk, .expand = true, .scatter = SCATTER};
    TRY(weft_decoder_create(&s->expanding, s->model, size));
    size.expand = false;
    TRY(weft_decoder_create(&s->decoding, s->model, size));
    TRY(weft_probe_open(&s->whole, s->model, WEFT_FORWARD,
                        (struct weft_net_size){.sequences = SEQUENCES, .length = s->length}, WEFT_FAST));
    weft_probe_rows(&s->whole, SEQUENCES, s->length, NULL);
    s->got = *logits_of(&s->whole);
    s->got.data = calloc((size_t)weft_tensor_count(&s->got), sizeof(float));
    return s->got.data ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory to check the model");
}

static bool absorbs(const struct weft_spec *spec) { return spec->latent && weft_spec_geom(spec)->linear; }

static enum weft_status check(const struct weft_trial *t, struct stage *s)
{
    const struct weft_spec *spec = s->model->spec;
    TRY(open_all(s));
    run_whole(s, TOKENS_KEY);
    TRY(feed(s, s->expanding, random_chunk));
    check_bits(t, s, "rows that differ when fed in chunks");
    TRY(feed(s, s->expanding, single));
    check_bits(t, s, "rows that differ when fed token by token");
    if (absorbs(spec))
        return spec->compute == WEFT_F32 ? check_absorbed_f32(t, s) : check_absorbed_bf16(t, s);
    TRY(feed(s, s->decoding, chunk_then_single));
    check_bits(t, s, "rows that differ when decoded");
    return WEFT_OK;
}

static enum weft_status check_itself(const struct weft_trial *t, struct stage *s)
{
    char name[160];
    int64_t pages = weft_div_up(s->length, WEFT_KEY_TILE);
    TRY(open_all(s));
    run_whole(s, TOKENS_KEY);
    TRY(feed(s, s->expanding, random_chunk));
    snprintf(name, sizeof name, "rows that differ when fed in chunks (%lld of %lld tokens, %lld pages)",
             (long long)s->length, (long long)s->model->spec->context, (long long)pages);
    check_bits(t, s, name);
    TRY(feed(s, s->decoding, single_at_pages));
    if (absorbs(s->model->spec))
        check_absorbed_itself(t, s);
    else
        check_bits(t, s, "rows that differ when decoded, token by token around pages");
    return WEFT_OK;
}

static void close_all(struct stage *s)
{
    weft_decoder_free(s->expanding);
    weft_decoder_free(s->decoding);
    weft_probe_close(&s->whole);
    weft_probe_close(&s->exact);
    free(s->got.data);
}

enum weft_status weft_gate_cached(const struct weft_trial *t)
{
    struct stage s = {.model = t->model, .length = t->model->spec->context, .chunk = MOST};
    enum weft_status status = check(t, &s);
    close_all(&s);
    TRY(status);
    TRY(weft_check_forks(t, t->model));
    return WEFT_OK;
}

enum weft_status weft_gate_cached_itself(const struct weft_trial *t)
{
    struct stage s = {.model = t->itself->model};
    const struct weft_spec *spec = s.model->spec;
    s.length = weft_max(1, weft_min(spec->context, WEFT_MOST_LOGITS / (SEQUENCES * spec->vocab)));
    s.chunk = weft_min(s.length, LARGE);
    enum weft_status status = check_itself(t, &s);
    close_all(&s);
    TRY(status);
    TRY(weft_check_forks(t, s.model));
    TRY(weft_itself_measure(t->itself));
    if (weft_itself_has_time(t->itself, 0.3))
        TRY(weft_check_late_forks(t, s.model));
    return WEFT_OK;
}
