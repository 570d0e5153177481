/* SPDX-License-Identifier: MIT
 *
 * score.c - the losses of tokens from the scorer match the logits of a session that is fed token by token, and have the
 * same bits in batches of 1, 3 and 8.
 *
 * run-tests: 1 s, asan 5 s
 */
#include "train/score/score.h"
#include "infer/infer.h"
#include "test.h"
#include "text/text.h"

#include <math.h>

enum { CONTEXT = 70, VOCAB = 257, TOKENS = 200, SEED = 3 };

static const struct subject {
    const char *preset, *settings;
} subjects[] = {
    {"gpt2", "dtype=f32"},
    {"llama", "dtype=bf16 kv_heads=1"},
    {"w2", "dtype=f32 ra_alpha=0.5 ra_window=9"},
    {"gpt2", "dtype=f32 attn=latent latent_width=12 m1=yes m1_mode=prefix m2=yes m2_rank=6"},
    {"ws", "dtype=bf16 ws_heads=4"},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };
static const int64_t batches[] = {1, 3, 8};

struct stage {
    struct weft_spec spec;
    struct weft_nn *model;
    int32_t tokens[TOKENS];
};

static void open_stage(struct stage *s, const struct subject *subject)
{
    char settings[256];
    snprintf(settings, sizeof settings, "layers=2 width=32 heads=4 vocab=%d context=%d ffn_width=40 %s", VOCAB, CONTEXT,
             subject->settings);
    open_model(&s->spec, &s->model, subject->preset, settings);
    check(weft_nn_init(s->model));
    perturb(s->model, SEED);
    for (int i = 0; i < TOKENS; i++)
        s->tokens[i] = (int32_t)weft_below(SEED, (uint64_t)i, VOCAB);
}

/* ---- sequences */

/* By a session: what tokens[from..count) cost after all before them. */
static double by_session(const struct stage *s, const int32_t *tokens, int64_t count, int64_t from)
{
    struct weft_decoder *session;
    const float *logits;
    double nll = 0;
    check(weft_decoder_create(&session, s->model, (struct weft_decoder_size){1, CONTEXT, 1, true, 0}));
    for (int64_t t = 0; t + 1 < count; t++) {
        check(weft_decoder_run(session, &(struct weft_feed){0, tokens + t, 1}, 1, &logits));
        double sum = 0;
        for (int v = 0; v < VOCAB; v++)
            sum += exp((double)logits[v]);
        nll += t + 1 >= from ? log(sum) - (double)logits[tokens[t + 1]] : 0;
    }
    weft_decoder_free(session);
    return nll;
}

/* Sequences of up to a context and one token, and longer ones; `windows` lists the windows that are scored. */
static const struct sequence {
    int64_t count, from;
    int64_t windows[3][3]; /* first token, count, from */
} sequences[] = {
    {2, 1, {{0, 2, 1}}},
    {71, 1, {{0, 71, 1}}},
    {33, 32, {{0, 33, 32}}},
    {65, 3, {{0, 65, 3}}},
    {1, 1, {{0}}},
    {90, 80, {{19, 71, 61}}},                          /* the end fits */
    {100, 29, {{28, 71, 1}, {98, 2, 1}}},              /* one more than a context is scored */
    {200, 1, {{0, 71, 1}, {70, 71, 1}, {140, 60, 1}}}, /* a stream */
};
enum { SEQUENCES = sizeof sequences / sizeof *sequences };

static void score_all(const struct stage *s, int64_t batch, double *nll)
{
    struct weft_scorer *scorer;
    int64_t scored = 0, cut = 0;
    check(weft_scorer_create(&scorer, s->model, batch));
    for (int i = 0; i < SEQUENCES; i++) {
        nll[i] = 0;
        check(weft_scorer_add(scorer, s->tokens, sequences[i].count, sequences[i].from, &nll[i]));
        scored += sequences[i].count - sequences[i].from;
        cut += sequences[i].count > CONTEXT + 1;
    }
    weft_scorer_finish(scorer);
    assert_int_equal(scorer->scored, scored);
    assert_int_equal(scorer->cut, cut);
    weft_scorer_free(scorer);
}

