/* SPDX-License-Identifier: MIT
 *
 * finite.c - a step with a non-finite value changes no weight, and the error names the place where the value arose.
 *
 * run-tests: 1 s, asan 4 s
 */
#include "stage.h"
#include "train/learner.h"

#include <math.h>

static float *find_weight(const struct stage *s, const char *name)
{
    const struct weft_params *p = &s->model->params;
    int i = weft_params_find(p, name);
    assert_true(i >= 0);
    return p->weights + p->list[i].offset;
}

/* Cutting a spike must not hide that it was infinite. If only the sum is non-finite, the message names its weight. */
static void what_is_not_finite_is_refused(void **state)
{
    (void)state;
    static const char *const optims[] = {"optim=adamw batch=2", "optim=adamwspam batch=2"};
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    static const char *const names[] = {"wte", "blocks.0.ffn.fc", "norm.bias"};
    for (int i = 0; i < 6; i++) {
        struct stage s;
        struct weft_losses losses;
        open_stage(&s, "gpt2", optims[i % 2], NULL);
        while (s.t->step < 30)
            check(weft_learner_step(s.t, &losses));
        float *before = copy_of(&s, s.model->params.weights);
        check(weft_learner_gradient(s.t));
        s.t->sums[0].grads[find_weight(&s, names[i / 2]) - s.model->params.weights + 5] = bad[i / 2];
        assert_int_equal(weft_learner_update(s.t), WEFT_CHECK);
        char text[128];
        snprintf(text, sizeof text, "gradient of %s is not finite at element 5", names[i / 2]);
        assert_non_null(strstr(weft_error(), text));
        assert_memory_equal(before, s.model->params.weights, bytes(&s));
        assert_int_equal(s.t->step, 30);
        free(before);
        close_stage(&s);
    }
}

static void expect_refusal(struct stage *s, const char *text)
{
    struct weft_losses losses;
    int64_t step = s->t->step;
    float *before = copy_of(s, s->model->params.weights);
    assert_int_equal(weft_learner_step(s->t, &losses), WEFT_CHECK);
    if (!strstr(weft_error(), text))
        fail_msg("\"%s\" is not in: %s", text, weft_error());
    assert_memory_equal(before, s->model->params.weights, bytes(s));
    assert_int_equal(s->t->step, step);
    free(before);
}

static void a_bad_weight_is_named(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "gpt2", "layers=3 batch=2", NULL);
    find_weight(&s, "blocks.1.ffn.fc")[7] = NAN;
    expect_refusal(&s, "the value of blocks.1.ffn.fc is not finite at element 7; no weight");
    close_stage(&s);
}

/* Finite weights whose products overflow, so everything after them is also non-finite, in every dtype and with values
 * that are computed twice. */
static void what_overflows_is_named(void **state)
{
    (void)state;
    static const char *const settings[] = {"dtype=f32", "dtype=bf16", "dtype=f32 recompute=yes",
                                           "dtype=f32 dropout=0.3"};
    for (int i = 0; i < 4; i++) {
        struct stage s;
        char text[128];
        snprintf(text, sizeof text, "layers=3 batch=2 %s", settings[i]);
        open_stage(&s, "gpt2", text, NULL);
        find_weight(&s, "blocks.1.norm2.bias")[3] = 4;
        find_weight(&s, "blocks.1.ffn.fc")[9 * 32 + 3] = 3e38f;
        expect_refusal(&s,
                       "the output of linear with blocks.1.ffn.fc in layer 1 is not finite at row 0, element 9; no");
        /* A remedy that is in force already is none. */
        assert_int_equal(strstr(weft_error(), "dtype=f32") != NULL, strstr(settings[i], "bf16") != NULL);
        close_stage(&s);
    }
}

/* The forward pass is finite: a huge weight meets an activation of 0. */
static void a_gradient_that_overflows_is_named(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "gpt2", "layers=3 batch=2", NULL);
    memset(find_weight(&s, "blocks.1.ffn.fc") + 9 * 32, 0, 32 * sizeof(float));
    for (int i = 0; i < 32; i++) {
        find_weight(&s, "blocks.1.ffn.proj")[i * 64 + 9] = i % 2 ? 3e38f : -3e38f;
        find_weight(&s, "norm.gain")[i] = 1000;
    }
    expect_refusal(&s, "the gradient from linear with blocks.1.ffn.proj in layer 1 is not finite at row ");
    assert_non_null(strstr(weft_error(), ", element 9; no"));
    close_stage(&s);
}

static int64_t marked_length(const void *options)
{
    (void)options;
    return 8;
}

/* Token 1 is in sample 3 alone, at place 5. */
static void marked_sample(const struct weft_spec *spec, const void *options, uint64_t index, int32_t *tokens,
                          int32_t *targets)
{
    (void)spec;
    (void)options;
    for (int i = 0; i < 8; i++) {
        tokens[i] = index == 3 && i == 5 ? 1 : 2;
        targets[i] = 3;
    }
}

static void the_bad_micro_batch_is_named(void **state)
{
    (void)state;
    static const struct weft_task marked = {.name = "marked", .length = marked_length, .sample = marked_sample};
    static const char *const settings[] = {"grad_groups=1", "grad_groups=2", "grad_groups=8"};
    for (int i = 0; i < 3; i++) {
        struct stage s;
        char text[128];
        snprintf(text, sizeof text, "batch=2 micro_batches=3 %s", settings[i]);
        open_stage(&s, "gpt2", text, &marked);
        find_weight(&s, "wte")[32] = 2e38f;
        find_weight(&s, "wpe")[5 * 32] = 2e38f;
        expect_refusal(&s, "the output of add is not finite at row 13, element 0 in micro-batch 2 of 3; no weight");
        close_stage(&s);
    }
}

static void nothing_bad_is_found_in_good_steps(void **state)
{
    (void)state;
    static const char *const settings[] = {"layers=2 vocab=64 batch=2 dropout=0.2",
                                           "layers=2 vocab=64 batch=2 dtype=bf16 micro_batches=3 recompute=yes"};
    const char *preset, *summary;
    for (int i = 0; (preset = weft_preset_at(i, &summary)); i++)
        for (int j = 0; j < 2; j++) {
            struct stage s;
            char text[256] = "";
            struct weft_losses losses;
            open_stage(&s, preset, settings[j], NULL);
            check(weft_learner_step(s.t, &losses));
            if (weft_learner_find_bad(s.t, text, sizeof text))
                fail_msg("%s: %s", preset, text);
            close_stage(&s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_finite_is_refused), cmocka_unit_test(a_bad_weight_is_named),
        cmocka_unit_test(what_overflows_is_named),       cmocka_unit_test(a_gradient_that_overflows_is_named),
        cmocka_unit_test(the_bad_micro_batch_is_named),  cmocka_unit_test(nothing_bad_is_found_in_good_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
