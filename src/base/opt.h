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

/* A name for settings that stand above the defaults; NULL settings: none. */
struct weft_preset {
    const char *name, *summary;
    const char *const *settings; /* ends with NULL */
};
/* Its value of an option; NULL: it has none. */
const char *weft_preset_value(const char *const *settings, const char *name);

enum { WEFT_MAX_SETTINGS = 256, WEFT_MAX_OWNERS = 64, WEFT_MAX_VALUE = 40 };

struct weft_settings {
    struct weft_arena arena;
    const char *preset_name;   /* read by weft_settings_load; needed by weft_settings_save */
    const char *const *preset; /* settings that stand below the collected ones; ends with NULL, may be NULL */
    int count, loaded;         /* the first so many come from a file */
    struct weft_setting {
        const char *name, *value;
        const char *file; /* NULL: the command line */
        int line;         /* of a file in Kconfig's format; 0: another file, or none */
        bool taken;
        bool shared; /* by several models: it may change nothing in this one */
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
/* One more setting, whose texts are not copied: they must outlive the settings. */
enum weft_status weft_settings_put(struct weft_settings *s, struct weft_setting setting);
/* A config file: one flat JSON object of options, and "preset". Its settings stand below those that were added. */
enum weft_status weft_settings_load(struct weft_settings *s, const char *path);
/* A file in Kconfig's format, .config or a defconfig (kconfig.c): lines CONFIG_X=y, CONFIG_X=12, CONFIG_X="text",
 * "# CONFIG_X is not set", comments. Symbols are those of the owners' options. Any bytes are safe: what is no such
 * line, an unknown symbol, one that stands twice or a value out of range is refused with its line. */
enum weft_status weft_settings_load_kconfig(struct weft_settings *s, const char *path,
                                            const struct weft_owner *const *owners, int count);
/* Writes every option of the owner into target. NULL target: only makes the names known, for better messages. */
enum weft_status weft_settings_take(struct weft_settings *s, const struct weft_owner *owner, void *target);
/* Whether "name=value" or "name!=value" holds for what was taken. */
bool weft_settings_met(const struct weft_settings *s, const char *condition);
enum weft_status weft_settings_finish(const struct weft_settings *s); /* opt_left.c, as the next ones */

/* What a setting needs to change anything. */
struct weft_lack {
    const struct weft_opt *opt; /* NULL: nobody knows an option of this name */
    bool part;                  /* the option's owners have no part in this */
    char needs[256];            /* "pos=rope", "geom=w2 or geom=overlap", "ra_alpha!=0" */
};
/* Whether a setting changes nothing here and yet asks for another value than the default or the preset's. */
bool weft_settings_lacks(const struct weft_settings *s, const struct weft_setting *setting, struct weft_lack *lack);
bool weft_settings_is_default(const struct weft_settings *s, const struct weft_setting *setting);
/* Whether a later setting has the name of this one. */
bool weft_settings_overruled(const struct weft_settings *s, int i);
/* Equal as values of the option of this name. */
bool weft_settings_same(const struct weft_settings *s, const char *name, const char *value, const char *other);
/* The value of an option as it is now; NULL: nobody took it. `text` may hold it. */
const char *weft_settings_value(const struct weft_settings *s, const char *name, char text[WEFT_MAX_VALUE]);
/* Every option taken, with its value as it is now in its target. */
void weft_settings_each(const struct weft_settings *s, void *context,
                        void (*visit)(void *context, const struct weft_opt *opt, const char *value));

/* The same as a config file. Loading it gives the same values, bit for bit. */
enum weft_status weft_settings_save(const struct weft_settings *s, FILE *to);

/* ---- one option, one value */

/* Equal as values: 1e4 is 10000. */
bool weft_opt_same(const struct weft_opt *opt, const char *value, const char *other);
/* The value at `at` as one would write it; `text` may hold it. */
const char *weft_opt_text(const struct weft_opt *opt, const void *at, char text[WEFT_MAX_VALUE]);
/* Reads the setting's value into `at`, or refuses it with the range and where it comes from. */
enum weft_status weft_opt_read(const struct weft_opt *opt, const struct weft_setting *setting, void *at);
/* For messages: "", "file: " or "file:line: ", and "name=value" or "CONFIG_NAME=value", as it was written there. */
const char *weft_setting_where(const struct weft_setting *setting, char *text, size_t size);
const char *weft_setting_text(const struct weft_opt *opt, const struct weft_setting *setting, char *text, size_t size);

/* ---- pages of all options (opt_page.c) */

/* The Kconfig symbol, without CONFIG_; `text` holds it if the table does not. */
const char *weft_opt_symbol(const struct weft_opt *opt, char *text, size_t size);
/* What may be given, for people: "1 to 1024", "yes or no", "gelu, swiglu". */
void weft_opt_range(const struct weft_opt *opt, char *text, size_t size);

enum weft_page { WEFT_PAGE_TEXT, WEFT_PAGE_MARKDOWN, WEFT_PAGE_KCONFIG };
/* For Kconfig the presets' values are the defaults where the option "preset" names them; they end with a NULL name. */
void weft_owners_print(const struct weft_owner *const *owners, int count, const struct weft_preset *presets,
                       enum weft_page page, FILE *to);

#endif
