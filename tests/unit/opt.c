/* SPDX-License-Identifier: MIT
 *
 * opt.c - settings: precedence, error messages, and that no setting is ignored; valid and hostile config files;
 * generated pages; and the consistency of the program's own tables.
 *
 * run-tests: 1 s, asan 1 s
 */
#include "options.h"
#include "study/study.h"

static const struct weft_opt rope_options[] = {
    {"rope_base", WEFT_OPT_REAL, 0, "10000", 2, 1e12, .help = "base"},
};
static const struct weft_owner rope = WEFT_OWNER("pos=rope", rope_options);
static const struct weft_owner yarn = WEFT_OWNER("pos=yarn", rope_options);

/* Reads the settings `texts` (NULL-terminated) over `preset`. */
static enum weft_status resolve(struct target *t, const char *const *preset, const char *const *texts)
{
    static struct weft_settings s;
    weft_settings_release(&s);
    s.preset = preset;
    for (; *texts; texts++)
        TRY(weft_settings_add(&s, *texts));
    TRY(weft_settings_take(&s, &owner, t));
    TRY(weft_settings_take(&s, &rope, NULL));
    TRY(weft_settings_take(&s, &yarn, NULL));
    enum weft_status status = weft_settings_finish(&s);
    weft_settings_release(&s);
    return status;
}
#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void the_last_setting_wins(void **state)
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

static void limits_are_inclusive(void **state)
{
    (void)state;
    struct target t;
    assert_int_equal(resolve(&t, NULL, SETTINGS("layers=1", "rate=0")), WEFT_OK);
    assert_int_equal(resolve(&t, NULL, SETTINGS("layers=1024", "rate=1")), WEFT_OK);
}

