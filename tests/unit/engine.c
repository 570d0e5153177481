/* SPDX-License-Identifier: MIT
 *
 * engine.c - an engine from a different library: WEFT_ENGINE chooses it once, and if it cannot compute a matmul, the
 * operation that needs it ends with an error.
 *
 * The engine in this test is the plain loop, which can be made to fail in a tile of any call.
 *
 * run-tests: 2 s, asan 2 s, tsan 8 s
 */
#include "dnn/engine.h"
#include "check/check.h"
#include "infer/infer.h"
#include "stage.h"
#include "train/learner.h"
#include "train/score/evaluate.h"
#include "train/score/score.h"

#include <stdatomic.h>

static atomic_int failing, packs, tiles; /* failing = n: the n-th tile after this fails */

static enum weft_status plan(struct weft_dnn_plan *p) { return weft_dnn_loop.plan(p); }

static enum weft_status pack(const struct weft_dnn_plan *p, const struct weft_dnn_matrix *w, int64_t depth0,
                             int64_t depth1, int64_t column, int64_t columns, void *panel)
{
    atomic_fetch_add(&packs, 1);
    return weft_dnn_loop.pack(p, w, depth0, depth1, column, columns, panel);
}

static enum weft_status tile(const struct weft_dnn_job *job, int64_t row0, int64_t row1, int64_t panel0, int64_t panel1,
                             void *local)
{
    atomic_fetch_add(&tiles, 1);
    int left = atomic_load(&failing);
    while (left > 0 && !atomic_compare_exchange_weak(&failing, &left, left - 1))
        ;
    if (left == 1)
        return FAIL(WEFT_NOMEM, "a tile has no memory");
    return weft_dnn_loop.tile(job, row0, row1, panel0, panel1, local);
}

static struct weft_dnn_engine engine; /* made in main: the loop's sizes */
static const struct weft_dnn_rival rival = {"fake", &engine, NULL};

static void the_choice_is_made_once(void **state)
{
    (void)state;
    struct weft_dnn_shape s = {WEFT_BF16, 32, 48, 1, false, 8};
    size_t bytes;
    float w[32 * 48] = {0};
    assert_int_equal(weft_dnn_pack_bytes(&s, &bytes), WEFT_OK);
    void *packed = malloc(bytes);
    assert_int_equal(unsetenv("WEFT_ENGINE"), 0); /* as a program around it may do at any time */
    atomic_store(&packs, 0);
    weft_dnn_pack(&s, WEFT_PACK_Y, w, WEFT_F32, packed);
    assert_true(atomic_load(&packs) > 0);
    assert_non_null(strstr(weft_dnn_describe(), "fake"));
    assert_non_null(strstr(weft_dnn_path(), "-fake")); /* the name that runs record */
    free(packed);
}

/* The failure of whatever tile, on whatever thread. */
static void a_step_ends_with_an_error(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"dtype=f32 batch=2", "dtype=bf16 batch=2 micro_batches=2"};
    for (int i = 0; i < 2; i++) {
        struct stage s;
        struct weft_losses losses;
        open_stage(&s, "gpt2", dtypes[i], NULL);
        atomic_store(&tiles, 0);
        check(weft_learner_step(s.t, &losses));
        int all = atomic_load(&tiles);
        for (int at = 1; at <= all; at += all / 7) {
            float *before = copy_of(&s, s.model->params.weights);
            int64_t step = s.t->step;
            atomic_store(&failing, at);
            assert_int_equal(weft_learner_step(s.t, &losses), WEFT_NOMEM);
            assert_int_equal(atomic_load(&failing), 0);
            assert_non_null(strstr(weft_error(), "fake could not compute a matmul of depth"));
            assert_memory_equal(before, s.model->params.weights, bytes(&s));
            assert_int_equal(s.t->step, step);
            free(before);
        }
        check(weft_learner_step(s.t, &losses)); /* nothing is left of it */
        close_stage(&s);
    }
}

static void scores_and_sessions_end_with_an_error(void **state)
{
    (void)state;
    struct stage s;
    struct weft_score score;
    struct weft_scorer *scorer;
    struct weft_decoder *session;
    const int32_t tokens[8] = {0};
    const float *logits;
    double nll = 0;
    open_stage(&s, "gpt2", "batch=2", NULL);
    atomic_store(&failing, 3);
    assert_int_equal(weft_evaluate(s.model, &s.recipe, NULL, 2, WEFT_HELD_OUT, &score), WEFT_NOMEM);
    check(weft_evaluate(s.model, &s.recipe, NULL, 2, WEFT_HELD_OUT, &score));
    atomic_store(&failing, 2);
    assert_int_equal(weft_learner_diagnose(s.t), WEFT_NOMEM);
    check(weft_scorer_create(&scorer, s.model, 2));
    check(weft_scorer_add(scorer, tokens, 8, 1, &nll));
    atomic_store(&failing, 2);
    assert_int_equal(weft_scorer_finish(scorer), WEFT_NOMEM);
    assert_true(nll == 0);
    weft_scorer_free(scorer);
    check(weft_decoder_create(&session, s.model, (struct weft_decoder_size){1, 16, 8, false, 0}));
    atomic_store(&failing, 2);
    assert_int_equal(weft_decoder_run(session, &(struct weft_feed){0, tokens, 8}, 1, &logits), WEFT_NOMEM);
    weft_decoder_free(session);
    close_stage(&s);
}

static void ignore(void *context, const struct weft_opcheck_case *c)
{
    (void)context;
    (void)c;
}

static void checks_end_with_an_error(void **state)
{
    (void)state;
    struct stage s;
    struct weft_opcheck sum;
    open_stage(&s, "gpt2", "", NULL);
    for (int gate = 0; gate < WEFT_GATE_COUNT; gate++) {
        struct weft_gates report = {0};
        atomic_store(&failing, 3);
        enum weft_status status = weft_gates_run(s.model->spec, NULL, 1u << gate, &report);
        if (atomic_exchange(&failing, 0) == 0)
            assert_int_equal(status, WEFT_NOMEM);
    }
    atomic_store(&failing, 3);
    assert_int_equal(weft_opcheck_run("linear", 1, &sum, ignore, NULL), WEFT_NOMEM);
    close_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_choice_is_made_once),
        cmocka_unit_test(a_step_ends_with_an_error),
        cmocka_unit_test(scores_and_sessions_end_with_an_error),
        cmocka_unit_test(checks_end_with_an_error),
    };
    engine = weft_dnn_loop;
    engine.name = "fake";
    engine.plan = plan;
    engine.pack = pack;
    engine.tile = tile;
    weft_dnn_rival = &rival;
    setenv("WEFT_ENGINE", "fake", 1);
    weft_threads_set(4);
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
