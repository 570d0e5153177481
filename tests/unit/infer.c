/* SPDX-License-Identifier: MIT
 *
 * infer.c - cached inference gives the logits of the whole forward pass bit by bit, however sequences are divided into
 * runs, whatever is fed with them, and wherever their pages are. Absorbed latents: within 1e-4 of the logits' size.
 *
 * run-tests: 5 s, asan 31 s
 */
#include "infer/infer.h"
#include "nn/part.h"
#include "test.h"

#include <math.h>

/* Sequences of one to three pages; chunks that cross pages, and rings that wrap around. */
enum { SEQUENCES = 3, LENGTH = 140, CHUNK = 55, VOCAB = 33, SEED = 7 };
static const int64_t lengths[SEQUENCES] = {LENGTH, 65, 131};

/* ---- models */

struct subject {
    const char *preset, *settings;
};

#define LATENT "attn=latent latent_width=12 "
static const struct subject subjects[] = {
    {"gpt2", ""},
    {"gpt2", "norm_place=post output_gate=yes pos=relative relative_max=40"},
    {"llama", "kv_heads=2 pos=alibi"},
    {"llama", "kv_heads=1"},
    {"w2", "kv_heads=2"},
    {"w2", "geom=overlap spread=full"},
    {"gpt2", "ra_alpha=0.5 ra_window=5"},
    {"w2", "ra_alpha=0.5 ra_window=70"},
    {"gpt2", "m1=yes m1_mode=prefix layers=3"},
    {"gpt2", "m2=yes m2_topk=4 m2_rank=6"},
    {"llama", "m2=yes m2_select=rms m2_form=full ra_alpha=0.5 ra_window=9"},
    {"gpt2", "m3=yes layers=3 m3_width=9"},
    {"w2", "m1=yes m2=yes m3=yes m2_select=none m3_tying=per_head_scalar"},
    {"gpt2", LATENT},
    {"gpt2", LATENT "latent_shared=yes latent_heads=shared latent_scale=latent"},
    {"llama", LATENT},
    {"w2", LATENT "latent_shared=yes"},
    {"w2", LATENT "pos=none latent_heads=shared"},
    {"w2", LATENT "geom=overlap"},
    {"llama", LATENT "ra_alpha=0.5 ra_window=9"},
    {"w2", LATENT "ra_alpha=0.5 ra_window=70"},
    {"w2", LATENT "geom=overlap ra_alpha=0.5 ra_window=9"},
    {"gpt2", LATENT "m1=yes m1_mode=prefix m3=yes layers=3"},
    {"llama", LATENT "m2=yes m2_select=none m3=yes m3_tying=untied"},
    {"w2", LATENT "m2=yes m2_select=none ra_alpha=0.5 ra_window=70"},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

struct stage {
    struct weft_spec spec;
    struct weft_nn *model;
    int32_t tokens[SEQUENCES][LENGTH];
    float *logits; /* [SEQUENCES, LENGTH, VOCAB] of the whole forward pass */
    double rms;
    char name[200];
};

static void forward(struct stage *s)
{
    struct weft_net net;
    struct weft_exec *exec;
    check(
        weft_net_init(&net, s->model, WEFT_FORWARD, (struct weft_net_size){.sequences = SEQUENCES, .length = LENGTH}));
    check(weft_exec_create(&exec, net.g, WEFT_FAST));
    weft_net_bind(&net, exec, s->model, NULL);
    weft_net_plain_rows(&net, exec, SEQUENCES, LENGTH);
    memcpy(weft_exec_tensor(exec, net.tokens)->data, s->tokens, sizeof s->tokens);
    weft_exec_prepare(exec);
    weft_exec_run(exec);
    const size_t count = SEQUENCES * LENGTH * VOCAB;
    s->logits = malloc(count * sizeof *s->logits);
    assert_non_null(s->logits);
    memcpy(s->logits, weft_exec_tensor(exec, net.logits)->data, count * sizeof *s->logits);
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (double)s->logits[i] * s->logits[i];
    s->rms = sqrt(squares / (double)count);
    assert_true(isfinite(s->rms) && s->rms > 0);
    weft_exec_free(exec);
    weft_net_release(&net);
}

static void open_stage(struct stage *s, const struct subject *subject, const char *dtype)
{
    char settings[256];
    *s = (struct stage){0};
    snprintf(s->name, sizeof s->name, "%s %s %s", subject->preset, dtype, subject->settings);
    snprintf(settings, sizeof settings, "width=32 heads=4 vocab=%d context=%d ffn_width=40 %s %s", VOCAB, LENGTH, dtype,
             subject->settings);
    open_model(&s->spec, &s->model, subject->preset, settings);
    check(weft_nn_init(s->model));
    perturb(s->model, SEED);
    for (int i = 0; i < SEQUENCES * LENGTH; i++)
        s->tokens[i / LENGTH][i % LENGTH] = (int32_t)weft_below(SEED, (uint64_t)i, VOCAB);
    forward(s);
}

static void close_stage(struct stage *s)
{
    free(s->logits);
    close_model(&s->spec, s->model);
}

/* ---- feeding */

/* How far logits of n tokens of a sequence are from the forward pass, in its rms; 0: the same bits. */
static double distance(const struct stage *s, const struct weft_feed *f, int64_t first, const float *logits)
{
    const float *want = s->logits + (f->sequence * LENGTH + first) * VOCAB;
    if (memcmp(want, logits, (size_t)(f->n * VOCAB) * sizeof *want) == 0)
        return 0;
    double worst = 1e-30;
    for (int64_t i = 0; i < f->n * VOCAB; i++) {
        double error = fabs((double)want[i] - logits[i]) / s->rms;
        worst = error <= worst ? worst : error; /* and NaN is the worst */
    }
    return worst;
}

/* Up to three feeds of up to `most` tokens each, in an order and of sizes drawn by counter. */
static int draw_feeds(const struct stage *s, const struct weft_decoder *session, int64_t most, uint64_t run,
                      struct weft_feed *feeds)
{
    int count = 0;
    int64_t start = (int64_t)weft_below(1, run, SEQUENCES), room = weft_max(most, SEQUENCES);
    for (int64_t i = 0; i < SEQUENCES; i++) {
        int64_t q = (start + i) % SEQUENCES, done = weft_decoder_length(session, q);
        int64_t n = 1 + (int64_t)weft_below(2, run * SEQUENCES + (uint64_t)i, (uint64_t)most);
        n = weft_min(room, weft_min(n, lengths[q] - done));
        if (n < 1 || weft_below(3, run * SEQUENCES + (uint64_t)i, 4) == 0)
            continue;
        feeds[count++] = (struct weft_feed){q, &s->tokens[q][done], n};
        room -= n;
    }
    return count;
}

static bool is_done(const struct weft_decoder *session)
{
    for (int64_t q = 0; q < SEQUENCES; q++)
        if (weft_decoder_length(session, q) < lengths[q])
            return false;
    return true;
}

/* Feeds all sequences to their ends; the worst distance of all logits. */
static double play(const struct stage *s, struct weft_decoder *session, int64_t most)
{
    double worst = 0;
    for (uint64_t run = 0; !is_done(session); run++) {
        struct weft_feed feeds[SEQUENCES];
        int count = draw_feeds(s, session, run % 4 == 3 ? 1 : most, run, feeds);
        const float *logits;
        if (count == 0)
            continue;
        check(weft_decoder_run(session, feeds, count, &logits));
        for (int i = 0; i < count; i++) {
            int64_t first = weft_decoder_length(session, feeds[i].sequence) - feeds[i].n;
            double d = distance(s, &feeds[i], first, logits);
            worst = d <= worst ? worst : d;
            logits += feeds[i].n * VOCAB;
        }
    }
    return worst;
}

static struct weft_decoder *open_session(const struct stage *s, int64_t chunk, bool expand, uint64_t scatter)
{
    struct weft_decoder *session;
    check(
        weft_decoder_create(&session, s->model, (struct weft_decoder_size){SEQUENCES, LENGTH, chunk, expand, scatter}));
    return session;
}

/* In pieces of up to a whole chunk, twice: the second time on the state that the first time left. */
static double by_chunks(const struct stage *s)
{
    struct weft_decoder *session = open_session(s, CHUNK, true, 5);
    double worst = play(s, session, CHUNK);
    for (int64_t q = 0; q < SEQUENCES; q++)
        check(weft_decoder_reset(session, q));
    double again = play(s, session, CHUNK);
    weft_decoder_free(session);
    return again <= worst ? worst : again;
}

static double by_tokens(const struct stage *s, bool expand)
{
    struct weft_decoder *session = open_session(s, SEQUENCES, expand, 6);
    double worst = play(s, session, 1);
    weft_decoder_free(session);
    return worst;
}

static bool absorbs(const struct weft_spec *spec) { return spec->latent && weft_spec_geom(spec)->linear; }

static void compare(const char *dtype, int first)
{
    int failures = 0;
    for (int i = first % sanitized_one_of(3); i < SUBJECTS; i += sanitized_one_of(3)) {
        struct stage s;
        open_stage(&s, &subjects[i], dtype);
        double chunks = by_chunks(&s), tokens = by_tokens(&s, true);
        double decode = absorbs(&s.spec) ? by_tokens(&s, false) : 0;
        double limit = s.spec.compute == WEFT_F32 ? 1e-4 : 0.1;
        bool fine = chunks == 0 && tokens == 0 && decode <= limit;
        if (!fine || absorbs(&s.spec))
            print_message("%s%s: chunks %g, tokens %g, absorbed %g of the logits' rms\n", fine ? "" : "WRONG ", s.name,
                          chunks, tokens, decode);
        failures += !fine;
        close_stage(&s);
    }
    assert_int_equal(failures, 0);
}

static void same_as_forward_f32(void **state)
{
    (void)state;
    compare("dtype=f32", 0);
}

static void same_as_forward_bf16(void **state)
{
    (void)state;
    compare("dtype=bf16", 1);
}

/* ---- refusing */

static void refused(struct weft_decoder *session, int count, const struct weft_feed *feeds, const char *words)
{
    const float *logits = NULL;
    check_error(weft_decoder_run(session, feeds, count, &logits), WEFT_INVALID, words);
    assert_null(logits);
}

static void refusals_change_nothing(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, &(struct subject){"gpt2", "m1=yes m1_mode=prefix"}, "dtype=f32");
    struct weft_decoder *session = open_session(&s, CHUNK, true, 0);
    const float *logits;
    const int32_t *t = s.tokens[0], bad[] = {3, VOCAB}, worse[] = {-1};
    check(weft_decoder_run(session, &(struct weft_feed){0, t, CHUNK}, 1, &logits));
    check(weft_decoder_run(session, &(struct weft_feed){0, t + CHUNK, CHUNK}, 1, &logits));

    refused(session, 0, NULL, "at least one feed");
    refused(session, 1, &(struct weft_feed){SEQUENCES, t, 1}, "no sequence 3");
    refused(session, 1, &(struct weft_feed){-1, t, 1}, "no sequence -1");
    refused(session, 1, &(struct weft_feed){1, t, 0}, "at least one");
    refused(session, 2, (struct weft_feed[]){{1, t, 1}, {1, t, 1}}, "twice");
    refused(session, 2, (struct weft_feed[]){{1, t, 1}, {2, bad, 2}}, "token 1 is 33");
    refused(session, 2, (struct weft_feed[]){{1, t, 1}, {2, worse, 1}}, "token 0 is -1");
    refused(session, 2, (struct weft_feed[]){{1, t, 1}, {0, t, LENGTH - 2 * CHUNK + 1}}, "110 tokens");
    refused(session, 2, (struct weft_feed[]){{1, t, CHUNK}, {2, t, 1}}, "56 new tokens");
    assert_int_equal(weft_decoder_reset(session, SEQUENCES), WEFT_INVALID);

    assert_int_equal(weft_decoder_length(session, 0), 2 * CHUNK);
    assert_int_equal(weft_decoder_length(session, 1), 0);
    assert_true(play(&s, session, CHUNK) == 0);
    weft_decoder_free(session);

    static const struct weft_decoder_size sizes[] = {{0, 1, 1, true, 0},
                                                     {1, 0, 1, true, 0},
                                                     {1, 1, 0, true, 0},
                                                     {1, LENGTH + 1, 1, true, 0},
                                                     {1ll << 40, 1, 1, true, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(weft_decoder_create(&session, s.model, sizes[i]), WEFT_INVALID);
        weft_decoder_free(session);
    }
    close_stage(&s);
}

/* ---- counting */

static void bytes_are(const struct subject *subject, struct weft_cache_bytes want, bool decodes_apart)
{
    struct stage s;
    open_stage(&s, subject, "dtype=bf16");
    struct weft_decoder *session = open_session(&s, 1, true, 0), *both = open_session(&s, 1, false, 0);
    struct weft_cache_bytes bytes = weft_decoder_cache_bytes(session);
    assert_int_equal(bytes.token, want.token);
    assert_int_equal(bytes.store, want.token * (size_t)s.spec.layers * SEQUENCES * 192);
    assert_int_equal(bytes.rings, want.rings);
    assert_int_equal(bytes.states, want.states);
    assert_int_equal(weft_decoder_bytes(both) > weft_decoder_bytes(session), decodes_apart);
    weft_decoder_free(both);
    weft_decoder_free(session);
    close_stage(&s);
}

/* Width 32, 4 heads of 8, 2 layers; bf16 but for norms and means. Memory is planned for three pages a sequence. */
static void bytes_are_counted(void **state)
{
    (void)state;
    bytes_are(&(struct subject){"gpt2", ""}, (struct weft_cache_bytes){.token = 2 * (32 + 32)}, false);
    bytes_are(&(struct subject){"w2", "kv_heads=2"}, (struct weft_cache_bytes){.token = 2 * (16 + 16) + 4 * 2}, false);
    bytes_are(&(struct subject){"llama", LATENT "latent_rope=6"}, (struct weft_cache_bytes){.token = 2 * (12 + 12 + 6)},
              true);
    bytes_are(&(struct subject){"w2", LATENT "latent_shared=yes pos=none"},
              (struct weft_cache_bytes){.token = 2 * (12 + 4) + 4 * 4}, true);
    bytes_are(&(struct subject){"w2", LATENT "geom=overlap pos=none"},
              (struct weft_cache_bytes){.token = 2 * (12 + 12 + 4)}, false);
    bytes_are(&(struct subject){"gpt2", "ra_alpha=1 ra_window=9 m1=yes m1_mode=prefix m1_width=5"},
              (struct weft_cache_bytes){
                  .token = 2 * (32 + 32), .rings = 2 * 32 * 2 * SEQUENCES * 64, .states = 4 * 5 * SEQUENCES},
              false);
    bytes_are(&(struct subject){"gpt2", "m2=yes m2_rank=6"}, (struct weft_cache_bytes){.token = 2 * (32 + 32 + 6)},
              false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_forward_f32),
        cmocka_unit_test(same_as_forward_bf16),
        cmocka_unit_test(refusals_change_nothing),
        cmocka_unit_test(bytes_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
