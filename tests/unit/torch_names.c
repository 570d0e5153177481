/* SPDX-License-Identifier: MIT
 *
 * torch_names.c - names that printed PyTorch code can use.
 *
 * run-tests: 1 s, asan 1 s
 */
#include "test.h"

#include "export/torch/print.h"

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

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(identifiers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
