/* SPDX-License-Identifier: MIT
 *
 * cut.c - smaller models: removing units whose weights are 0 changes no logit, in models with all parts; equal numbers
 * in all layers; importance; errors.
 *
 * run-tests: 1 s, asan 1 s
 */
#include "nn/units.h"
#include "test.h"

#include <math.h>

#define SMALL "dtype=f32 layers=3 width=32 heads=4 ffn_width=24 context=40 vocab=17 "
enum { LENGTH = 40, VOCAB = 17, LAYERS = 3 };

/* ---- logits */

static void run(const struct weft_nn *model, float *logits)
{
    struct weft_net net;
    struct weft_exec *exec;
    check(weft_net_init(&net, model, WEFT_FORWARD, (struct weft_net_size){.sequences = 1, .length = LENGTH}));
    check(weft_exec_create(&exec, net.g, WEFT_FAST));
    weft_net_bind(&net, exec, model, NULL);
    weft_net_plain_rows(&net, exec, 1, LENGTH);
    for (int i = 0; i < LENGTH; i++)
        ((int32_t *)weft_exec_tensor(exec, net.tokens)->data)[i] = (7 * i + i * i) % VOCAB;
    weft_exec_prepare(exec);
    check(weft_exec_run(exec));
    memcpy(logits, weft_exec_tensor(exec, net.logits)->data, sizeof(float) * LENGTH * VOCAB);
    weft_exec_free(exec);
    weft_net_release(&net);
}

static double difference(const struct weft_nn *a, const struct weft_nn *b)
{
    float x[LENGTH * VOCAB], y[LENGTH * VOCAB];
    double most = 0, apart = 0;
    run(a, x);
    run(b, y);
    for (int i = 0; i < LENGTH * VOCAB; i++) {
        most = fmax(most, fabs(x[i]));
        apart = fmax(apart, fabs((double)x[i] - y[i]));
    }
    return apart / most;
}

/* ---- units that do nothing */

/* Sides of weights that a unit has a part of, by their names; "+": the unit is one of the next layer. */
static const char *const sides[WEFT_UNITS][24] = {
    [WEFT_UNITS_HEADS] = {"attn.wq 0", "attn.wq_bias 0", "attn.wk 0", "attn.wk_bias 0", "attn.wv 0", "attn.wv_bias 0",
                          "attn.wo 1", "attn.wg 0", "attn.wq_spread 0", "attn.wk_spread 0", "attn.wa 0", "attn.wb 0",
                          "attn.wqr 0", "attn.relative 0", "m3.wu 0", "m3.wu_spread 0", "m1.w2 0 +"},
    [WEFT_UNITS_CHANNELS] = {"ffn.fc 0", "ffn.fc_bias 0", "ffn.proj 1", "ffn.w1 0", "ffn.w3 0", "ffn.w2 1",
                             "ffn.w1_bias 0", "ffn.w3_bias 0", "m1.w1 1", "m2.p 1", "m2.q 0", "m3.w 0", "m3.w_back 1"},
    [WEFT_UNITS_M1] = {"m1.w1 0", "m1.w2 1"},
    [WEFT_UNITS_M2] = {"m2.p 0", "m2.q 1"},
    [WEFT_UNITS_M3] = {"m3.wc 0", "m3.w 1", "m3.w_back 0", "m3.wu 1", "m3.wu_spread 1"},
};

static void silence(struct weft_nn *m, const char *side, int layer, int64_t units, int64_t unit)
{
    char weight[32], name[64], next[4] = "";
    int d;
    assert_true(sscanf(side, "%31s %d %3s", weight, &d, next) >= 2);
    snprintf(name, sizeof name, "blocks.%d.%s", layer - (*next != 0), weight);
    int i = weft_params_find(&m->params, name);
    if (i < 0)
        return;
    const struct weft_param *w = &m->params.list[i];
    int64_t stride = 1, width = w->dim[d] / units;
    if (w->dim[d] % units)
        return; /* all heads share this weight */
    for (int k = d + 1; k < w->ndim; k++)
        stride *= w->dim[k];
    for (int64_t e = 0; e < w->count; e++)
        if (e / stride % w->dim[d] / width == unit)
            m->params.weights[w->offset + e] = 0;
}

static bool goes(enum weft_units what, int layer, int64_t unit, int64_t units)
{
    int64_t first = what == WEFT_UNITS_M3 ? 1 : layer; /* M3 passes units on, so all layers have the same */
    return (unit + units - first) % units < units / 2;
}

static void cut_silent(const char *preset, const char *settings, enum weft_units what)
{
    struct weft_spec spec;
    struct weft_nn *model;
    struct weft_smaller s;
    char text[512];
    snprintf(text, sizeof text, "%s%s", SMALL, settings);
    open_model(&spec, &model, preset, text);
    check(weft_nn_init(model));
    perturb(model, 5);
    int64_t units = weft_nn_units(model, what);
    assert_true(units > 1);
    for (int layer = 0; layer < LAYERS; layer++)
        for (int64_t u = 0; u < units; u++)
            for (int i = 0; goes(what, layer, u, units) && sides[what][i]; i++)
                silence(model, sides[what][i], layer, units, u);
    check(weft_nn_cut(&s, model, what, 0.5));
    assert_int_equal(s.kept, units - units / 2);
    assert_true(s.model->params.elements < model->params.elements);
    double apart = difference(model, s.model);
    print_message("%s %s: %s, logits differ by %.1e\n", preset, settings, s.settings, apart);
    assert_true(apart < 2e-5);
    weft_smaller_release(&s);
    close_model(&spec, model);
}

