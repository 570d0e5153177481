/* SPDX-License-Identifier: MIT
 *
 * prune.c - pruning in training: the schedule, the choice of weights, that they stay pruned, and masks in checkpoints.
 * ranks.c tests several ranks, and the gate the whole definition (check/trainer/pruned.c).
 *
 * run-tests: 1 s, asan 5 s
 */
#include "train/prune/prune.h"
#include "stage.h"
#include "train/record/record.h"

#include <math.h>

#define SCHEDULE "steps=20 warmup=0 lr=0.01 prune=0.8 prune_begin=0.1 prune_end=0.6 prune_every=3 "

static const struct weft_param *find(const struct stage *s, const char *name)
{
    int i = weft_params_find(&s->model->params, name);
    assert_true(i >= 0);
    return &s->model->params.list[i];
}

static bool is_pruned(const struct stage *s, const struct weft_param *w, int64_t e)
{
    return weft_mask_of(s->t, w)[e / 32] >> e % 32 & 1;
}

static int64_t count(const struct stage *s, const struct weft_param *w)
{
    int64_t n = 0;
    for (int64_t e = 0; e < w->count; e++)
        n += is_pruned(s, w, e);
    return n;
}

/* b = 2, e = 12; due at 5, 8, 11 and 12. */
static void sparsity_follows_the_cubic_schedule(void **state)
{
    (void)state;
    static const double of_1024[] = {0, 0, 0, 0, 0, 538, 538, 538, 766, 766, 766, 818, 819, 819};
    struct stage s;
    open_stage(&s, "gpt2", SCHEDULE, NULL);
    const struct weft_param *w = find(&s, "blocks.0.attn.wq");
    assert_int_equal(w->count, 1024);
    assert_true(weft_recipe_sparsity(&s.recipe, 0.8, 2) == 0);
    assert_true(weft_recipe_sparsity(&s.recipe, 0.8, 12) == 0.8);
    assert_true(fabs(weft_recipe_sparsity(&s.recipe, 0.8, 7) - 0.7) < 1e-12);
    for (int64_t step = 1; step <= 13; step++) {
        take_steps(&s, step);
        assert_int_equal(count(&s, w), (int64_t)of_1024[step]);
    }
    assert_int_equal(s.t->pruned, 4 * 819 + 2 * 1638);
    close_stage(&s);
}

static void chosen_matrices_alone_are_pruned(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        int attention, ffn, mechanism, embedding; /* percent */
    } cases[] = {{"", 50, 50, 50, 0},
                 {"prune_attention=no", 0, 50, 50, 0},
                 {"prune_ffn=no", 50, 0, 50, 0},
                 {"prune_mechanisms=no", 50, 50, 0, 0},
                 {"prune_embedding=yes", 50, 50, 50, 50}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stage s;
        char text[200];
        snprintf(text, sizeof text, "layers=2 m2=yes m2_rank=8 steps=2 prune=0.5 prune_begin=0 prune_end=0 %s",
                 cases[i].settings);
        open_stage(&s, "gpt2", text, NULL);
        take_steps(&s, 1);
        const struct weft_params *p = &s.model->params;
        for (int n = 0; n < p->count; n++) {
            const struct weft_param *w = &p->list[n];
            int percent = strstr(w->name, ".attn.")  ? cases[i].attention
                          : strstr(w->name, ".ffn.") ? cases[i].ffn
                          : strstr(w->name, ".m2.")  ? cases[i].mechanism
                                                     : cases[i].embedding;
            assert_int_equal(count(&s, w), w->ndim > 1 ? w->count * percent / 100 : 0);
        }
        close_stage(&s);
    }
}

/* With a learning rate of 0, the weights are still those from which the mask was computed. */
static void the_smallest_go_and_of_equal_ones_the_first(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "gpt2", "lr=0 steps=2 prune=0.5 prune_begin=0 prune_end=0", NULL);
    const struct weft_param *w = find(&s, "blocks.0.ffn.fc");
    float *values = s.model->params.weights + w->offset;
    assert_int_equal(w->count, 2048);
    for (int64_t e = 0; e < w->count; e++)
        values[e] = e < 100 ? 2 : e < 1000 ? -1 : e < 1100 ? 0.5F : e < 2000 ? 1 : -0.25F;
    take_steps(&s, 1);
    /* 48 of 0.25, 100 of 0.5, and of the 1800 of magnitude 1 the first 876 */
    for (int64_t e = 0; e < w->count; e++) {
        bool goes = e >= 2000 || (e >= 1000 && e < 1100) || (e >= 100 && e < 976);
        assert_int_equal(is_pruned(&s, w, e), goes);
        assert_true(goes ? values[e] == 0 && !signbit(values[e]) : values[e] != 0);
    }
    close_stage(&s);
}

/* Weights that are 0 for a different reason do not restore pruned ones. */
static void masks_only_grow(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "gpt2", SCHEDULE "prune_every=1", NULL);
    const struct weft_param *w = find(&s, "blocks.0.attn.wo");
    bool before[1024] = {0};
    for (int64_t step = 1; step <= 20; step++) {
        for (int64_t e = 0; e < 300; e++)
            s.model->params.weights[w->offset + e] = 0;
        take_steps(&s, step);
        for (int64_t e = 0; e < w->count; e++) {
            bool now = is_pruned(&s, w, e);
            int64_t at = w->offset + e;
            assert_true(now >= before[e]);
            if (now)
                assert_true(s.model->params.weights[at] == 0 && s.t->moments[0][at] == 0 && s.t->moments[1][at] == 0);
            before[e] = now;
        }
    }
    close_stage(&s);
}

