/* SPDX-License-Identifier: MIT
 *
 * args.h - what a command takes, as one table: a row for each option and each argument. Parsing, ranges, --help, the
 * man page and the completion all come from it.
 *
 * Invariants:
 *  - A row with a name is the option --name, and -x if it has a letter; a row without a name is an argument, and
 *    arguments are taken in the order of their rows. A table ends with an empty row.
 *  - A value is stored at `offset` in the command's struct, which is zeroed before.
 *  - Where the first argument is a choice that must be given it is the verb, as in `weft data prepare`, and rows with
 *    `only` belong to some verbs.
 */
#ifndef WEFT_ARGS_H
#define WEFT_ARGS_H

#include "base/opt.h"

enum weft_arg_type {
    WEFT_ARG_FLAG,          /* bool: no value */
    WEFT_ARG_TEXT,          /* const char * */
    WEFT_ARG_FILE,          /* const char *: a path, or one of the choices */
    WEFT_ARG_FOLDER,        /* const char * */
    WEFT_ARG_INT,           /* int64_t */
    WEFT_ARG_REAL,          /* double */
    WEFT_ARG_CHOICE,        /* int: which of the choices; -1: not given */
    WEFT_ARG_SETTING,       /* struct weft_settings, of a model and its training */
    WEFT_ARG_STUDY_SETTING, /* struct weft_settings, of a study */
};

struct weft_arg {
    const char *name;
    char letter;       /* 0: none */
    const char *value; /* what stands for the value in --help: "N", "DIR" */
    enum weft_arg_type type;
    size_t offset;
    const char *help;
    const char *initial;        /* the default, as one would write it; outside the range it stands for "not given" */
    double min, max;            /* of numbers, both allowed; INFINITY: no limit */
    const char *const *choices; /* ends with NULL; or: */
    const char *(*choice_at)(int i); /* NULL past the last */
    const char *only;                /* the verbs that take it, with spaces between; NULL: all of them */
    const char *missing;             /* it must be given, and this is the message if it is not; NULL: it need not be */
    const char *sets;                /* of settings: the value is that of this setting, not NAME=VALUE */
    bool many;                       /* may be repeated: its place is a struct weft_arg_list of texts */
};

/* In the order they were given; a NULL follows the last. */
struct weft_arg_list {
    const char **item;
    int count;
};

struct weft_cmd;

/* Row i of the command's own table, then of those that commands share (see cmd.h); NULL past the last. */
const struct weft_arg *weft_arg_at(const struct weft_cmd *cmd, int i);
/* Choice i; NULL past the last. */
const char *weft_arg_choice(const struct weft_arg *arg, int i);
/* The row of the verb; NULL: the command has none. */
const struct weft_arg *weft_arg_verb(const struct weft_cmd *cmd);
/* Whether a row belongs to a verb; NULL: none was given, and all do. */
bool weft_arg_fits(const struct weft_arg *arg, const char *verb);
/* The row that takes the i-th word that is not an option. NULL: it would be one too many. */
const struct weft_arg *weft_arg_positional(const struct weft_cmd *cmd, const char *verb, int i);

/* Reads the words after the command's name into its zeroed struct. A failure is wrong usage. Release also after one. */
enum weft_status weft_args_parse(const struct weft_cmd *cmd, int argc, char **argv, void *args);
void weft_args_release(const struct weft_cmd *cmd, void *args);

#endif