static void heads_that_write_nothing_are_not_missed(void **state)
{
    (void)state;
    cut_silent("gpt2", "", WEFT_UNITS_HEADS);
    cut_silent("gpt2", "kv_heads=2 pos=rope output_gate=yes", WEFT_UNITS_HEADS);
    cut_silent("gpt2", "kv_heads=1 pos=relative", WEFT_UNITS_HEADS);
    cut_silent("gpt2", "head_width=12 kv_heads=4 qk_norm=yes ra_alpha=0.5", WEFT_UNITS_HEADS);
    cut_silent("w2", "", WEFT_UNITS_HEADS);
    cut_silent("w2", "geom=overlap pos=relative", WEFT_UNITS_HEADS);
    cut_silent("llama", "attn=latent latent_width=12", WEFT_UNITS_HEADS);
    cut_silent("gpt2", "attn=latent latent_width=12 latent_heads=shared geom=w2", WEFT_UNITS_HEADS);
    cut_silent("gpt2", "m1=yes m3=yes", WEFT_UNITS_HEADS);
    cut_silent("w2", "m1=yes m3=yes kv_heads=2", WEFT_UNITS_HEADS);
}

static void channels_that_are_0_are_not_missed(void **state)
{
    (void)state;
    cut_silent("gpt2", "", WEFT_UNITS_CHANNELS);
    cut_silent("llama", "m1=yes m2=yes m3=yes", WEFT_UNITS_CHANNELS);
    cut_silent("gpt2", "m1=yes m2=yes m2_form=full m3=yes m3_tying=untied attn=latent latent_width=12",
               WEFT_UNITS_CHANNELS);
}

static void ranks_that_are_0_are_not_missed(void **state)
{
    (void)state;
    cut_silent("gpt2", "m1=yes m1_width=6 m1_mode=prefix", WEFT_UNITS_M1);
    cut_silent("llama", "m2=yes m2_rank=6", WEFT_UNITS_M2);
    cut_silent("gpt2", "m3=yes m3_width=10", WEFT_UNITS_M3);
    cut_silent("w2", "m3=yes m3_width=10 m3_tying=untied", WEFT_UNITS_M3);
}

/* ---- which units go */

static float *row(struct weft_nn *m, const char *name, int64_t n)
{
    int i = weft_params_find(&m->params, name);
    assert_true(i >= 0);
    return m->params.weights + m->params.list[i].offset + n * m->params.list[i].dim[1];
}

/* Norms of fc's rows times norms of proj's columns: first 1 everywhere, then different values. */
static void the_least_important_go(void **state)
{
    (void)state;
    struct weft_spec spec;
    struct weft_nn *m;
    struct weft_smaller s;
    open_model(&spec, &m, "gpt2", SMALL);
    check(weft_nn_init(m));
    for (int64_t u = 0; u < 24; u++)
        for (int64_t c = 0; c < 32; c++) {
            row(m, "blocks.0.ffn.fc", u)[c] = (float)(u + 1) * (u % 4 == 0 ? 0.01F : 1);
            row(m, "blocks.0.ffn.proj", c)[u] = u % 4 == 0 ? 10 : 0.1F; /* 0.1 (u + 1) in both cases */
        }
    row(m, "blocks.0.ffn.proj", 3)[23] = 0; /* not by enough */
    check(weft_nn_cut(&s, m, WEFT_UNITS_CHANNELS, 0.25));
    assert_string_equal(s.settings, "ffn_width=18");
    for (int64_t u = 0; u < 18; u++)
        assert_true(row(s.model, "blocks.0.ffn.fc", u)[5] == row(m, "blocks.0.ffn.fc", u + 6)[5]);
    weft_smaller_release(&s);
    for (int64_t u = 0; u < 24; u++)
        for (int64_t c = 0; c < 32; c++) {
            row(m, "blocks.0.ffn.fc", u)[c] = c == u ? 2 : 1; /* equal norms: the last go */
            row(m, "blocks.0.ffn.proj", c)[u] = 1;
        }
    check(weft_nn_cut(&s, m, WEFT_UNITS_CHANNELS, 0.92));
    assert_int_equal(s.kept, 2);
    assert_true(row(s.model, "blocks.0.ffn.fc", 0)[0] == 2 && row(s.model, "blocks.0.ffn.fc", 1)[1] == 2);
    weft_smaller_release(&s);
    for (int64_t c = 0; c < 32; c++) { /* none writes anything, but only of one all weights are 0 */
        memset(row(m, "blocks.0.ffn.proj", c), 0, 24 * sizeof(float));
        row(m, "blocks.0.ffn.fc", 7)[c] = 0;
    }
    check(weft_nn_cut(&s, m, WEFT_UNITS_CHANNELS, 0.04));
    assert_true(row(s.model, "blocks.0.ffn.fc", 6)[6] == 2 && row(s.model, "blocks.0.ffn.fc", 7)[8] == 2);
    weft_smaller_release(&s);
    close_model(&spec, m);
}

