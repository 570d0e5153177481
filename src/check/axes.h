/* SPDX-License-Identifier: MIT
 *
 * axes.h - the choices that combinations are made of (axes.c). An axis is an option with its values; a row gives every
 * axis a value, or none where the axis does not exist.
 */
#ifndef WEFT_AXES_H
#define WEFT_AXES_H

#include "check/check.h"

enum { WEFT_MAX_AXES = 96, WEFT_MAX_AXIS_VALUES = 256 };
enum { WEFT_AXIS_OPEN = -1, WEFT_AXIS_ABSENT = -2 }; /* of an axis in a row: not decided, does not exist */

/* The axis exists when another axis has this value, or (unlike) has any other value. */
struct weft_condition {
    int value;
    bool unlike;
};

struct weft_axis {
    const char *name;
    int first, count; /* its values */
    struct weft_condition when[2];
    int whens;
    int depth; /* 0, or more than the axes that it depends on have */
};

struct weft_axes {
    struct weft_axis list[WEFT_MAX_AXES];
    int count;
    const char *values[WEFT_MAX_AXIS_VALUES];
    int axis_of[WEFT_MAX_AXIS_VALUES];
    int value_count;
    bool full; /* a value had no room */
};

struct weft_row {
    int choice[WEFT_MAX_AXES]; /* values */
};

/* All axes, from the option tables of the models. */
enum weft_status weft_axes_find(struct weft_axes *all);

/* Nothing is decided. */
void weft_row_open(const struct weft_axes *all, struct weft_row *row);
/* Gives an axis this value, and the axes that it depends on the values that they need. False: they have others. */
bool weft_row_require(const struct weft_axes *all, struct weft_row *row, int value);
/* Whether the axis exists in the row, given the axes that it depends on. */
bool weft_row_has_axis(const struct weft_axes *all, const struct weft_row *row, int a);
/* What the row sets: "geom=w2 attn=full ..". NULL: no memory. */
const char *weft_row_text(const struct weft_axes *all, const struct weft_row *row, struct weft_arena *arena);

#endif
