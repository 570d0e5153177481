/* SPDX-License-Identifier: MIT
 *
 * opt.h - options by name. Whoever owns options (the model's spec, a variant, a task, an optimiser, training itself)
 * has one table of them; parsing, ranges, config files, suggestions, help, Kconfig and the page of options all come
 * from that table.
 *
 * A setting is a text "name=value". Settings are collected first and taken by their owners later, because which owners
 * there are depends on other settings. An option's value is the last setting of its name, else the config file's, else
 * the preset's, else the default. A setting nobody took is refused by weft_settings_finish unless it asks for the
 * default of an option that has no part here: such a setting would change nothing in any model.
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
    WEFT_OPT_TEXT,   /* const char *: the settings' memory */
};

struct weft_opt {
    const char *name;
    enum weft_opt_type type;
    size_t offset;              /* in the owner's struct */
    const char *initial;        /* the default, as one would write it */
    double min, max;            /* of numbers, both allowed */
    const char *const *choices; /* ends with NULL */
    const char *help;
    const char *symbol; /* Kconfig's name; NULL: WEFT_ and the name in capitals */
    const char *off;    /* the value that switches the mechanism off; gates check that this changes the model */
    const char *needs;  /* "name=value" or "name!=value" of another option, without which it has no effect */
};

/* A table and whose it is. A name "option=value", e.g. "pos=rope" or "m1=yes", says what the owner depends on. */
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
    const char *preset_name;   /* read by weft_settings_load; needed by weft_settings_save */
    const char *const *preset; /* settings that stand below the collected ones; ends with NULL, may be NULL */
    int count, loaded;         /* the first so many come from a file */
    struct weft_setting {
        const char *name, *value;
        const char *file; /* NULL: the command line */
        bool taken;
    } setting[WEFT_MAX_SETTINGS];
    int owner_count;
    struct weft_taken {
        const struct weft_owner *owner;
        const void *target; /* NULL: known, but not part of this model or run */
    } owner[WEFT_MAX_OWNERS];
};

/* Numbers are decimal: no spaces, no hexadecimal, no names of infinity, nothing that does not fit. */
bool weft_text_int(const char *text, int64_t *n);
bool weft_text_real(const char *text, double *x);

/* Needs no init beyond {0}. */
void weft_settings_release(struct weft_settings *s);
enum weft_status weft_settings_add(struct weft_settings *s, const char *name_is_value);
/* A config file: one flat JSON object of options, and "preset". Its settings stand below those that were added. */
enum weft_status weft_settings_load(struct weft_settings *s, const char *path);
/* Writes every option of the owner into target. NULL target: only makes the names known, for better messages. */
enum weft_status weft_settings_take(struct weft_settings *s, const struct weft_owner *owner, void *target);
/* Whether "name=value" or "name!=value" holds for what was taken. */
bool weft_settings_met(const struct weft_settings *s, const char *condition);
enum weft_status weft_settings_finish(const struct weft_settings *s);
/* Every option taken, with its value as it is now in its target. */
void weft_settings_each(const struct weft_settings *s, void *context,
                        void (*visit)(void *context, const struct weft_opt *opt, const char *value));

/* The same as a config file. Loading it gives the same values, bit for bit. */
enum weft_status weft_settings_save(const struct weft_settings *s, FILE *to);

/* ---- pages of all options (opt_page.c) */

/* What may be given, for people: "1 to 1024", "yes or no", "gelu, swiglu". */
void weft_opt_range(const struct weft_opt *opt, char *text, size_t size);

enum weft_page { WEFT_PAGE_TEXT, WEFT_PAGE_MARKDOWN, WEFT_PAGE_KCONFIG };
void weft_owners_print(const struct weft_owner *const *owners, int count, enum weft_page page, FILE *to);

#endif
