/* SPDX-License-Identifier: MIT
 *
 * help - the commands, and everything that can be chosen by name, from the tables themselves.
 */
#include "cmd/cmd.h"

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
    char *topic;
    enum weft_page page;
};

static const struct argp_option options[] = {
    {"markdown", 'm', NULL, 0, "options: as a page, docs/options.md", 0},
    {"kconfig", 'k', NULL, 0, "options: for Kconfig, configs/Kconfig", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case 'm':
        a->page = WEFT_PAGE_MARKDOWN;
        return 0;
    case 'k':
        a->page = WEFT_PAGE_KCONFIG;
        return 0;
    case ARGP_KEY_ARG:
        if (a->topic)
            return ARGP_ERR_UNKNOWN;
        a->topic = arg;
        return 0;
    case ARGP_KEY_END:
        if (a->page && (!a->topic || strcmp(a->topic, "options") != 0))
            argp_error(state, "--markdown and --kconfig are for `weft help options`");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[TOPIC]",
    .doc = "Lists the commands, or tells about TOPIC: a command, `models` (all presets) or `options` (all that --set "
           "takes).",
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
    const struct weft_owner *owners[WEFT_MAX_OWNERS], *owner;
    int n = 0;
    for (int i = 0; n < WEFT_MAX_OWNERS && (owner = weft_nn_owner_at(i)); i++)
        owners[n++] = owner;
    for (int i = 0; n < WEFT_MAX_OWNERS && (owner = weft_train_owner_at(i)); i++)
        owners[n++] = owner;
    weft_owners_print(owners, n, page, stdout);
}

static enum weft_status print_command(const char *topic)
{
    const char *names[sizeof commands / sizeof commands[0] + 2] = {"models", "options"};
    int n = 2;
    for (int i = 0; weft_cmd_at(i); i++) {
        names[n++] = weft_cmd_at(i)->name;
        if (strcmp(topic, weft_cmd_at(i)->name) != 0)
            continue;
        char name[64];
        snprintf(name, sizeof name, "weft %s", topic);
        argp_help(weft_cmd_at(i)->argp, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK, name);
        return WEFT_OK;
    }
    const char *near = weft_suggest(topic, names, n);
    return FAIL(WEFT_INVALID, "there is no help on \"%s\"%s%s%s", topic, near ? ": did you mean " : "",
                near ? near : "", near ? "?" : "");
}

static enum weft_status run(void *args)
{
    const struct args *a = args;
    const char *topic = a->topic;
    if (!topic)
        print_commands();
    else if (strcmp(topic, "models") == 0)
        print_models();
    else if (strcmp(topic, "options") == 0)
        print_options(a->page);
    else
        return print_command(topic);
    return WEFT_OK;
}

const struct weft_cmd weft_cmd_help = {"help", "this list, or help on a topic", &argp, sizeof(struct args), run};
