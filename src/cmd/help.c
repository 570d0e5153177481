/* SPDX-License-Identifier: MIT
 *
 * help - the commands, and everything that can be chosen by name, from the tables themselves.
 */
#include "cmd/cmd.h"
#include "ops/ops.h"
#include "study/study.h"

#include <string.h>

static const struct weft_cmd *const commands[] = {
#define CMD(name) &weft_cmd_##name,
#include "cmd/cmds.def"
#undef CMD
};

const struct weft_cmd *weft_cmd_at(int i)
{
    return i < (int)(sizeof commands / sizeof commands[0]) ? commands[i] : NULL;
}

struct args {
    const char *topic, *form;
};

static const struct argp_option options[] = {
    {"as", 'a', "FORM", 0,
     "text (the default); options: markdown, kconfig; ops: markdown; a command: scdoc, for its man page; no topic: "
     "scdoc, bash or fish, for the shell's completion",
     0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        a->form = "text";
        a->topic = "";
        return 0;
    case 'a':
        a->form = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (*a->topic)
            return ARGP_ERR_UNKNOWN;
        a->topic = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[TOPIC]",
    .doc =
        "Lists the commands, or tells about TOPIC: a command, `models` (all presets), `options` (all that --set takes) "
        "or `ops` (what graphs are made of).",
};

static void print_commands(void)
{
    fputs("usage: weft COMMAND [OPTION...]\n\n", stdout);
    for (int i = 0; weft_cmd_at(i); i++)
        printf("  %-10s %s\n", weft_cmd_at(i)->name, weft_cmd_at(i)->summary);
    fputs("\n`weft COMMAND --help` tells about a command, `weft help models` and `weft help options` what to choose "
          "from.\n",
          stdout);
}

static void print_models(void)
{
    const char *name, *summary;
    for (int i = 0; (name = weft_preset_at(i, &summary)); i++)
        printf("  %-12s %s\n", name, summary);
}

static void print_options(enum weft_page page)
{
    const struct weft_owner *owners[WEFT_MAX_OWNERS] = {&weft_study_owner}, *owner;
    int n = 1;
    for (int i = 0; n < WEFT_MAX_OWNERS && (owner = weft_nn_owner_at(i)); i++)
        owners[n++] = owner;
    for (int i = 0; n < WEFT_MAX_OWNERS && (owner = weft_train_owner_at(i)); i++)
        owners[n++] = owner;
    weft_owners_print(owners, n, weft_presets, page, stdout);
}

/* In a table's code a bar must stand behind a backslash. */
static void print_op_row(const struct weft_op *op)
{
    printf("| `%s` | `", op->name);
    for (const char *c = op->summary; *c; c++)
        printf("%s%c", *c == '|' ? "\\" : "", *c);
    printf("` | %s | %d |\n", op->grad ? "by other ops" : op->bwd.run ? "its own" : "none", op->case_count);
}

static void print_ops(bool markdown)
{
    if (markdown)
        fputs("<!-- Written by `make generated` from the ops' descriptors: change those. -->\n# Ops\n\n"
              "What graphs are made of, in reading order. The file src/ops/NAME.c holds the formula in full, the "
              "reference (or NAME_spec.h does), the kernels and the\ncases; `weft check --op NAME` runs them.\n\n"
              "| op | what it computes | derivative | cases |\n|---|---|---|---|\n",
              stdout);
    for (int i = 0; i < WEFT_OP_COUNT; i++) {
        const struct weft_op *op = weft_op((enum weft_op_id)i);
        if (markdown)
            print_op_row(op);
        else
            printf("  %-14s %s\n", op->name, op->summary);
    }
}

/* ---- topics and the forms they come in */

static void commands_scdoc(void) { weft_man_print(NULL, stdout); }
static void commands_bash(void) { weft_completion_print(WEFT_BASH, stdout); }
static void commands_fish(void) { weft_completion_print(WEFT_FISH, stdout); }
static void options_text(void) { print_options(WEFT_PAGE_TEXT); }
static void options_markdown(void) { print_options(WEFT_PAGE_MARKDOWN); }
static void options_kconfig(void) { print_options(WEFT_PAGE_KCONFIG); }
static void ops_text(void) { print_ops(false); }
static void ops_markdown(void) { print_ops(true); }

static const struct page {
    const char *topic, *form;
    void (*print)(void);
} pages[] = {
    {"", "text", print_commands},
    {"", "scdoc", commands_scdoc},
    {"", "bash", commands_bash},
    {"", "fish", commands_fish},
    {"models", "text", print_models},
    {"options", "text", options_text},
    {"options", "markdown", options_markdown},
    {"options", "kconfig", options_kconfig},
    {"ops", "text", ops_text},
    {"ops", "markdown", ops_markdown},
};
enum { PAGES = sizeof pages / sizeof pages[0], COMMANDS = sizeof commands / sizeof commands[0] };

static const struct weft_cmd *find_command(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    return NULL;
}

static enum weft_status unknown(const struct args *a)
{
    const char *names[COMMANDS + PAGES];
    int n = 0;
    bool known = find_command(a->topic) != NULL;
    for (; n < COMMANDS; n++)
        names[n] = commands[n]->name;
    for (int i = 0; i < PAGES; i++) {
        names[n++] = pages[i].topic;
        known |= strcmp(a->topic, pages[i].topic) == 0;
    }
    if (known)
        return FAIL(WEFT_INVALID, "there is no form \"%s\" of that: see `weft help help`", a->form);
    const char *near = weft_suggest(a->topic, names, n);
    return FAIL(WEFT_INVALID, "there is no help on \"%s\"%s%s%s", a->topic, near ? ": did you mean " : "",
                near ? near : "", near ? "?" : "");
}

static enum weft_status run(void *args)
{
    const struct args *a = args;
    const struct weft_cmd *cmd = find_command(a->topic);
    for (int i = 0; i < PAGES; i++)
        if (strcmp(a->topic, pages[i].topic) == 0 && strcmp(a->form, pages[i].form) == 0) {
            pages[i].print();
            return WEFT_OK;
        }
    if (cmd && strcmp(a->form, "scdoc") == 0) {
        weft_man_print(cmd, stdout);
    } else if (cmd && strcmp(a->form, "text") == 0) {
        char name[64];
        snprintf(name, sizeof name, "weft %s", cmd->name);
        argp_help(cmd->argp, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK, name);
    } else {
        return unknown(a);
    }
    return WEFT_OK;
}

const struct weft_cmd weft_cmd_help = {"help", "this list, or help on a topic", &argp, sizeof(struct args), run};
