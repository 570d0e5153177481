/* SPDX-License-Identifier: MIT
 *
 * axes.h - the options that combinations vary (axes.c). An axis is an option with its values; a row gives every axis a
 * value, or none if the axis does not exist in it.
 */
#ifndef WEFT_AXES_H
#define WEFT_AXES_H

#include "check/check.h"

enum { WEFT_MAX_AXES = 96, WEFT_MAX_AXIS_VALUES = 256 };
enum { WEFT_AXIS_OPEN = -1, WEFT_AXIS_ABSENT = -2 }; /* special choices: undecided; no such axis in the row */

/* A condition for an axis to exist: an axis has this value or, if `unlike` is set, any other value. */
struct weft_condition {
    int value;
    bool unlike;
};

struct weft_axis {
    const char *name;
    int first, count; /* range of its values in weft_axes.values */
    struct weft_condition when[2];
    int whens;
    int depth; /* greater than the depth of every axis it depends on; 0: it depends on none */
};

struct weft_axes {
    struct weft_axis list[WEFT_MAX_AXES];
    int count;
    const char *values[WEFT_MAX_AXIS_VALUES];
    int axis_of[WEFT_MAX_AXIS_VALUES];
    int value_count;
    bool full; /* there was no space for a value */
};

struct weft_row {
    int choice[WEFT_MAX_AXES]; /* index of the value of each axis, WEFT_AXIS_OPEN or WEFT_AXIS_ABSENT */
};

/* Builds all axes from the option tables of the models. */
enum weft_status weft_axes_find(struct weft_axes *all);

/* Sets all axes of the row to WEFT_AXIS_OPEN. */
void weft_row_open(const struct weft_axes *all, struct weft_row *row);
/* Sets an axis to this value, and every axis on which it depends to the required value. Returns false if one of them
 * already has a different value. */
bool weft_row_require(const struct weft_axes *all, struct weft_row *row, int value);
/* Returns whether the axis exists in the row, given the values of the axes on which it depends. */
bool weft_row_has_axis(const struct weft_axes *all, const struct weft_row *row, int a);
/* Returns the settings of the row, such as "geom=w2 attn=full ..", or NULL if there is not enough memory. */
const char *weft_row_text(const struct weft_axes *all, const struct weft_row *row, struct weft_arena *arena);

#endif
