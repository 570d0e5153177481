/* SPDX-License-Identifier: MIT
 *
 * prune_units.c - heads, channels and ranks pruned in training: the schedule, whole units and nothing else, a cut
 * afterwards that removes what is already 0, masks in checkpoints, single weights pruned in addition. ranks.c tests
 * several ranks, and the gate the whole definition (check/trainer/pruned_units.c).
 *
 * run-tests: 1 s
 */
#include "stage.h"
#include "train/prune/prune.h"
#include "train/record/record.h"
#include "train/score/evaluate.h"

#include <math.h>

#define SCHEDULE "steps=20 warmup=0 lr=0.01 prune_begin=0.1 prune_end=0.6 prune_every=3 "
#define AT_ONCE "steps=2 prune_begin=0 prune_end=0 "
#define WIDE "layers=3 heads=4 ffn_width=24 batch=2 "

static bool is_pruned(const struct stage *s, int i, int64_t e)
{
    return weft_mask_of(s->t, &s->model->params.list[i])[e / 32] >> e % 32 & 1;
}

static int64_t count(const struct stage *s, int i)
{
    int64_t n = 0;
    for (int64_t e = 0; e < s->model->params.list[i].count; e++)
        n += is_pruned(s, i, e);
    return n;
}

static int64_t count_named(const struct stage *s, const char *name)
{
    int i = weft_params_find(&s->model->params, name);
    assert_true(i >= 0);
    return count(s, i);
}

/* ---- the schedule */

/* b = 2, e = 12; due at 5, 8, 11 and 12: 0.657, 0.936, 0.999 and 1 of 0.6: of 24 channels 9.46, 13.48, 14.39 and 14.4;
 * of 4 heads, with 0.5, 1.3, 1.87, 2 and 2. */
static void units_follow_the_schedule(void **state)
{
    (void)state;
    static const int channels[] = {0, 0, 0, 0, 0, 9, 9, 9, 13, 13, 13, 14, 14, 14},
                     heads[] = {0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2};
    struct stage s;
    open_stage(&s, "gpt2", WIDE SCHEDULE "prune_heads=0.5 prune_channels=0.6", NULL);
    for (int64_t step = 1; step <= 13; step++) {
        take_steps(&s, step);
        for (int layer = 0; layer < 3; layer++) {
            static const char *const names[] = {"ffn.fc",       "ffn.fc_bias", "ffn.proj",
                                                "attn.wq_bias", "attn.wk",     "attn.wo"};
            const int64_t wanted[] = {32 * channels[step], channels[step],    32 * channels[step],
                                      8 * heads[step],     256 * heads[step], 256 * heads[step]};
            for (int k = 0; k < 6; k++) {
                char name[64];
                snprintf(name, sizeof name, "blocks.%d.%s", layer, names[k]);
                assert_int_equal(count_named(&s, name), wanted[k]);
            }
        }
    }
    assert_int_equal(count_named(&s, "wte"), 0);
    assert_int_equal(count_named(&s, "blocks.1.attn.wo_bias"), 0);
    close_stage(&s);
}

/* Every number of units and every share: the last growth masks what a cut leaves out. */
static void the_last_number_is_that_of_a_cut(void **state)
{
    (void)state;
    for (int percent = 1; percent < 100; percent++) {
        struct weft_recipe r = {.steps = 97, .prune = {.begin = 0.1, .end = 0.77, .every = 1}};
        double share = percent / 100.0;
        for (int64_t units = 1; units < 100; units++) {
            int64_t before = 0;
            for (int64_t step = 1; step <= r.steps; step++) {
                int64_t now = weft_units_at(units, weft_recipe_sparsity(&r, share, step));
                assert_true(now >= before);
                before = now;
            }
            assert_int_equal(before, weft_units_at(units, share));
        }
    }
}

/* ---- which units */

/* One head has 3 times the output norm of the others and a quarter of their value norm: importance 0.75, the lowest. */
static void the_least_important_go_whole(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "gpt2", WIDE AT_ONCE "lr=0 layers=1 prune_heads=0.25", NULL);
    const struct weft_params *p = &s.model->params;
    const struct weft_param *wo = &p->list[weft_params_find(p, "blocks.0.attn.wo")];
    const struct weft_param *wv = &p->list[weft_params_find(p, "blocks.0.attn.wv")];
    for (int64_t e = 0; e < 1024; e++) {
        p->weights[wo->offset + e] = e % 32 / 8 == 2 ? 3 : 1;
        p->weights[wv->offset + e] = e / 256 == 2 ? 0.25F : 1;
    }
    take_steps(&s, 1);
    for (int64_t e = 0; e < 1024; e++) {
        assert_int_equal(is_pruned(&s, weft_params_find(p, "blocks.0.attn.wo"), e), e % 32 / 8 == 2);
        assert_int_equal(is_pruned(&s, weft_params_find(p, "blocks.0.attn.wk"), e), e / 256 == 2);
        assert_true((p->weights[wv->offset + e] == 0) == (e / 256 == 2));
    }
    close_stage(&s);
}

