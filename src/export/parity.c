/* SPDX-License-Identifier: MIT
 *
 * parity.c - see parity.h. The other side is parity.py, which is part of the program.
 */
#include "export/parity.h"
#include "base/embed.h"

#include <errno.h>
#include <jansson.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

WEFT_EMBED(parity, "src/export/parity.py");

enum { LENGTH = 64, NOT_INSTALLED = 77 };

extern char **environ;

/* ---- our side */

static enum weft_status run(struct weft_net *net, struct weft_exec *exec, int64_t length, uint64_t vocab, FILE *to)
{
    weft_net_plain_rows(net, exec, 1, length);
    const struct weft_tensor *tokens = weft_exec_tensor(exec, net->tokens),
                             *logits = weft_exec_tensor(exec, net->logits);
    for (int64_t i = 0; i < length; i++)
        ((int32_t *)tokens->data)[i] = (int32_t)weft_below(1, (uint64_t)i, vocab);
    TRY(weft_exec_run(exec));
    fwrite(tokens->data, sizeof(int32_t), (size_t)length, to);
    fwrite(logits->data, sizeof(float), (size_t)weft_tensor_count(logits), to);
    return WEFT_OK;
}

/* Random tokens and their logits. */
static enum weft_status write_logits(const struct weft_nn *model, int64_t length, FILE *to)
{
    struct weft_net net = {0};
    struct weft_exec *exec = NULL;
    enum weft_status status =
        weft_net_init(&net, model, WEFT_FORWARD, (struct weft_net_size){.sequences = 1, .length = length});
    if (status == WEFT_OK)
        status = weft_exec_create(&exec, net.g, WEFT_FAST);
    if (status == WEFT_OK) {
        weft_net_bind(&net, exec, model, NULL);
        status = weft_exec_prepare(exec);
    }
    if (status == WEFT_OK)
        status = run(&net, exec, length, (uint64_t)model->spec->vocab, to);
    weft_exec_free(exec);
    weft_net_release(&net);
    return status;
}

/* ---- their side */

/* Starts a command whose output can be read from *from; returns 0 or the reason why not. */
static int start(char *const words[], pid_t *pid, FILE **from)
{
    int pipe_ends[2];
    posix_spawn_file_actions_t actions;
    if (pipe(pipe_ends) != 0)
        return errno;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, pipe_ends[0]);
    int error = posix_spawnp(pid, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_ends[1]);
    *from = error ? NULL : fdopen(pipe_ends[0], "r");
    if (!*from)
        close(pipe_ends[0]);
    return error;
}

/* The last line that it prints. */
static int finish(pid_t pid, FILE *from, char line[512])
{
    char next[512];
    int status = 0;
    *line = '\0';
    while (from && fgets(next, sizeof next, from))
        snprintf(line, 512, "%s", next);
    if (from)
        fclose(from);
    line[strcspn(line, "\n")] = '\0';
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static enum weft_status read_answer(const char *line, struct weft_parity *p)
{
    json_t *root = json_loads(line, 0, NULL);
    const char *program = NULL;
    json_int_t tokens = 0, agree = 0;
    bool good = root && json_unpack(root, "{s:s, s:F, s:I, s:I}", "checked_by", &program, "difference", &p->difference,
                                    "tokens", &tokens, "tokens_agree", &agree) == 0;
    if (good)
        snprintf(p->program, sizeof p->program, "%s", program);
    p->tokens = tokens;
    p->agree = agree;
    json_decref(root);
    return good ? WEFT_OK : FAIL(WEFT_CHECK, "the other program did not say what it computed: %.200s", line);
}

static enum weft_status ask(const struct weft_nn *model, const char *format, const char *path, const char *file,
                            int64_t length, struct weft_parity *p)
{
    const char *python = getenv("WEFT_PYTHON");
    char tokens[24], vocab[24], line[512];
    pid_t pid = 0;
    FILE *from = NULL;
    snprintf(tokens, sizeof tokens, "%lld", (long long)length);
    snprintf(vocab, sizeof vocab, "%lld", (long long)model->spec->vocab);
    char *const words[] = {(char *)(python ? python : "python3"),
                           "-c",
                           (char *)weft_embedded_parity,
                           (char *)format,
                           (char *)path,
                           (char *)file,
                           tokens,
                           vocab,
                           NULL};
    int error = start(words, &pid, &from), code = error ? 0 : finish(pid, from, line);
    if (error || code == NOT_INSTALLED) {
        snprintf(p->missing, sizeof p->missing, "%.80s %s %.80s", words[0],
                 error ? "cannot be started:" : "has no module", error ? strerror(error) : line);
        return WEFT_OK;
    }
    return code == 0 ? read_answer(line, p)
                     : FAIL(WEFT_CHECK, "the other program could not run what was exported (%s)", words[0]);
}

enum weft_status weft_parity_check(const struct weft_nn *model, const char *format, const char *path,
                                   struct weft_parity *parity)
{
    char file[] = "/tmp/weft-parity-XXXXXX";
    int64_t length = weft_min(LENGTH, model->spec->context);
    int fd = mkstemp(file);
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w");
    *parity = (struct weft_parity){0};
    if (!to)
        return FAIL(WEFT_IO, "cannot make a file in /tmp: %s", strerror(errno));
    enum weft_status status = write_logits(model, length, to);
    if (!weft_output_close(to) && status == WEFT_OK)
        status = FAIL(WEFT_IO, "cannot write %s", file);
    if (status == WEFT_OK)
        status = ask(model, format, path, file, length, parity);
    unlink(file);
    return status;
}
