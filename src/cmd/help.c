/* SPDX-License-Identifier: MIT
 *
 * help - prints the commands, and everything that can be selected by name, from their tables.
 */
#include "check/check.h"
#include "cmd/cmd.h"
#include "nn/part.h"
#include "ops/ops.h"
#include "study/study.h"

#include <string.h>

enum { NONE = -1, MODELS, OPTIONS, PAIRS, OPS, GATES, TASKS, OPTIMISERS, MECHANISMS, PARTS };
enum { COMMANDS = PARTS + WEFT_SINGLE_KINDS }; /* the kinds of parts follow PARTS, and the commands follow them */
enum { TEXT, MARKDOWN, KCONFIG, SCDOC };
static const char *const forms[] = {
    [TEXT] = "text", [MARKDOWN] = "markdown", [KCONFIG] = "kconfig", [SCDOC] = "scdoc", NULL};

static const char *topic_at(int i)
{
    static const char *const names[] = {[MODELS] = "models",
                                        [OPTIONS] = "options",
                                        [PAIRS] = "pairs",
                                        [OPS] = "ops",
                                        [GATES] = "gates",
                                        [TASKS] = "tasks",
                                        [OPTIMISERS] = "optimisers",
                                        [MECHANISMS] = "mechanisms",
                                        [PARTS + WEFT_GEOM] = "geom",
                                        [PARTS + WEFT_ATTN] = "attn",
                                        [PARTS + WEFT_POS] = "pos",
                                        [PARTS + WEFT_FFN] = "ffn",
                                        [PARTS + WEFT_NORM] = "norm"};
    const struct weft_cmd *cmd = i < COMMANDS ? NULL : weft_cmd_at(i - COMMANDS);
    return i < COMMANDS ? names[i] : cmd ? cmd->name : NULL;
}

/* Returns the topic with this name; NONE: there is none. */
static int find_topic(const char *name)
{
    for (int i = 0; name && topic_at(i); i++)
        if (strcmp(topic_at(i), name) == 0)
            return i;
    return NONE;
}

struct args {
    struct weft_common common;
    const char *topic; /* or an option; NULL: none */
    int form;
};

static const struct weft_arg table[] = {
    {NULL, 0, "TOPIC", WEFT_ARG_TEXT, offsetof(struct args, topic), .help = "Print this topic, command or option",
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
          "from, `weft help --help` lists all topics.\n",
          stdout);
}

static void print_models(void)
{
    const char *name, *summary;
    for (int i = 0; (name = weft_preset_at(i, &summary)); i++)
        printf("  %-12s %s\n", name, summary);
}

static int find_owners(const struct weft_owner *owners[WEFT_MAX_OWNERS])
{
    const struct weft_owner *owner;
    int n = 0;
    owners[n++] = &weft_study_owner;
    for (int i = 0; n < WEFT_MAX_OWNERS && (owner = weft_nn_owner_at(i)); i++)
        owners[n++] = owner;
    for (int i = 0; n < WEFT_MAX_OWNERS && (owner = weft_train_owner_at(i)); i++)
        owners[n++] = owner;
    return n;
}

static void print_options(enum weft_page page)
{
    const struct weft_owner *owners[WEFT_MAX_OWNERS];
    int n = find_owners(owners);
    weft_owners_print(owners, n, weft_presets, page, stdout);
}

/* Prints every option of this name, below its owner; several owners may have options of the same name. Returns whether
 * there is any. */
static bool print_option(const char *name, FILE *to)
{
    const struct weft_owner *owners[WEFT_MAX_OWNERS];
    bool found = false;
    for (int o = 0, n = find_owners(owners); o < n; o++)
        for (int i = 0; i < owners[o]->count; i++)
            if (strcmp(owners[o]->options[i].name, name) == 0) {
                const struct weft_owner one = {owners[o]->name, &owners[o]->options[i], 1}, *list = &one;
                if (to)
                    weft_owners_print(&list, 1, NULL, WEFT_PAGE_TEXT, to);
                found = true;
            }
    return found;
}

static void print_pairs(void)
{
    static struct weft_combinations pairs;
    if (weft_combinations_cover(&pairs, 2, 1) == WEFT_OK)
        for (int i = 0; i < pairs.count; i++)
            puts(pairs.rows[i]);
    weft_combinations_release(&pairs);
}