/* One layer would do without the first half of M3's latent, the others, by less, without the second. */
static void layers_that_pass_units_on_lose_the_same(void **state)
{
    (void)state;
    struct weft_spec spec;
    struct weft_nn *m;
    struct weft_smaller s;
    open_model(&spec, &m, "gpt2", SMALL "m3=yes m3_width=8");
    check(weft_nn_init(m));
    for (int layer = 0; layer < LAYERS; layer++)
        for (int64_t u = 0; u < 8; u++)
            for (int64_t c = 0; c < 32; c++) {
                char name[64];
                snprintf(name, sizeof name, "blocks.%d.m3.wc", layer);
                row(m, name, u)[c] = (layer == 0 ? u >= 4 : u < 4) ? 3 - (float)layer : 0.1F * (float)u;
                if (c < 24) {
                    snprintf(name, sizeof name, "blocks.%d.m3.w", layer);
                    row(m, name, c)[u] = 1;
                }
            }
    check(weft_nn_cut(&s, m, WEFT_UNITS_M3, 0.5));
    for (int layer = 0; layer < LAYERS; layer++)
        for (int64_t u = 0; u < 4; u++) {
            char name[64];
            snprintf(name, sizeof name, "blocks.%d.m3.wc", layer);
            assert_true(row(s.model, name, u)[0] == row(m, name, u + 4)[0]);
        }
    weft_smaller_release(&s);
    close_model(&spec, m);
}

static void sizes_are_written_as_settings(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        double share;
        const char *written;
    } cases[] = {{"", 0.25, "heads=3 head_width=8"},
                 {"", 0.4, "heads=2 head_width=8"},
                 {"kv_heads=2", 0.5, "heads=2 head_width=8 kv_heads=1"},
                 {"kv_heads=4", 0.5, "heads=2 head_width=8 kv_heads=2"},
                 {"kv_heads=1", 0.5, "heads=2 head_width=8"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft_spec spec;
        struct weft_nn *m;
        struct weft_smaller s;
        char text[256];
        snprintf(text, sizeof text, "%s%s", SMALL, cases[i].settings);
        open_model(&spec, &m, "gpt2", text);
        check(weft_nn_init(m));
        check(weft_nn_cut(&s, m, WEFT_UNITS_HEADS, cases[i].share));
        assert_string_equal(s.settings, cases[i].written);
        weft_smaller_release(&s);
        close_model(&spec, m);
    }
}

static void what_depends_on_places_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *preset, *settings;
        enum weft_units what;
        double share;
        enum weft_status status;
        const char *words;
    } cases[] = {
        {"gpt2", "pos=alibi", WEFT_UNITS_HEADS, 0.5, WEFT_UNSUPPORTED, "pos=alibi"},
        {"ws", "ws_heads=4", WEFT_UNITS_CHANNELS, 0.5, WEFT_UNSUPPORTED, "ffn=ws"},
        {"gpt2", "m3=yes m3_width=10 m3_tying=per_head_scalar", WEFT_UNITS_HEADS, 0.5, WEFT_UNSUPPORTED, "m3"},
        {"gpt2", "m3=yes m3_width=10 m3_tying=per_head_scalar", WEFT_UNITS_CHANNELS, 0.5, WEFT_UNSUPPORTED, "m3"},
        {"gpt2", "m3=yes m3_width=10 m3_tying=per_head_scalar", WEFT_UNITS_M3, 0.5, WEFT_UNSUPPORTED, "no ranks"},
        {"gpt2", "", WEFT_UNITS_HEADS, 0.1, WEFT_INVALID, "rounds to none"},
        {"gpt2", "", WEFT_UNITS_HEADS, 0.9, WEFT_INVALID, "rounds to all"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft_spec spec;
        struct weft_nn *m;
        struct weft_smaller s;
        char text[256];
        snprintf(text, sizeof text, "%s%s", SMALL, cases[i].settings);
        open_model(&spec, &m, cases[i].preset, text);
        check(weft_nn_init(m));
        check_error(weft_nn_cut(&s, m, cases[i].what, cases[i].share), cases[i].status, cases[i].words);
        weft_smaller_release(&s);
        close_model(&spec, m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_that_write_nothing_are_not_missed), cmocka_unit_test(channels_that_are_0_are_not_missed),
        cmocka_unit_test(ranks_that_are_0_are_not_missed),         cmocka_unit_test(the_least_important_go),
        cmocka_unit_test(layers_that_pass_units_on_lose_the_same), cmocka_unit_test(sizes_are_written_as_settings),
        cmocka_unit_test(what_depends_on_places_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
