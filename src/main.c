/* SPDX-License-Identifier: MIT
 *
 * main.c - finds the command, parses its options, runs it, tells what went wrong.
 */
#include "base/base.h"
#include "cmd/cmd.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct weft_cmd *find(const char *name)
{
    const char *names[64];
    int n = 0;
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return &weft_cmd_help;
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        return &weft_cmd_version;
    for (const struct weft_cmd *c; n < 64 && (c = weft_cmd_at(n)); n++) {
        if (strcmp(name, c->name) == 0)
            return c;
        names[n] = c->name;
    }
    const char *near = weft_suggest(name, names, n);
    fprintf(stderr, "weft: there is no command \"%s\"", name);
    if (near)
        fprintf(stderr, ": did you mean `weft %s`?", near);
    fputs(" `weft help` lists all\n", stderr);
    return NULL;
}

static enum weft_status run(const struct weft_cmd *cmd, int argc, char **argv)
{
    char name[64];
    snprintf(name, sizeof name, "weft %s", cmd->name);
    argv[0] = name; /* what usage messages call themselves */
    void *args = calloc(1, cmd->args_bytes + 1);
    if (!args)
        return FAIL(WEFT_NOMEM, "no memory for the command's options");
    argp_err_exit_status = 2;
    argp_parse(cmd->argp, argc, argv, 0, NULL, args);
    enum weft_status status = weft_isa_check();
    if (status == WEFT_OK)
        status = cmd->run(args);
    free(args);
    return status;
}

static void print_notice(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "weft: %s\n", text);
}

int main(int argc, char **argv)
{
    weft_log_set(print_notice, NULL);
    if (argc < 2) {
        fputs("usage: weft COMMAND [OPTION...]; `weft help` lists the commands\n", stderr);
        return 2;
    }
    const struct weft_cmd *cmd = find(argv[1]);
    if (!cmd)
        return 2;
    /* A parent that ignores SIGCHLD hands that down, and then no child could be waited for. */
    signal(SIGCHLD, SIG_DFL);
    enum weft_status status = run(cmd, argc - 1, argv + 1);
    if (status == WEFT_OK)
        return 0;
    if (status == WEFT_STOPPED) /* the command has said how to continue */
        return WEFT_EXIT_STOPPED;
    fprintf(stderr, "weft: %s\n", weft_error());
    return 1;
}
