/* SPDX-License-Identifier: MIT
 *
 * opt.h - named options. Each owner of options (the model's spec, a part, a task, an optimiser, training) has one
 * table. Parsing, ranges, config files, suggestions, help, Kconfig and docs/options.md are all derived from it.
 *
 * A setting is a string "name=value". Settings are collected first and read by their owners later, because settings
 * also determine which owners exist. The last setting of an option wins; without one, the value comes from the config
 * file, else the preset, else the default. weft_settings_finish rejects a setting that no owner read, unless it sets a
 * known option to its default, which changes no model.
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
    WEFT_OPT_TEXT,   /* const char *, owned by the settings */
};

struct weft_opt {
    const char *name;
    enum weft_opt_type type;
    size_t offset;              /* in the owner's struct */
    const char *initial;        /* the default, written as a setting's value */
    double min, max;            /* range of numbers, inclusive */
    const char *const *choices; /* NULL-terminated */
    const char *help;
    const char *symbol; /* Kconfig symbol; if NULL, WEFT_ and the name in capitals */
    const char *off;    /* the value that switches the mechanism off; gates check that this changes the model */
    const char *needs; /* "name=value" or "name!=value": the condition on a different option, without which this one has
                          no effect; options of training may have several, joined by " or " */
    const char *also;  /* its names in other programs, separated by spaces, for suggestions; NULL: none */
    /* For the gate live, which checks that every value other than the default changes the model. only_plan: it changes
     * only the plan of a step, no computed value. idle (optional): whether this value changes nothing by definition,
     * given the model's spec and the owner's struct. */
    bool only_plan;
    bool (*idle)(const void *model, const void *options);
};

/* Returns choice i; NULL past the last. Other threads may append choices concurrently. */
static inline const char *weft_opt_choice(const struct weft_opt *opt, int i)
{
    return __atomic_load_n(&opt->choices[i], __ATOMIC_ACQUIRE);
}

/* An owner and its table. A name such as "pos=rope" or "m1=yes" means that the owner exists only with that setting. */
struct weft_owner {
    const char *name;
    const struct weft_opt *options;
    int count;
};
#define WEFT_OWNER(name, table)                                                                                        \
    {                                                                                                                  \
        name, table, sizeof(table) / sizeof(table)[0]                                                                  \
    }

/* A named list of settings that override the defaults. */
struct weft_preset {
    const char *name, *summary;
    const char *const *settings; /* NULL-terminated, or NULL */
};
/* Returns the preset's value of an option, or NULL. */
const char *weft_preset_value(const char *const *settings, const char *name);

enum { WEFT_MAX_SETTINGS = 256, WEFT_MAX_OWNERS = 512, WEFT_MAX_VALUE = 40 };

struct weft_settings {
    struct weft_arena arena;
    const char *preset_name;   /* set by weft_settings_load, needed by weft_settings_save */
    const char *const *preset; /* the preset's settings, NULL-terminated, or NULL */
    int count, loaded;         /* the first `loaded` come from a file */
    struct weft_setting {
        const char *name, *value;
        const char *file; /* NULL for the command line */
        int line;         /* in a Kconfig file, else 0 */
        bool taken;       /* read by an owner */
        bool shared;      /* shared with other models, so it may have no effect on this one */
    } setting[WEFT_MAX_SETTINGS];
    int owner_count;
    struct weft_taken {
        const struct weft_owner *owner;
        const void *target; /* NULL if known, but not part of this model or run */
    } owner[WEFT_MAX_OWNERS];
};

/* Returns the option that `word` probably means: one with that name in other programs, or one with a similar name.
 * NULL: none (opt_left.c). */
const struct weft_opt *weft_opt_suggest(const char *word, const struct weft_owner *const *owners, int count);

/* Parse a decimal number: no spaces, hexadecimal or "inf". Return false if it is invalid or out of range. */
bool weft_text_int(const char *text, int64_t *n);
bool weft_text_real(const char *text, double *x);

/* Initialise settings with {0}. */
void weft_settings_release(struct weft_settings *s);
enum weft_status weft_settings_add(struct weft_settings *s, const char *name_is_value);
/* Adds several settings, separated by spaces. */
enum weft_status weft_settings_add_words(struct weft_settings *s, const char *text);
/* Adds a setting without copying its strings, which must outlive the settings. */
enum weft_status weft_settings_put(struct weft_settings *s, struct weft_setting setting);
/* Loads a config file: one flat JSON object of options, and "preset". Settings added with weft_settings_add override
 * it. */
