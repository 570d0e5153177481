/* SPDX-License-Identifier: MIT
 *
 * api.c - the public interface has the same results as the rooms below it, for any caller and number of calling
 * threads. tests/unit/api_calls.c tests bad arguments.
 *
 * run-tests: 24 s, asan 60 s
 */
#include "test.h"

#include <math.h>
#include <pthread.h>

enum { VOCAB = 33, CONTEXT = 150, STEPS = 3 };

static struct weft_config *make_config(const char *preset, const char *more)
{
    static const char *const small[] = {"layers=2", "width=32", "heads=4",        "vocab=33",        "context=150",
                                        "batch=2",  "steps=3",  "eval_samples=4", "recall_length=20"};
    struct weft_config *c;
    check(weft_config_create(&c, preset));
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        check(weft_config_set(c, small[i]));
    if (more)
        check(weft_config_set(c, more));
    return c;
}

static struct weft_model *make_model(const char *preset, const char *more, int threads)
{
    struct weft_config *c = make_config(preset, more);
    struct weft_model *m;
    check(weft_model_create(&m, c, threads));
    check(weft_model_init(m));
    weft_config_free(c);
    return m;
}

static void hash_of(const struct weft_model *m, char hash[65])
{
    struct weft_model_info info;
    check(weft_model_describe(m, &info));
    memcpy(hash, info.weights_sha256, 65);
}

static void make_tokens(int32_t *tokens, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        tokens[i] = (int32_t)weft_below(7, (uint64_t)i, VOCAB);
}

/* ---- configs and models */

static void test_config(void **state)
{
    struct weft_config *c = make_config("llama", "geom=w2");
    struct weft_model *m;
    char value[40];
    check(weft_config_value(c, "geom", value, sizeof value));
    assert_string_equal(value, "w2");
    check(weft_config_value(c, "lr", value, sizeof value));
    assert_string_equal(value, "0.001");
    check_error(weft_config_value(c, "nothing", value, sizeof value), WEFT_INVALID, "no option nothing");
    check_error(weft_config_value(c, "geom", value, 2), WEFT_INVALID, "too small");
    check_error(weft_config_set(c, "geom"), WEFT_INVALID, "geom");
    check(weft_config_set(c, "heads=5"));
    check_error(weft_model_create(&m, c, 0), WEFT_INVALID, "heads");
    assert_null(m);
    check(weft_config_set(c, "heads=4"));
    check(weft_config_set(c, "latents=8"));
    check_error(weft_model_create(&m, c, 0), WEFT_INVALID, "latents");
    weft_config_free(c);
}

