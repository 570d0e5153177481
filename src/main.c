/* SPDX-License-Identifier: MIT
 *
 * main.c - finds the command, reads its words, runs it, prints what went wrong.
 */
#include "base/base.h"
#include "cmd/cmd.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static bool verbose;

static void print_error(void)
{
    fprintf(stderr, "weft: %s\n", weft_error());
    if (verbose && *weft_error_trace())
        fprintf(stderr, "  %s\n", weft_error_trace());
}

static const struct weft_cmd *find(const char *name)
{
    const char *names[64];
    int n = 0;
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return &weft_cmd_help;
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        return &weft_cmd_version;
    for (; n < 64 && weft_cmd_at(n); n++)
        names[n] = weft_cmd_at(n)->name;
    const struct weft_cmd *cmd = weft_cmd_find(name);
    const char *near = weft_suggest(name, names, n);
    if (!cmd)
        weft_say(stderr, "weft: there is no command \"%s\"%s%s%s `weft help` lists all\n", name,
                 near ? ": did you mean `weft " : ";", near ? near : "", near ? "`?" : "");
    return cmd;
}

static enum weft_status run(const struct weft_cmd *cmd, struct weft_common *args)
{
    if (args->help) {
        weft_usage_print(cmd, stdout);
        return WEFT_OK;
    }
    TRY(weft_isa_check());
    if (cmd->takes & WEFT_TAKES_THREADS)
        TRY(weft_threads_set((int)args->threads));
    TRY(cmd->run(args));
    return WEFT_OK;
}

/* A command may have printed its whole result and lost it, for example because the disk is full. */
static enum weft_status close_output(enum weft_status so_far)
{
    bool written = weft_output_close(stdout);
    if (so_far == WEFT_OK && !written)
        return FAIL(WEFT_IO, "the result could not be written to standard output: is the disk full?");
    return so_far;
}

static int run_words(const struct weft_cmd *cmd, int argc, char **argv)
{
    struct weft_common *args = calloc(1, cmd->args_bytes);
    enum weft_status status = args ? weft_args_parse(cmd, argc, argv, args) : FAIL(WEFT_NOMEM, "not enough memory");
    int code = status == WEFT_OK ? 1 : 2; /* exit code if it fails from here */
    if (args) {
        verbose |= args->verbose;
        if (status == WEFT_OK)
            status = run(cmd, args);
        weft_args_release(cmd, args);
        free(args);
    }
    status = close_output(status);
    if (status == WEFT_OK)
        return 0;
    if (status == WEFT_STOPPED) /* the command has printed how to continue */
        return WEFT_EXIT_STOPPED;
    print_error();
    return code;
}

/* ---- a stack that is large enough: settings of studies are kept there, and `ulimit -s 128` leaves too little */

struct call {
    const struct weft_cmd *cmd;
    int argc, code;
    char **argv;
};

static void *run_call(void *context)
{
    struct call *c = context;
    c->code = run_words(c->cmd, c->argc, c->argv);
    return NULL;
}

/* Signals are for the thread that works. */
static int run_on_thread(struct call *c)
{
    pthread_t thread;
    sigset_t all;
    int error = weft_thread_create(&thread, run_call, c);
    if (error) {
        fprintf(stderr,
                "weft: the stack is too small (ulimit -s), and a thread with a larger one cannot be started: %s\n",
                strerror(error));
        return 1;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_join(thread, NULL);
    return c->code;
}

static bool has_stack(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= WEFT_STACK;
}

static void print_notice(void *context, const char *text)
{
    (void)context;
    weft_say(stderr, "weft: note: %s\n", text);
}

int main(int argc, char **argv)
{
    weft_log_set(print_notice, NULL);
    const char *asked = getenv("WEFT_VERBOSE");
    verbose = asked && strcmp(asked, "0") != 0;
    if (argc > 1 && strcmp(argv[1], "--complete") == 0) {
        weft_completion_print((const char *const *)argv + 2, argc - 2, stdout);
        return 0;
    }
    for (; argc > 1 && strcmp(argv[1], "--verbose") == 0; argc--, argv++)
        verbose = true;
    if (argc < 2) {
        fputs("usage: weft COMMAND [OPTION...]; `weft help` lists the commands\n", stderr);
        return 2;
    }
    const struct weft_cmd *cmd = find(argv[1]);
    /* A parent that ignores SIGCHLD hands that down, and then no child could be waited for. */
    signal(SIGCHLD, SIG_DFL);
    if (cmd && !has_stack())
        return run_on_thread(&(struct call){.cmd = cmd, .argc = argc - 1, .argv = argv + 1});
    return cmd ? run_words(cmd, argc - 1, argv + 1) : 2;
}
