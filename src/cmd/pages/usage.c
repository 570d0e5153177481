/* SPDX-License-Identifier: MIT
 *
 * usage.c - prints --help: the ways to call a command, its description, and a row for each option and argument.
 */
#include "cmd/cmd.h"

#include <stdarg.h>
#include <string.h>

enum { WIDTH = 79, COLUMN = 29 }; /* maximum width of a line, and column of a row's help */

static void append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t size, const char *format, ...)
{
    size_t n = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + n, size - n, format, args);
    va_end(args);
}

bool weft_usage_line(const struct weft_cmd *cmd, int i, char *text, size_t size)
{
    const struct weft_arg *verbs = weft_arg_verb(cmd), *arg;
    const char *verb = verbs ? weft_arg_choice(verbs, i) : NULL;
    if (verbs ? !verb : i > 0)
        return false;
    snprintf(text, size, "%s%s%s", cmd->name, verb ? " " : "", verb ? verb : "");
    for (int k = 0; (arg = weft_arg_at(cmd, k)); k++)
        if (arg->name && arg->missing && weft_arg_fits(arg, verb))
            append(text, size, " --%s=%s", arg->name, arg->value);
    append(text, size, " [OPTION...]");
    for (int k = 0; (arg = weft_arg_at(cmd, k)); k++)
        if (!arg->name && arg != verbs && weft_arg_fits(arg, verb))
            append(text, size, arg->missing ? " %s%s" : " [%s%s]", arg->value, arg->many ? "..." : "");
    return true;
}

/* Returns whether the default is a value that the user could pass. */
static bool has_default(const struct weft_arg *arg)
{
    double x;
    bool number = arg->type == WEFT_ARG_INT || arg->type == WEFT_ARG_REAL;
    return arg->initial && (!number || (weft_text_real(arg->initial, &x) && x >= arg->min && x <= arg->max));
}

void weft_arg_describe(const struct weft_arg *arg, char *text, size_t size)
{
    text[0] = 0;
    for (const char *at = arg->only; at && *at; at += *at == ' ') {
        size_t n = strcspn(at, " ");
        append(text, size, "%.*s%s", (int)n, at, at[n] ? ", " : ": ");
        at += n;
    }
    append(text, size, "%s", arg->help);
    const char *choice;
    for (int i = 0; arg->type == WEFT_ARG_CHOICE && (choice = weft_arg_choice(arg, i)); i++)
        append(text, size, "%s%s", i ? ", " : ": ", choice);
    if (has_default(arg))
        append(text, size, " (default %s)", arg->initial);
}

/* Prints words starting at `column`, in lines that begin at `indent`. */
static void wrap(const char *text, int column, int indent, FILE *to)
{
    bool first = true;
    while (*text) {
        int n = (int)strcspn(text, " \n");
        if (!first && column + 1 + n > WIDTH) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", n, text);
        column += n;
        first = false;
        text += n;
        if (*text == '\n') {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
            first = true;
        }
        text += *text != 0;
    }
    fputc('\n', to);
}

static void print_row(const struct weft_arg *arg, FILE *to)
{
    char head[128], help[1024], letter[8] = "    ";
    if (arg->letter)
        snprintf(letter, sizeof letter, "-%c, ", arg->letter);
    if (arg->name)
        snprintf(head, sizeof head, "  %s--%s%s%s", letter, arg->name, arg->value ? "=" : "",
                 arg->value ? arg->value : "");
    else
        snprintf(head, sizeof head, "  %s", arg->value);
    weft_arg_describe(arg, help, sizeof help);
    int n = (int)strlen(head);
    if (n + 2 > COLUMN)
        fprintf(to, "%s\n%*s", head, COLUMN, "");
    else
        fprintf(to, "%-*s", COLUMN, head);
    wrap(help, COLUMN, COLUMN, to);
}

void weft_usage_print(const struct weft_cmd *cmd, FILE *to)
{
    char line[512];
    const struct weft_arg *arg;
    for (int i = 0; weft_usage_line(cmd, i, line, sizeof line); i++)
        fprintf(to, "%s weft %s\n", i ? "  or: " : "Usage:", line);
    wrap(cmd->doc, 0, 0, to);
    fputc('\n', to);
    for (int options = 0; options < 2; options++) /* arguments come first */
        for (int i = 0; (arg = weft_arg_at(cmd, i)); i++)
            if ((arg->name != NULL) == options && arg != weft_arg_verb(cmd))
                print_row(arg, to);
    if (!cmd->notes)
        return;
    fputc('\n', to);
    wrap(cmd->notes, 0, 0, to);
}