/* Nor do those count as pruned. */
static void weights_that_are_0_anyway_are_pruned_in_their_turn(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "gpt2", "lr=0 steps=8 prune=0.8 prune_begin=0 prune_end=1 prune_every=1", NULL);
    const struct weft_param *w = find(&s, "blocks.0.attn.wo");
    memset(s.model->params.weights + w->offset, 0, 900 * sizeof(float));
    for (int64_t step = 1; step <= 8; step++) {
        take_steps(&s, step);
        assert_int_equal(count(&s, w), weft_prune_count(&s.recipe, w, step));
    }
    close_stage(&s);
}

/* An optimiser that changes weights even if their gradients are 0. */
static void push(const void *options, const struct weft_update *u, const struct weft_span *span)
{
    (void)options;
    for (int64_t i = span->first; i < span->first + span->count; i++)
        u->weights[i] = u->moments[0][i] = u->moments[1][i] = 0.5F;
}

static void no_optimiser_moves_what_is_pruned(void **state)
{
    (void)state;
    struct stage s;
    const struct weft_optim pushing = {.name = "pushing", .update = push};
    open_stage(&s, "gpt2", "steps=2 prune=0.5 prune_begin=0 prune_end=0", NULL);
    take_steps(&s, 1);
    s.recipe.optim = &pushing;
    take_steps(&s, 2);
    const struct weft_param *w = find(&s, "blocks.0.ffn.proj");
    for (int64_t e = 0; e < w->count; e++) {
        float wanted = is_pruned(&s, w, e) ? 0 : 0.5F;
        int64_t at = w->offset + e;
        assert_true(s.model->params.weights[at] == wanted && s.t->moments[0][at] == wanted &&
                    s.t->moments[1][at] == wanted);
    }
    close_stage(&s);
}

/* A pruned weight has no part in the norm of the gradient. */
static void the_norm_is_that_of_what_is_kept(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "gpt2", "lr=0 steps=2 prune=0.9 prune_begin=0 prune_end=0 prune_embedding=yes", NULL);
    take_steps(&s, 1);
    check(weft_learner_gradient(s.t));
    const struct weft_params *p = &s.model->params;
    double kept = 0, all = 0;
    for (int i = 0; i < p->count; i++)
        for (int64_t e = 0; e < p->list[i].count; e++) {
            double g = s.t->sums[0].grads[p->list[i].offset + e];
            all += g * g;
            kept += is_pruned(&s, &p->list[i], e) ? 0 : g * g;
        }
    check(weft_learner_update(s.t));
    assert_true(kept < 0.9 * all);
    assert_true(fabs(s.t->grad_norm - sqrt(kept)) < 1e-5 * sqrt(kept));
    close_stage(&s);
}

/* ---- checkpoints */

static void resumed_training_has_the_same_bits(void **state)
{
    (void)state;
    check_resume_of_pruning(SCHEDULE "width=48 ffn_width=80 batch=2", 7, "run"); /* between two growths */
}

static void move_masks(const char *from, const char *to)
{
    char path[2][300];
    snprintf(path[0], sizeof path[0], "%s/masks.safetensors", from);
    snprintf(path[1], sizeof path[1], "%s/masks.safetensors", to);
    assert_int_equal(rename(path[0], path[1]), 0);
}

static void masks_of_another_step_are_refused(void **state)
{
    (void)state;
    static const char *const settings[] = {SCHEDULE, SCHEDULE "prune=0 prune_channels=0.8"};
    for (int n = 0; n < 2; n++) {
        struct stage s;
        char run[16], from[256], to[256];
        snprintf(run, sizeof run, "two%d", n);
        open_stage(&s, "gpt2", settings[n], NULL);
        take_steps(&s, 5);
        check(weft_state_save_alone(s.t, in_scratch(run), "{}"));
        take_steps(&s, 8);
        check(weft_state_save_alone(s.t, in_scratch(run), "{}"));
        snprintf(from, sizeof from, "%s/step-000000005", in_scratch(run));
        snprintf(to, sizeof to, "%s/step-000000008", in_scratch(run));
        move_masks(from, to);
        check_error(weft_state_load_one(s.t, to), WEFT_FORMAT, "do not match");
        check_error(weft_state_load_one(s.t, from), WEFT_IO, "masks.safetensors");
        close_stage(&s);
    }
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    struct stage s = {0};
    check(add_settings(&s.settings, "prune=0.5 prune_begin=0.6 prune_end=0.5"));
    check(weft_spec_init(&s.spec, "gpt2", &s.settings));
    check_error(weft_recipe_init(&s.recipe, &s.spec, &s.settings), WEFT_INVALID, "prune_begin=0.6 is after");
    close_stage(&s);
    s = (struct stage){0};
    check(add_settings(&s.settings, "prune=0.5 prune_attention=no prune_ffn=no"));
    open_recipe(&s, "gpt2");
    check(weft_nn_init(s.model));
    check_error(weft_learner_create(&s.t, s.model, &s.recipe, NULL), WEFT_INVALID, "selects no weight");
    close_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparsity_follows_the_cubic_schedule),
        cmocka_unit_test(chosen_matrices_alone_are_pruned),
        cmocka_unit_test(the_smallest_go_and_of_equal_ones_the_first),
        cmocka_unit_test(masks_only_grow),
        cmocka_unit_test(weights_that_are_0_anyway_are_pruned_in_their_turn),
        cmocka_unit_test(no_optimiser_moves_what_is_pruned),
        cmocka_unit_test(the_norm_is_that_of_what_is_kept),
        cmocka_unit_test(resumed_training_has_the_same_bits),
        cmocka_unit_test(masks_of_another_step_are_refused),
        cmocka_unit_test(contradictions_are_refused),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
