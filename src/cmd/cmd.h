/* SPDX-License-Identifier: MIT
 *
 * cmd.h - subcommands. A command is one file that ends in one `const struct weft_cmd weft_cmd_<name>`, and one row in
 * cmds.def. It is thin: it reads options, calls the library, prints the result.
 *
 * Invariants:
 *  - main parses the options with the command's argp into `args_bytes` zeroed bytes (argp's `input`; defaults are set
 *    at ARGP_KEY_INIT) and hands them to `run`. The same argp gives --help, the man page and the completion.
 *  - Results go to stdout, everything else to stderr. A command that does not return WEFT_OK makes main print
 *    "weft: " and weft_error() and exit with 1. Wrong usage exits with 2. A command that was stopped and can be
 *    continued prints how, returns WEFT_STOPPED, and exits with 3.
 */
#ifndef WEFT_CMD_H
#define WEFT_CMD_H

#include "train/train.h"

#include <argp.h>

struct weft_cmd {
    const char *name;
    const char *summary; /* one line for `weft help` */
    const struct argp *argp;
    size_t args_bytes;
    enum weft_status (*run)(void *args);
};

#define CMD(name) extern const struct weft_cmd weft_cmd_##name;
#include "cmd/cmds.def"
#undef CMD

/* ---- what commands on a model have in common (common.c) */

/* The options --set, --threads and --json, and what they and MODEL come to. Needs no init beyond {0}. */
struct weft_common {
    const char *model;
    struct weft_settings settings;
    enum weft_status status; /* of the first option that was none; checked by weft_common_init */
    bool json;
    struct weft_spec spec;
    struct weft_recipe recipe;
};

/* Children for a command's argp; their input is a struct weft_common, handed on at ARGP_KEY_INIT through
 * state->child_inputs. The second one also reads the argument MODEL. */
extern const struct argp weft_common_argp, weft_model_argp;

/* Finds the model, resolves spec and recipe, and refuses settings that are left over. Release also after a failure. */
enum weft_status weft_common_init(struct weft_common *c);
void weft_common_release(struct weft_common *c);

/* ---- pages made of the tables (pages/man.c, pages/completion.c) */

/* Every option and heading of a command, those of its children behind its own. */
void weft_argp_each(const struct argp *argp, void *context, void (*visit)(void *context, const struct argp_option *o));
/* A man page in scdoc's language; NULL: that of weft itself. */
void weft_man_print(const struct weft_cmd *cmd, FILE *to);
enum weft_shell { WEFT_BASH, WEFT_FISH };
void weft_completion_print(enum weft_shell shell, FILE *to);

/* ---- what any commands have in common (common.c) */

/* The number that option --name was given, from `least` to `most`; any other ends the program as wrong usage. */
int64_t weft_arg_int(const struct argp_state *state, const char *name, const char *text, int64_t least, int64_t most);
double weft_arg_real(const struct argp_state *state, const char *name, const char *text, double least, double most);

bool weft_ends_in(const char *text, const char *end);
bool weft_is_folder(const char *path);
/* Whether MODEL means a folder: a preset of the same name comes first. */
bool weft_model_is_folder(const char *model);

/* Scores of held-out samples, as entries of a result. */
struct weft_result;
void weft_scores_add(struct weft_result *r, const struct weft_scores *scores);

/* Progress on stderr: one line that is rewritten on a terminal, a line every ten seconds elsewhere. */
struct weft_line {
    bool terminal, told;
    double start, said; /* when */
};
void weft_line_init(struct weft_line *line);
/* Says it, unless the last time was just now. */
void weft_line_tell(struct weft_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What follows stands on a line of its own. */
void weft_line_end(const struct weft_line *line);

/* All commands in the order of cmds.def; NULL past the last. */
const struct weft_cmd *weft_cmd_at(int i);

#endif
