/* SPDX-License-Identifier: MIT
 *
 * json.h - a result: named numbers and texts in order, printed as one flat JSON object or as lines for people.
 *
 * Adding never fails visibly: when memory is out, printing says so. A number that is not finite prints as null.
 */
#ifndef WEFT_JSON_H
#define WEFT_JSON_H

#include "base/base.h"

#include <stdio.h>

struct weft_result;

struct weft_result *weft_result_create(void); /* NULL when memory is out; all below accept it */
void weft_result_free(struct weft_result *r);
void weft_result_text(struct weft_result *r, const char *name, const char *value);
void weft_result_int(struct weft_result *r, const char *name, int64_t value);
void weft_result_real(struct weft_result *r, const char *name, double value);
enum weft_status weft_result_print(const struct weft_result *r, FILE *to, bool json);

#endif
