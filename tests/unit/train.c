/* SPDX-License-Identifier: MIT
 *
 * train.c - a step: optimisers against golden weights (golden/optim.json) and with spikes, schedules, sums over
 * micro-batches and their order, losses by term. finite.c tests non-finite values.
 *
 * run-tests: 1 s, asan 12 s
 */
#include "stage.h"
#include "train/learner.h"
#include "train/score/evaluate.h"

#include <jansson.h>
#include <math.h>

/* |a - b| / |b| */
static double distance(const struct stage *s, const float *a, const float *b)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < s->model->params.total; i++) {
        apart += pow((double)a[i] - b[i], 2);
        size += pow(b[i], 2);
    }
    return sqrt(apart / size);
}

/* ---- optimisers against golden weights. Numbers by counter as golden/models.py makes them: see golden/README.md */

static double uniform(const char *key, int64_t i)
{
    uint64_t x = 0xCBF29CE484222325;
    for (const char *c = key; *c; c++)
        x = (x ^ (unsigned char)*c) * 0x100000001B3;
    x += (uint64_t)(i + 1) * 0x9E3779B97F4A7C15;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    x ^= x >> 31;
    return ((double)(x >> 48) - 32768) / 65536;
}

static void fill_weights(const struct stage *s, const char *name)
{
    const struct weft_params *p = &s->model->params;
    for (int i = 0; i < p->count; i++) {
        char key[128];
        const char *last = strrchr(p->list[i].name, '.');
        snprintf(key, sizeof key, "%s/%s", name, p->list[i].name);
        for (int64_t e = 0; e < p->list[i].count; e++)
            p->weights[p->list[i].offset + e] = (float)(uniform(key, e) + (last && strcmp(last, ".gain") == 0 ? 1 : 0));
    }
}

static void fill_gradient(const struct stage *s, const char *name, int64_t n)
{
    const struct weft_params *p = &s->model->params;
    for (int i = 0; i < p->count; i++) {
        char key[128];
        snprintf(key, sizeof key, "%s/%s/%lld", name, p->list[i].name, (long long)n);
        for (int64_t e = 0; e < p->list[i].count; e++)
            s->t->sums[0].grads[p->list[i].offset + e] =
                (float)(uniform(key, e) / 16 * ((n + 1) % 5 < 2 && (e + n) % 13 == 0 ? 1024 : 1));
    }
}

/* The largest difference of a tensor over its largest element, of all tensors the worst. */
static double compare_weights(const struct stage *s, const json_t *expected)
{
    const struct weft_params *p = &s->model->params;
    double worst = 0;
    assert_int_equal(json_object_size(expected), p->count);
    for (int i = 0; i < p->count; i++) {
        const json_t *stored = json_object_get(expected, p->list[i].name), *data = json_object_get(stored, "data");
        double unit = json_number_value(json_object_get(stored, "unit")), apart = 0, size = 0;
        assert_int_equal(json_array_size(data), p->list[i].count);
        for (int64_t e = 0; e < p->list[i].count; e++) {
            double x = unit * (double)json_integer_value(json_array_get(data, (size_t)e));
            apart = fmax(apart, fabs(x - p->weights[p->list[i].offset + e]));
            size = fmax(size, fabs(x));
        }
        worst = fmax(worst, apart / size);
    }
    return worst;
}

static double run_case(const json_t *c)
{
    struct stage s = {0};
    const char *option, *name = json_string_value(json_object_get(c, "name"));
    json_t *value, *seen = json_object_get(c, "weights");
    double worst = 0;
    json_object_foreach(json_object_get(c, "attr"), option, value)
    {
        char setting[64];
        if (json_is_string(value))
            snprintf(setting, sizeof setting, "%s=%s", option, json_string_value(value));
        else
            snprintf(setting, sizeof setting, "%s=%.17g", option, json_number_value(value));
        set(&s, setting);
    }
    set(&s, "recall_length=2");
    set(&s, "batch=1");
    open_settings(&s, "gpt2", NULL);
    fill_weights(&s, name);
    for (int64_t n = 1; n <= s.recipe.steps; n++) {
        char key[24];
        fill_gradient(&s, name, n);
        check(weft_learner_update(s.t));
        snprintf(key, sizeof key, "%lld", (long long)n);
        if (json_object_get(seen, key))
            worst = fmax(worst, compare_weights(&s, json_object_get(seen, key)));
    }
    close_stage(&s);
    return worst;
}

