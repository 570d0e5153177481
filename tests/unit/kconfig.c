/* SPDX-License-Identifier: MIT
 *
 * kconfig.c - files in Kconfig's format: valid lines, and the errors of invalid ones.
 *
 * run-tests: 1 s, asan 1 s
 */
#include "options.h"

static const struct weft_owner *const owners[] = {&owner};
static struct weft_settings settings;

static enum weft_status load(const char *text, size_t size, struct target *t)
{
    weft_settings_release(&settings);
    write_file(path, text, size);
    TRY(weft_settings_load_kconfig(&settings, path, owners, 1));
    TRY(weft_settings_take(&settings, &owner, t));
    TRY(weft_settings_finish(&settings));
    return WEFT_OK;
}

#define TEXT(text) text, sizeof text - 1

static void reads_what_kconfig_writes(void **state)
{
    (void)state;
    struct target t;
    assert_int_equal(load(TEXT("#\n# Automatically generated file; DO NOT EDIT.\n#\n\n"
                               "CONFIG_WEFT_LAYERS=12\n"
                               "CONFIG_OLD_RATE=\"1e-3\"\n"
                               "# CONFIG_WEFT_BIAS is not set\r\n \t\n"
                               "CONFIG_WEFT_KIND=\"swiglu\"\n"
                               "CONFIG_WEFT_DATA=\"a \\\"b\\\" \\\\ = # \xc3\xa9\""),
                          &t),
                     WEFT_OK);
    assert_true(t.layers == 12 && t.rate == 1e-3 && !t.bias && t.kind == 1);
    assert_string_equal(t.data, "a \"b\" \\ = # \xc3\xa9");
    assert_int_equal(settings.loaded, 5);
    assert_int_equal(settings.setting[2].line, 7);
    assert_int_equal(load(TEXT("CONFIG_WEFT_BIAS=y\nCONFIG_OLD_RATE=0.25\nCONFIG_WEFT_DATA=\"\"\n"), &t), WEFT_OK);
    assert_true(t.bias && t.rate == 0.25 && t.layers == 2 && !*t.data);
    assert_int_equal(load(TEXT("CONFIG_WEFT_BIAS=n\n# CONFIG_SUCH is not set here\n#CONFIG_X is not set"), &t),
                     WEFT_OK);
    assert_true(!t.bias);
    assert_int_equal(load("", 0, &t), WEFT_OK);
}

static void invalid_lines_are_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        const char *words;
    } rows[] = {
        {TEXT("layers=3"), ":1: \"layers=3\" is neither"},
        {TEXT("\n\nCONFIG_WEFT_LAYERS"), ":3: \"CONFIG_WEFT_LAYERS\" is neither"},
        {TEXT("\n CONFIG_WEFT_LAYERS=3"), ":2: \" CONFIG_WEFT_LAYERS=3\" is neither"},
        {TEXT("CONFIG_WEFT_LAERS=3"), ":1: there is no symbol CONFIG_WEFT_LAERS: did you mean CONFIG_WEFT_LAYERS?"},
        {TEXT("CONFIG_WEFT_RATE=\"0.5\""), ":1: there is no symbol CONFIG_WEFT_RATE"},
        {TEXT("# CONFIG_WEFT_BAIS is not set"),
         ":1: there is no symbol CONFIG_WEFT_BAIS: did you mean CONFIG_WEFT_BIAS"},
        {TEXT("# CONFIG_WEFT_LAYERS is not set"), ":1: CONFIG_WEFT_LAYERS=n is invalid: expected 1 to 1024"},
        {TEXT("CONFIG_WEFT_LAYERS=0"), ":1: CONFIG_WEFT_LAYERS=0 is invalid: expected 1 to 1024"},
        {TEXT("CONFIG_WEFT_LAYERS=1025"), "expected 1 to 1024"},
        {TEXT("CONFIG_WEFT_LAYERS="), "expected 1 to 1024"},
        {TEXT("CONFIG_WEFT_LAYERS=0x3"), "expected 1 to 1024"},
        {TEXT("CONFIG_WEFT_LAYERS=3 "), "expected 1 to 1024"},
        {TEXT("CONFIG_WEFT_LAYERS=\"3\""), ":1: invalid value of CONFIG_WEFT_LAYERS: write it like "
                                           "CONFIG_WEFT_LAYERS=12"},
        {TEXT("CONFIG_WEFT_BIAS=m"), "like CONFIG_WEFT_BIAS=y"},
        {TEXT("CONFIG_WEFT_BIAS=\"y\""), "like CONFIG_WEFT_BIAS=y"},
        {TEXT("CONFIG_WEFT_KIND=gelu"), "like CONFIG_WEFT_KIND=\"name\""},
        {TEXT("CONFIG_WEFT_KIND=\"gelu"), "like CONFIG_WEFT_KIND=\"name\""},
        {TEXT("CONFIG_WEFT_KIND=\"gelu\" # so"), "like CONFIG_WEFT_KIND=\"name\""},
        {TEXT("CONFIG_WEFT_KIND=\"gelu\\"), "like CONFIG_WEFT_KIND=\"name\""},
        {TEXT("CONFIG_WEFT_KIND=\"gelu\\\""), "like CONFIG_WEFT_KIND=\"name\""},
        {TEXT("CONFIG_WEFT_KIND=\"swigul\""), ":1: CONFIG_WEFT_KIND=swigul is invalid: expected gelu, swiglu; did you "
                                              "mean swiglu?"},
        {TEXT("CONFIG_OLD_RATE=\"1.5\""), ":1: CONFIG_OLD_RATE=1.5 is invalid: expected 0 to 1"},
        {TEXT("CONFIG_OLD_RATE=nan"), "expected 0 to 1"},
        {TEXT("CONFIG_WEFT_LAYERS=3\n#\nCONFIG_WEFT_LAYERS=3"), ":3: CONFIG_WEFT_LAYERS is already set in line 1"},
        {TEXT("# \0\n"), ":1: this line has a zero byte"},
        {TEXT("CONFIG_WEFT_DATA=\"\x1b[2J\""), ":1: this line is not UTF-8"},
        {TEXT("CONFIG_WEFT_DATA=\"\xff\""), ":1: this line is not UTF-8"},
        {TEXT("{\"preset\": \"gpt2\"}"), ":1: \"{\"preset\": \"gpt2\"}\" is neither"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct target t;
        if (load(rows[i].text, rows[i].size, &t) == WEFT_OK)
            fail_msg("%s was accepted", rows[i].text);
        if (strncmp(weft_error(), path, strlen(path)) != 0 || !strstr(weft_error(), rows[i].words))
            fail_msg("%s: expected \"%s\" in: %s", rows[i].text, rows[i].words, weft_error());
    }
}

