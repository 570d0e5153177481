/* SPDX-License-Identifier: MIT
 *
 * memory.c - running a graph allocates nothing, in any library; and the process grows by the planned number of bytes.
 *
 * This program defines malloc and related functions for every library in the process: they count, then call glibc's.
 *
 * run-tests: 17 s
 */
#include "infer/infer.h"
#include "train/learner.h"
#include "unit/stage.h"

#include <stdatomic.h>

#define COUNTING (!SANITIZED)

static atomic_long allocations;

#if COUNTING
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

void *malloc(size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(n, bytes);
}
void *realloc(void *old, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_realloc(old, bytes);
}
void *aligned_alloc(size_t align, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_memalign(align, bytes);
}
int posix_memalign(void **to, size_t align, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    *to = __libc_memalign(align, bytes);
    return *to ? 0 : 12;
}
#endif

struct subject {
    const char *preset, *settings;
};

static float *grads;

static void open_spec(struct stage *s, const struct subject *subject)
{
    *s = (struct stage){0};
    check(add_settings(&s->settings, subject->settings));
    check(weft_spec_init(&s->spec, subject->preset, &s->settings));
}

static void plan_stage(struct stage *s)
{
    check(weft_nn_create(&s->model, &s->spec));
    check(weft_nn_init(s->model));
    grads = weft_params_array(&s->model->params);
    assert_non_null(grads);
    check(weft_net_init(&s->net, s->model, WEFT_TRAIN,
                        (struct weft_net_size){.sequences = s->spec.batch, .length = s->spec.context}));
    check(weft_exec_create(&s->exec, s->net.g, WEFT_FAST));
    weft_net_bind(&s->net, s->exec, s->model, grads);
    weft_net_plain_rows(&s->net, s->exec, s->spec.batch, s->spec.context);
    weft_exec_prepare(s->exec); /* starts the threads, once per process */
    weft_exec_run(s->exec);
}

static void close_planned(struct stage *s)
{
    weft_params_array_free(&s->model->params, grads);
    close_stage(s);
}

static void running_allocates_nothing(void **state)
{
    if (!COUNTING)
        skip();
    static const struct subject subjects[] = {
        {"gpt2", "dtype=bf16 batch=3 dropout=0.1"},
        {"gpt2", "dtype=f32 batch=3"},
        {"llama", "dtype=bf16 batch=3"},
        {"llama", "dtype=f32 batch=3 dropout=0.1"},
    };
    (void)state;
    long probe = atomic_load(&allocations);
    free(malloc(1));
    assert_true(atomic_load(&allocations) > probe); /* the counter works */
    for (int i = 0; i < 4; i++) {
        struct stage s;
        open_spec(&s, &subjects[i]);
        plan_stage(&s);
        long before = atomic_load(&allocations);
        for (int64_t batch = 1; batch <= 3; batch++) { /* other counts allocate nothing either */
            weft_net_plain_rows(&s.net, s.exec, batch, s.spec.context - batch);
            weft_exec_prepare(s.exec);
            weft_exec_run(s.exec);
        }
        long during = atomic_load(&allocations) - before;
        print_message("%s %s: %ld allocations in 3 runs\n", subjects[i].preset, subjects[i].settings, during);
        assert_int_equal(during, 0);
        close_planned(&s);
    }
}

static void sessions_allocate_nothing(void **state)
{
    if (!COUNTING)
        skip();
    static const struct subject subjects[] = {
        {"gpt2", "dtype=bf16 m1=yes m1_mode=prefix m2=yes ra_alpha=1"},
        {"llama", "dtype=f32 attn=latent"},
    };
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct weft_spec spec;
        struct weft_nn *model;
        struct weft_decoder *session;
        const int32_t tokens[100] = {0};
        const float *logits;
        open_model(&spec, &model, subjects[i].preset, subjects[i].settings);
        check(weft_nn_init(model));
        assert_int_equal(weft_decoder_create(&session, model, (struct weft_decoder_size){2, 128, 100, false, 0}),
                         WEFT_OK);
        long before = atomic_load(&allocations);
        for (int64_t q = 0; q < 2; q++) {
            struct weft_feed many = {q, tokens, 100}, one = {q, tokens, 1};
            assert_int_equal(weft_decoder_run(session, &many, 1, &logits), WEFT_OK);
            assert_int_equal(weft_decoder_run(session, &one, 1, &logits), WEFT_OK);
            assert_int_equal(weft_decoder_reset(session, q), WEFT_OK);
        }
        assert_int_equal(atomic_load(&allocations) - before, 0);
        weft_decoder_free(session);
        close_model(&spec, model);
    }
}

static void planned_is_what_it_takes(void **state)
{
    if (!COUNTING)
        skip();
    static const struct subject subjects[] = {
        {"gpt2-mini", "dtype=bf16 batch=8"},
        {"gpt2-mini", "dtype=f32 batch=4"},
        {"llama", "width=512 heads=8 layers=4 vocab=4096 context=256 batch=4"},
    };
    (void)state;
    struct stage warm; /* loads threads, libraries and their tables before the first measurement */
    open_spec(&warm, &(struct subject){"gpt2", "batch=1"});
    plan_stage(&warm);
    close_planned(&warm);
    for (int i = 0; i < 3; i++) {
        struct stage s;
        open_spec(&s, &subjects[i]);
        int64_t before = weft_resident_bytes();
        plan_stage(&s);
        double grown = (double)(weft_resident_bytes() - before);
        double planned = (double)weft_exec_bytes(s.exec) + 2.0 * sizeof(float) * (double)s.model->params.total;
        print_message("%s %s: planned %.1f MiB, grown %.1f MiB, ratio %.4f\n", subjects[i].preset, subjects[i].settings,
                      planned / 1048576, grown / 1048576, grown / planned);
        assert_true(grown > 0.95 * planned && grown < 1.05 * planned);
        close_planned(&s);
    }
}

/* Steps with several micro-batches, including the memory of their sums. */
static void steps_take_what_is_accounted(void **state)
{
    if (!COUNTING)
        skip();
    static const struct subject subjects[] = {
        {"gpt2-mini", "batch=1 task=recall optim=adamwspam"},
        {"gpt2-mini", "batch=1 task=mqar micro_batches=2"},
        {"gpt2-mini", "batch=1 task=entailment micro_batches=9"},
    };
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct stage s = {0};
        struct weft_losses losses;
        int64_t start = weft_resident_bytes();
        check(add_settings(&s.settings, subjects[i].settings));
        open_settings(&s, subjects[i].preset, NULL);
        long before = atomic_load(&allocations);
        for (int step = 0; step < 2; step++)
            assert_int_equal(weft_learner_step(s.t, &losses), WEFT_OK);
        assert_int_equal(atomic_load(&allocations) - before, 0);
        double grown = (double)(weft_resident_bytes() - start);
        double planned =
            (double)weft_exec_bytes(s.t->exec) + (double)(weft_recipe_state_bytes(&s.recipe) * s.model->params.total);
        print_message("%d sums: planned %.1f MiB, grown %.1f MiB, ratio %.4f\n", s.t->sum_count, planned / 1048576,
                      grown / 1048576, grown / planned);
        assert_true(grown > 0.95 * planned && grown < 1.05 * planned);
        close_stage(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_allocates_nothing), cmocka_unit_test(sessions_allocate_nothing),
        cmocka_unit_test(planned_is_what_it_takes), cmocka_unit_test(steps_take_what_is_accounted)};
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