static void weights_are_golden(void **state)
{
    (void)state;
    json_error_t error;
    json_t *c, *cases = json_load_file("tests/golden/optim.json", 0, &error);
    size_t i;
    if (!cases)
        fail_msg("tests/golden/optim.json: line %d: %s", error.line, error.text);
    assert_true(json_array_size(cases) >= 5);
    json_array_foreach(cases, i, c)
    {
        double worst = run_case(c);
        print_message("%s: %.1e\n", json_string_value(json_object_get(c, "name")), worst);
        assert_true(worst < 1e-5);
    }
    json_decref(cases);
}

/* ---- spikes */

/* Steps with every 50th element of one gradient times 1000; returns the weights `after` steps more. */
static float *spiked(const char *optim, double size, int64_t at, int64_t after, struct stage *s)
{
    char settings[128];
    snprintf(settings, sizeof settings, "batch=8 warmup=5 steps=100 optim=%s", optim);
    open_stage(s, "gpt2", settings, NULL);
    while (s->t->step < at + after) {
        check(weft_learner_gradient(s->t));
        for (int64_t i = 0; s->t->step + 1 == at && i < s->model->params.total; i += 50)
            s->t->sums[0].grads[i] *= (float)size;
        check(weft_learner_update(s->t));
    }
    return s->model->params.weights;
}

/* How far a spike leads the weights away. */
static double displaced(const char *optim, int64_t after)
{
    struct stage calm, wild;
    float *without = spiked(optim, 1, 30, after, &calm), *with = spiked(optim, 1000, 30, after, &wild);
    double d = distance(&calm, with, without);
    close_stage(&calm);
    close_stage(&wild);
    return d;
}

static void spikes_move_adamwspam_less(void **state)
{
    (void)state;
    for (int64_t after = 0; after <= 20; after += 10) {
        double plain = displaced("adamw", after), spam = displaced("adamwspam", after);
        double seed = displaced("adamwspam spam_theta=50 spam_interval=1000 spam_warmup=1000", after);
        print_message("%lld steps after a spike: adamw %.2e, adamwspam %.2e, theta 50 %.2e\n", (long long)after, plain,
                      spam, seed);
        assert_true(spam < plain && seed < spam);
    }
}

/* ---- what is not finite */

/* ---- schedules */

static void schedules(void **state)
{
    (void)state;
    static const struct {
        const char *schedule;
        double at[5]; /* steps 1, 10, 60, 110, 85 of a warm-up of 10 and 110 steps, lr 1 */
    } rows[] = {
        {"schedule=cosine", {0.1, 1, 0.55, 0.1, 0.1 + 0.45 * (1 - 0.70710678118654752)}},
        {"schedule=linear", {0.1, 1, 0.55, 0.1, 0.325}},
        {"schedule=constant", {0.1, 1, 1, 1, 1}},
    };
    static const int64_t steps[] = {1, 10, 60, 110, 85};
    for (int i = 0; i < 3; i++) {
        struct stage s;
        char settings[64];
        snprintf(settings, sizeof settings, "lr=1 warmup=10 steps=110 batch=1 %s", rows[i].schedule);
        open_stage(&s, "gpt2", settings, NULL);
        for (int j = 0; j < 5; j++)
            assert_float_equal(weft_recipe_lr(&s.recipe, steps[j]), rows[i].at[j], 1e-12);
        s.recipe.warmup = 0;
        assert_true(weft_recipe_lr(&s.recipe, 1) > 0.99);
        close_stage(&s);
    }
}

/* ---- micro-batches */

enum { RAGGED = 12 };

static int64_t ragged_length(const void *options)
{
    (void)options;
    return RAGGED;
}