static void mark(void *context, int64_t first, int64_t n) { memset((bool *)context + first, true, (size_t)n); }

/* That a cut of this model, or of what a kind before left, takes what is masked and nothing else. */
static void check_cut_takes_masks(const struct stage *s)
{
    const struct weft_params *p = &s->model->params;
    struct weft_smaller units[WEFT_UNITS];
    int64_t all = 0;
    check(weft_units_init(units, s->model, &s->recipe.prune.units));
    for (int k = 0; k < WEFT_UNITS; k++)
        if (units[k].model)
            weft_smaller_choose(&units[k], units[k].units - units[k].kept);
    for (int i = 0; i < p->count; i++) {
        bool *goes = calloc((size_t)p->list[i].count, 1);
        assert_non_null(goes);
        for (int k = 0; k < WEFT_UNITS; k++)
            if (units[k].model)
                weft_smaller_each(&units[k], i, goes, mark);
        for (int64_t e = 0; e < p->list[i].count; e++) {
            assert_int_equal(is_pruned(s, i, e), goes[e]);
            all += goes[e];
        }
        free(goes);
    }
    assert_int_equal(all, s->t->pruned);
    weft_units_release(units);
}

static void cut_after_training(const char *preset, const char *settings)
{
    struct stage s;
    struct weft_cuts cuts;
    struct weft_score whole, less;
    char text[400];
    snprintf(text, sizeof text, "%s%seval_samples=32 %s", WIDE, SCHEDULE, settings);
    open_stage(&s, preset, text, NULL);
    take_steps(&s, 20);
    check_cut_takes_masks(&s);
    check(weft_cuts_init(&cuts, s.model, &s.recipe.prune.units, true));
    assert_int_equal(cuts.model->params.elements, s.model->params.elements - s.t->pruned);
    check(weft_evaluate(s.model, &s.recipe, NULL, 4, WEFT_TEST, &whole));
    check(weft_evaluate(cuts.model, &s.recipe, NULL, 4, WEFT_TEST, &less));
    print_message("%s %s: %lld of %lld weights, %.9f and %.9f\n", preset, settings,
                  (long long)cuts.model->params.elements, (long long)s.model->params.elements, whole.loss, less.loss);
    assert_true(fabs(whole.loss - less.loss) < 1e-6 * whole.loss);
    weft_cuts_release(&cuts);
    close_stage(&s);
}

static void a_cut_leaves_out_what_is_pruned(void **state)
{
    (void)state;
    cut_after_training("gpt2", "prune_heads=0.25");
    cut_after_training("gpt2", "prune_channels=0.5");
    cut_after_training("gpt2",
                       "prune_heads=0.5 prune_channels=0.3 prune_ranks=0.5 m1=yes m1_width=6 m3=yes m3_width=6");
    cut_after_training("llama", "kv_heads=2 prune_heads=0.5 prune_channels=0.9 m1=yes m2=yes prune_ranks=0.25 "
                                "m2_alpha=0");
    cut_after_training("gpt2", "kv_heads=1 pos=relative prune_heads=0.75 output_gate=yes");
    cut_after_training("w2", "prune_heads=0.5 m1=yes m3=yes m3_tying=untied prune_ranks=0.5 learn_alpha=yes");
    cut_after_training("w2", "geom=overlap pos=rope prune_heads=0.25 kv_heads=2");
    cut_after_training("llama", "attn=latent latent_width=12 prune_heads=0.5 m3=yes prune_channels=0.5");
    cut_after_training("gpt2", "m2=yes m2_form=full prune_channels=0.5 ra_alpha=0.5");
    cut_after_training("gpt2", "m2=yes prune_ranks=0.75");
}

/* ---- single weights in addition to units */

