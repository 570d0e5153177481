/* SPDX-License-Identifier: MIT
 *
 * json.c - results print in order, as JSON with exact integers and as lines; a full disk is an error; reals are written
 * in the shortest form. opt.c tests reading, with config files.
 *
 * run-tests: 1 s, aarch64 1 s, asan 1 s
 */
#include "base/json.h"
#include "test.h"

#include <math.h>

static struct weft_result *sample(void)
{
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "preset", "a \"quoted\"\nname");
    weft_result_int(r, "params", 9007199254740993); /* not representable as a double */
    weft_result_real(r, "loss", 0.25);
    weft_result_real(r, "broken", NAN);
    return r;
}

static char *printed(const struct weft_result *r, bool json)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    assert_int_equal(weft_result_print(r, f, json), WEFT_OK);
    fclose(f);
    return text;
}

static void as_json(void **state)
{
    (void)state;
    struct weft_result *r = sample();
    char *text = printed(r, true);
    assert_string_equal(text, "{\"preset\": \"a \\\"quoted\\\"\\nname\", \"params\": 9007199254740993, "
                              "\"loss\": 0.25, \"broken\": null}\n");
    free(text);
    weft_result_free(r);
}

static void as_lines(void **state)
{
    (void)state;
    struct weft_result *r = sample();
    char *text = printed(r, false);
    assert_non_null(strstr(text, "params                   9007199254740993\n"));
    assert_non_null(strstr(text, "loss                     0.25\n"));
    free(text);
    weft_result_free(r);
}

static void errors_are_reported(void **state)
{
    (void)state;
    assert_int_equal(weft_result_print(NULL, stdout, true), WEFT_NOMEM);
    weft_result_int(NULL, "x", 1);
    weft_result_free(NULL);
    FILE *full = fopen("/dev/full", "w");
    if (!full)
        skip();
    struct weft_result *r = sample();
    assert_int_equal(weft_result_print(r, full, true), WEFT_IO);
    weft_result_free(r);
    fclose(full);
}

static void reals_are_short(void **state)
{
    (void)state;
    static const struct {
        double x;
        const char *text;
    } rows[] = {
        {0, "0.0"},
        {-0.0, "-0.0"},
        {2, "2.0"},
        {10000, "10000.0"},
        {0.1, "0.1"},
        {1e-5, "1e-05"},
        {1234567, "1234567.0"},
        {1.0 / 3, "0.3333333333333333"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1e30, "1e+30"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[40];
        weft_json_real(rows[i].x, text, sizeof text);
        assert_string_equal(text, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_json),
        cmocka_unit_test(as_lines),
        cmocka_unit_test(errors_are_reported),
        cmocka_unit_test(reals_are_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
