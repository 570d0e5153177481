/* SPDX-License-Identifier: MIT
 *
 * man.c - man pages, in scdoc's language, from the commands' own tables: `make man` turns them into weft*.1.
 */
#include "cmd/cmd.h"

#include <ctype.h>
#include <string.h>

void weft_argp_each(const struct argp *argp, void *context, void (*visit)(void *context, const struct argp_option *o))
{
    const struct argp_option *o = argp->options;
    for (; o && (o->name || o->key || o->doc); o++)
        visit(context, o);
    for (const struct argp_child *c = argp->children; c && c->argp; c++)
        weft_argp_each(c->argp, context, visit);
}

/* What is said of the arguments stands with the command or with a child. */
static const char *arguments(const struct argp *argp)
{
    const char *text = argp->args_doc;
    for (const struct argp_child *c = argp->children; !text && c && c->argp; c++)
        text = arguments(c->argp);
    return text;
}

/* Text with what scdoc reads as markup behind backslashes. */
static void put(const char *text, size_t count, FILE *to)
{
    for (size_t i = 0; i < count && text[i]; i++) {
        if (strchr("\\_*`#", text[i]))
            fputc('\\', to);
        if (text[i] == '\n')
            fputc('\n', to); /* else two lines become one */
        fputc(text[i], to);
    }
}

static void print_option(void *context, const struct argp_option *o)
{
    FILE *to = context;
    if (o->flags & OPTION_HIDDEN)
        return;
    if (!o->name) {
        fputs("\n", to);
        put(o->doc, strlen(o->doc), to);
        fputs("\n\n", to);
        return;
    }
    if (o->key > 0 && o->key < 128 && isprint(o->key))
        fprintf(to, "*-%c*, ", o->key);
    fprintf(to, "*--%s*", o->name);
    if (o->arg) {
        fputs(o->flags & OPTION_ARG_OPTIONAL ? "[=_" : "=_", to);
        put(o->arg, strlen(o->arg), to);
        fputs(o->flags & OPTION_ARG_OPTIONAL ? "_]" : "_", to);
    }
    const char *doc = o->doc ? o->doc : "The same by another name."; /* an alias */
    fputs("\n\t", to);
    put(doc, strlen(doc), to);
    fputs("\n\n", to);
}

static void print_usage(const struct weft_cmd *cmd, FILE *to)
{
    const char *text = arguments(cmd->argp);
    for (size_t n; text; text += n + (text[n] == '\n'), text = *text ? text : NULL) {
        n = strcspn(text, "\n"); /* one way to call it a line */
        fprintf(to, "*weft %s* [_OPTION_...] ", cmd->name);
        put(text, n, to);
        fputs("\n\n", to);
    }
    if (!arguments(cmd->argp))
        fprintf(to, "*weft %s* [_OPTION_...]\n\n", cmd->name);
}

static void print_command(const struct weft_cmd *cmd, FILE *to)
{
    const char *doc = cmd->argp->doc ? cmd->argp->doc : cmd->summary;
    size_t before = strcspn(doc, "\v"); /* argp's mark: what follows stands behind the options */
    fprintf(to, "weft-%s(1)\n\n# NAME\n\nweft-%s - %s\n\n# SYNOPSIS\n\n", cmd->name, cmd->name, cmd->summary);
    print_usage(cmd, to);
    fputs("# DESCRIPTION\n\n", to);
    put(doc, before, to);
    fputs("\n\n# OPTIONS\n\n", to);
    weft_argp_each(cmd->argp, to, print_option);
    if (doc[before]) {
        fputs("# NOTES\n\n", to);
        put(doc + before + 1, strlen(doc), to);
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
          "*weft* _COMMAND_ [_OPTION_...]\n\n# COMMANDS\n\n",
          to);
    for (int i = 0; weft_cmd_at(i); i++)
        fprintf(to, "*weft-%s*(1)\n\t%s\n\n", weft_cmd_at(i)->name, weft_cmd_at(i)->summary);
    fputs("# ENVIRONMENT\n\n"
          "*OMP\\_NUM\\_THREADS*\n\tThreads to use, where --threads does not say. Results do not depend on it.\n\n"
          "*WEFT\\_ISA*\n\tThe widest instruction set to use: base, v3, v4 or amx. Results do depend on it.\n\n"
          "*NO\\_COLOR*\n\tNo colours on the terminal.\n\n"
          "# EXIT STATUS\n\n0: done. 1: it failed, and standard error says why. 2: wrong usage.\n",
          to);
}