/* A matrix has the fraction of single weights, or the larger one that units and earlier weights give. */
static void single_weights_count_those_of_units(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "gpt2", WIDE AT_ONCE "prune=0.5 prune_heads=0.25 prune_channels=0.75", NULL);
    take_steps(&s, 1);
    assert_int_equal(count_named(&s, "blocks.1.attn.wq"), 512);
    assert_int_equal(count_named(&s, "blocks.1.attn.wq_bias"), 8);
    assert_int_equal(count_named(&s, "blocks.1.ffn.fc"), 576);
    assert_int_equal(count_named(&s, "blocks.1.ffn.fc_bias"), 18);
    close_stage(&s);
    open_stage(&s, "gpt2", WIDE SCHEDULE "prune=0.5 prune_heads=0.5 prune_channels=0.6", NULL);
    take_steps(&s, 20);
    int64_t both = count_named(&s, "blocks.1.attn.wq"), pruned = s.t->pruned, counted = 0;
    assert_true(both >= 512 && both < 1024);
    for (int i = 0; i < s.model->params.count; i++)
        counted += count(&s, i);
    assert_int_equal(counted, pruned);
    struct weft_cuts cuts;
    struct weft_score whole, less;
    check(weft_cuts_init(&cuts, s.model, &s.recipe.prune.units, true));
    check(weft_evaluate(s.model, &s.recipe, NULL, 4, WEFT_TEST, &whole));
    check(weft_evaluate(cuts.model, &s.recipe, NULL, 4, WEFT_TEST, &less));
    assert_true(fabs(whole.loss - less.loss) < 1e-6 * whole.loss);
    weft_cuts_release(&cuts);
    close_stage(&s);
}

/* ---- checkpoints */

#define ALL WIDE SCHEDULE "m1=yes m1_width=6 m3=yes m3_width=6 prune_heads=0.5 prune_channels=0.5 prune_ranks=0.5 "

static void resumed_training_has_the_same_bits(void **state)
{
    (void)state;
    check_resume_of_pruning(ALL, 7, "a");             /* between two growths */
    check_resume_of_pruning(ALL, 16, "b");            /* after the last */
    check_resume_of_pruning(ALL "prune=0.8", 7, "c"); /* with single weights */
    check_resume_of_pruning(ALL "prune=0.95", 11, "d");
}

/* ---- what is rejected */

static void refused(const char *preset, const char *settings, enum weft_status status, const char *words)
{
    struct stage s = {0};
    char text[300];
    snprintf(text, sizeof text, "dtype=f32 layers=2 width=32 heads=4 context=16 recall_length=8 %s", settings);
    check(add_settings(&s.settings, text));
    open_recipe(&s, preset);
    check(weft_nn_init(s.model));
    check_error(weft_pruning_check(&s.recipe, s.model), status, words);
    check_error(weft_learner_create(&s.t, s.model, &s.recipe, NULL), status, words);
    close_stage(&s);
}

static void what_cannot_be_cut_is_refused_by_name(void **state)
{
    (void)state;
    refused("gpt2", "pos=alibi prune_heads=0.5", WEFT_UNSUPPORTED, "prune_heads=0.5: pos=alibi");
    refused("ws", "prune_channels=0.5", WEFT_UNSUPPORTED, "prune_channels=0.5: ffn=ws");
    refused("gpt2", "m3=yes m3_tying=per_head_scalar prune_heads=0.5", WEFT_UNSUPPORTED, "prune_heads=0.5: m3_tying");
    refused("gpt2", "m3=yes m3_tying=per_head_scalar prune_channels=0.5", WEFT_UNSUPPORTED, "prune_channels=0.5: m3_");
    refused("gpt2", "m3=yes m3_tying=per_head_scalar prune_ranks=0.5", WEFT_UNSUPPORTED, "prune_ranks=0.5: m3_tying");
    refused("gpt2", "prune_ranks=0.5", WEFT_INVALID, "prune_ranks=0.5: no mechanism");
    refused("gpt2", "prune_heads=0.1", WEFT_INVALID, "prune_heads=0.1: 0.1 of 4 rounds to none");
    refused("gpt2", "prune_heads=0.9", WEFT_INVALID, "prune_heads=0.9: 0.9 of 4 rounds to all");
    struct weft_settings settings = {0};
    struct weft_spec spec;
    struct weft_recipe recipe;
    check(add_settings(&settings, "prune_every=3"));
    check(weft_spec_init(&spec, "gpt2", &settings));
    check_error(weft_recipe_init(&recipe, &spec, &settings), WEFT_INVALID, "without prune!=0 or prune_heads!=0");
    weft_recipe_release(&recipe);
    weft_spec_release(&spec);
    weft_settings_release(&settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_follow_the_schedule),
        cmocka_unit_test(the_last_number_is_that_of_a_cut),
        cmocka_unit_test(the_least_important_go_whole),
        cmocka_unit_test(a_cut_leaves_out_what_is_pruned),
        cmocka_unit_test(single_weights_count_those_of_units),
        cmocka_unit_test(resumed_training_has_the_same_bits),
        cmocka_unit_test(what_cannot_be_cut_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
