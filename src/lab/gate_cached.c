/* SPDX-License-Identifier: MIT
 *
 * gate_cached.c - sequences fed through a cache give the logits of the whole sequences.
 *
 * Two sequences side by side, their pages in a shuffled order: fed in random chunks, then token by token, to the bit.
 * Then decoded as a user would, a chunk first: to the bit too, unless latents are absorbed, which rounds otherwise.
 * Absorbed, a choice between near ties (the k largest routes) may fall otherwise; so of a few sequences of tokens one
 * must agree.
 */
#include "infer/infer.h"
#include "lab/gate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SEQUENCES = 2, MOST = 17, TOKENS_KEY = 31, CHUNKS_KEY = 32, SCATTER = 33, ATTEMPTS = 3 };

struct found {
    int64_t differing;          /* rows that are not the same bits */
    double largest;             /* difference of a logit */
    int64_t sequence, position; /* of the first such row */
};

static void compare(struct found *f, const float *got, const float *want, int64_t width, int64_t sequence,
                    int64_t position)
{
    if (memcmp(got, want, (size_t)width * sizeof *got) == 0)
        return;
    if (f->differing++ == 0 || position < f->position) {
        f->sequence = sequence;
        f->position = position;
    }
    for (int64_t i = 0; i < width; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        f->largest = fmax(f->largest, isnan(d) ? INFINITY : d);
    }
}

/* How many tokens of a sequence come next, given how many came already. */
typedef int64_t cut_fn(int64_t sequence, int64_t done);

static int64_t random_chunk(int64_t sequence, int64_t done)
{
    return 1 + (int64_t)weft_below(CHUNKS_KEY, (uint64_t)(2 * done + sequence), MOST);
}

static int64_t single(int64_t sequence, int64_t done)
{
    (void)sequence;
    (void)done;
    return 1;
}

static int64_t chunk_then_single(int64_t sequence, int64_t done) { return sequence == 0 && done == 0 ? MOST : 1; }

/* Feeds the sequences of the whole from their beginning and compares all logits. */
static enum weft_status feed(struct weft_session *s, const struct weft_probe *whole, cut_fn *cut, struct found *f)
{
    const struct weft_tensor *logits = weft_exec_tensor(whole->exec, whole->net.logits);
    const int32_t *tokens = weft_exec_tensor(whole->exec, whole->net.tokens)->data;
    int64_t V = weft_tensor_width(logits), length = weft_tensor_rows(logits) / SEQUENCES, done[SEQUENCES] = {0};
    *f = (struct found){0};
    for (int64_t i = 0; i < SEQUENCES; i++)
        TRY(weft_session_reset(s, i));
    while (done[0] < length || done[1] < length) {
        struct weft_feed feeds[SEQUENCES];
        const float *got;
        int count = 0;
        for (int64_t i = 0; i < SEQUENCES; i++)
            if (done[i] < length)
                feeds[count++] =
                    (struct weft_feed){i, tokens + i * length + done[i], weft_min(cut(i, done[i]), length - done[i])};
        TRY(weft_session_run(s, feeds, count, &got));
        for (int k = 0; k < count; k++)
            for (int64_t n = 0; n < feeds[k].n; n++, got += V) {
                int64_t i = feeds[k].sequence, t = done[i]++;
                compare(f, got, (const float *)logits->data + (i * length + t) * V, V, i, t);
            }
    }
    return WEFT_OK;
}

static void tell_bits(const struct weft_trial *t, const struct found *f, const char *name)
{
    weft_trial_tell(t, f->differing == 0, (double)f->differing, 0, name,
                    "from position %lld of sequence %lld on, by up to %.3g", (long long)f->position,
                    (long long)f->sequence, f->largest);
}

/* ---- the checks */

struct sessions {
    struct weft_session *expanding, *decoding;
    struct weft_probe whole;
};

static enum weft_status open_all(struct sessions *s, const struct weft_model *model)
{
    int64_t length = model->spec->context;
    struct weft_session_size size = {
        .sequences = SEQUENCES, .length = length, .chunk = SEQUENCES * MOST, .expand = true, .scatter = SCATTER};
    TRY(weft_session_create(&s->expanding, model, size));
    size.expand = false;
    TRY(weft_session_create(&s->decoding, model, size));
    TRY(weft_probe_open(&s->whole, model, WEFT_FORWARD,
                        (struct weft_net_size){.sequences = SEQUENCES, .length = length}, WEFT_FAST));
    weft_probe_rows(&s->whole, SEQUENCES, length, NULL);
    return WEFT_OK;
}

static void run_whole(struct sessions *s, uint64_t key)
{
    weft_probe_fill(&s->whole, key);
    weft_probe_run(&s->whole);
}

static enum weft_status check_absorbed(const struct weft_trial *t, struct sessions *s)
{
    const double limit = t->model->spec->compute == WEFT_F32 ? 1e-4 : 0.1;
    double error = INFINITY;
    uint64_t tried = 0;
    char name[96];
    struct found f;
    while (!(error <= limit) && tried < ATTEMPTS) {
        run_whole(s, TOKENS_KEY + tried++);
        TRY(feed(s->decoding, &s->whole, chunk_then_single, &f));
        error = f.largest / weft_tensor_rms(weft_exec_tensor(s->whole.exec, s->whole.net.logits));
    }
    snprintf(name, sizeof name, "error of absorbed decoding, in the logits' rms (%d of %d tries)", (int)tried,
             ATTEMPTS);
    weft_trial_tell(t, error <= limit, error, limit, name, "from position %lld of sequence %lld on",
                    (long long)f.position, (long long)f.sequence);
    return WEFT_OK;
}

static enum weft_status check(const struct weft_trial *t, struct sessions *s)
{
    const struct weft_spec *spec = t->model->spec;
    struct found f;
    TRY(open_all(s, t->model));
    run_whole(s, TOKENS_KEY);
    TRY(feed(s->expanding, &s->whole, random_chunk, &f));
    tell_bits(t, &f, "rows that differ when fed in chunks");
    TRY(feed(s->expanding, &s->whole, single, &f));
    tell_bits(t, &f, "rows that differ when fed token by token");
    if (spec->latent && spec->part[WEFT_GEOM]->linear)
        return check_absorbed(t, s);
    TRY(feed(s->decoding, &s->whole, chunk_then_single, &f));
    tell_bits(t, &f, "rows that differ when decoded");
    return WEFT_OK;
}

enum weft_status weft_gate_cached(const struct weft_trial *t)
{
    struct sessions s = {0};
    enum weft_status status = check(t, &s);
    weft_session_free(s.expanding);
    weft_session_free(s.decoding);
    weft_probe_close(&s.whole);
    return status;
}
