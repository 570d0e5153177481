/* SPDX-License-Identifier: MIT
 *
 * json.c - results as flat objects, over jansson: it keeps the order, escapes texts and writes exact integers.
 */
#include "base/json.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

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
    if (json_is_string(value))
        fprintf(to, "%s\n", json_string_value(value));
    else if (json_is_integer(value))
        fprintf(to, "%" JSON_INTEGER_FORMAT "\n", json_integer_value(value));
    else
        fprintf(to, "%.6g\n", json_is_real(value) ? json_real_value(value) : (double)NAN);
}

enum weft_status weft_result_print(const struct weft_result *r, FILE *to, bool json)
{
    if (!r || !r->object || r->failed)
        return FAIL(WEFT_NOMEM, "no memory left for the result");
    const char *name;
    json_t *value;
    if (json) {
        json_dumpf(r->object, to, JSON_REAL_PRECISION(9));
        fputc('\n', to);
    } else {
        json_object_foreach(r->object, name, value) print_line(to, name, value);
    }
    if (fflush(to) || ferror(to))
        return FAIL(WEFT_IO, "the result could not be written: is the disk full or the pipe closed?");
    return WEFT_OK;
}
