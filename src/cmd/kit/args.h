/* SPDX-License-Identifier: MIT
 *
 * args.h - the options and arguments of a command as one table, with a row for each. Parsing, ranges, --help, the man
 * page and the completion are derived from it.
 *
 * Invariants:
 *  - A row with a name is the option --name, and -x if it has a letter; a row without a name is an argument, and
 *    arguments are taken in the order of their rows. A table ends with an empty row.
 *  - A value is stored at `offset` in the command's zeroed struct.
 *  - If the first argument is a required choice, it is the verb, as in `weft data prepare`, and rows with `only` belong
 *    only to the verbs listed there.
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
    const char *value; /* placeholder of the value in --help: "N", "DIR" */
    enum weft_arg_type type;
    size_t offset;
    const char *help;
    const char *initial;             /* default, as typed by a user; a value outside the range means "not given" */
    double min, max;                 /* range of numbers, inclusive; INFINITY: no limit */
    const char *const *choices;      /* NULL-terminated; or: */
    const char *(*choice_at)(int i); /* NULL past the last */
    const char *only;                /* verbs that take it, separated by spaces; NULL: all */
    const char *missing;             /* message if a required row is not given; NULL: optional */
    const char *sets;                /* for settings: the value belongs to this setting and is not NAME=VALUE */
    bool many;                       /* may be repeated: stored in a struct weft_arg_list of strings */
};

/* Values in the order given; NULL-terminated. */
struct weft_arg_list {
    const char **item;
    int count;
};

struct weft_cmd;

/* Returns row i of the command's table, then of the shared rows (see cmd.h); NULL past the last. */
const struct weft_arg *weft_arg_at(const struct weft_cmd *cmd, int i);
/* Returns choice i; NULL past the last. */
const char *weft_arg_choice(const struct weft_arg *arg, int i);
/* Returns the row of the verb; NULL if the command has none. */
const struct weft_arg *weft_arg_verb(const struct weft_cmd *cmd);
/* Returns whether a row belongs to a verb; NULL: no verb given, so all rows do. */
bool weft_arg_fits(const struct weft_arg *arg, const char *verb);
/* Returns the row of the i-th positional argument; NULL if there is none. */
const struct weft_arg *weft_arg_positional(const struct weft_cmd *cmd, const char *verb, int i);

/* Reads the arguments after the command's name into its zeroed struct. A failure is a usage error. The struct must be
 * released even after a failure. */
enum weft_status weft_args_parse(const struct weft_cmd *cmd, int argc, char **argv, void *args);
void weft_args_release(const struct weft_cmd *cmd, void *args);

#endif
