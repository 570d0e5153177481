/* SPDX-License-Identifier: MIT
 *
 * help - prints the commands, and everything that can be selected by name, from their tables.
 */
#include "check/check.h"
#include "cmd/cmd.h"
#include "ops/ops.h"
#include "study/study.h"

#include <string.h>

enum { MODELS, OPTIONS, PAIRS, OPS, COMMANDS }; /* topics; commands follow, and no topic is -1 */
enum { TEXT, MARKDOWN, KCONFIG, SCDOC };
static const char *const forms[] = {
    [TEXT] = "text", [MARKDOWN] = "markdown", [KCONFIG] = "kconfig", [SCDOC] = "scdoc", NULL};

static const char *topic_at(int i)
{
    static const char *const names[] = {[MODELS] = "models", [OPTIONS] = "options", [PAIRS] = "pairs", [OPS] = "ops"};
    const struct weft_cmd *cmd = i < COMMANDS ? NULL : weft_cmd_at(i - COMMANDS);
    return i < COMMANDS ? names[i] : cmd ? cmd->name : NULL;
}

struct args {
    struct weft_common common;
    int topic, form;
};

static const struct weft_arg table[] = {
    {NULL, 0, "TOPIC", WEFT_ARG_CHOICE, offsetof(struct args, topic), .help = "Print this topic",
     .choice_at = topic_at},
    {"as", 'a', "FORM", WEFT_ARG_CHOICE, offsetof(struct args, form),
     .help = "Print in this format: options also as markdown and kconfig, ops as markdown; a command, or weft itself "
             "without a topic, as scdoc, for a man page",
     .choices = forms, .initial = "text"},
    {0},
};

static void print_commands(void)
{
    fputs("usage: weft COMMAND [OPTION...]\n\n", stdout);
    for (int i = 0; weft_cmd_at(i); i++)
        printf("  %-10s %s\n", weft_cmd_at(i)->name, weft_cmd_at(i)->summary);
    fputs("\n`weft COMMAND --help` describes a command, `weft help models` and `weft help options` list what to choose "
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

static void print_pairs(void)
{
    static struct weft_combinations pairs;
    if (weft_combinations_cover(&pairs, 2, 1) == WEFT_OK)
        for (int i = 0; i < pairs.count; i++)
            puts(pairs.rows[i]);
    weft_combinations_release(&pairs);
}

/* A bar in a table's code needs a backslash. */
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
              "The operations of graphs, in reading order. The file src/ops/NAME.c contains the full formula, the "
              "reference (or NAME_reference_inl.h does), the kernels and the\ncases; `weft check --op NAME` runs "
              "them.\n\n"
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

/* ---- topics and their formats */

static void commands_scdoc(void) { weft_man_print(NULL, stdout); }
static void options_text(void) { print_options(WEFT_PAGE_TEXT); }
static void options_markdown(void) { print_options(WEFT_PAGE_MARKDOWN); }
static void options_kconfig(void) { print_options(WEFT_PAGE_KCONFIG); }
static void ops_text(void) { print_ops(false); }
static void ops_markdown(void) { print_ops(true); }

static const struct page {
    int topic, form;
    void (*print)(void);
} pages[] = {
    {-1, TEXT, print_commands},
    {-1, SCDOC, commands_scdoc},
    {MODELS, TEXT, print_models},
    {OPTIONS, TEXT, options_text},
    {OPTIONS, MARKDOWN, options_markdown},
    {OPTIONS, KCONFIG, options_kconfig},
    {PAIRS, TEXT, print_pairs},
    {OPS, TEXT, ops_text},
    {OPS, MARKDOWN, ops_markdown},
};

static enum weft_status run(void *args)
{
    const struct args *a = args;
    const struct weft_cmd *cmd = a->topic >= COMMANDS ? weft_cmd_at(a->topic - COMMANDS) : NULL;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        if (pages[i].topic == a->topic && pages[i].form == a->form) {
            pages[i].print();
            return WEFT_OK;
        }
    if (cmd && a->form == SCDOC)
        weft_man_print(cmd, stdout);
    else if (cmd && a->form == TEXT)
        weft_usage_print(cmd, stdout);
    else
        return FAIL(WEFT_INVALID, "this topic cannot be printed as %s: see `weft help --help`", forms[a->form]);
    return WEFT_OK;
}

const struct weft_cmd weft_cmd_help = {
    .name = "help",
    .summary = "print this list, or help on a topic",
    .doc = "Lists the commands, or describes TOPIC: a command, `models` (all presets), `options` (all that --set "
           "takes), `pairs` (settings of models, one per line, in which all pairs of choices occur) or `ops` (the "
           "operations of graphs).",
    .args = table,
    .args_bytes = sizeof(struct args),
    .run = run,
};
