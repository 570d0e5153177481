/* SPDX-License-Identifier: MIT
 *
 * api_calls.c - random calls of the public interface, with good and bad arguments, in any order that weft.h allows.
 * Nothing may crash or leak, every error must have a message, and a session's output must not depend on its history.
 *
 * CALLS=n sets the number of calls, SEED=n the sequence.
 *
 * run-tests: 4 s, asan 39 s
 */
#include "weft.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS = 2, SESSIONS = 2, VOCAB = 17, CONTEXT = 40, SEQUENCES = 3, CHUNK = 24, BATCH = 2 };

/* Everything created from a model is freed before the model. */
static struct {
    struct weft_config *config;
    struct weft_tokenizer *tokenizer;
    struct weft_sampler *sampler;
    struct {
        struct weft_model *model;
        struct weft_session *session[SESSIONS];
        struct weft_forward *forward;
        struct weft_trainer *trainer;
    } of[MODELS];
} have;

static uint64_t state;
static char folder[] = "/tmp/weft-calls-XXXXXX";

static uint64_t next(void)
{
    state += 0x9e3779b97f4a7c15;
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static int64_t below(int64_t n) { return (int64_t)(next() % (uint64_t)n); }

/* Mostly a number that could be right. */
static int64_t number(int64_t most)
{
    static const int64_t odd[] = {0, -1, 1, INT64_MAX, INT64_MIN, INT32_MAX, (int64_t)1 << 31, (int64_t)1 << 40, 1000};
    return below(6) ? below(most + 2) : odd[below(9)];
}

static double real(void)
{
    static const double odd[] = {0, 1, -1, 1e300, -0.0, 0.5, 2, 100};
    return below(8) ? odd[below(8)] : below(2) ? NAN : INFINITY;
}

static const char *setting(void)
{
    static const char *const list[] = {"width=16",
                                       "layers=2",
                                       "geom=w2",
                                       "geom=dot",
                                       "attn=latent",
                                       "latent=8",
                                       "pos=rope",
                                       "pos=alibi",
                                       "pos=learned",
                                       "dtype=f32",
                                       "dtype=bf16",
                                       "m1=yes",
                                       "m1=no",
                                       "m2=yes",
                                       "m3=yes",
                                       "heads=3",
                                       "heads=2",
                                       "vocab=17",
                                       "batch=2",
                                       "nonsense",
                                       "=",
                                       "lr=nan",
                                       "width=-1",
                                       "ffn=swiglu",
                                       "recall_length=8",
                                       "context=40",
                                       "batch=99999999999",
                                       "layers=100000000",
                                       "dropout=0.5",
                                       "task=mqar",
                                       "",
                                       "width=16=3"};
    return below(30) ? list[below(sizeof list / sizeof *list)] : NULL;
}

/* A path that exists, does not, or is no place for a model. */
static const char *path(void)
{
    static char text[300];
    static const char *const names[] = {"/a", "/b", "", "/../nowhere/c", "/a/config.json", "/a/model.safetensors",
                                        "/f"};
    if (!below(12))
        return NULL;
    snprintf(text, sizeof text, "%s%s", folder, names[below(7)]);
    return text;
}

static void *maybe(void *p) { return below(20) ? p : NULL; }

static const int32_t *tokens(int64_t count)
{
    static int32_t list[4096];
    for (int64_t i = 0; i < 4096; i++)
        list[i] = (int32_t)below(VOCAB);
    if (!below(10))
        list[below(count < 1 ? 1 : count > 4096 ? 4096 : count)] = (int32_t)number(VOCAB);
    return maybe(list);
}

/* Every refusal has a message. */
static bool ok(enum weft_status status)
{
    assert(status >= WEFT_OK && status <= WEFT_STOPPED);
    assert(status == WEFT_OK || (*weft_error() && *weft_error_trace()));
    return status == WEFT_OK;
}

static void note(void *context, const char *text) { assert(text && context); }

/* ---- configs and models */

static void free_dependents(int i)
{
    for (int s = 0; s < SESSIONS; s++) {
        weft_session_free(have.of[i].session[s]);
        have.of[i].session[s] = NULL;
    }
    weft_forward_free(have.of[i].forward);
    weft_trainer_free(have.of[i].trainer);
    have.of[i].forward = NULL;
    have.of[i].trainer = NULL;
}

static void free_model(int i)
{
    free_dependents(i);
    weft_model_free(have.of[i].model);
    have.of[i].model = NULL;
}

static void call_config(void)
{
    static const char *const models[] = {"gpt2", "llama", "w2", "ra-mla", "no such", "/dev/null", "/", ""};
    static const char *const small[] = {"width=16",   "heads=2", "layers=2",       "vocab=17",
                                        "context=40", "batch=2", "recall_length=8"};
    char value[40];
    switch (below(4)) {
    case 0:
        weft_config_free(have.config);
        ok(weft_config_create(&have.config, below(20) ? models[below(8)] : NULL));
        for (int i = 0; have.config && below(10) && i < 7; i++)
            ok(weft_config_set(have.config, small[i]));
        break;
    case 1:
        if (have.config && !below(50)) { /* settings of a kind gather otherwise */
            weft_config_free(have.config);
            have.config = NULL;
        }
        ok(weft_config_set(maybe(have.config), setting()));
        break;
    default:
        ok(weft_config_value(maybe(have.config), below(2) ? "width" : setting(), maybe(value), (size_t)below(40)));
    }
}

static void call_model(int i)
{
    struct weft_model_info info;
    struct weft_tensor_view view;
    switch (below(9)) {
    case 0:
        free_model(i);
        ok(weft_model_create(&have.of[i].model, maybe(have.config), (int)number(2) % 5));
        if (have.of[i].model)
            assert(weft_model_weights(have.of[i].model) > 0);
        break;
    case 1:
        if (!below(4)) {
            free_model(i);
            ok(below(2) ? weft_model_open(&have.of[i].model, path(), 1)
                        : weft_model_open_at(&have.of[i].model, path(), number(40), 1));
        }
        break;
    case 2:
    case 3:
        if (weft_model_describe(have.of[i].model, &info) == WEFT_OK && info.params < 100000)
            ok(weft_model_init(have.of[i].model));
        break;
    case 4:
        if (!below(8))
            ok(weft_model_save(maybe(have.of[i].model), path()));
        break;
    case 5:
        if (!below(8)) {
            free_dependents(i);
            ok(weft_model_load(maybe(have.of[i].model), path()));
        }
        break;
    case 6:
        ok(weft_model_describe(maybe(have.of[i].model), maybe(&info)));
        break;
    case 7:
        ok(weft_model_verify(have.of[i].model, "no such gate", NULL, NULL));
        break;
    default:
        ok(weft_model_weight(maybe(have.of[i].model), (int)number(40), maybe(&view)));
    }
}

/* ---- objects created from models */

static void call_forward(int i)
{
    static float x[BATCH * CONTEXT * 64], y[BATCH * CONTEXT * 64];
    int64_t n = number(BATCH), length = number(CONTEXT);
    struct weft_model_info info = {0};
    switch (below(4)) {
    case 0:
        weft_forward_free(have.of[i].forward);
        if (below(2))
            ok(weft_forward_create(&have.of[i].forward, maybe(have.of[i].model), n, length));
        else
            ok(weft_forward_create_blocks(&have.of[i].forward, maybe(have.of[i].model), n, length, number(1),
                                          number(2)));
        break;
    default:
        if (!have.of[i].model || weft_model_describe(have.of[i].model, &info) || info.vocab > 64 || info.width > 64 ||
            n > BATCH || length > CONTEXT)
            break; /* the arrays would be too small */
        if (below(2))
            ok(weft_forward_tokens(maybe(have.of[i].forward), n, length, tokens(BATCH * CONTEXT), maybe(y)));
        else
            ok(weft_forward_activations(maybe(have.of[i].forward), n, length, maybe(x), maybe(y)));
    }
}

static void call_trainer(int i)
{
    struct weft_loss_terms losses;
    struct weft_tensor_view view;
    struct weft_trainer **t = &have.of[i].trainer;
    switch (below(7)) {
    case 0:
        weft_trainer_free(*t);
        ok(weft_trainer_create(t, maybe(have.of[i].model), below(3) ? 8 : number(CONTEXT)));
        break;
    case 1:
    case 2:
        ok(weft_trainer_gradient(maybe(*t), below(3) ? BATCH : number(4), tokens(16), below(4) ? tokens(16) : NULL,
                                 &losses));
        break;
    case 3:
        ok(weft_trainer_update(maybe(*t)));
        break;
    case 4:
        ok(weft_trainer_step(*t, 0, NULL, NULL, maybe(&losses)));
        break;
    case 5:
        ok(weft_trainer_weight(maybe(*t), (int)number(30), maybe(&view)));
        break;
    default:
        if (below(20))
            assert(weft_trainer_steps(*t) >= 0);
        else if (below(2))
            ok(weft_trainer_save(*t, path()));
        else
            ok(weft_trainer_load(*t, path()));
    }
}

static void call_session(int i, int s)
{
    struct weft_session **session = &have.of[i].session[s];
    struct weft_session_size size = {number(SEQUENCES), below(2) ? 0 : number(CONTEXT),
                                     below(2) ? CHUNK : number(CHUNK), below(2) ? 0 : number(4), below(2)};
    struct weft_session_memory memory;
    struct weft_feed feeds[4];
    const float *logits;
    switch (below(8)) {
    case 0:
        if (*session && below(4))
            break;
        weft_session_free(*session);
        ok(weft_session_create(session, maybe(have.of[i].model), maybe(&size)));
        break;
    case 1:
        ok(weft_session_fork(maybe(*session), number(SEQUENCES), number(SEQUENCES)));
        break;
    case 2:
        ok(weft_session_reset(maybe(*session), number(SEQUENCES)));
        break;
    case 3:
        ok(weft_session_describe(maybe(*session), maybe(&memory)));
        assert(weft_session_length(*session, number(SEQUENCES)) >= -1);
        break;
    default:
        for (int f = 0; f < 4; f++) {
            int64_t n = below(4) ? 1 + below(6) : number(CHUNK);
            feeds[f] = (struct weft_feed){below(8) ? f : number(SEQUENCES), tokens(n), n > 4096 ? below(2) - n : n};
        }
        if (ok(weft_session_feed(maybe(*session), maybe(feeds), below(9) ? 1 + (int)below(3) : (int)below(5) - 1,
                                 &logits)))
            assert(isfinite(logits[0]));
    }
}

static void call_sampler(void)
{
    static float logits[VOCAB];
    struct weft_sampling how = {real(), number(VOCAB), real(), real(), real()};
    int32_t token = -1;
    double logprob = 0;
    if (!below(4)) {
        weft_sampler_free(have.sampler);
        ok(weft_sampler_create(&have.sampler, maybe(&how), below(4) ? VOCAB : number(1) % VOCAB));
        return;
    }
    for (int i = 0; i < VOCAB; i++)
        logits[i] = below(40) ? (float)below(100) / 10 - 5 : (float)real();
    const int32_t *past = tokens(8);
    if (ok(weft_sampler_draw(maybe(have.sampler), maybe(logits), past, past ? below(9) : 0, next(), next(),
                             maybe(&token), maybe(&logprob))))
        assert(token >= 0 && token < VOCAB && logprob <= 0);
}

static void call_tokenizer(void)
{
    char text[64];
    int32_t list[64];
    size_t count;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)next();
    switch (below(6)) {
    case 0:
        weft_tokenizer_free(have.tokenizer);
        ok(below(3) ? weft_tokenizer_bytes(&have.tokenizer) : weft_tokenizer_load(&have.tokenizer, path()));
        break;
    case 1:
        ok(weft_tokenizer_save(maybe(have.tokenizer), path()));
        break;
    case 2:
        assert(weft_tokenizer_vocab(maybe(have.tokenizer)) >= 0 && weft_tokenizer_end(maybe(have.tokenizer)) >= -1 &&
               weft_tokenizer_begin(maybe(have.tokenizer)) >= -1);
        break;
    case 3:
        ok(weft_tokenizer_decode(maybe(have.tokenizer), tokens(64), (size_t)below(64), maybe(text), (size_t)below(64),
                                 maybe(&count)));
        break;
    default:
        ok(weft_tokenizer_encode(maybe(have.tokenizer), maybe(text), (size_t)below(64), below(2), maybe(list),
                                 (size_t)below(64), maybe(&count)));
    }
}