static void test_save_and_open(void **state)
{
    char folder[] = "/tmp/weft-api-XXXXXX", hash[2][65], command[64];
    struct weft_model *m = make_model("ra-mla", "m2=no", 1), *other;
    assert_non_null(mkdtemp(folder));
    check_error(weft_model_open(&other, folder, 1), WEFT_INVALID, "neither");
    check(weft_model_save(m, folder));
    check(weft_model_open(&other, folder, 2));
    hash_of(m, hash[0]);
    hash_of(other, hash[1]);
    assert_string_equal(hash[0], hash[1]);
    weft_model_free(other);
    weft_model_free(m);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

/* The first tokens of a longer text have the same logits; further ones have some. */
static void compare_sessions(struct weft_model *m, struct weft_model *longer)
{
    enum { LONG = 400 };
    int32_t tokens[LONG];
    const float *logits[2];
    struct weft_session *s[2];
    make_tokens(tokens, LONG);
    for (int i = 0; i < 2; i++) {
        check(weft_session_create(&s[i], i ? longer : m, &(struct weft_session_size){.sequences = 1, .chunk = 250}));
        check(weft_session_feed(s[i], &(struct weft_feed){0, tokens, CONTEXT}, 1, &logits[i]));
    }
    assert_memory_equal(logits[0], logits[1], VOCAB * sizeof(float));
    check_error(weft_session_feed(s[0], &(struct weft_feed){0, tokens, 1}, 1, NULL), WEFT_INVALID, "150");
    check(weft_session_feed(s[1], &(struct weft_feed){0, tokens + CONTEXT, LONG - CONTEXT}, 1, &logits[1]));
    assert_true(isfinite(logits[1][0]));
    check_error(weft_session_feed(s[1], &(struct weft_feed){0, tokens, 1}, 1, NULL), WEFT_INVALID, "400");
    for (int i = 0; i < 2; i++)
        weft_session_free(s[i]);
}

static void compare_weights(struct weft_model *m, struct weft_model *longer)
{
    struct weft_tensor_view a, b;
    assert_int_equal(weft_model_weights(m), weft_model_weights(longer));
    for (int i = 0; i < weft_model_weights(m); i++) {
        check(weft_model_weight(m, i, &a));
        check(weft_model_weight(longer, i, &b));
        for (int64_t e = 0; e < b.count; e++) {
            bool wider = a.dims == 2 && a.dim[1] != b.dim[1]; /* distances; otherwise rows repeat */
            int64_t from = wider ? e / b.dim[1] * a.dim[1] + weft_min(e % b.dim[1], a.dim[1] - 1) : e % a.count;
            assert_true(b.values[e] == a.values[from]);
        }
    }
}

static void test_open_at(void **state)
{
    static const char *const pos[] = {"pos=learned", "pos=relative", "pos=rope", "pos=alibi", "pos=none"};
    for (int i = 0; i < 5; i++) {
        char folder[] = "/tmp/weft-api-XXXXXX", command[64];
        struct weft_model *m = make_model("gpt2", pos[i], 1), *other;
        struct weft_model_info info;
        assert_non_null(mkdtemp(folder));
        check(weft_model_save(m, folder));
        check(weft_model_open_at(&other, folder, 400, 1));
        check(weft_model_describe(other, &info));
        assert_int_equal(info.context, 400);
        compare_weights(m, other);
        compare_sessions(m, other);
        weft_model_free(other);
        check(weft_model_open_at(&other, folder, 60, 1));
        check(weft_model_describe(other, &info));
        assert_int_equal(info.context, 60);
        weft_model_free(other);
        static const int64_t bad[] = {0, -1, INT64_MAX};
        for (int k = 0; k < 3; k++) {
            check_error(weft_model_open_at(&other, folder, bad[k], 1), WEFT_INVALID, "context");
            assert_null(other);
        }
        weft_model_free(m);
        snprintf(command, sizeof command, "rm -rf %s", folder);
        assert_int_equal(system(command), 0);
    }
}

/* ---- forward passes and sessions */

/* A model's blocks, applied to its own embeddings, give its forward pass up to the last norm. */
static void test_blocks(void **state)
{
    enum { LENGTH = 70, WIDTH = 32, COUNT = LENGTH * WIDTH };
    static float x[COUNT], once[COUNT], twice[COUNT];
    struct weft_model *m = make_model("llama", "dtype=f32", 2);
    struct weft_forward *both, *first, *second;
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)weft_normal(3, (uint64_t)i);
    check(weft_forward_create_blocks(&both, m, 1, LENGTH, 0, 2));
    check(weft_forward_create_blocks(&first, m, 2, CONTEXT, 0, 1));
    check(weft_forward_create_blocks(&second, m, 1, LENGTH, 1, 1));
    check(weft_forward_activations(both, 1, LENGTH, x, once));
    check(weft_forward_activations(first, 1, LENGTH, x, twice));
    check(weft_forward_activations(second, 1, LENGTH, twice, twice));
    assert_memory_equal(once, twice, sizeof once);
    check_error(weft_forward_tokens(both, 1, 1, (int32_t[]){1}, x), WEFT_INVALID, "activations");
    check_error(weft_forward_activations(second, 1, LENGTH + 1, x, once), WEFT_INVALID, "created for");
    weft_forward_free(both);
    weft_forward_free(first);
    weft_forward_free(second);
    weft_model_free(m);
    m = make_model("ra-mla", NULL, 1);
    check_error(weft_forward_create_blocks(&both, m, 1, 4, 1, 1), WEFT_INVALID, "start at block 0");
    weft_model_free(m);
}

