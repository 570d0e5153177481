/* SPDX-License-Identifier: MIT
 *
 * scaling.c - scaling=mup: at the base width the same model as with scaling=standard, at others different initial
 * weights and learning rates; such models pass all gates.
 *
 * run-tests: 10 s
 */
#include "check/probe/gate.h"
#include "test.h"
#include "train/learner.h"

#include <math.h>
#include <string.h>

struct made {
    struct weft_settings settings;
    struct weft_spec spec;
    struct weft_recipe recipe;
    struct weft_nn *model;
};

static void make(struct made *m, const char *preset, const char *words)
{
    *m = (struct made){0};
    check(weft_settings_add_words(&m->settings, words));
    check(weft_spec_init(&m->spec, preset, &m->settings));
    check(weft_recipe_init(&m->recipe, &m->spec, &m->settings));
    check(weft_settings_finish(&m->settings));
    check(weft_nn_create(&m->model, &m->spec));
    check(weft_nn_init(m->model));
}

static void release(struct made *m)
{
    weft_nn_free(m->model);
    weft_recipe_release(&m->recipe);
    weft_spec_release(&m->spec);
    weft_settings_release(&m->settings);
}

static const struct weft_param *find(const struct made *m, const char *name)
{
    int i = weft_params_find(&m->model->params, name);
    assert_true(i >= 0);
    return &m->model->params.list[i];
}

/* The weights after some steps. */
static void train(struct made *m, int steps, char hash[65])
{
    struct weft_learner *t;
    struct weft_losses losses;
    check(weft_learner_create(&t, m->model, &m->recipe, NULL));
    for (int i = 0; i < steps; i++)
        check(weft_learner_step(t, &losses));
    weft_learner_free(t);
    weft_params_hash(&m->model->params, hash);
}

#define SIZE "layers=2 width=64 heads=4 context=32 batch=2 steps=5 "

static void test_usual_width(void **state)
{
    static const char *const models[] = {"geom=dot", "geom=w2 m1=yes m2=yes m3=yes m3_tying=untied",
                                         "attn=latent geom=overlap ffn=ws m3=yes"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char text[300], standard[65], mup[65], wide[65];
        struct made m;
        snprintf(text, sizeof text, SIZE "%s", models[i]);
        make(&m, "gpt2", text);
        train(&m, 3, standard);
        release(&m);
        snprintf(text, sizeof text, SIZE "scaling=mup mup_width=64 mup_head=16 %s", models[i]);
        make(&m, "gpt2", text);
        train(&m, 3, mup);
        release(&m);
        snprintf(text, sizeof text, SIZE "scaling=mup mup_width=32 mup_head=16 %s", models[i]);
        make(&m, "gpt2", text);
        train(&m, 3, wide);
        release(&m);
        assert_string_equal(standard, mup);
        assert_string_not_equal(standard, wide);
    }
}

static void check_param(const struct made *m, const char *name, double deviation, double rate)
{
    const struct weft_param *w = find(m, name);
    if (fabs(w->init_value - deviation) > 1e-12 || w->rate != rate)
        fail_msg("%s: deviation %g and rate %g, not %g and %g", name, w->init_value, w->rate, deviation, rate);
}

/* Four times as wide as usual, latents and ranks as usual or twice as wide. */
static void test_rates(void **state)
{
    struct made m;
    make(&m, "gpt2",
         "layers=2 width=256 heads=4 scaling=mup mup_width=64 mup_head=64 attn=latent latent_width=64 m1=yes m2=yes "
         "m3=yes tie=no context=32 batch=2");
    check_param(&m, "wte", 0.02, 1);
    check_param(&m, "head", 0.02, 1);
    check_param(&m, "wpe", 0.02, 1);
    check_param(&m, "blocks.0.norm1.gain", 1, 1);
    check_param(&m, "blocks.0.attn.wq", 0.01, 0.25);
    check_param(&m, "blocks.0.attn.wq_bias", 0, 1);
    check_param(&m, "blocks.0.attn.wo", 0.005, 0.25);             /* 0.02 / sqrt(2 layers) / 2 */
    check_param(&m, "blocks.0.attn.wdk", 0.01 * sqrt(0.5), 0.25); /* 4 times as many in, 2 times as many out */
    check_param(&m, "blocks.0.attn.wa", 1.0 / 8, 0.5);
    check_param(&m, "blocks.0.ffn.fc", 0.01, 0.25);
    check_param(&m, "blocks.0.m1.w1", 0.02 / 4, 0.25);
    check_param(&m, "blocks.0.m1.w2", 0.02, 1);
    check_param(&m, "blocks.0.m2.p", 0.02 / 4, 0.25);
    check_param(&m, "blocks.0.m2.q", 0.02, 1);
    check_param(&m, "blocks.0.m3.w", 0.02 * sqrt(0.5), 0.5);
    assert_true(fabs(weft_spec_divisor(&m.spec) - sqrt((double)m.spec.qk_width)) < 1e-12);
    release(&m);
    make(&m, "gpt2", "layers=2 width=256 heads=1 scaling=mup mup_width=64 mup_head=64 context=32 batch=2");
    assert_true(fabs(weft_spec_divisor(&m.spec) - 256.0 / 8) < 1e-12);
    release(&m);
    make(&m, "gpt2", "layers=2 width=256 heads=4");
    for (int i = 0; i < m.model->params.count; i++)
        assert_true(m.model->params.list[i].rate == 1);
    release(&m);
}

static void note(void *context, const struct weft_check *c)
{
    if (!c->passed)
        snprintf(context, 400, "%s %s: %s", c->gate, c->name, c->where);
}

/* Cached, causal, exact and all the others, on twin and model. */
static void test_gates(void **state)
{
    static const char *const models[] = {"dtype=f32 geom=w2", "tie=no ffn=ws attn=latent latent_scale=latent m1=yes",
                                         "dtype=f32 geom=overlap m2=yes m3=yes pos=relative ffn=swiglu",
                                         "norm_place=post output_gate=yes ra_alpha=0.3"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i += (size_t)one_of(SANITIZED ? 4 : 2)) {
        struct made m;
        char text[300], failure[400] = "";
        snprintf(text, sizeof text, SIZE "scaling=mup mup_width=16 mup_head=8 %s", models[i]);
        make(&m, "gpt2", text);
        struct weft_gates report = {.on_check = note, .context = failure};
        check(weft_gates_run(&m.spec, &m.recipe, WEFT_GATES_ALL, &report));
        assert_string_equal(failure, "");
        assert_true(report.checks > 50);
        release(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usual_width),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_gates),
    };
    return cmocka_run_group_tests_name("scaling", tests, NULL, NULL);
}