static void call_rest(void)
{
    static const struct weft_train_options impossible = {.resume = true};
    struct weft_cancel *cancel;
    struct weft_train_result result;
    switch (below(6)) {
    case 0:
        ok(weft_threads_set((int)number(2) % 4));
        break;
    case 1:
        ok(weft_cancel_create(&cancel));
        weft_cancel_set(maybe(cancel));
        weft_cancel_free(cancel);
        break;
    case 2:
        ok(weft_train(maybe(have.config), &impossible, &result));
        break;
    case 3:
        ok(weft_study_results(path(), NULL, NULL));
        ok(weft_ablate(NULL, path(), NULL));
        break;
    case 4:
        weft_log_set(below(2) ? note : NULL, &have);
        break;
    default:
        assert(*weft_version() && *weft_build_info());
    }
}

static void call(void)
{
    int i = (int)below(MODELS);
    switch (below(16)) {
    case 0:
        call_config();
        break;
    case 1:
    case 2:
        call_model(i);
        break;
    case 3:
        call_forward(i);
        break;
    case 4:
    case 5:
        call_trainer(i);
        break;
    case 6:
    case 7:
        call_sampler();
        break;
    case 8:
        call_tokenizer();
        break;
    case 9:
        call_rest();
        break;
    default:
        call_session(i, (int)below(SESSIONS));
    }
}

int main(void)
{
    const char *calls = getenv("CALLS"), *seed = getenv("SEED");
    long n = calls ? atol(calls) : 30000;
    char command[64];
    state = seed ? strtoull(seed, NULL, 10) : 1;
    if (!mkdtemp(folder))
        return 1;
    for (long c = 0; c < n; c++)
        call();
    for (int i = 0; i < MODELS; i++)
        free_model(i);
    weft_sampler_free(have.sampler);
    weft_tokenizer_free(have.tokenizer);
    weft_config_free(have.config);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    printf("1..1\nok 1 - %ld random calls of the public interface\n", n);
    return system(command);
}