/* However tokens are fed, and forked on the way, the logits have the bits of the forward pass. */
static void compare_session(const char *preset, const char *more)
{
    enum { LENGTH = 140, FIRST = 90 };
    static float whole[LENGTH * VOCAB];
    int32_t tokens[LENGTH];
    const float *logits;
    struct weft_model *m = make_model(preset, more, 1);
    struct weft_forward *f;
    struct weft_session *s;
    make_tokens(tokens, LENGTH);
    check(weft_forward_create(&f, m, 1, LENGTH));
    check(weft_forward_tokens(f, 1, LENGTH, tokens, whole));
    check(weft_session_create(&s, m, &(struct weft_session_size){.sequences = 3, .chunk = 100}));
    check(weft_session_feed(s, (struct weft_feed[]){{1, tokens, FIRST}, {0, tokens, 7}}, 2, &logits));
    assert_memory_equal(logits, whole + (FIRST - 1) * VOCAB, VOCAB * sizeof *logits);
    assert_memory_equal(logits + VOCAB, whole + 6 * VOCAB, VOCAB * sizeof *logits);
    check(weft_session_fork(s, 1, 2));
    check(weft_session_reset(s, 1));
    check(weft_session_feed(s, &(struct weft_feed){1, tokens + 5, 60}, 1, NULL)); /* on the pages that became free */
    check(weft_session_feed(s, &(struct weft_feed){2, tokens + FIRST, LENGTH - FIRST}, 1, &logits));
    assert_memory_equal(logits, whole + (LENGTH - 1) * VOCAB, VOCAB * sizeof *logits);
    assert_int_equal(weft_session_length(s, 2), LENGTH);
    weft_session_free(s);
    weft_forward_free(f);
    weft_model_free(m);
}

static void test_session(void **state)
{
    compare_session("gpt2", NULL);
    compare_session("w2", "dtype=f32");
    compare_session("llama", "ra_alpha=0.5");
    compare_session("ra-mla", "m1_mode=prefix");
}

/* Absorbed decoding rounds otherwise than prefill: which of them a feed gets depends on that feed alone. */
static void test_mixed(void **state)
{
    enum { FIRST = 70 };
    static float alone[2][VOCAB];
    int32_t tokens[FIRST + 1];
    const float *logits;
    struct weft_model *m = make_model("ra-mla", NULL, 1);
    struct weft_session *s;
    make_tokens(tokens, FIRST + 1);
    check(weft_session_create(&s, m, &(struct weft_session_size){.sequences = 3, .chunk = 100}));
    for (int i = 0; i < 2; i++)
        check(weft_session_feed(s, &(struct weft_feed){i, tokens, FIRST}, 1, &logits));
    memcpy(alone[0], logits, sizeof alone[0]);
    check(weft_session_feed(s, &(struct weft_feed){0, tokens + FIRST, 1}, 1, &logits));
    memcpy(alone[1], logits, sizeof alone[1]);
    const struct weft_feed both[] = {{2, tokens, FIRST}, {1, tokens + FIRST, 1}};
    check(weft_session_feed(s, both, 2, &logits));
    assert_memory_equal(logits, alone, sizeof alone);
    weft_session_free(s);
    weft_model_free(m);
}

static void test_pages(void **state)
{
    int32_t tokens[CONTEXT];
    struct weft_model *m = make_model("llama", NULL, 1);
    struct weft_session *s;
    struct weft_session_memory memory;
    make_tokens(tokens, CONTEXT);
    check(weft_session_create(&s, m, &(struct weft_session_size){.sequences = 3, .chunk = 150, .pages = 3}));
    check(weft_session_describe(s, &memory));
    assert_int_equal(memory.free_pages, 3);
    assert_int_equal(memory.cache_bytes, 3 * 64 * memory.cache_token_bytes);
    check(weft_session_feed(s, &(struct weft_feed){0, tokens, 100}, 1, NULL));
    check_error(weft_session_feed(s, &(struct weft_feed){1, tokens, 65}, 1, NULL), WEFT_NOMEM, "1 free pages");
    assert_int_equal(weft_session_length(s, 1), 0);
    check(weft_session_fork(s, 0, 1)); /* shares a page, and copies the other */
    check_error(weft_session_fork(s, 0, 2), WEFT_NOMEM, "no free page");
    check(weft_session_reset(s, 0));
    check(weft_session_feed(s, &(struct weft_feed){1, tokens, 28}, 1, NULL));
    check(weft_session_feed(s, &(struct weft_feed){1, tokens, 1}, 1, NULL));
    check_error(weft_session_feed(s, &(struct weft_feed){2, tokens, 1}, 1, NULL), WEFT_NOMEM, "free pages");
    check_error(weft_session_feed(s, &(struct weft_feed){2, tokens, 1}, 4, NULL), WEFT_INVALID, "pass 1 to 3");
    check_error(weft_session_feed(s, &(struct weft_feed){2, tokens, 1}, -1, NULL), WEFT_INVALID, "pass 1 to 3");
    weft_session_free(s);
    const struct weft_session_size many = {.sequences = 3, .chunk = 150, .pages = (int64_t)1 << 62};
    check_error(weft_session_create(&s, m, &many), WEFT_INVALID, "need at most 9");
    weft_model_free(m);
}