/* A bar in code needs a backslash inside a Markdown table. */
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
        fputs("<!-- Generated from the ops' descriptors by `make generated`. Do not edit. -->\n# Ops\n\n"
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

/* ---- topics that list entries with a name and a summary, followed by their options */

struct entry {
    const char *name, *summary;
    const struct weft_owner *owner; /* NULL: no options */
};

/* Returns entry i of the topic; its name is NULL past the last. */
static struct entry entry_at(int topic, int i)
{
    struct entry e = {0};
    const struct weft_task *task = topic == TASKS ? weft_task_at(i) : NULL;
    const struct weft_optim *optim = topic == OPTIMISERS ? weft_optim_at(i) : NULL;
    enum weft_part_kind kind = topic == MECHANISMS ? WEFT_RECIP : (enum weft_part_kind)(topic - PARTS);
    const struct weft_part *part = topic >= MECHANISMS ? weft_part_at(kind, i) : NULL;
    if (topic == GATES)
        e.name = weft_gate_at(i, &e.summary);
    else if (task)
        e = (struct entry){task->name, task->summary, &task->owner};
    else if (optim)
        e = (struct entry){optim->name, optim->summary, &optim->owner};
    else if (part)
        e = (struct entry){part->name, part->summary, &part->owner};
    return e;
}

static void print_entries(int topic)
{
    static const char *const how[] = {[GATES] = "`weft verify --gate=NAME` runs one; docs/gates.md explains them",
                                      [TASKS] = "--set task=NAME",
                                      [OPTIMISERS] = "--set optim=NAME",
                                      [MECHANISMS] = "--set NAME=yes"};
    const struct weft_owner *owners[WEFT_MAX_OWNERS];
    struct entry e;
    int n = 0;
    if (topic < PARTS)
        printf("%s: %s\n", topic_at(topic), how[topic]);
    else
        printf("%s: --set %s=NAME\n", topic_at(topic), topic_at(topic));
    for (int i = 0; (e = entry_at(topic, i)).name; i++) {
        printf("  %-14s %s\n", e.name, e.summary);
        if (e.owner && n < WEFT_MAX_OWNERS)
            owners[n++] = e.owner;
    }
    if (n)
        putchar('\n');
    weft_owners_print(owners, n, NULL, WEFT_PAGE_TEXT, stdout);
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
    {NONE, TEXT, print_commands},
    {NONE, SCDOC, commands_scdoc},
    {MODELS, TEXT, print_models},
    {OPTIONS, TEXT, options_text},
    {OPTIONS, MARKDOWN, options_markdown},
    {OPTIONS, KCONFIG, options_kconfig},
    {PAIRS, TEXT, print_pairs},
    {OPS, TEXT, ops_text},
    {OPS, MARKDOWN, ops_markdown},
};

static enum weft_status check(const void *args)
{
    const struct args *a = args;
    const struct weft_owner *owners[WEFT_MAX_OWNERS];
    const char *names[64];
    int n = 0;
    if (!a->topic || find_topic(a->topic) != NONE || print_option(a->topic, NULL))
        return WEFT_OK;
    const struct weft_opt *opt = weft_opt_suggest(a->topic, owners, find_owners(owners));
    while (n < 64 && (names[n] = topic_at(n)))
        n++;
    const char *near = weft_suggest(a->topic, names, n);
    near = near || !opt ? near : opt->name;
    return FAIL(WEFT_INVALID, "there is no topic, command or option %s%s%s%s `weft help --help` lists the topics",
                a->topic, near ? ": did you mean " : ";", near ? near : "", near ? "?" : "");
}

static enum weft_status run(void *args)
{
    const struct args *a = args;
    int topic = find_topic(a->topic);
    bool option = a->topic && topic == NONE;
    const struct weft_cmd *cmd = topic >= COMMANDS ? weft_cmd_at(topic - COMMANDS) : NULL;
    for (size_t i = 0; !option && i < sizeof pages / sizeof *pages; i++)
        if (pages[i].topic == topic && pages[i].form == a->form) {
            pages[i].print();
            return WEFT_OK;
        }
    if (option && a->form == TEXT)
        print_option(a->topic, stdout);
    else if (topic >= GATES && topic < COMMANDS && a->form == TEXT)
        print_entries(topic);
    else if (cmd && a->form == SCDOC)
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
    .doc = "Lists the commands, or describes TOPIC: a command, an option of --set, `models` (all presets), `options` "
           "(all options of --set), `geom`, `attn`, `pos`, `ffn`, `norm` and `mechanisms` (the parts of a model), "
           "`tasks`, `optimisers`, `gates` (the checks before training), `ops` (the operations of graphs) or `pairs` "
           "(settings of models, one per line, in which all pairs of choices occur).",
    .args = table,
    .check = check,
    .args_bytes = sizeof(struct args),
    .run = run,
};
