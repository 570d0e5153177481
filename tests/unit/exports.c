/* SPDX-License-Identifier: MIT
 *
 * exports.c - names that printed PyTorch code can use; exports of models with all parts touch no memory that is not
 * theirs (under AddressSanitizer). Tests with the programs that read the formats are in tests/once.
 *
 * run-tests: 1 s, asan 3 s
 */
#include "test.h"

#include "export/hf/hf.h"
#include "export/onnx/onnx.h"
#include "export/torch/print.h"

#include <unistd.h>

static bool is_name(const char *text) { return weft_torch_is_name(text, (int)strlen(text)); }

static void names(void **state)
{
    static const char *const good[] = {"wq", "c_k", "_x", "w2", "lambda_", "Half", "slots", "xin"};
    static const char *const bad[] = {
        "",         "2w",    "a-b",        "a b",           "a.b",       "lambda",   "in",
        "forward",  "train", "tables",     "False",         "zero_grad", "__init__", "register_buffer",
        "\xc3\xa4", "x\n",   "add_module", "T_destination", "True",      "yield"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(is_name(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(is_name(bad[i]));
}

/* Any text becomes a name, and a name stays as it is. */
static void identifiers(void **state)
{
    static const char *const texts[] = {"wq", "2w", "a-b", "lambda", "x\n; import os", "register_hook", "__x"};
    struct weft_torch_printer p = {0};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *name = weft_torch_identifier(&p, texts[i]);
        assert_true(is_name(name));
        assert_true(!is_name(texts[i]) || strcmp(name, texts[i]) == 0);
    }
    weft_arena_release(&p.arena);
}

#define SMALL "dtype=f32 layers=3 width=32 heads=4 ffn_width=24 context=24 vocab=17 "

/* Returns the size of a file in a folder of scratch. */
static size_t size_of(const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", in_scratch(folder), name);
    struct text text = read_file(path);
    free(text.bytes);
    return text.size;
}

static void exports(void **state)
{
    static const char *const models[] = {
        "geom=dot pos=learned",
        "geom=w2 attn=latent latent_width=12 pos=rope norm=rmsnorm ffn=swiglu tie=no",
        "geom=overlap kv_heads=2 pos=alibi ra_alpha=0.5 ra_window=5 m1=yes m1_mode=prefix m2=yes m2_select=rms",
        "attn=latent latent_width=12 pos=relative m1=yes m2=yes m2_topk=3 m3=yes m3_tying=per_head_scalar",
        "ffn=ws ws_heads=4 ws_logits=yes logits_z=0.01 dropout=0.1 scaling=mup mup_width=16 m3=yes m3_width=10",
    };
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char settings[512], folder[3][16];
        struct weft_spec spec;
        struct weft_nn *model;
        snprintf(settings, sizeof settings, SMALL "%s", models[i]);
        for (int k = 0; k < 3; k++)
            snprintf(folder[k], sizeof folder[k], "export-%zu-%d", i, k);
        open_model(&spec, &model, "gpt2", settings);
        check(weft_params_init(&model->params, 1));
        check(weft_hf_export(model, &weft_hf_own, in_scratch(folder[0])));
        check(weft_hf_export_module(model, in_scratch(folder[1])));
        check(weft_onnx_export(model, -1, in_scratch(folder[2])));
        assert_true(size_of(folder[0], "modeling_weft.py") > 4000);
        assert_true(size_of(folder[1], "model.py") > 2000);
        assert_true(size_of(folder[2], "model.onnx") > 4000);
        close_model(&spec, model);
    }
}

/* A model that reads later tokens cannot be decoded; its folder is not left behind. */
static void later_tokens(void **state)
{
    struct weft_spec spec;
    struct weft_nn *model;
    (void)state;
    open_model(&spec, &model, "gpt2", SMALL "m1=yes m1_mode=sequence");
    check(weft_params_init(&model->params, 1));
    check_error(weft_hf_export(model, &weft_hf_own, in_scratch("later")), WEFT_INVALID, "reads later tokens");
    assert_int_not_equal(access(in_scratch("later"), F_OK), 0);
    check(weft_hf_export_module(model, in_scratch("later")));
    close_model(&spec, model);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(identifiers),
                                              cmocka_unit_test(exports), cmocka_unit_test(later_tokens)};
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
