/* SPDX-License-Identifier: MIT
 *
 * opt.c - settings: which value wins, what is refused and with which words, and that nothing is ignored.
 */
#include "base/opt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct target {
    int64_t layers;
    double rate;
    bool bias;
    int kind;
};

static const char *const kinds[] = {"gelu", "swiglu", NULL};
static const struct weft_opt options[] = {
    {"layers", WEFT_OPT_INT, offsetof(struct target, layers), "2", 1, 1024, .help = "blocks"},
    {"rate", WEFT_OPT_REAL, offsetof(struct target, rate), "0.5", 0, 1, .help = "a rate"},
    {"bias", WEFT_OPT_BOOL, offsetof(struct target, bias), "yes", .help = "biases"},
    {"kind", WEFT_OPT_CHOICE, offsetof(struct target, kind), "gelu", .choices = kinds, .help = "a choice"},
};
static const struct weft_owner owner = WEFT_OWNER("model", options);
static const struct weft_opt rope_options[] = {
    {"rope_base", WEFT_OPT_REAL, 0, "10000", 2, 1e12, .help = "base"},
};
static const struct weft_owner rope = WEFT_OWNER("pos=rope", rope_options);

/* Takes `texts` (ends with NULL) over `preset`; the first failure of adding, taking or finishing. */
static enum weft_status resolve(struct target *t, const char *const *preset, const char *const *texts)
{
    static struct weft_settings s;
    weft_settings_release(&s);
    s.preset = preset;
    for (; *texts; texts++)
        TRY(weft_settings_add(&s, *texts));
    TRY(weft_settings_take(&s, &owner, t));
    TRY(weft_settings_take(&s, &rope, NULL));
    enum weft_status status = weft_settings_finish(&s);
    weft_settings_release(&s);
    return status;
}
#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void the_last_word_wins(void **state)
{
    (void)state;
    struct target t;
    assert_int_equal(resolve(&t, NULL, SETTINGS(NULL)), WEFT_OK);
    assert_true(t.layers == 2 && t.rate == 0.5 && t.bias && t.kind == 0);
    assert_int_equal(resolve(&t, SETTINGS("layers=12", "kind=swiglu"), SETTINGS(NULL)), WEFT_OK);
    assert_true(t.layers == 12 && t.kind == 1 && t.bias);
    assert_int_equal(resolve(&t, SETTINGS("layers=12"), SETTINGS("layers=3", "bias=no", "layers=4", "rate=1e-3")),
                     WEFT_OK);
    assert_true(t.layers == 4 && t.rate == 1e-3 && !t.bias);
}

static void limits_are_inside(void **state)
{
    (void)state;
    struct target t;
    assert_int_equal(resolve(&t, NULL, SETTINGS("layers=1", "rate=0")), WEFT_OK);
    assert_int_equal(resolve(&t, NULL, SETTINGS("layers=1024", "rate=1")), WEFT_OK);
}

static void refusals_say_what_to_do(void **state)
{
    (void)state;
    static const struct {
        const char *setting, *words;
    } rows[] = {
        {"layers", "write NAME=VALUE"},
        {"=3", "write NAME=VALUE"},
        {"layers=", "write NAME=VALUE"},
        {"layers=0", "give 1 to 1024"},
        {"layers=1025", "give 1 to 1024"},
        {"layers=-1", "give 1 to 1024"},
        {"layers=3x", "give 1 to 1024"},
        {"layers=2.5", "give 1 to 1024"},
        {"layers=99999999999999999999", "give 1 to 1024"},
        {"rate=nan", "give 0 to 1"},
        {"rate=inf", "give 0 to 1"},
        {"rate=much", "give 0 to 1"},
        {"bias=maybe", "give yes or no"},
        {"kind=swigul", "did you mean swiglu?"},
        {"kind=zzzzzzzz", "give gelu, swiglu"},
        {"laers=3", "did you mean layers?"},
        {"rope_base=500", "set pos=rope"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct target t;
        if (resolve(&t, NULL, SETTINGS(rows[i].setting)) != WEFT_INVALID)
            fail_msg("%s was not refused", rows[i].setting);
        if (!strstr(weft_error(), rows[i].words))
            fail_msg("%s: expected \"%s\" in: %s", rows[i].setting, rows[i].words, weft_error());
    }
}

static void too_many_settings(void **state)
{
    (void)state;
    static struct weft_settings s;
    for (int i = 0; i < WEFT_MAX_SETTINGS; i++)
        assert_int_equal(weft_settings_add(&s, "layers=3"), WEFT_OK);
    assert_int_equal(weft_settings_add(&s, "layers=3"), WEFT_INVALID);
    weft_settings_release(&s);
}

static void join(void *context, const struct weft_opt *opt, const char *value)
{
    char *text = context;
    strcat(strcat(strcat(strcat(text, opt->name), "="), value), " ");
}

static void values_read_as_written(void **state)
{
    (void)state;
    static struct weft_settings s;
    struct target t;
    char text[200] = "";
    assert_int_equal(weft_settings_add(&s, "rate=0.001"), WEFT_OK);
    assert_int_equal(weft_settings_take(&s, &owner, &t), WEFT_OK);
    assert_int_equal(weft_settings_take(&s, &rope, NULL), WEFT_OK);
    weft_settings_each(&s, text, join);
    assert_string_equal(text, "layers=2 rate=0.001 bias=yes kind=gelu ");
    weft_settings_release(&s);
}

static void help_names_everything(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    weft_owner_print(&owner, f);
    fclose(f);
    for (int i = 0; i < owner.count; i++) {
        assert_non_null(strstr(text, options[i].name));
        assert_non_null(strstr(text, options[i].help));
    }
    assert_non_null(strstr(text, "1 to 1024; default 2"));
    assert_non_null(strstr(text, "gelu, swiglu; default gelu"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_word_wins),      cmocka_unit_test(limits_are_inside),
        cmocka_unit_test(refusals_say_what_to_do), cmocka_unit_test(too_many_settings),
        cmocka_unit_test(values_read_as_written),  cmocka_unit_test(help_names_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