/* ---- training */

/* The task's samples step by step, with and without a checkpoint between, give what a run gives. */
static void test_trainer(void **state)
{
    char folder[] = "/tmp/weft-api-XXXXXX", hash[65], command[64];
    struct weft_config *c = make_config("w2", NULL);
    struct weft_train_result result;
    struct weft_model *m = make_model("w2", NULL, 2);
    struct weft_trainer *t;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 2; i++)
        check_error(weft_train(c, &(struct weft_train_options){.seconds = i ? NAN : -1}, NULL), WEFT_INVALID,
                    "pass 0 or more");
    check(weft_train(c, &(struct weft_train_options){.threads = 1}, &result));
    assert_true(result.finished && result.steps == STEPS && result.gates_failed == 0);
    check(weft_trainer_create(&t, m, 0));
    check_error(weft_trainer_update(t), WEFT_INVALID, "no gradient");
    check(weft_trainer_step(t, 0, NULL, NULL, NULL));
    check(weft_trainer_save(t, folder));
    weft_trainer_free(t);
    check(weft_model_init(m));
    check(weft_trainer_create(&t, m, 0));
    check(weft_trainer_load(t, folder));
    assert_int_equal(weft_trainer_steps(t), 1);
    for (int i = 1; i < STEPS; i++)
        check(weft_trainer_step(t, 0, NULL, NULL, NULL));
    hash_of(m, hash);
    assert_string_equal(hash, result.weights_sha256);
    weft_trainer_free(t);
    weft_model_free(m);
    weft_config_free(c);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static void test_own_samples(void **state)
{
    enum { LENGTH = 9, COUNT = 2 * LENGTH };
    int32_t tokens[COUNT], targets[COUNT];
    struct weft_model *m = make_model("llama", "dtype=f32", 1);
    struct weft_trainer *t;
    struct weft_loss_terms losses;
    struct weft_tensor_view weight;
    make_tokens(tokens, COUNT);
    make_tokens(targets, COUNT);
    check(weft_trainer_create(&t, m, LENGTH));
    check(weft_trainer_gradient(t, 2, tokens, targets, &losses));
    assert_true(fabs(losses.term[0].value - log(VOCAB)) < 0.3);
    for (int i = 0; i < COUNT; i++) /* tokens that are not scored have no gradient */
        targets[i] = -1;
    check(weft_trainer_gradient(t, 2, tokens, targets, &losses));
    for (int i = 0; i < weft_model_weights(m); i++) {
        check(weft_trainer_weight(t, i, &weight));
        for (int64_t e = 0; e < weight.count; e++)
            assert_true(weight.values[e] == 0);
    }
    check_error(weft_trainer_gradient(t, 1, tokens, targets, NULL), WEFT_INVALID, "2 samples");
    targets[4] = VOCAB;
    check_error(weft_trainer_gradient(t, 2, tokens, targets, NULL), WEFT_INVALID, "target 4 is 33");
    tokens[COUNT - 1] = -1;
    check_error(weft_trainer_gradient(t, 2, tokens, targets, NULL), WEFT_INVALID, "token 17 is -1");
    check_error(weft_trainer_gradient(t, 2, NULL, NULL, NULL), WEFT_INVALID, "NULL");
    weft_trainer_free(t);
    weft_model_free(m);
}

/* ---- studies */

struct seen {
    int64_t done, runs; /* as last reported */
    int arms;
    struct weft_arm_result arm[2];
    const char *within; /* subfolder of the study's folder whose results are read; NULL: the folder itself */
    char name[2][16], verdict[2][32];
};

static void take_arm(void *context, const struct weft_arm_result *arm)
{
    struct seen *s = context;
    assert_true(s->arms < 2);
    snprintf(s->name[s->arms], sizeof s->name[0], "%s", arm->name);
    snprintf(s->verdict[s->arms], sizeof s->verdict[0], "%s", arm->verdict);
    s->arm[s->arms++] = *arm;
}

static void count_runs(void *context, int64_t done, int64_t runs)
{
    struct seen *s = context;
    s->done = done;
    s->runs = runs;
}