static void errors_say_what_to_do(void **state)
{
    (void)state;
    static const struct {
        const char *setting, *words;
    } rows[] = {
        {"layers", "write NAME=VALUE"},
        {"=3", "write NAME=VALUE"},
        {"layers=", "write NAME=VALUE"},
        {"layers=0", "expected 1 to 1024"},
        {"layers=1025", "expected 1 to 1024"},
        {"layers=-1", "expected 1 to 1024"},
        {"layers=3x", "expected 1 to 1024"},
        {"layers=2.5", "expected 1 to 1024"},
        {"layers= 3", "expected 1 to 1024"},
        {"layers=1e2", "expected 1 to 1024"},
        {"layers=99999999999999999999", "expected 1 to 1024"},
        {"rate=nan", "expected 0 to 1"},
        {"rate=inf", "expected 0 to 1"},
        {"rate=much", "expected 0 to 1"},
        {"rate=0x1p-1", "expected 0 to 1"},
        {"rate= 1", "expected 0 to 1"},
        {"rate=-", "expected 0 to 1"},
        {"bias=maybe", "expected yes or no"},
        {"kind=swigul", "did you mean swiglu?"},
        {"kind=zzzzzzzz", "expected gelu, swiglu"},
        {"data=a\nb", "expected a string of at most 2047 bytes"},
        {"data=\xff", "expected a string of at most 2047 bytes"},
        {"laers=3", "did you mean layers?"},
        {"rope_base=500", "set pos=rope or pos=yarn"},
        {"rope_base=500", "remove it or set it to 10000"},
        {"rope_base=much", "set pos=rope"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct target t;
        if (resolve(&t, NULL, SETTINGS(rows[i].setting)) != WEFT_INVALID)
            fail_msg("%s was accepted", rows[i].setting);
        if (!strstr(weft_error(), rows[i].words))
            fail_msg("%s: expected \"%s\" in: %s", rows[i].setting, rows[i].words, weft_error());
    }
}

static void a_default_without_effect_is_accepted(void **state)
{
    (void)state;
    struct target t;
    assert_int_equal(resolve(&t, NULL, SETTINGS("rope_base=10000")), WEFT_OK);
    assert_int_equal(resolve(&t, NULL, SETTINGS("rope_base=1e4")), WEFT_OK);
    assert_int_equal(resolve(&t, NULL, SETTINGS("rope_base=500", "rope_base=10000")), WEFT_OK);
    assert_int_equal(resolve(&t, NULL, SETTINGS("rope_base=10000", "rope_base=500")), WEFT_INVALID);
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
    assert_string_equal(text, "layers=2 rate=0.001 bias=yes kind=gelu data= ");
    weft_settings_release(&s);
}

/* ---- config files */

/* Loads the file; `texts` override it. */
static enum weft_status load(struct weft_settings *s, struct target *t, const char *const *texts)
{
    for (; *texts; texts++)
        TRY(weft_settings_add(s, *texts));
    TRY(weft_settings_load(s, path));
    TRY(weft_settings_take(s, &owner, t));
    TRY(weft_settings_take(s, &rope, NULL));
    TRY(weft_settings_finish(s));
    return WEFT_OK;
}

static enum weft_status load_text(const char *text, size_t size, struct target *t, const char *const *texts)
{
    static struct weft_settings s;
    weft_settings_release(&s);
    write_file(path, text, size);
    enum weft_status status = load(&s, t, texts);
    weft_settings_release(&s);
    return status;
}

static void the_command_line_overrides_a_file(void **state)
{
    (void)state;
    static const char text[] = "{\"preset\": \"x\", \"layers\": 3, \"rate\": 1, \"bias\": false, \"kind\": \"swiglu\"}";
    struct target t;
    assert_int_equal(load_text(text, strlen(text), &t, SETTINGS(NULL)), WEFT_OK);
    assert_true(t.layers == 3 && t.rate == 1 && !t.bias && t.kind == 1);
    assert_int_equal(load_text(text, strlen(text), &t, SETTINGS("layers=4", "bias=yes")), WEFT_OK);
    assert_true(t.layers == 4 && t.rate == 1 && t.bias && t.kind == 1);
    assert_int_equal(load_text("{}", 2, &t, SETTINGS(NULL)), WEFT_OK);
    assert_true(t.layers == 2 && t.rate == 0.5 && t.bias && t.kind == 0);
}

static void a_saved_file_gives_the_same_bits(void **state)
{
    (void)state;
    static const char *const texts[4] = {"", "a b/c", "say \"x\" \\ y", "\xc3\xa9"};
    static struct weft_settings s;
    for (uint64_t i = 0; i < 300; i++) {
        struct target t = {(int64_t)weft_below(1, i, 1024) + 1, weft_uniform(2, i), i & 1, (i & 2) != 0, texts[i % 4]},
                      again;
        if (i < 4)
            t.rate = (const double[]){0, -0.0, 2.2250738585072014e-308, 1}[i];
        struct target wanted = t;
        assert_int_equal(weft_settings_take(&s, &owner, &t), WEFT_OK);
        t = wanted;
        s.preset_name = "small";
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(weft_settings_save(&s, f), WEFT_OK);
        fclose(f);
        weft_settings_release(&s);
        assert_int_equal(load(&s, &again, SETTINGS(NULL)), WEFT_OK);
        assert_string_equal(s.preset_name, "small");
        assert_memory_equal(&again.rate, &wanted.rate, sizeof wanted.rate);
        assert_true(again.layers == wanted.layers && again.bias == wanted.bias && again.kind == wanted.kind);
        assert_string_equal(again.data, wanted.data);
        weft_settings_release(&s);
    }
}

static void invalid_files_are_rejected(void **state)
{
    (void)state;
#define FILE_IS(text, words)                                                                                           \
    {                                                                                                                  \
        text, sizeof text - 1, words                                                                                   \
    }
    static const struct {
        const char *text;
        size_t size;
        const char *words;
    } rows[] = {
        FILE_IS("", ":1: "),
        FILE_IS("{\n\"layers\": }", ":2: "),
        FILE_IS("{\"layers\": 3", ":1: "),
        FILE_IS("{\"layers\": 3} x", ":1: "),
        FILE_IS("{\n\n\"layers\": 3, \"layers\": 3}", ":3: duplicate"),
        FILE_IS("[1, 2]", "is a list"),
        FILE_IS("7", ":1: "),
        FILE_IS("{\"layers\": [1]}", ": layers is null, a list or an object"),
        FILE_IS("{\"layers\": {\"a\": 1}}", ": layers is null"),
        FILE_IS("{\"layers\": null}", ": layers is null"),
        FILE_IS("{\"layers\": 0}", ": layers=0 is invalid: expected 1 to 1024"),
        FILE_IS("{\"layers\": 2.0}", ": layers=2.0 is invalid"),
        FILE_IS("{\"layers\": 1e2}", ": layers=100.0 is invalid"),
        FILE_IS("{\"layers\": true}", ": layers=yes is invalid"),
        FILE_IS("{\"layers\": \"\"}", ": layers= is invalid"),
        FILE_IS("{\"layers\": 99999999999999999999}", ":1: too big integer"),
        FILE_IS("{\"rate\": 1e999}", ":1: real number overflow"),
        FILE_IS("{\"rate\": NaN}", ":1: invalid token"),
        FILE_IS("{\"rate\": \"0.5 \"}", ": rate=0.5  is invalid"),
        FILE_IS("{\"bias\": 1}", ": bias=1 is invalid: expected yes or no"),
        FILE_IS("{\"laers\": 1}", ": there is no option \"laers\": did you mean layers?"),
        FILE_IS("{\"rope_base\": 500}", ": rope_base is an option of pos=rope"),
        FILE_IS("{\"la\\u0000yers\": 1}", ":1: "),
        FILE_IS("{\"kind\": \"ge\\u0000lu\"}", ":1: "),
        FILE_IS("{\"lay\0ers\": 1}", ":1: "),
        FILE_IS("{\"layers\": 1}\0", ":1: "),
        FILE_IS("{\"a\\u001b[2J\": 1}", ": the key \"a\\x1b[2J\" is too long"),
        FILE_IS("{\"kind\": \"\\u001b[2J\"}", ": the value of kind"),
        FILE_IS("{\"kind\": \x1b[2J}", ":1: "),
        FILE_IS("{\"kind\": \"\xff\xfe\"}", ":1: "),
        FILE_IS("\xef\xbb\xbf{}", ":1: "),
    };
#undef FILE_IS
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct target t;
        enum weft_status status = load_text(rows[i].text, rows[i].size, &t, SETTINGS(NULL));
        if (status != WEFT_FORMAT && status != WEFT_INVALID)
            fail_msg("%s was accepted", rows[i].text);
        const char *words = weft_error() + strlen(path);
        if (strncmp(weft_error(), path, strlen(path)) != 0 || !strstr(words, rows[i].words))
            fail_msg("%s: expected \"%s\" in: %s", rows[i].text, rows[i].words, weft_error());
        if (strchr(weft_error(), 0x1b))
            fail_msg("row %zu: a control character reached the message", i);
    }
}