enum weft_status weft_settings_load(struct weft_settings *s, const char *path);
/* Loads a .config or defconfig file in Kconfig's format (kconfig.c): lines CONFIG_X=y, CONFIG_X=12, CONFIG_X="text",
 * "# CONFIG_X is not set", and comments. Symbols are those of the owners' options. Any input is safe: an invalid line,
 * an unknown or duplicate symbol, or a value out of range is an error with the line number. */
enum weft_status weft_settings_load_kconfig(struct weft_settings *s, const char *path,
                                            const struct weft_owner *const *owners, int count);
/* Writes every option of the owner into target. If target is NULL, it only registers the names, for messages. */
enum weft_status weft_settings_take(struct weft_settings *s, const struct weft_owner *owner, void *target);
/* Returns whether "name=value" or "name!=value", or one of several joined by " or ", holds for the options read so
 * far. */
bool weft_settings_met(const struct weft_settings *s, const char *condition);
enum weft_status weft_settings_finish(const struct weft_settings *s); /* this function and the next are in opt_left.c */

/* Why a setting has no effect. */
struct weft_unused {
    const struct weft_opt *opt; /* NULL if no owner has an option of this name */
    bool absent;                /* the option's owners are not part of this model or run */
    char needs[256];            /* "pos=rope", "geom=w2 or geom=overlap", "ra_alpha!=0" */
};
/* Returns whether a setting has no effect here and its value is neither the default nor the preset's. */
bool weft_settings_unused(const struct weft_settings *s, const struct weft_setting *setting, struct weft_unused *why);
bool weft_settings_is_default(const struct weft_settings *s, const struct weft_setting *setting);
/* Returns whether a later setting has the same name as setting i. */
bool weft_settings_overridden(const struct weft_settings *s, int i);
/* Returns whether two strings are equal as values of the option. */
bool weft_settings_same(const struct weft_settings *s, const char *name, const char *value, const char *other);
/* Returns the current value of an option, possibly stored in `text`; NULL if no owner read it. */
const char *weft_settings_value(const struct weft_settings *s, const char *name, char text[WEFT_MAX_VALUE]);
/* Visits every option that was read, with the current value in its target. */
void weft_settings_each(const struct weft_settings *s, void *context,
                        void (*visit)(void *context, const struct weft_opt *opt, const char *value));

/* Writes the settings as a config file. Loading it gives the same values, bit for bit. */
enum weft_status weft_settings_save(const struct weft_settings *s, FILE *to);

/* ---- one option, one value (opt_value.c) */

/* Returns the Kconfig symbol without CONFIG_, possibly stored in `text`. */
const char *weft_opt_symbol(const struct weft_opt *opt, char *text, size_t size);
/* Writes the allowed values as text: "1 to 1024", "yes or no", "gelu, swiglu". */
void weft_opt_range(const struct weft_opt *opt, char *text, size_t size);
/* Returns whether two strings are equal as values: 1e4 and 10000 are. */
bool weft_opt_same(const struct weft_opt *opt, const char *value, const char *other);
/* Returns the value at `at` in the form used in a setting; the string may be stored in `text`. */
const char *weft_opt_text(const struct weft_opt *opt, const void *at, char text[WEFT_MAX_VALUE]);
/* Reads the setting's value into `at`. An error names the range and the source of the setting. */
enum weft_status weft_opt_read(const struct weft_opt *opt, const struct weft_setting *setting, void *at);
/* For messages. weft_setting_where returns "", "file: " or "file:line: "; weft_setting_text returns "name=value" or
 * "CONFIG_NAME=value", whichever the file uses. */
const char *weft_setting_where(const struct weft_setting *setting, char *text, size_t size);
const char *weft_setting_text(const struct weft_opt *opt, const struct weft_setting *setting, char *text, size_t size);

/* ---- pages of all options (opt_page.c) */

enum weft_page { WEFT_PAGE_TEXT, WEFT_PAGE_MARKDOWN, WEFT_PAGE_KCONFIG };
/* Prints all options. In Kconfig, a preset's values are the defaults if the option "preset" selects it. The list of
 * presets ends with a NULL name. */
void weft_owners_print(const struct weft_owner *const *owners, int count, const struct weft_preset *presets,
                       enum weft_page page, FILE *to);

#endif