/* Samples have different numbers of scored tokens, some none. */
static void ragged_sample(const struct weft_spec *spec, const void *options, uint64_t index, int32_t *tokens,
                          int32_t *targets)
{
    (void)options;
    for (int64_t i = 0; i < RAGGED; i++) {
        tokens[i] = (int32_t)weft_below(index, (uint64_t)i, (uint64_t)spec->vocab);
        targets[i] = i < (int64_t)(index * 5 % 11) ? (tokens[i] + 1) % (int32_t)spec->vocab : -1;
    }
}

static const struct weft_task ragged = {.name = "ragged", .length = ragged_length, .sample = ragged_sample};

/* Opens a trainer, makes its second step's gradient and hands it over. */
static float *gradient_of(struct stage *s, const char *preset, const char *settings)
{
    struct weft_losses losses;
    open_stage(s, preset, settings, &ragged);
    check(weft_learner_step(s->t, &losses));
    check(weft_learner_gradient(s->t));
    return s->t->sums[0].grads;
}

static void micro_batches_give_the_gradient_of_one(void **state)
{
    (void)state;
    static const struct {
        const char *preset, *settings;
    } rows[] = {{"gpt2", "dropout=0.1"}, {"llama", "logits_z=0.01"}, {"ws", "ws_lambda_z=0.1 ws_lambda_c=0"}};
    static const char *const cuts[] = {"batch=6 micro_batches=2", "batch=4 micro_batches=3 grad_groups=2",
                                       "batch=2 micro_batches=6", "batch=1 micro_batches=12 grad_groups=5"};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++) {
            struct stage whole, parts;
            char settings[2][256];
            snprintf(settings[0], sizeof settings[0], "%s batch=12", rows[i].settings);
            snprintf(settings[1], sizeof settings[1], "%s %s", rows[i].settings, cuts[j]);
            float *one = gradient_of(&whole, rows[i].preset, settings[0]);
            double apart = distance(&parts, gradient_of(&parts, rows[i].preset, settings[1]), one);
            const struct weft_losses *a = &whole.t->sums[0].losses, *b = &parts.t->sums[0].losses;
            print_message("%s %s: %.1e\n", rows[i].preset, cuts[j], apart);
            assert_true(apart < 3e-6);
            assert_int_equal(a->count, b->count);
            for (int n = 0; n < a->count; n++)
                assert_float_equal(b->list[n].value / a->list[n].value, 1, 3e-6);
            close_stage(&whole);
            close_stage(&parts);
        }
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    static const char *const settings[] = {"batch=2 micro_batches=7 dropout=0.1",
                                           "batch=2 micro_batches=7 grad_groups=3 dtype=bf16"};
    for (int i = 0; i < 2; i++) {
        struct stage one, more;
        check(weft_threads_set(1));
        float *expected = gradient_of(&one, "ws", settings[i]);
        for (int threads = 2; threads <= 4; threads++) {
            check(weft_threads_set(threads));
            assert_memory_equal(gradient_of(&more, "ws", settings[i]), expected, bytes(&one));
            for (int n = 0; n < one.t->sums[0].losses.count; n++)
                assert_true(more.t->sums[0].losses.list[n].value == one.t->sums[0].losses.list[n].value);
            assert_memory_equal(more.model->params.weights, one.model->params.weights, bytes(&one));
            close_stage(&more);
        }
        close_stage(&one);
    }
    check(weft_threads_set(0));
}

static void groups_change_bits_only(void **state)
{
    (void)state;
    struct stage serial, grouped;
    float *expected = gradient_of(&serial, "gpt2", "batch=2 micro_batches=8 grad_groups=1");
    static const char *const groups[] = {"grad_groups=2", "grad_groups=3", "grad_groups=5", "grad_groups=8",
                                         "grad_groups=9"};
    for (int i = 0; i < 5; i++) {
        char settings[64];
        snprintf(settings, sizeof settings, "batch=2 micro_batches=8 %s", groups[i]);
        float *grads = gradient_of(&grouped, "gpt2", settings);
        double apart = distance(&serial, grads, expected);
        print_message("%s: %d sums, %.1e\n", groups[i], grouped.t->sum_count, apart);
        assert_true(apart > 0 && apart < 3e-6);
        close_stage(&grouped);
    }
    close_stage(&serial);
}

/* With a power of two of micro-batches, each a group, a micro-batch's part is exactly that power of its own gradient,
 * so the tree can be followed bit by bit. */
