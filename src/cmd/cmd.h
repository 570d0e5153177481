/* SPDX-License-Identifier: MIT
 *
 * cmd.h - subcommands. A command is one file that ends in one `const struct weft_cmd weft_cmd_<name>`, and one row in
 * cmds.def. It is thin: it reads options, calls the library, prints the result.
 *
 * Invariants:
 *  - main parses the options with the command's argp into `args_bytes` zeroed bytes (argp's `input`; defaults are set
 *    at ARGP_KEY_INIT) and hands them to `run`. The same argp gives --help, the man page and the completion.
 *  - Results go to stdout, everything else to stderr. A command that does not return WEFT_OK makes main print
 *    "weft: " and weft_error() and exit with 1. Wrong usage exits with 2.
 */
#ifndef WEFT_CMD_H
#define WEFT_CMD_H

#include "weft.h"

#include <argp.h>
#include <stddef.h>

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

/* All commands in the order of cmds.def; NULL past the last. */
const struct weft_cmd *weft_cmd_at(int i);

#endif
