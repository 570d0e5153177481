/* SPDX-License-Identifier: MIT
 *
 * json.c - reads and writes flat objects with jansson, which keeps the order, escapes strings, writes exact integers
 * and is safe for any input.
 */
#include "base/json.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- results */

struct weft_result {
    json_t *object;
    bool failed;
};

struct weft_result *weft_result_create(void)
{
    struct weft_result *r = calloc(1, sizeof *r);
    if (r)
        r->object = json_object();
    return r;
}

void weft_result_free(struct weft_result *r)
{
    if (r)
        json_decref(r->object);
    free(r);
}

static void set(struct weft_result *r, const char *name, json_t *value)
{
    if (!r)
        json_decref(value);
    else if (json_object_set_new(r->object, name, value))
        r->failed = true;
}

void weft_result_text(struct weft_result *r, const char *name, const char *value) { set(r, name, json_string(value)); }

void weft_result_int(struct weft_result *r, const char *name, int64_t value) { set(r, name, json_integer(value)); }

void weft_result_real(struct weft_result *r, const char *name, double value)
{
    set(r, name, isfinite(value) ? json_real(value) : json_null());
}

static void print_line(FILE *to, const char *name, const json_t *value)
{
    fprintf(to, "%-24s ", name);
    if (json_is_string(value)) {
        weft_text_print(to, json_string_value(value));
        fputc('\n', to);
    } else if (json_is_integer(value))
        fprintf(to, "%" JSON_INTEGER_FORMAT "\n", json_integer_value(value));
    else
        fprintf(to, "%.6g\n", json_is_real(value) ? json_real_value(value) : (double)NAN);
}

enum weft_status weft_result_print(const struct weft_result *r, FILE *to, bool json)
{
    if (!r || !r->object || r->failed)
        return FAIL(WEFT_NOMEM, "not enough memory for the result");
    const char *name;
    json_t *value;
    if (json) {
        json_dumpf(r->object, to, JSON_REAL_PRECISION(9));
        fputc('\n', to);
    } else {
        json_object_foreach(r->object, name, value) print_line(to, name, value);
    }
    if (fflush(to) || ferror(to))
        return FAIL(WEFT_IO, "cannot write the result: the disk may be full or the pipe closed");
    return WEFT_OK;
}

enum weft_status weft_result_finish(struct weft_result *r, FILE *to, bool json)
{
    enum weft_status status = weft_result_print(r, to, json);
    weft_result_free(r);
    return status;
}

/* ---- files */

void weft_json_real(double x, char *text, size_t size)
{
    /* Start at six digits: with fewer, %g would write 10000 as 1e+04. It drops trailing zeros itself. */
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    size_t n = strlen(text);
    if (!strpbrk(text, ".e"))
        snprintf(text + n, size - n, ".0");
}

bool weft_json_is_text(const char *text)
{
    json_t *value = json_string(text); /* NULL if it is not UTF-8 */
    json_decref(value);
    return value && strlen(text) < WEFT_MAX_TEXT && weft_text_printable(text);
}

enum { MAX_NAME = 127 };

static enum weft_status pass_entry(const char *path, const char *name, const json_t *value, weft_json_entry_fn *entry,
                                   void *context)
{
    char text[WEFT_MAX_TEXT];
    if (strlen(name) > MAX_NAME || !weft_text_printable(name))
        return FAIL(WEFT_FORMAT, "%s: the key \"%.*s\" is too long or has control characters", path, MAX_NAME, name);
    if (json_is_boolean(value))
        snprintf(text, sizeof text, "%s", json_is_true(value) ? "yes" : "no");
    else if (json_is_integer(value))
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        weft_json_real(json_real_value(value), text, sizeof text);
    else if (!json_is_string(value))
        return FAIL(WEFT_FORMAT, "%s: %s is null, a list or an object: expected a number, a string, true or false",
                    path, name);
    else if (weft_json_is_text(json_string_value(value)))
        snprintf(text, sizeof text, "%s", json_string_value(value));
    else
        return FAIL(WEFT_FORMAT, "%s: the value of %s is too long or has control characters", path, name);
    TRY(entry(context, name, text));
    return WEFT_OK;
}

static enum weft_status read_object(const char *path, const char *bytes, size_t size, weft_json_entry_fn *entry,
                                    void *context)
{
    json_error_t error;
    json_t *object = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    enum weft_status status = WEFT_OK;
    if (!object)
        return FAIL(WEFT_FORMAT, "%s:%d: %s", path, error.line, error.text);
    if (!json_is_object(object))
        status = FAIL(WEFT_FORMAT, "%s is a list: write one object, {\"preset\": \"gpt2\", \"layers\": 4}", path);
    for (void *at = json_object_iter(object); status == WEFT_OK && at; at = json_object_iter_next(object, at))
        status = pass_entry(path, json_object_iter_key(at), json_object_iter_value(at), entry, context);
    json_decref(object);
    return status;
}

enum weft_status weft_json_load(const char *path, weft_json_entry_fn *entry, void *context)
{
    char *bytes = NULL;
    size_t size = 0;
    enum weft_status status = weft_slurp(path, WEFT_MAX_CONFIG_BYTES, &bytes, &size);
    if (status == WEFT_OK)
        status = read_object(path, bytes, size, entry, context);
    free(bytes);
    return status;
}
