/* SPDX-License-Identifier: MIT
 *
 * json.h - flat JSON objects: results, which are printed as JSON or as readable lines, and config files.
 *
 * Adding to a result reports no errors; if memory runs out, printing fails. A non-finite number is printed as null.
 */
#ifndef WEFT_JSON_H
#define WEFT_JSON_H

#include "base/base.h"

#include <stdio.h>

struct weft_result;

struct weft_result *weft_result_create(void); /* NULL if out of memory; all functions below accept NULL */
void weft_result_free(struct weft_result *r);
void weft_result_text(struct weft_result *r, const char *name, const char *value);
void weft_result_int(struct weft_result *r, const char *name, int64_t value);
void weft_result_real(struct weft_result *r, const char *name, double value);
enum weft_status weft_result_print(const struct weft_result *r, FILE *to, bool json);
enum weft_status weft_result_finish(struct weft_result *r, FILE *to, bool json); /* prints and frees it */

/* Calls `entry` for each entry of a file that contains one flat object, in order, with the value written as in a
 * setting: true is "yes", 2 is "2", 2.0 is "2.0". Any input is safe. Errors: a file above 1 MiB, invalid syntax (with
 * the line), duplicate keys, numbers out of range, lists, objects, null and control characters. */
typedef enum weft_status weft_json_entry_fn(void *context, const char *name, const char *value);
enum weft_status weft_json_load(const char *path, weft_json_entry_fn *entry, void *context);

/* Returns whether a string can be a value in such a file: UTF-8, shorter than WEFT_MAX_TEXT, no control characters. */
enum { WEFT_MAX_TEXT = 2048 };
bool weft_json_is_text(const char *text);

/* Writes the shortest string, with a precision of at least 6 digits, that reads back as the same finite double and is
 * recognised as a real number: "0.1", "2.0", "1e-05". */
void weft_json_real(double x, char *text, size_t size);

#endif
