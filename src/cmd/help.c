/* SPDX-License-Identifier: MIT
 *
 * help - the commands, and everything that can be chosen by name, from the tables themselves.
 */
#include "cmd/cmd.h"
#include "train/train.h"

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
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    if (key != ARGP_KEY_ARG || state->arg_num > 0)
        return ARGP_ERR_UNKNOWN;
    a->topic = arg;
    return 0;
}

static const struct argp argp = {
    NULL,
    parse,
    "[TOPIC]",
    "Lists the commands, or tells about TOPIC: a command, `models` (all presets) or `options` (all that --set takes).",
    NULL,
    NULL,
    NULL};

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

static void print_options(void)
{
    const struct weft_owner *owner;
    for (int i = 0; (owner = weft_nn_owner_at(i)); i++)
        if (owner->count)
            weft_owner_print(owner, stdout);
    for (int i = 0; (owner = weft_train_owner_at(i)); i++)
        if (owner->count)
            weft_owner_print(owner, stdout);
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
    const char *topic = ((const struct args *)args)->topic;
    if (!topic)
        print_commands();
    else if (strcmp(topic, "models") == 0)
        print_models();
    else if (strcmp(topic, "options") == 0)
        print_options();
    else
        return print_command(topic);
    return WEFT_OK;
}

const struct weft_cmd weft_cmd_help = {"help", "this list, or help on a topic", &argp, sizeof(struct args), run};