static void large_and_missing_files(void **state)
{
    (void)state;
    struct target t;
    static char text[(1 << 20) + 1];
    memset(text, ' ', sizeof text);
    memcpy(text, "{}", 2);
    assert_int_equal(load_text(text, sizeof text - 1, &t, SETTINGS(NULL)), WEFT_OK);
    assert_int_equal(load_text(text, sizeof text, &t, SETTINGS(NULL)), WEFT_FORMAT);
    assert_non_null(strstr(weft_error(), "larger than 1048576 bytes"));
    memset(text, '[', sizeof text);
    assert_int_equal(load_text(text, sizeof text - 1, &t, SETTINGS(NULL)), WEFT_FORMAT);
    memset(text, 'x', sizeof text);
    memcpy(text, "{\"kind\": \"", 10);
    memcpy(text + (1 << 20) - 2, "\"}", 2);
    assert_int_equal(load_text(text, sizeof text - 1, &t, SETTINGS(NULL)), WEFT_FORMAT);
    assert_non_null(strstr(weft_error(), "too long"));

    size_t n = (size_t)sprintf(text, "{\"k0\": 1");
    for (int i = 1; i <= WEFT_MAX_SETTINGS; i++)
        n += (size_t)sprintf(text + n, ", \"k%d\": 1", i);
    text[n++] = '}';
    assert_int_equal(load_text(text, n, &t, SETTINGS(NULL)), WEFT_INVALID);

    static struct weft_settings s;
    assert_int_equal(weft_settings_load(&s, "/no/such/file"), WEFT_IO);
    assert_non_null(strstr(weft_error(), "/no/such/file cannot be read"));
    assert_int_equal(weft_settings_load(&s, "/"), WEFT_IO);
    weft_settings_release(&s);
}

