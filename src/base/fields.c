/* SPDX-License-Identifier: MIT
 *
 * fields.c - reads the fields of JSON objects in files.
 */
#include "base/fields.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { LARGEST = 1 << 26 };

static enum weft_status check_object(const char *path, int64_t line, json_t **object)
{
    if (json_is_object(*object))
        return WEFT_OK;
    json_decref(*object);
    *object = NULL;
    return FAIL(WEFT_FORMAT, "%s:%lld: not a JSON object: the file may have been edited by hand", path,
                (long long)line);
}

enum weft_status weft_fields_load(const char *path, json_t **object)
{
    struct stat st;
    json_error_t error;
    *object = NULL;
    if (stat(path, &st))
        return FAIL(WEFT_IO, "%s cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size > LARGEST)
        return FAIL(WEFT_FORMAT, "%s is not a regular file of at most %d MiB", path, LARGEST >> 20);
    *object = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!*object)
        return FAIL(WEFT_FORMAT, "%s:%d: %s", path, error.line, error.text);
    TRY(check_object(path, 1, object));
    return WEFT_OK;
}

enum weft_status weft_fields_line(const char *path, int64_t line, const char *text, size_t bytes, json_t **object)
{
    json_error_t error;
    *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!*object)
        return FAIL(WEFT_FORMAT, "%s:%lld: %s", path, (long long)line, error.text);
    TRY(check_object(path, line, object));
    return WEFT_OK;
}

void weft_field_refuse(struct weft_fields *f, const char *name, const char *problem)
{
    if (f->status == WEFT_OK)
        f->status = FAIL(WEFT_FORMAT, "%s: \"%s\" %s", f->where, name,
                         json_object_get(f->object, name) ? problem : "is missing");
}

int64_t weft_field_int(struct weft_fields *f, const char *name, int64_t min, int64_t max)
{
    const json_t *value = json_object_get(f->object, name);
    int64_t n = json_integer_value(value);
    char problem[80];
    if (json_is_integer(value) && n >= min && n <= max)
        return n;
    snprintf(problem, sizeof problem, "is not an integer from %lld to %lld", (long long)min, (long long)max);
    weft_field_refuse(f, name, problem);
    return 0;
}

double weft_field_real(struct weft_fields *f, const char *name)
{
    const json_t *value = json_object_get(f->object, name);
    if (json_is_number(value))
        return json_number_value(value); /* JSON numbers are always finite */
    weft_field_refuse(f, name, "is not a number");
    return 0;
}

const char *weft_field_text(struct weft_fields *f, const char *name)
{
    const char *text = json_string_value(json_object_get(f->object, name));
    if (text && weft_text_printable(text))
        return text;
    weft_field_refuse(f, name, "is not a string, or has control characters");
    return "";
}

const json_t *weft_field_list(struct weft_fields *f, const char *name, int64_t max)
{
    const json_t *list = json_object_get(f->object, name);
    char problem[80];
    if (json_is_array(list) && (int64_t)json_array_size(list) <= max)
        return list;
    snprintf(problem, sizeof problem, "is not a list of at most %lld", (long long)max);
    weft_field_refuse(f, name, problem);
    return NULL;
}

bool weft_is_sha256(const char *text) { return strspn(text, "0123456789abcdef") == 64 && !text[64]; }