static void costs_are_those_of_sessions(void **state)
{
    (void)state;
    for (int m = 0; m < SUBJECTS; m++) {
        struct stage s;
        double nll[3][SEQUENCES];
        open_stage(&s, &subjects[m]);
        for (int b = 0; b < 3; b++)
            score_all(&s, batches[b], nll[b]);
        assert_memory_equal(nll[0], nll[1], sizeof nll[0]);
        assert_memory_equal(nll[0], nll[2], sizeof nll[0]);
        for (int i = 0; i < SEQUENCES; i++) {
            double want = 0;
            for (int w = 0; w < 3 && sequences[i].windows[w][1]; w++) {
                const int64_t *window = sequences[i].windows[w];
                want += by_session(&s, s.tokens + window[0], window[1], window[2]);
            }
            if (!(fabs(nll[0][i] - want) <= 1e-5 * want))
                fail_msg("%s, sequence %d: %.9g instead of %.9g", subjects[m].preset, i, nll[0][i], want);
        }
        close_model(&s.spec, s.model);
    }
}

static void other_tokens_are_refused(void **state)
{
    (void)state;
    struct stage s;
    struct weft_scorer *scorer;
    double nll;
    open_stage(&s, &subjects[0]);
    check(weft_scorer_create(&scorer, s.model, 2));
    assert_int_equal(weft_scorer_add(scorer, (int32_t[]){1, VOCAB}, 2, 1, &nll), WEFT_INVALID);
    assert_int_equal(weft_scorer_add(scorer, (int32_t[]){-1, 1}, 2, 1, &nll), WEFT_INVALID);
    weft_scorer_free(scorer);
    close_model(&s.spec, s.model);
}

/* ---- files */

static void texts_are_streams(void **state)
{
    (void)state;
    struct stage s;
    char text[TOKENS + 1];
    struct weft_tokenizer *bytes;
    check(weft_tokenizer_bytes(&bytes));
    open_stage(&s, &subjects[1]);
    for (int i = 0; i < TOKENS; i++)
        text[i] = (char)(s.tokens[i] = 'a' + s.tokens[i] % 26);
    text[TOKENS] = 0;
    write_file(in_scratch("data"), text, strlen(text));
    double want[SEQUENCES];
    score_all(&s, 2, want);
    for (int b = 0; b < 3; b++) {
        struct weft_scorer *scorer;
        struct weft_text_score score;
        check(weft_scorer_create(&scorer, s.model, batches[b]));
        check(weft_score_text(scorer, bytes, in_scratch("data"), &score));
        assert_int_equal(score.tokens, TOKENS - 1);
        assert_int_equal(score.bytes, TOKENS);
        assert_memory_equal(&score.nll, &want[SEQUENCES - 1], sizeof score.nll);
        weft_scorer_free(scorer);
    }
    weft_tokenizer_free(bytes);
    close_model(&s.spec, s.model);
}

/* Returns the cost of a text that follows `before`, or the end-of-text token. */
static double cost_of(const struct stage *s, const char *before, const char *text)
{
    int32_t tokens[CONTEXT + 1] = {256};
    int64_t count = *before ? 0 : 1;
    for (; *before; before++)
        tokens[count++] = (unsigned char)*before;
    int64_t from = count;
    for (; *text; text++)
        tokens[count++] = (unsigned char)*text;
    return by_session(s, tokens, count, from);
}