/* Runs are processes of the program weft. */
static void run_study(const char *const *settings, struct seen *s)
{
    const char *program = getenv("WEFT") ? getenv("WEFT") : "build/weft";
    char folder[] = "/tmp/weft-api-XXXXXX", command[64], path[64];
    if (SANITIZED || access(program, X_OK))
        skip(); /* programs of the sanitizers start slowly */
    assert_non_null(mkdtemp(folder));
    check(weft_program_set(program));
    const struct weft_ablate_options o = {.settings = settings, .context = s, .on_progress = count_runs};
    check(weft_ablate("tests/fixtures/recall", folder, &o));
    snprintf(path, sizeof path, "%s/%s", folder, s->within ? s->within : "");
    check(weft_study_results(path, take_arm, s));
    assert_int_equal(s->arms, 2);
    snprintf(path, sizeof path, "%s/ladder.html", folder);
    assert_int_equal(access(path, R_OK) == 0, s->within != NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static void test_study(void **state)
{
    static const char *const settings[] = {"steps=5", "eval_samples=8", "seeds=2",         "layers=1", "width=32",
                                           "heads=2", "context=16",     "recall_length=8", "batch=4",  NULL};
    struct seen s = {0};
    check_error(weft_ablate("tests/fixtures/recall", "/tmp/weft-none", NULL), WEFT_INVALID, "weft_program_set");
    check_error(weft_program_set("/nowhere/weft"), WEFT_IO, "/nowhere/weft");
    run_study(settings, &s);
    assert_true(s.done == 4 && s.runs == 4);
    assert_string_equal(s.name[0], "dot");
    assert_string_equal(s.name[1], "w2");
    assert_true(s.arm[0].seeds == 2 && s.arm[1].seeds == 2 && s.arm[1].loss > 0);
    assert_true(s.arm[1].params > s.arm[0].params);
    assert_true(s.arm[1].low <= s.arm[1].difference && s.arm[1].difference <= s.arm[1].high);
}

/* A large difference is decided at the first look: the study is done, although not all planned runs are. */
static void test_study_looks(void **state)
{
    static const char *const settings[] = {"arms=slow: lr=1e-8 | fast: lr=3e-3",
                                           "looks=3,5",
                                           "layers=1",
                                           "width=32",
                                           "heads=2",
                                           "context=16",
                                           "recall_length=8",
                                           "batch=4",
                                           "steps=200",
                                           "warmup=5",
                                           "eval_samples=256",
                                           NULL};
    if (sanitized_one_of(2) > 1)
        skip();
    struct seen s = {0};
    run_study(settings, &s);
    assert_true(s.done == 6 && s.runs == 10);
    assert_string_equal(s.verdict[1], "better");
}

/* The rungs of a ladder are studies, in folders of their own. */
static void test_ladder(void **state)
{
    static const char *const settings[] = {"ladder=width=16 | width=32 | width=48",
                                           "layers=1",
                                           "context=16",
                                           "recall_length=8",
                                           "batch=4",
                                           "steps=2",
                                           "eval_samples=8",
                                           "seeds=3",
                                           NULL};
    if (sanitized_one_of(2) > 1)
        skip();
    struct seen s = {.within = "rung-3"};
    run_study(settings, &s);
    assert_true(s.done == 6 && s.runs == 6 && s.arm[0].seeds == 3);
}

/* ---- samplers */

/* The fraction of each of three tokens in many draws. */
static void shares(const struct weft_sampling *how, double share[3])
{
    static const float logits[3] = {1, 3, 2};
    enum { DRAWS = 20000 };
    struct weft_sampler *s;
    int32_t token, again;
    check(weft_sampler_create(&s, how, 3));
    memset(share, 0, 3 * sizeof *share);
    for (uint64_t i = 0; i < DRAWS; i++) {
        check(weft_sampler_draw(s, logits, NULL, 0, 5, i, &token, NULL));
        check(weft_sampler_draw(s, logits, NULL, 0, 5, i, &again, NULL));
        assert_int_equal(token, again);
        share[token] += 1.0 / DRAWS;
    }
    weft_sampler_free(s);
}

static void test_sampler(void **state)
{
    const double e = exp(1), sum = 1 + e + e * e;
    const struct {
        struct weft_sampling how;
        double share[3];
    } rows[] = {{{.temperature = 0}, {0, 1, 0}},
                {{.temperature = 1}, {1 / sum, e * e / sum, e / sum}},
                {{.temperature = 0.5}, {1 / (1 + e * e + pow(e, 4)), pow(e, 4) / (1 + e * e + pow(e, 4)), 0.1173}},
                {{.temperature = 1, .top_k = 2}, {0, e / (1 + e), 1 / (1 + e)}},
                {{.temperature = 1, .top_p = 0.7}, {0, e / (1 + e), 1 / (1 + e)}},
                {{.temperature = 1, .top_p = 0.6}, {0, 1, 0}},
                {{.temperature = 1, .top_k = 2, .top_p = 0.7}, {0, 1, 0}}, /* the first of these two has 0.73 */
                {{.temperature = 1, .min_p = 0.2}, {0, e / (1 + e), 1 / (1 + e)}},
                {{.temperature = 1, .top_p = 1}, {1 / sum, e * e / sum, e / sum}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double share[3];
        shares(&rows[i].how, share);
        for (int t = 0; t < 3; t++)
            assert_true(fabs(share[t] - rows[i].share[t]) < 0.015);
    }
}

static void test_penalty(void **state)
{
    const float logits[4] = {2, 3, -1, 3};
    struct weft_sampler *s;
    int32_t token;
    double logprob;
    check(weft_sampler_create(&s, &(struct weft_sampling){.repetition = 2}, 4));
    check(weft_sampler_draw(s, logits, NULL, 0, 0, 0, &token, &logprob));
    assert_int_equal(token, 1); /* the smaller of equal ones */
    assert_true(fabs(logprob + log(exp(-1) + 2 + exp(-4))) < 1e-6);
    check(weft_sampler_draw(s, logits, (int32_t[]){1, 1, 3}, 3, 0, 0, &token, NULL));
    assert_int_equal(token, 0); /* 1.5 twice, not 0.75 */
    check_error(weft_sampler_draw(s, logits, (int32_t[]){4}, -1, 0, 0, &token, NULL), WEFT_INVALID, "pass 0 or more");
    check_error(weft_sampler_draw(s, logits, (int32_t[]){4}, 1, 0, 0, &token, NULL), WEFT_INVALID, "past is 4");
    weft_sampler_free(s);
    check_error(weft_sampler_create(&s, &(struct weft_sampling){.top_p = 1.5}, 4), WEFT_INVALID, "top_p 1.5");
}

/* ---- many threads, each with a model of its own */

struct own {
    pthread_t thread;
    int number;
    char hash[65];
    float logits[VOCAB];
};

static void *use_own(void *context)
{
    struct own *o = context;
    static const char *const presets[] = {"gpt2", "w2"};
    struct weft_model *m = make_model(presets[o->number % 2], NULL, 1 + o->number % 3);
    struct weft_trainer *t;
    struct weft_session *s;
    const float *logits;
    int32_t tokens[70];
    make_tokens(tokens, 70);
    check(weft_trainer_create(&t, m, 0));
    for (int i = 0; i < STEPS; i++)
        check(weft_trainer_step(t, 0, NULL, NULL, NULL));
    weft_trainer_free(t);
    hash_of(m, o->hash);
    check(weft_session_create(&s, m, &(struct weft_session_size){.sequences = 2}));
    check(weft_session_feed(s, &(struct weft_feed){o->number % 2, tokens, 70}, 1, &logits));
    memcpy(o->logits, logits, sizeof o->logits);
    check_error(weft_session_reset(s, 2 + o->number), WEFT_INVALID, "no sequence");
    weft_session_free(s);
    weft_model_free(m);
    return NULL;
}

static void test_threads(void **state)
{
    enum { THREADS = 8 };
    static struct own own[THREADS];
    for (int i = 0; i < THREADS; i++) {
        own[i].number = i;
        assert_int_equal(pthread_create(&own[i].thread, NULL, use_own, &own[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(own[i].thread, NULL);
        assert_string_equal(own[i].hash, own[i % 2].hash);
        assert_memory_equal(own[i].logits, own[i % 2].logits, sizeof own[i].logits);
    }
    assert_string_not_equal(own[0].hash, own[1].hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config),  cmocka_unit_test(test_save_and_open), cmocka_unit_test(test_open_at),
        cmocka_unit_test(test_blocks),  cmocka_unit_test(test_session),       cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_pages),   cmocka_unit_test(test_trainer),       cmocka_unit_test(test_own_samples),
        cmocka_unit_test(test_sampler), cmocka_unit_test(test_penalty),       cmocka_unit_test(test_threads),
        cmocka_unit_test(test_study),   cmocka_unit_test(test_study_looks),   cmocka_unit_test(test_ladder),
    };
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
