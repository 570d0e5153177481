/* SPDX-License-Identifier: MIT
 *
 * stepped.c - the `stepped` gate with tasks and optimisers: sound ones pass, including those registered from outside,
 * and broken ones fail.
 *
 * run-tests: 15 s
 */
#include "check/check.h"
#include "test.h"

#include <math.h>

/* ---- from outside: an optimiser and a task without a definition, and broken ones */

static bool lazy, forgetful;

static void sgd(const void *options, const struct weft_update *u, const struct weft_span *span)
{
    (void)options;
    for (int64_t i = span->first; !lazy && i < span->first + span->count; i++)
        u->weights[i] -= (float)u->lr * u->grad_scale * u->grads[i];
}

static const struct weft_optim optim = {
    .name = "sgd", .summary = "plain descent", .owner = {.name = "optim=sgd"}, .update = sgd};

static int64_t length(const void *options)
{
    (void)options;
    return 6;
}

static void count_up(const struct weft_spec *spec, const void *options, uint64_t index, int32_t *tokens,
                     int32_t *targets)
{
    static uint64_t calls;
    uint64_t first = index + (forgetful ? calls++ : 0);
    for (int64_t i = 0; i < length(options); i++) {
        tokens[i] = (int32_t)((first + (uint64_t)i) % (uint64_t)spec->vocab);
        targets[i] = (int32_t)((first + (uint64_t)i + 1) % (uint64_t)spec->vocab);
    }
}

static const struct weft_task task = {.name = "count",
                                      .summary = "the next number",
                                      .owner = {.name = "task=count"},
                                      .length = length,
                                      .sample = count_up};

static int register_them(void **state)
{
    (void)state;
    check(weft_optim_register(&optim));
    check(weft_task_register(&task));
    return 0;
}

/* ---- the gate */

struct seen {
    char passed[16384], failed[4096]; /* names of checks */
};

static void note(void *context, const struct weft_check *c)
{
    struct seen *seen = context;
    char *to = c->passed ? seen->passed : seen->failed;
    size_t room = c->passed ? sizeof seen->passed : sizeof seen->failed, used = strlen(to);
    snprintf(to + used, room - used, "%s: %s\n", c->name, c->where);
}

static const struct seen *run(const char *settings)
{
    static struct seen seen;
    struct weft_settings s = {0};
    struct weft_spec spec;
    struct weft_recipe recipe;
    struct weft_gates report = {.on_check = note, .context = &seen};
    seen = (struct seen){0};
    check(add_settings(&s, "width=32 heads=4 context=64 batch=4 dtype=f32"));
    check(add_settings(&s, settings));
    check(weft_spec_init(&spec, "gpt2", &s));
    check(weft_recipe_init(&recipe, &spec, &s));
    check(weft_recipe_open(&recipe, &spec));
    check(weft_gates_run(&spec, &recipe, 1u << WEFT_GATE_STEPPED, &report));
    weft_recipe_release(&recipe);
    weft_spec_release(&spec);
    weft_settings_release(&s);
    return &seen;
}

static void passes(const char *settings, const char *check)
{
    const struct seen *seen = run(settings);
    assert_string_equal(seen->failed, "");
    assert_non_null(strstr(seen->passed, check));
}

static void fails(const char *settings, const char *check)
{
    const struct seen *seen = run(settings);
    if (!strstr(seen->failed, check))
        fail_msg("no \"%s\" in: %s", check, seen->failed);
}

static void every_task_has_its_definition(void **state)
{
    (void)state;
    passes("task=recall recall_length=5", "samples of recall against its definition");
    if (THREADS_SANITIZED)
        return;
    passes("task=recall recall_length=2 vocab=2", "training samples equal to the first");
    passes("task=mqar mqar_length=32 vocab=64", "samples of mqar against its definition");
    passes("task=mqar mqar_length=16 mqar_pairs=4 mqar_fill=uniform vocab=65", "samples of mqar against");
    passes("task=fuzzy", "samples of fuzzy against its definition");
    passes("task=fuzzy fuzzy_noise=0 fuzzy_keys=2 fuzzy_tokens=1 fuzzy_codes=2 vocab=4", "samples of fuzzy against");
    passes("task=fuzzy fuzzy_noise=0.75 fuzzy_keys=3 fuzzy_codes=4 vocab=20", "what fuzzy draws");
    passes("task=entailment vocab=200 seed=3", "samples of entailment against its definition");
}

static void recipes_of_all_kinds_pass(void **state)
{
    (void)state;
    passes("micro_batches=5 grad_groups=3 clip=1e-3 lr=0", "6 updates by adamw against");
    if (THREADS_SANITIZED)
        return;
    passes("optim=adamwspam spam_interval=30 spam_warmup=7 spam_theta=50 steps=1000", "updates by adamwspam");
    passes("beta2=0.999 beta1=0 eps=1e-6 decay=0 lr=0.01 warmup=0 schedule=linear", "6 updates by adamw against");
    passes("dropout=0.3 steps=1000000000 warmup=2000 schedule=constant", "4096 of 1000000000 steps");
}

static void what_is_from_outside_has_no_definition(void **state)
{
    (void)state;
    passes("optim=sgd task=count", "no plain definition of sgd: its updates are not recomputed");
    passes("optim=sgd task=count", "samples of count against the vocabulary alone");
    lazy = true;
    fails("optim=sgd", "weight that does not move");
    lazy = false;
    forgetful = true;
    fails("task=count", "samples that differ when they are drawn again");
    forgetful = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_has_its_definition),
        cmocka_unit_test(recipes_of_all_kinds_pass),
        cmocka_unit_test(what_is_from_outside_has_no_definition),
    };
    return cmocka_run_group_tests(tests, register_them, NULL);
}