/* Whatever the bytes, loading gives values in range or an error. */
static void any_bytes_are_safe(void **state)
{
    (void)state;
    static const char good[] = "{\"preset\": \"x\", \"layers\": 3, \"rate\": 0.25, \"bias\": true, \"kind\": \"gelu\"}";
    char text[sizeof good - 1];
    for (uint64_t round = 0; round < 2000; round++) {
        struct target t;
        memcpy(text, good, sizeof text);
        size_t size = round % 5 ? sizeof text : (size_t)weft_below(round, 99, sizeof text);
        for (uint64_t i = 0; i <= round % 4; i++)
            text[weft_below(round, 2 * i, sizeof text)] = (char)weft_below(round, 2 * i + 1, 256);
        if (load_text(text, size, &t, SETTINGS(NULL)) == WEFT_OK)
            assert_true(t.layers >= 1 && t.layers <= 1024 && t.rate >= 0 && t.rate <= 1);
    }
}

/* ---- pages */

static char *page_of(const struct weft_owner *const *owners, int count, const struct weft_preset *presets,
                     enum weft_page page)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    weft_owners_print(owners, count, presets, page, f);
    fclose(f);
    return text;
}

static void help_lists_all_options(void **state)
{
    (void)state;
    char *text = page_of((const struct weft_owner *const[]){&owner}, 1, NULL, WEFT_PAGE_TEXT);
    for (int i = 0; i < owner.count; i++) {
        assert_non_null(strstr(text, options[i].name));
        assert_non_null(strstr(text, options[i].help));
    }
    assert_non_null(strstr(text, "1 to 1024; default 2"));
    assert_non_null(strstr(text, "gelu, swiglu; default gelu"));
    free(text);
}

static void pages_show_symbols_and_presets(void **state)
{
    (void)state;
    static const struct weft_opt gate[] = {
        {"alpha", WEFT_OPT_REAL, 0, "0.1", 0, 1, .help = "a \"share\"; of|all", .symbol = "SHARE"},
    };
    static const struct weft_owner when_yes = WEFT_OWNER("bias=yes", gate), when_kind = WEFT_OWNER("kind=gelu", gate);
    static const struct weft_owner *const owners[] = {&owner, &when_yes, &when_kind};
    const struct weft_preset presets[] = {{"big", "", SETTINGS("layers=12", "kind=swiglu")}, {NULL, NULL, NULL}};
    char *kconfig = page_of(owners, 3, presets, WEFT_PAGE_KCONFIG),
         *markdown = page_of(owners, 3, presets, WEFT_PAGE_MARKDOWN);
    assert_non_null(strstr(kconfig, "config WEFT_LAYERS\n\tint \"blocks\"\n\trange 1 1024\n"));
    assert_non_null(strstr(kconfig, "config WEFT_BIAS\n\tbool \"biases\"\n\tdefault y\n"));
    assert_non_null(strstr(kconfig, "menu \"with bias=yes\"\n"));
    assert_non_null(strstr(kconfig, "default 12 if WEFT_PRESET = \"big\"\n\tdefault 2\n"));
    assert_non_null(strstr(kconfig, "default \"swiglu\" if WEFT_PRESET = \"big\"\n\tdefault \"gelu\"\n"));
    assert_null(
        strstr(kconfig, "depends on")); /* Kconfig would drop values that the baseline does not use, but an arm may */
    assert_non_null(strstr(kconfig, "config SHARE\n\tstring \"a \\\"share\\\"\"\n\tdefault \"0.1\"\n"));
    assert_non_null(strstr(markdown, "| `layers` | integer, 1 to 1024 | 2 | `WEFT_LAYERS` | blocks |"));
    assert_non_null(strstr(markdown, "| `SHARE` | a \"share\"; of\\|all |"));
    free(kconfig);
    free(markdown);
}

