/* SPDX-License-Identifier: MIT
 *
 * opt.h - options by name. Whoever owns options (the model's spec, a variant, a task, an optimiser, training itself)
 * has one table of them; parsing, ranges, printing, suggestions and help all come from that table.
 *
 * A setting is a text "name=value". Settings are collected first and taken by their owners later, because which owners
 * there are depends on other settings. An option's value is the last setting of its name, else the preset's, else the
 * default. A setting nobody took is refused by weft_settings_finish, never ignored.
 */
#ifndef WEFT_OPT_H
#define WEFT_OPT_H

#include "base/base.h"

#include <stdio.h>

enum weft_opt_type {
    WEFT_OPT_INT,    /* int64_t */
    WEFT_OPT_REAL,   /* double */
    WEFT_OPT_BOOL,   /* bool: yes or no */
    WEFT_OPT_CHOICE, /* int: index into choices */
};

struct weft_opt {
    const char *name;
    enum weft_opt_type type;
    size_t offset;              /* in the owner's struct */
    const char *initial;        /* the default, as one would write it */
    double min, max;            /* of numbers, both allowed */
    const char *const *choices; /* ends with NULL */
    const char *help;
};

/* A table and whose it is, e.g. "model", "pos=rope". */
struct weft_owner {
    const char *name;
    const struct weft_opt *options;
    int count;
};
#define WEFT_OWNER(name, table)                                                                                        \
    {                                                                                                                  \
        name, table, sizeof(table) / sizeof(table)[0]                                                                  \
    }

enum { WEFT_MAX_SETTINGS = 256, WEFT_MAX_OWNERS = 64 };

struct weft_settings {
    struct weft_arena arena;
    const char *const *preset; /* settings that stand below the collected ones; ends with NULL, may be NULL */
    int count;
    struct weft_setting {
        const char *name, *value;
        bool taken;
    } setting[WEFT_MAX_SETTINGS];
    int owner_count;
    struct weft_taken {
        const struct weft_owner *owner;
        const void *target; /* NULL: known, but not part of this model or run */
    } owner[WEFT_MAX_OWNERS];
};

/* Needs no init beyond {0}. */
void weft_settings_release(struct weft_settings *s);
enum weft_status weft_settings_add(struct weft_settings *s, const char *name_is_value);
/* Writes every option of the owner into target. NULL target: only makes the names known, for better messages. */
enum weft_status weft_settings_take(struct weft_settings *s, const struct weft_owner *owner, void *target);
enum weft_status weft_settings_finish(const struct weft_settings *s);
/* Every option taken, with its value as it is now in its target. */
void weft_settings_each(const struct weft_settings *s, void *context,
                        void (*visit)(void *context, const struct weft_opt *opt, const char *value));

/* The table for people: name, default, range, help. */
void weft_owner_print(const struct weft_owner *owner, FILE *to);

#endif
