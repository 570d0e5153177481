/* SPDX-License-Identifier: MIT
 *
 * fields.h - reads JSON objects from files that may have been edited. Every field must exist, have its type, be in its
 * range and contain no control characters; the first violation is reported with file and line.
 *
 * After an error, the functions return zeros and empty strings, so that it is enough to check `status` at the end.
 */
#ifndef WEFT_FIELDS_H
#define WEFT_FIELDS_H

#include "base/base.h"

#include <jansson.h>

struct weft_fields {
    const json_t *object;
    const char *where; /* "file:line" or "file: arms[2]" */
    enum weft_status status;
};

/* Loads a file of at most 64 MiB with one object, which the caller releases (json_decref). */
enum weft_status weft_fields_load(const char *path, json_t **object);
/* Parses a line of a file; `bytes` does not count the newline. */
enum weft_status weft_fields_line(const char *path, int64_t line, const char *text, size_t bytes, json_t **object);

int64_t weft_field_int(struct weft_fields *f, const char *name, int64_t min, int64_t max);
double weft_field_real(struct weft_fields *f, const char *name); /* finite */
const char *weft_field_text(struct weft_fields *f, const char *name);
const json_t *weft_field_list(struct weft_fields *f, const char *name, int64_t max);
/* Records a problem with a field ("is not ..."), unless there is already an error. */
void weft_field_refuse(struct weft_fields *f, const char *name, const char *problem);

bool weft_is_sha256(const char *text);

#endif