static void groups_are_summed_up_a_tree(void **state)
{
    (void)state;
    enum { GROUPS = 8 };
    struct stage all, one;
    float *part[GROUPS];
    open_stage(&all, "gpt2", "batch=2 micro_batches=8 grad_groups=8", NULL);
    open_stage(&one, "gpt2", "batch=2", NULL);
    for (int g = 0; g < GROUPS; g++) {
        one.t->step = g;
        check(weft_learner_gradient(one.t));
        part[g] = copy_of(&one, one.t->sums[0].grads);
        for (int64_t i = 0; i < one.model->params.total; i++)
            part[g][i] /= GROUPS;
    }
    for (int step = 1; step < GROUPS; step *= 2)
        for (int g = 0; g < GROUPS; g += 2 * step)
            for (int64_t i = 0; i < one.model->params.total; i++)
                part[g][i] += part[g + step][i];
    check(weft_learner_gradient(all.t));
    assert_memory_equal(all.t->sums[0].grads, part[0], bytes(&all));
    for (int g = 0; g < GROUPS; g++)
        free(part[g]);
    close_stage(&all);
    close_stage(&one);
}

static void losses_are_told_by_term(void **state)
{
    (void)state;
    static const char *const names[] = {"total", "main", "ws_z", "ws_c", "logits_z"};
    static const char *const settings[] = {"batch=4", "batch=2 micro_batches=3"};
    struct stage s;
    struct weft_losses losses;
    for (int i = 0; i < 2; i++) {
        double sum = 0;
        open_stage(&s, "ws", settings[i], NULL);
        check(weft_learner_step(s.t, &losses));
        assert_int_equal(losses.count, 5);
        for (int n = 0; n < 5; n++) {
            assert_string_equal(losses.list[n].name, names[n]);
            assert_true(losses.list[n].value > 0);
            sum += n ? losses.list[n].value : 0;
        }
        assert_float_equal(losses.list[0].value / sum, 1, 1e-6);
        close_stage(&s);
    }
    open_stage(&s, "gpt2", "batch=4", NULL);
    check(weft_learner_step(s.t, &losses));
    assert_int_equal(losses.count, 2);
    assert_float_equal(losses.list[0].value, losses.list[1].value, 1e-6);
    close_stage(&s);
}

/* A z-loss is trained, but held-out losses are cross-entropy: other models have none. */
static void held_out_loss_is_cross_entropy(void **state)
{
    (void)state;
    struct stage with, without;
    struct weft_score a, b;
    open_stage(&with, "gpt2", "batch=4 eval_samples=10 logits_z=10", NULL);
    open_stage(&without, "gpt2", "batch=4 eval_samples=10", NULL);
    check(weft_evaluate(with.model, &with.recipe, NULL, with.spec.batch, WEFT_HELD_OUT, &a));
    check(weft_evaluate(without.model, &without.recipe, NULL, without.spec.batch, WEFT_HELD_OUT, &b));
    assert_true(a.loss == b.loss && a.accuracy == b.accuracy && a.loss > 3);
    check(weft_evaluate(without.model, &without.recipe, NULL, without.spec.batch, WEFT_TEST, &a));
    assert_true(a.loss != b.loss && a.loss > 3);
    close_stage(&with);
    close_stage(&without);
}

static void groups_of_nothing_are_refused(void **state)
{
    (void)state;
    struct stage s = {0};
    set(&s, "grad_groups=4");
    check(weft_spec_init(&s.spec, "gpt2", &s.settings));
    assert_int_equal(weft_recipe_init(&s.recipe, &s.spec, &s.settings), WEFT_INVALID);
    assert_non_null(strstr(weft_error(), "micro_batches"));
    close_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_golden),
        cmocka_unit_test(spikes_move_adamwspam_less),
        cmocka_unit_test(schedules),
        cmocka_unit_test(micro_batches_give_the_gradient_of_one),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(groups_change_bits_only),
        cmocka_unit_test(groups_are_summed_up_a_tree),
        cmocka_unit_test(losses_are_told_by_term),
        cmocka_unit_test(held_out_loss_is_cross_entropy),
        cmocka_unit_test(groups_of_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
