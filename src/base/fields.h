/* SPDX-License-Identifier: MIT
 *
 * fields.h - reading objects of files that anybody may have changed: every field is there, of its type, in its range
 * and free of control characters, or the first that is not is told with its place.
 *
 * A reader goes on after a failure with zeros and empty texts, so that one look at `status` at the end is enough.
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

/* A file that is one object, of at most 64 MiB; the caller gives it back to jansson. */
enum weft_status weft_fields_load(const char *path, json_t **object);
/* A line of a file of lines; bytes without the newline. */
enum weft_status weft_fields_line(const char *path, int64_t line, const char *text, size_t bytes, json_t **object);

int64_t weft_field_int(struct weft_fields *f, const char *name, int64_t min, int64_t max);
double weft_field_real(struct weft_fields *f, const char *name); /* finite */
const char *weft_field_text(struct weft_fields *f, const char *name);
const json_t *weft_field_list(struct weft_fields *f, const char *name, int64_t most);
/* Says what is wrong with a field, if nothing was before. */
void weft_field_refuse(struct weft_fields *f, const char *name, const char *wish);

bool weft_is_sha256(const char *text);

#endif
