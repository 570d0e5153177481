/* SPDX-License-Identifier: MIT
 *
 * completion.c - completions for shells, from the commands' and the options' own tables. Zsh reads bash's:
 * `autoload -U bashcompinit && bashcompinit`.
 */
#include "cmd/cmd.h"

#include <ctype.h>
#include <string.h>

static void put_models(FILE *to)
{
    const char *name, *summary;
    for (int i = 0; (name = weft_preset_at(i, &summary)); i++)
        fprintf(to, "%s%s", i ? " " : "", name);
}

static void put_settings(const struct weft_owner *(*owner_at)(int i), FILE *to)
{
    const struct weft_owner *owner;
    for (int o = 0; (owner = owner_at(o)); o++)
        for (int i = 0; i < owner->count; i++)
            fprintf(to, "%s= ", owner->options[i].name);
}

/* ---- bash */

static void put_bash_option(void *context, const struct argp_option *o)
{
    if (o->name && !(o->flags & OPTION_HIDDEN))
        fprintf(context, " --%s", o->name);
}

static void print_bash(FILE *to)
{
    fputs("# Completion of weft's commands for bash.\n"
          "_weft() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        words=\"",
          to);
    for (int i = 0; weft_cmd_at(i); i++)
        fprintf(to, "%s%s", i ? " " : "", weft_cmd_at(i)->name);
    fputs("\"\n    elif [[ $before == -s || $before == --set ]]; then\n        compopt -o nospace\n        words=\"",
          to);
    put_settings(weft_nn_owner_at, to);
    put_settings(weft_train_owner_at, to);
    fputs("\"\n    elif [[ $word == -* ]]; then\n        case ${COMP_WORDS[1]} in\n", to);
    for (int i = 0; weft_cmd_at(i); i++) {
        fprintf(to, "        %s) words=\"--help", weft_cmd_at(i)->name);
        weft_argp_each(weft_cmd_at(i)->argp, to, put_bash_option);
        fputs("\" ;;\n", to);
    }
    fputs("        esac\n    else\n        words=\"", to);
    put_models(to);
    fputs("\"\n        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n    fi\n"
          "    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
          "}\n"
          "complete -o filenames -F _weft weft\n",
          to);
}

/* ---- fish */

struct fish {
    const char *command;
    FILE *to;
};

static void put_quoted(const char *text, FILE *to)
{
    fputc('\'', to);
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            fputc('\\', to);
        fputc(*text, to);
    }
    fputc('\'', to);
}

static void put_fish_option(void *context, const struct argp_option *o)
{
    const struct fish *f = context;
    if (!o->name || (o->flags & OPTION_HIDDEN))
        return;
    fprintf(f->to, "complete -c weft -n '__fish_seen_subcommand_from %s' -l %s", f->command, o->name);
    if (o->key > 0 && o->key < 128 && isprint(o->key))
        fprintf(f->to, " -s %c", o->key);
    if (o->arg)
        fputs(" -r", f->to);
    if (o->doc) { /* aliases have none */
        fputs(" -d ", f->to);
        put_quoted(o->doc, f->to);
    }
    fputc('\n', f->to);
}

static void print_fish(FILE *to)
{
    fputs("# Completion of weft's commands for fish.\n", to);
    for (int i = 0; weft_cmd_at(i); i++) {
        fprintf(to, "complete -c weft -n __fish_use_subcommand -f -a %s -d ", weft_cmd_at(i)->name);
        put_quoted(weft_cmd_at(i)->summary, to);
        fputc('\n', to);
        struct fish f = {weft_cmd_at(i)->name, to};
        weft_argp_each(weft_cmd_at(i)->argp, &f, put_fish_option);
    }
    fputs("complete -c weft -n 'not __fish_use_subcommand' -a '", to);
    put_models(to);
    fputs("'\n", to);
}

void weft_completion_print(enum weft_shell shell, FILE *to) { (shell == WEFT_BASH ? print_bash : print_fish)(to); }
