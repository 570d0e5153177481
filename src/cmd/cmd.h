/* SPDX-License-Identifier: MIT
 *
 * cmd.h - subcommands. A command is one file that ends with one `const struct weft_cmd weft_cmd_<name>`, and one row in
 * cmds.def. It is thin: it reads options, calls the library and prints the result.
 *
 * Invariants:
 *  - main reads the arguments into `args_bytes` zeroed bytes, which begin with a struct weft_common, passes them to
 *    `run`, and releases them.
 *  - Results go to stdout, everything else to stderr, through weft_say or weft_line if it quotes files or arguments. If
 *    a command does not return WEFT_OK, main prints weft_error() and exits with 1. Wrong usage exits with 2. A command
 *    that was stopped and can be continued prints how to continue it, returns WEFT_STOPPED and exits with 3. A rank
 *    that has lost another rank exits with 4.
 */
#ifndef WEFT_CMD_H
#define WEFT_CMD_H

#include "cmd/kit/args.h"
#include "train/score/evaluate.h"

/* Options that commands share; every command has --help and --verbose. */
enum {
    WEFT_TAKES_MODEL = 1, /* the argument MODEL */
    WEFT_TAKES_SET = 2,
    WEFT_TAKES_STUDY_SET = 4,
    WEFT_TAKES_THREADS = 8,
    WEFT_TAKES_JSON = 16,
    WEFT_TAKES_WEIGHTS = 32, /* the argument MODEL, with weights */
};

struct weft_cmd {
    const char *name;
    const char *summary; /* one line for `weft help` */
    const char *doc;     /* description for --help and the man page */
    const char *notes;   /* text after the options there; may be NULL */
    const struct weft_arg *args;
    unsigned takes; /* shared options: WEFT_TAKES_... */
    /* Checks conditions that the rows cannot express; may be NULL. A failure is a usage error. */
    enum weft_status (*check)(const void *args);
    size_t args_bytes;
    enum weft_status (*run)(void *args);
};

#define CMD(name) extern const struct weft_cmd weft_cmd_##name;
#include "cmd/cmds.def"
#undef CMD

struct sigaction;
/* Catches a signal unless it was ignored from the start, as SIGINT is in a shell's background jobs and SIGHUP is under
 * nohup (common.c). */
void weft_signal_catch(int signal, const struct sigaction *action);

/* Returns command i in the order of cmds.def; NULL past the last (registry.c). */
const struct weft_cmd *weft_cmd_at(int i);
/* Returns the command with this name, or NULL. */
const struct weft_cmd *weft_cmd_find(const char *name);

/* ---- the beginning of every command's struct (common.c) */

struct weft_study;
struct weft_common {
    const char *model;
    struct weft_settings settings;
    int64_t threads;
    bool json, help, verbose;
    /* Filled in by weft_common_init, released by main: */
    struct weft_study *study; /* the study of which MODEL is an arm; NULL: none */
    struct weft_spec spec;
    struct weft_recipe recipe;
};

/* Finds the model, which may also be STUDY:ARM, an arm of a study's config, and resolves spec and recipe. Unused
 * settings are an error. */
enum weft_status weft_common_init(struct weft_common *c);
void weft_common_release(struct weft_common *c);
/* Returns the name of preset i, for use as a choice of MODEL; NULL past the last. */
const char *weft_preset_name_at(int i);
bool weft_is_folder(const char *path);
/* Returns whether MODEL is a folder. A preset with the same name takes precedence. */
bool weft_model_is_folder(const char *model);
enum weft_status weft_model_check_folder(const char *model); /* fails if it is not */

/* Prints arguments to stderr, quoted as for a shell. */
void weft_say_words(const char *const *words);

/* Finds the tokenizer.json next to the weights in a folder ("": no folder); returns false if there is none. */
bool weft_tokenizer_find(const char *folder, char path[4200]);
/* Opens that tokenizer, or `named`: a file or one of the choices. It must fit the model's vocabulary. */
extern const char *const weft_tokenizer_choices[];
struct weft_tokenizer;
enum weft_status weft_tokenizer_open(const char *named, const char *folder, int64_t vocab, struct weft_tokenizer **t);
/* Fails if the folder already has a config.json, so that no model or run is overwritten. */
enum weft_status weft_folder_check_new(const char *folder);
/* Writes the folder's config.json. */
enum weft_status weft_config_save(const struct weft_settings *settings, const char *folder);

/* Counts and names of weights by how they fit a different model. weft_fits_add is the weft_fit_fn of weft_nn_adopt. */
struct weft_fits {
    int count[WEFT_FIT_LEFT + 1];
    char names[WEFT_FIT_LEFT + 1][600]; /* as many names as there is room for */
};
void weft_fits_add(void *fits, const char *name, enum weft_fit fit);
void weft_fits_print(const struct weft_fits *fits, FILE *to);

/* Adds the scores on held-out samples, and the best possible scores of the task, as entries of a result. */
struct weft_result;
void weft_scores_add(struct weft_result *r, const struct weft_scores *scores, const struct weft_spec *spec,
                     const struct weft_recipe *recipe);

/* ---- pages generated from the tables (pages/) */

/* Writes usage line i of a command, one for each way to call it, without "weft "; returns false past the last. */
bool weft_usage_line(const struct weft_cmd *cmd, int i, char *text, size_t size);
/* Writes the help of a row with the verbs that it belongs to and its default. */
void weft_arg_describe(const struct weft_arg *arg, char *text, size_t size);
void weft_usage_print(const struct weft_cmd *cmd, FILE *to);
/* Prints a man page in scdoc's language; NULL: the page of weft itself. */
void weft_man_print(const struct weft_cmd *cmd, FILE *to);
/* Prints the completions of the last argument after "weft" for shells: lines "word", "word<TAB>description", or
 * ":files" or ":folders" for paths. */
void weft_completion_print(const char *const *words, int count, FILE *to);

#endif
