/* SPDX-License-Identifier: MIT
 *
 * account.c - the advice in an out-of-memory error contains only changes that would help.
 *
 * run-tests: 1 s, asan 1 s
 */
#include "train/account.h"
#include "stage.h"

static void open_account(struct stage *s, const char *settings)
{
    *s = (struct stage){0};
    check(add_settings(&s->settings, "layers=2 width=256 heads=4 context=128 recall_length=64"));
    check(add_settings(&s->settings, settings));
    open_recipe(s, "gpt2");
}

static int64_t state_bytes(const struct stage *s)
{
    return s->model->params.total * weft_recipe_state_bytes(&s->recipe);
}

/* The advice when this much more is free than the weights, gradients and moments take, or less. */
static const char *advice(const struct stage *s, int64_t more)
{
    assert_int_equal(weft_account_fit(s->model, &s->recipe, 1, state_bytes(s) + more), WEFT_NOMEM);
    const char *text = strstr(weft_error(), "GiB is free");
    assert_non_null(text);
    text = strstr(text, ". Try ");
    assert_non_null(text);
    return text;
}

static void expect(const char *settings, int64_t more, const char *text)
{
    struct stage s;
    open_account(&s, settings);
    char got[1024];
    snprintf(got, sizeof got, "%s\n", advice(&s, more) + strlen(". Try "));
    if (strncmp(got, text, strlen(text)) != 0)
        fail_msg("%s: \"%s\", not \"%s\"", settings, got, text);
    assert_true(strcspn(weft_error(), "\n") < 400); /* a study prints no more of it */
    check(weft_account_fit(s.model, &s.recipe, 1, INT64_MAX));
    close_stage(&s);
}

static void only_what_helps_is_advised(void **state)
{
    (void)state;
    expect("batch=8", 0, "a batch below 8 (and more micro_batches), recompute=yes (saves 0.0");
    expect("batch=8 recompute=yes", 0, "a batch below 8 (and more micro_batches), or a smaller model\n");
    expect("batch=1", 0, "recompute=yes (saves 0.00 GiB), or a smaller model\n");
    expect("batch=1 recompute=yes", 0, "a smaller model\n");
    expect("batch=8", -1, "a smaller model\n");
    expect("batch=8 micro_batches=4", -1, "grad_groups=1 (saves 0.01 GiB), or a smaller model\n");
    expect("batch=8 micro_batches=4 recompute=yes", 0,
           "a batch below 8 (and more micro_batches), grad_groups=1 (saves 0.01 GiB), or a smaller model\n");
    expect("batch=8 micro_batches=4 grad_groups=1", -1, "a smaller model\n");
}

/* A rank of four has a quarter of the moments, and fewer sums of gradients. */
static void ranks_share_moments(void **state)
{
    (void)state;
    struct stage s;
    open_account(&s, "batch=2 micro_batches=8 grad_groups=8");
    int64_t one = weft_account_state(s.model, &s.recipe, 1);
    assert_int_equal(one, state_bytes(&s));
    assert_true(weft_account_state(s.model, &s.recipe, 4) < one);
    assert_true(weft_account_state(s.model, &s.recipe, 8) < weft_account_state(s.model, &s.recipe, 4));
    close_stage(&s);
}

/* The gradients reported as saved are exactly those that are not allocated. */
static void one_group_saves_what_it_says(void **state)
{
    (void)state;
    struct stage many, one;
    open_account(&many, "batch=1 micro_batches=8 width=1024");
    open_account(&one, "batch=1 micro_batches=8 width=1024 grad_groups=1");
    char text[64];
    snprintf(text, sizeof text, "grad_groups=1 (saves %.2f GiB)",
             (double)(state_bytes(&many) - state_bytes(&one)) / (1 << 30));
    assert_int_equal(weft_recipe_sums(&many.recipe), 4);
    assert_non_null(strstr(advice(&many, -1), text));
    assert_null(strstr(advice(&one, -1), "grad_groups"));
    close_stage(&many);
    close_stage(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_helps_is_advised),
        cmocka_unit_test(ranks_share_moments),
        cmocka_unit_test(one_group_saves_what_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
