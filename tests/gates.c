/* SPDX-License-Identifier: MIT
 *
 * gates.c - presets and some unusual combinations pass all gates, in f32 and bf16. Runs one in four, in long-whole all.
 * Models small enough to be trained here also pass the gate live at their own size.
 *
 * run-tests: 21 s
 */
#include "check/check.h"
#include "unit/test.h"

struct subject {
    const char *preset, *settings;
};

static const struct subject subjects[] = {
    {"ra-mla", ""},
    {"gpt2", ""},
    {"llama", "heads=8 kv_heads=2"},
    {"w2", ""},
    {"ws", ""},
    {"gpt2", "norm_place=post pos=alibi output_gate=yes dropout=0.1 kv_heads=1"},
    {"llama", "attn=latent geom=w2 spread=full m1=yes m1_mode=prefix ra_alpha=0.5"},
    {"gpt2", "geom=overlap pos=relative m3=yes m3_tying=untied learn_alpha=yes detach=yes"},
    {"llama", "attn=latent latent_shared=yes geom=overlap m2=yes m2_select=rms recompute=yes"},
    {"w2", "m2=yes m2_select=none m2_form=full m3=yes m3_tying=per_head_scalar ra_alpha=-0.5 pos=none layers=3"},
    {"ws", "ws_form=dense ws_positives=halves attn=latent latent_heads=shared m1=yes bias=yes"},
    {"ws", "aux=no m2=yes m2_head_average=no m2_renormalise=no pos=learned tie=yes"},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static void tell(void *context, const struct weft_check *c)
{
    if (!c->passed)
        print_message("%s: %s: %s: %.3g, limit %.3g: %s\n", (const char *)context, c->gate, c->name, c->figure,
                      c->limit, c->where);
}

static void live_itself(struct weft_spec *spec, struct weft_gates *report)
{
    struct weft_recipe recipe;
    check(weft_recipe_plain(&recipe, spec));
    check(weft_gates_run(spec, &recipe, 1u << WEFT_GATE_LIVE, report));
    weft_recipe_release(&recipe);
}

static void passes(void **state)
{
    const struct subject *s = *state;
    static const char *const dtypes[] = {"dtype=f32", "dtype=bf16"};
    for (int d = THREADS_SANITIZED; d < 2; d++) {
        struct weft_settings settings = {0};
        struct weft_spec spec;
        struct weft_gates report = {.on_check = tell, .context = (void *)(uintptr_t)dtypes[d]};
        check(add_settings(&settings, s->settings));
        check(add_settings(&settings, dtypes[d]));
        check(weft_spec_init(&spec, s->preset, &settings));
        check(weft_settings_finish(&settings));
        double start = weft_seconds();
        check(weft_gates_run(&spec, NULL, WEFT_GATES_ALL, &report));
        if (spec.width <= 128)
            live_itself(&spec, &report);
        print_message("%s: %d checks in %.2f s\n", dtypes[d], report.checks, weft_seconds() - start);
        weft_settings_release(&settings);
        weft_spec_release(&spec);
        assert_int_equal(report.failed, 0);
    }
}

int main(void)
{
    struct CMUnitTest tests[SUBJECTS];
    char names[SUBJECTS][200];
    size_t count = 0;
    for (int i = 0; i < SUBJECTS; i += one_of(THREADS_SANITIZED ? SUBJECTS : SANITIZED ? 6 : 4)) {
        snprintf(names[i], sizeof names[i], "%s %s", subjects[i].preset, subjects[i].settings);
        tests[count++] = (struct CMUnitTest){
            .name = names[i], .test_func = passes, .initial_state = (void *)(uintptr_t)&subjects[i]};
    }
    return _cmocka_run_group_tests("gates", tests, count, NULL, NULL);
}