static void large_and_missing_files(void **state)
{
    (void)state;
    struct target t;
    static char text[(1 << 20) + 1];
    memset(text, '\n', sizeof text);
    assert_int_equal(load(text, sizeof text - 1, &t), WEFT_OK);
    assert_int_equal(load(text, sizeof text, &t), WEFT_FORMAT);
    memset(text, '#', sizeof text);
    assert_int_equal(load(text, sizeof text - 1, &t), WEFT_OK);
    memset(text, 'C', sizeof text);
    assert_int_equal(load(text, sizeof text - 1, &t), WEFT_FORMAT);
    assert_int_equal(weft_settings_load_kconfig(&settings, "/no/such/file", owners, 1), WEFT_IO);
    assert_non_null(strstr(weft_error(), "/no/such/file cannot be read"));
    assert_int_equal(weft_settings_load_kconfig(&settings, "/", owners, 1), WEFT_IO);
}

/* A setting of one model must have an effect; one that is shared by several models may have none in some of them. */
static void a_shared_setting_may_be_unused(void **state)
{
    (void)state;
    static const struct weft_opt of_rope[] = {{"rope_base", WEFT_OPT_REAL, 0, "10000", 2, 1e12, .help = "base"}};
    static const struct weft_owner rope = WEFT_OWNER("kind=rope", of_rope);
    for (int shared = 0; shared < 2; shared++) {
        struct target t;
        struct weft_unused why;
        struct weft_setting setting = {"rope_base", "500", "x", .line = 3, .shared = shared};
        weft_settings_release(&settings);
        assert_int_equal(weft_settings_put(&settings, setting), WEFT_OK);
        assert_int_equal(weft_settings_take(&settings, &owner, &t), WEFT_OK);
        assert_int_equal(weft_settings_take(&settings, &rope, NULL), WEFT_OK);
        assert_int_equal(weft_settings_finish(&settings), shared ? WEFT_OK : WEFT_INVALID);
        assert_true(weft_settings_unused(&settings, &settings.setting[0], &why) && why.absent);
        assert_string_equal(why.needs, "kind=rope");
        settings.preset = (const char *const[]){"rope_base=5e2", NULL};
        assert_false(weft_settings_unused(&settings, &settings.setting[0], &why));
        assert_int_equal(weft_settings_finish(&settings), WEFT_OK);
    }
}

static int release(void **state)
{
    (void)state;
    weft_settings_release(&settings);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_kconfig_writes),
        cmocka_unit_test(invalid_lines_are_rejected),
        cmocka_unit_test(large_and_missing_files),
        cmocka_unit_test(a_shared_setting_may_be_unused),
    };
    return cmocka_run_group_tests(tests, make_path, release);
}