static void items_are_judged(void **state)
{
    (void)state;
    static const char *const queries[] = {"The sky", "Two and two ", "", "Cats", "It is"};
    static const char *const choices[] = {"is blue.", "are four, as everybody knows.", "of", "sat"};
    struct stage s;
    struct weft_tokenizer *bytes;
    char line[400], text[64], all[4000] = "";
    struct weft_items_score want = {0}, score;
    open_stage(&s, &subjects[0]);
    for (int q = 0; q < 5; q++) {
        int best = 0, best_norm = 0;
        double nll[4], norm[4];
        for (int i = 0; i < 4; i++) {
            snprintf(text, sizeof text, "%s%s", q == 1 || q == 2 ? "" : " ", choices[i]);
            nll[i] = cost_of(&s, queries[q], text);
            norm[i] = nll[i] / (double)strlen(choices[i]);
            best = nll[i] < nll[best] ? i : best;
            best_norm = norm[i] < norm[best_norm] ? i : best_norm;
        }
        int gold = q % 2 ? best : q == 2 ? best_norm : (best + 1) % 4; /* some right, some wrong */
        want.right += best == gold;
        want.right_norm += best_norm == gold;
        snprintf(line, sizeof line,
                 "{\"query\": \"%s\", \"choices\": [\"%s\", \"%s\", \"%s\", \"%s\"], \"gold\": %d}\n", queries[q],
                 choices[0], choices[1], choices[2], choices[3], gold);
        strcat(all, line);
    }
    write_file(in_scratch("data"), all, strlen(all));
    check(weft_tokenizer_bytes(&bytes));
    for (int b = 0; b < 3; b++) {
        struct weft_scorer *scorer;
        check(weft_scorer_create(&scorer, s.model, batches[b]));
        check(weft_score_items(scorer, bytes, in_scratch("data"), &score));
        assert_false(score.pairs);
        assert_int_equal(score.items, 5);
        assert_int_equal(score.right, want.right);
        assert_int_equal(score.right_norm, want.right_norm);
        weft_scorer_free(scorer);
    }
    weft_tokenizer_free(bytes);
    close_model(&s.spec, s.model);
}

static void pairs_are_judged(void **state)
{
    (void)state;
    struct stage s;
    struct weft_tokenizer *bytes;
    struct weft_scorer *scorer;
    struct weft_items_score score;
    char all[400];
    open_stage(&s, &subjects[0]);
    const char *cheap = "abc", *dear = "xyz";
    if (cost_of(&s, "", cheap) > cost_of(&s, "", dear)) {
        cheap = "xyz";
        dear = "abc";
    }
    const char *const pairs[3][2] = {{cheap, dear}, {dear, cheap}, {cheap, cheap}}; /* a tie is wrong */
    all[0] = 0;
    for (int i = 0; i < 3; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "{\"sentence_good\": \"%s\", \"sentence_bad\": \"%s\"}\n",
                 pairs[i][0], pairs[i][1]);
    write_file(in_scratch("data"), all, strlen(all));
    check(weft_tokenizer_bytes(&bytes));
    check(weft_scorer_create(&scorer, s.model, 3));
    check(weft_score_items(scorer, bytes, in_scratch("data"), &score));
    assert_true(score.pairs);
    assert_int_equal(score.items, 3);
    assert_int_equal(score.right, 1);
    weft_scorer_free(scorer);
    weft_tokenizer_free(bytes);
    close_model(&s.spec, s.model);
}

/* Newcombe, Statistics in Medicine 17 (1998), table I, method 3. */
static void intervals_are_wilsons(void **state)
{
    (void)state;
    static const struct {
        int64_t right, items;
        double low, high;
    } known[] = {{81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {0, 20, 0, 0.1611}, {1, 29, 0.0061, 0.1718}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double low, high;
        weft_wilson(known[i].right, known[i].items, &low, &high);
        assert_true(fabs(low - known[i].low) < 6e-5 && fabs(high - known[i].high) < 6e-5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_those_of_sessions),
        cmocka_unit_test(other_tokens_are_refused),
        cmocka_unit_test(texts_are_streams),
        cmocka_unit_test(items_are_judged),
        cmocka_unit_test(pairs_are_judged),
        cmocka_unit_test(intervals_are_wilsons),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
