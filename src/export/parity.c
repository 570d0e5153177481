/* SPDX-License-Identifier: MIT
 *
 * parity.c - see parity.h. The reference side is parity.py, which is embedded in the program.
 */
#include "export/parity.h"
#include "base/embed.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

WEFT_EMBED(parity, "src/export/parity.py");

enum { LENGTH = 64, NUDGES = 8, NOT_INSTALLED = 77 };

extern char **environ;

/* ---- Weft's side */

struct side {
    const struct weft_nn *model;
    int64_t length, vocab;
    int32_t *tokens;
    float *logits; /* [length, vocab] */
};

static void draw_tokens(struct side *s)
{
    for (int64_t i = 0; i < s->length; i++)
        s->tokens[i] = (int32_t)weft_below(1, (uint64_t)i, (uint64_t)s->vocab);
}

/* Computes the logits of the model in its current state. */
static enum weft_status run(const struct side *s, struct weft_net *net, struct weft_exec *exec, float *logits)
{
    weft_net_bind(net, exec, s->model, NULL);
    TRY(weft_exec_prepare(exec));
    weft_net_plain_rows(net, exec, 1, s->length);
    memcpy(weft_exec_tensor(exec, net->tokens)->data, s->tokens, (size_t)s->length * sizeof *s->tokens);
    TRY(weft_exec_run(exec));
    memcpy(logits, weft_exec_tensor(exec, net->logits)->data, (size_t)(s->length * s->vocab) * sizeof *logits);
    return WEFT_OK;
}

/* Multiplies each weight by 1 + 2^-18 or 1 - 2^-18: several times the rounding of f32. */
static void nudge(struct weft_params *p, const float *from, uint64_t draw)
{
    for (int64_t i = 0; i < p->total; i++)
        p->weights[i] = from[i] * (weft_below(draw, (uint64_t)i, 2) ? 1 + 0x1p-18F : 1 - 0x1p-18F);
}

/* Raises change[t] to the largest change of the logits of token t, relative to the largest logit. */
static void note_changes(const struct side *s, const float *other, float *change)
{
    float largest = 1;
    for (int64_t i = 0; i < s->length * s->vocab; i++)
        largest = fmaxf(largest, fabsf(s->logits[i]));
    for (int64_t t = 0; t < s->length; t++)
        for (int64_t i = t * s->vocab; i < (t + 1) * s->vocab; i++)
            change[t] = fmaxf(change[t], fabsf(other[i] - s->logits[i]) / largest);
}

static enum weft_status run_nudged(struct side *s, struct weft_params *p, struct weft_net *net, struct weft_exec *exec,
                                   float *change)
{
    float *kept = malloc((size_t)p->total * sizeof *kept);
    float *other = malloc((size_t)(s->length * s->vocab) * sizeof *other);
    enum weft_status status = kept && other ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a copy of the weights");
    if (status == WEFT_OK)
        memcpy(kept, p->weights, (size_t)p->total * sizeof *kept);
    for (uint64_t draw = 1; status == WEFT_OK && draw <= NUDGES; draw++) {
        nudge(p, kept, draw);
        status = run(s, net, exec, other);
        if (status == WEFT_OK)
            note_changes(s, other, change);
        memcpy(p->weights, kept, (size_t)p->total * sizeof *kept);
    }
    free(kept);
    free(other);
    return status;
}

/* Writes tokens, their logits, and the change of each token's logits caused by rounding. */
static enum weft_status write_side(struct weft_nn *model, struct side *s, FILE *to)
{
    struct weft_net net = {0};
    struct weft_exec *exec = NULL;
    float *change = calloc((size_t)s->length, sizeof *change);
    enum weft_status status =
        weft_net_init(&net, model, WEFT_FORWARD, (struct weft_net_size){.sequences = 1, .length = s->length});
    if (status == WEFT_OK)
        status = weft_exec_create(&exec, net.g, WEFT_FAST);
    if (status == WEFT_OK)
        status = run(s, &net, exec, s->logits);
    if (status == WEFT_OK)
        status = change ? run_nudged(s, &model->params, &net, exec, change)
                        : FAIL(WEFT_NOMEM, "not enough memory for %lld tokens", (long long)s->length);
    if (status == WEFT_OK) {
        fwrite(s->tokens, sizeof *s->tokens, (size_t)s->length, to);
        fwrite(s->logits, sizeof *s->logits, (size_t)(s->length * s->vocab), to);
        fwrite(change, sizeof *change, (size_t)s->length, to);
    }
    free(change);
    weft_exec_free(exec);
    weft_net_release(&net);
    return status;
}

static enum weft_status write_logits(struct weft_nn *model, int64_t length, FILE *to)
{
    struct side s = {.model = model, .length = length, .vocab = model->spec->vocab};
    TRY(weft_params_alloc(&model->params));
    s.tokens = malloc((size_t)length * sizeof *s.tokens);
    s.logits = malloc((size_t)(length * s.vocab) * sizeof *s.logits);
    enum weft_status status = WEFT_OK;
    if (s.tokens && s.logits) {
        draw_tokens(&s);
        status = write_side(model, &s, to);
    } else {
        status = FAIL(WEFT_NOMEM, "not enough memory for the logits of %lld tokens", (long long)length);
    }
    free(s.tokens);
    free(s.logits);
    return status;
}

/* ---- the reference side */

/* Starts a command whose output can be read from *from; returns 0 or an error number (errno). */
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

/* Reads the last line that the command prints, and returns its exit status. */
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
    json_int_t tokens = 0, agree = 0, unclear = 0;
    bool good =
        root && json_unpack(root, "{s:s, s:F, s:I, s:I, s:I}", "checked_by", &program, "difference", &p->difference,
                            "tokens", &tokens, "tokens_agree", &agree, "tokens_unclear", &unclear) == 0;
    if (good)
        snprintf(p->program, sizeof p->program, "%s", program);
    p->tokens = tokens;
    p->agree = agree;
    p->unclear = unclear;
    json_decref(root);
    return good ? WEFT_OK : FAIL(WEFT_CHECK, "the other program did not report a result: %.200s", line);
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
                     : FAIL(WEFT_CHECK, "the other program could not run the exported model (%s)", words[0]);
}

enum weft_status weft_parity_check(struct weft_nn *model, const char *format, const char *path,
                                   struct weft_parity *parity)
{
    char file[] = "/tmp/weft-parity-XXXXXX";
    int64_t length = weft_min(LENGTH, model->spec->context);
    int fd = mkstemp(file);
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w");
    *parity = (struct weft_parity){0};
    if (!to)
        return FAIL(WEFT_IO, "cannot create a file in /tmp: %s", strerror(errno));
    enum weft_status status = write_logits(model, length, to);
    if (!weft_output_close(to) && status == WEFT_OK)
        status = FAIL(WEFT_IO, "cannot write %s", file);
    if (status == WEFT_OK)
        status = ask(model, format, path, file, length, parity);
    unlink(file);
    return status;
}
