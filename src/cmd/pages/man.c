/* SPDX-License-Identifier: MIT
 *
 * man.c - prints man pages in scdoc's language from the commands' tables: `make man` converts them to weft*.1.
 */
#include "cmd/cmd.h"

#include <string.h>

/* Prints text with scdoc's markup characters escaped. */
static void put(const char *text, FILE *to)
{
    for (; *text; text++) {
        if (strchr("\\_*`#[", *text))
            fputc('\\', to);
        if (*text == '\n')
            fputc('\n', to); /* otherwise two lines become one */
        fputc(*text, to);
    }
}

static void print_row(const struct weft_arg *arg, FILE *to)
{
    char help[1024];
    if (arg->letter)
        fprintf(to, "*-%c*, ", arg->letter);
    if (arg->name)
        fprintf(to, "*--%s*%s", arg->name, arg->value ? "=" : "");
    if (arg->value) {
        fputc('_', to);
        put(arg->value, to);
        fputc('_', to);
    }
    weft_arg_describe(arg, help, sizeof help);
    fputs("\n\t", to);
    put(help, to);
    fputs("\n\n", to);
}

static void print_command(const struct weft_cmd *cmd, FILE *to)
{
    char line[512];
    const struct weft_arg *arg;
    fprintf(to, "weft-%s(1)\n\n# NAME\n\nweft-%s - %s\n\n# SYNOPSIS\n\n", cmd->name, cmd->name, cmd->summary);
    for (int i = 0; weft_usage_line(cmd, i, line, sizeof line); i++) {
        fputs("*weft* ", to);
        put(line, to);
        fputs("\n\n", to);
    }
    fputs("# DESCRIPTION\n\n", to);
    put(cmd->doc, to);
    fputs("\n\n# OPTIONS\n\n", to);
    for (int i = 0; (arg = weft_arg_at(cmd, i)); i++)
        if (arg != weft_arg_verb(cmd))
            print_row(arg, to);
    if (cmd->notes) {
        fputs("# NOTES\n\n", to);
        put(cmd->notes, to);
        fputs("\n\n", to);
    }
    fputs("# SEE ALSO\n\n*weft*(1)\n", to);
}

void weft_man_print(const struct weft_cmd *cmd, FILE *to)
{
    if (cmd) {
        print_command(cmd, to);
        return;
    }
    fputs("weft(1)\n\n# NAME\n\nweft - transformer ablations that can be believed\n\n# SYNOPSIS\n\n"
          "*weft* [*--verbose*] _COMMAND_ [_OPTION_...]\n\n# COMMANDS\n\n",
          to);
    for (int i = 0; weft_cmd_at(i); i++)
        fprintf(to, "*weft-%s*(1)\n\t%s\n\n", weft_cmd_at(i)->name, weft_cmd_at(i)->summary);
    fputs("# ENVIRONMENT\n\n"
          "*OMP\\_NUM\\_THREADS*\n\tNumber of threads, unless --threads sets it. Results do not depend on it.\n\n"
          "*WEFT\\_ISA*\n\tWidest instruction set to use: base, v3, v4 or amx. Results do not depend on it.\n\n"
          "*WEFT\\_VERBOSE*\n\t1 has the same effect as --verbose: errors are printed with the source lines that they "
          "passed through.\n\n"
          "*NO\\_COLOR*\n\tDisables colours on the terminal.\n\n"
          "# EXIT STATUS\n\n0: done. 1: failed; the reason is on standard error. 2: wrong usage. 3: stopped, and can "
          "be continued. 4: a rank was lost.\n",
          to);
}