/* ---- the tables of this program */

static const struct weft_owner *owner_at(int i)
{
    static int of_nn;
    for (; weft_nn_owner_at(of_nn); of_nn++)
        ;
    if (i < of_nn)
        return weft_nn_owner_at(i);
    return i == of_nn ? &weft_study_owner : weft_train_owner_at(i - of_nn - 1);
}

/* Whether the option of this name accepts `value`. */
static bool accepts(const char *name, size_t length, const char *value)
{
    static struct weft_settings s;
    union {
        int64_t n;
        double x;
    } at;
    bool accepted = false;
    for (int o = 0; owner_at(o); o++)
        for (int i = 0; i < owner_at(o)->count; i++) {
            struct weft_opt opt = owner_at(o)->options[i];
            if (strlen(opt.name) != length || memcmp(opt.name, name, length) != 0)
                continue;
            opt.initial = value;
            opt.offset = 0;
            accepted = weft_settings_take(&s, &(struct weft_owner){"test", &opt, 1}, &at) == WEFT_OK;
            weft_settings_release(&s);
        }
    return accepted;
}

/* Options with the same name must have the same type, default and symbol, since a file names only the option. */
static bool agrees(const struct weft_opt *opt)
{
    char mine[64], its[64];
    for (int o = 0; owner_at(o); o++)
        for (int i = 0; i < owner_at(o)->count; i++) {
            const struct weft_opt *other = &owner_at(o)->options[i];
            if ((strcmp(other->name, opt->name) == 0) !=
                (strcmp(weft_opt_symbol(other, its, sizeof its), weft_opt_symbol(opt, mine, sizeof mine)) == 0))
                return false;
            if (strcmp(other->name, opt->name) == 0 &&
                (other->type != opt->type || strcmp(other->initial, opt->initial) != 0))
                return false;
        }
    return true;
}

static void all_tables_are_consistent(void **state)
{
    (void)state;
    for (int o = 0; owner_at(o); o++) {
        const char *equals = strchr(owner_at(o)->name, '=');
        if (equals && !accepts(owner_at(o)->name, (size_t)(equals - owner_at(o)->name), equals + 1))
            fail_msg("the owner %s depends on an option or value that does not exist", owner_at(o)->name);
        for (int i = 0; i < owner_at(o)->count; i++) {
            const struct weft_opt *opt = &owner_at(o)->options[i];
            if (!accepts(opt->name, strlen(opt->name), opt->initial))
                fail_msg("%s does not accept its default %s", opt->name, opt->initial);
            if (opt->off && !accepts(opt->name, strlen(opt->name), opt->off))
                fail_msg("%s does not accept %s, its off value", opt->name, opt->off);
            if (!opt->help || !*opt->help)
                fail_msg("%s has no help", opt->name);
            if (!agrees(opt))
                fail_msg("%s is defined differently in another table", opt->name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_setting_wins),
        cmocka_unit_test(limits_are_inclusive),
        cmocka_unit_test(errors_say_what_to_do),
        cmocka_unit_test(a_default_without_effect_is_accepted),
        cmocka_unit_test(too_many_settings),
        cmocka_unit_test(values_read_as_written),
        cmocka_unit_test(the_command_line_overrides_a_file),
        cmocka_unit_test(a_saved_file_gives_the_same_bits),
        cmocka_unit_test(invalid_files_are_rejected),
        cmocka_unit_test(large_and_missing_files),
        cmocka_unit_test(any_bytes_are_safe),
        cmocka_unit_test(help_lists_all_options),
        cmocka_unit_test(pages_show_symbols_and_presets),
        cmocka_unit_test(all_tables_are_consistent),
    };
    return cmocka_run_group_tests(tests, make_path, NULL);
}
