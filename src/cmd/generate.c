/* SPDX-License-Identifier: MIT
 *
 * generate - generates text with a trained model: for one prompt, streamed; for several, batched; or as a conversation
 * on a terminal.
 *
 * It uses the public interface. An answer is a function of the model, the prompt, the sampling options and the seed:
 * prompts are fed separately in chunks of a fixed size, and the i-th new token is drawn with the counter i,
 * independently of the other sequences in the batch.
 */
#include "cmd/cmd.h"
#include "cmd/kit/answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 256 };

struct args {
    struct weft_common common;
    const char *prompt, *prompts, *tokenizer;
    struct weft_arg_list stop;
    int64_t n, batch, seed, top_k, context;
    double temperature, top_p, min_p, repetition;
    bool ids, logprobs, stats;
};

#define AT(field) offsetof(struct args, field)
static const struct weft_arg table[] = {
    {"prompt", 'p', "TEXT", WEFT_ARG_TEXT, AT(prompt), .help = "Continue TEXT (default: standard input)"},
    {"prompts", 'f', "FILE", WEFT_ARG_FILE, AT(prompts), .help = "Continue every line of FILE"},
    {"tokens", 'n', "N", WEFT_ARG_INT, AT(n), .help = "Generate at most N tokens per prompt", .initial = "128",
     .min = 1, .max = 1e9},
    {"temperature", 'T', "X", WEFT_ARG_REAL, AT(temperature),
     .help = "Divide logits by X before sampling; 0: always take the most likely token", .initial = "0.8", .min = 0,
     .max = 100},
    {"top-k", 0, "N", WEFT_ARG_INT, AT(top_k), .help = "Sample from the N most likely tokens; 0: all", .initial = "0",
     .min = 0, .max = 1e9},
    {"top-p", 0, "X", WEFT_ARG_REAL, AT(top_p),
     .help = "Sample from the most likely tokens whose probabilities add up to X; 0: all", .initial = "0", .min = 0,
     .max = 1},
    {"min-p", 0, "X", WEFT_ARG_REAL, AT(min_p),
     .help = "Sample from tokens with at least X times the highest probability", .initial = "0", .min = 0, .max = 1},
    {"repetition", 0, "X", WEFT_ARG_REAL, AT(repetition),
     .help = "Divide positive logits of tokens that have occurred by X, and multiply negative ones", .initial = "1",
     .min = 0.01, .max = 100},
    {"seed", 0, "N", WEFT_ARG_INT, AT(seed), .help = "Sample with seed N: the same seed gives the same answer",
     .initial = "1", .min = 0, .max = 9e15},
    {"stop", 0, "TEXT", WEFT_ARG_TEXT, AT(stop), .help = "End an answer before TEXT; may be repeated", .many = true},
    {"ids", 0, NULL, WEFT_ARG_FLAG, AT(ids), .help = "Read and write token ids instead of text: \"12 7 300\""},
    {"logprobs", 0, NULL, WEFT_ARG_FLAG, AT(logprobs),
     .help = "Print a line for each token: its id, log probability and text"},
    {"stats", 0, NULL, WEFT_ARG_FLAG, AT(stats), .help = "Print speed and memory to stderr"},
    {"batch", 'b', "N", WEFT_ARG_INT, AT(batch),
     .help = "Decode up to N sequences at a time; answers do not depend on it", .initial = "16", .min = 1, .max = 4096},
    {"context", 'c', "N", WEFT_ARG_INT, AT(context),
     .help = "Limit a prompt and its answer to N tokens, which may exceed the context of training; 0: the context of "
             "training",
     .initial = "0", .min = 0, .max = 1e9},
    {"tokenizer", 0, "FILE|bytes", WEFT_ARG_FILE, AT(tokenizer),
     .help = "Use this tokenizer instead of the tokenizer.json next to the weights", .choices = weft_tokenizer_choices},
    {0},
};

/* ---- state of the command */

struct work {
    const struct args *a;
    struct weft_model *model;
    struct weft_model_info info;
    struct weft_tokenizer *tokenizer; /* NULL: none, with --ids */
    struct weft_sampler *sampler;
    struct weft_session *session;
    int64_t slots;              /* number of sequences of the session */
    struct weft_answer **lanes; /* answer that each sequence decodes; NULL: none */
    struct weft_answers answers;
    double prefill_seconds, decode_seconds;
    int64_t prefilled, decoded; /* number of tokens */
};

static enum weft_status open_tokenizer(struct work *w)
{
    char folder[4096];
    if (w->a->ids && !w->a->tokenizer)
        return WEFT_OK;
    TRY(weft_nn_folder(w->a->common.model, folder, sizeof folder));
    TRY(weft_tokenizer_open(w->a->tokenizer, folder, w->info.vocab, &w->tokenizer));
    return WEFT_OK;
}

static enum weft_status open_all(struct work *w)
{
    const struct args *a = w->a;
    const struct weft_sampling how = {a->temperature, a->top_k, a->top_p, a->min_p, a->repetition};
    TRY(weft_model_check_folder(a->common.model));
    if (a->context)
        TRY(weft_model_open_at(&w->model, a->common.model, a->context, 0));
    else
        TRY(weft_model_open(&w->model, a->common.model, 0));
    TRY(weft_model_describe(w->model, &w->info));
    TRY(open_tokenizer(w));
    TRY(weft_sampler_create(&w->sampler, &how, w->info.vocab));
    w->answers = (struct weft_answers){.tokenizer = w->tokenizer,
                                       .vocab = w->info.vocab,
                                       .context = w->info.context,
                                       .most = a->n,
                                       .stop = a->stop.item,
                                       .stop_count = a->stop.count,
                                       .ids = a->ids,
                                       .logprobs = a->logprobs,
                                       .json = a->common.json};
    return WEFT_OK;
}

/* Creates a session whose cache is just large enough for the prompts and their answers. */
static enum weft_status open_session(struct work *w, bool talk)
{
    int64_t longest = talk ? w->info.context : 1;
    for (int i = 0; i < w->answers.count; i++)
        longest = weft_max(longest, w->answers.list[i].prompt_count + w->a->n);
    w->slots = talk ? 1 : weft_min(w->a->batch, w->answers.count);
    w->lanes = calloc((size_t)w->slots, sizeof *w->lanes);
    if (!w->lanes)
        return FAIL(WEFT_NOMEM, "not enough memory for %lld sequences", (long long)w->slots);
    const struct weft_session_size size = {
        .sequences = w->slots, .length = weft_min(w->info.context, longest), .chunk = weft_max(CHUNK, w->slots)};
    TRY(weft_session_create(&w->session, w->model, &size));
    return WEFT_OK;
}

static void close_all(struct work *w)
{
    weft_answers_release(&w->answers);
    weft_session_free(w->session);
    free(w->lanes);
    weft_sampler_free(w->sampler);
    weft_tokenizer_free(w->tokenizer);
    weft_model_free(w->model);
}

/* ---- decoding */

static enum weft_status draw(struct work *w, struct weft_answer *answer, const float *logits)
{
    int32_t token;
    double logprob;
    TRY(weft_sampler_draw(w->sampler, logits, answer->tokens, answer->count, (uint64_t)w->a->seed,
                          (uint64_t)answer->drawn, &token, &logprob));
    TRY(weft_answer_add(&w->answers, answer, token, logprob));
    return WEFT_OK;
}

/* Feeds the prompt, starting at token `from`, and draws the first new token. */
static enum weft_status begin(struct work *w, int64_t lane, struct weft_answer *answer, int64_t from)
{
    double start = weft_seconds();
    const float *logits = NULL;
    for (int64_t n; from < answer->count; from += n) {
        n = weft_min(CHUNK, answer->count - from);
        TRY(weft_session_feed(w->session, &(struct weft_feed){lane, answer->tokens + from, n}, 1, &logits));
        w->prefilled += n;
    }
    w->prefill_seconds += weft_seconds() - start;
    TRY(draw(w, answer, logits));
    w->lanes[lane] = answer;
    return WEFT_OK;
}

/* Decodes one more token of every unfinished sequence. */
static enum weft_status step(struct work *w, struct weft_feed *feeds)
{
    double start = weft_seconds();
    const float *logits;
    int count = 0;
    for (int64_t i = 0; i < w->slots; i++)
        if (w->lanes[i])
            feeds[count++] = (struct weft_feed){i, &w->lanes[i]->tokens[w->lanes[i]->count - 1], 1};
    TRY(weft_session_feed(w->session, feeds, count, &logits));
    for (int f = 0; f < count; f++)
        TRY(draw(w, w->lanes[feeds[f].sequence], logits + f * w->info.vocab));
    w->decoded += count;
    w->decode_seconds += weft_seconds() - start;
    return WEFT_OK;
}

/* Assigns the next prompts to free sequences; *busy becomes the number of sequences in use. */
static enum weft_status fill_lanes(struct work *w, int *next, int *busy)
{
    *busy = 0;
    for (int64_t i = 0; i < w->slots; i++) {
        while (w->lanes[i] ? w->lanes[i]->why != WEFT_GOES_ON : *next < w->answers.count) {
            w->lanes[i] = NULL;
            TRY(weft_session_reset(w->session, i));
            if (*next == w->answers.count)
                break;
            TRY(begin(w, i, &w->answers.list[(*next)++], 0));
        }
        *busy += w->lanes[i] != NULL;
    }
    return WEFT_OK;
}

static enum weft_status decode_all(struct work *w)
{
    struct weft_feed *feeds = calloc((size_t)w->slots, sizeof *feeds);
    enum weft_status status = feeds ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a batch");
    int next = 0, busy = 1;
    while (status == WEFT_OK && busy) {
        status = fill_lanes(w, &next, &busy);
        if (status == WEFT_OK)
            status = weft_answers_print(&w->answers);
        if (status == WEFT_OK && busy)
            status = step(w, feeds);
    }
    free(feeds);
    return status;
}

static void print_stats(const struct work *w)
{
    struct weft_session_memory memory;
    if (weft_session_describe(w->session, &memory) != WEFT_OK)
        return;
    fprintf(stderr, "read %lld tokens, %.0f/s; decoded %lld, %.1f/s; cache %.2f MB, %lld bytes per token\n",
            (long long)w->prefilled, (double)w->prefilled / fmax(1e-9, w->prefill_seconds), (long long)w->decoded,
            w->decode_seconds > 0 ? (double)w->decoded / w->decode_seconds : 0, (double)memory.cache_bytes / 1e6,
            (long long)memory.cache_token_bytes);
}

/* ---- a conversation: one sequence, to which every line is appended */

static enum weft_status answer_line(struct work *w, const char *line, size_t bytes)
{
    struct weft_feed feed;
    if (!w->answers.count) {
        TRY(weft_answers_add(&w->answers, line, bytes));
        TRY(weft_session_reset(w->session, 0));
    } else {
        TRY(weft_answer_continue(&w->answers, &w->answers.list[0], line, bytes));
    }
    struct weft_answer *answer = &w->answers.list[0];
    w->answers.printed = 0;
    w->prefilled = w->decoded = 0;
    w->prefill_seconds = w->decode_seconds = 0;
    TRY(begin(w, 0, answer, weft_session_length(w->session, 0)));
    while (answer->why == WEFT_GOES_ON) {
        TRY(weft_answers_print(&w->answers));
        TRY(step(w, &feed));
    }
    TRY(weft_answers_print(&w->answers));
    print_stats(w);
    return WEFT_OK;
}

/* Continues after a line that cannot be answered; an empty line starts a new conversation. */
static enum weft_status converse(struct work *w)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    w->answers.quiet = true;
    fputs("Enter a text to continue; each line continues the conversation. An empty line starts a new one, Ctrl-D "
          "ends.\n",
          stderr);
    while (fputs("> ", stderr) >= 0 && (bytes = getline(&line, &room, stdin)) >= 0) {
        bool empty = line[strspn(line, " \t\r\n")] == 0;
        if (!empty && answer_line(w, line, (size_t)bytes - (line[bytes - 1] == '\n')) != WEFT_OK)
            weft_say(stderr, "%s\n", weft_error());
        weft_error_clear();
        if (empty)
            weft_answers_release(&w->answers);
    }
    fputc('\n', stderr);
    free(line);
    return WEFT_OK;
}

/* ---- the command */

static enum weft_status read_prompts(struct work *w, FILE *from, bool lines)
{
    char *text = NULL;
    size_t room = 0;
    ssize_t bytes;
    enum weft_status status = WEFT_OK;
    while (status == WEFT_OK && (bytes = getdelim(&text, &room, lines ? '\n' : -1, from)) >= 0) {
        if (bytes && text[bytes - 1] == '\n')
            bytes--;
        if (bytes || !lines)
            status = weft_answers_add(&w->answers, text, (size_t)bytes);
    }
    free(text);
    return status;
}

static enum weft_status take_prompts(struct work *w)
{
    FILE *f;
    if (w->a->prompt)
        return weft_answers_add(&w->answers, w->a->prompt, strlen(w->a->prompt));
    if (!w->a->prompts)
        return read_prompts(w, stdin, false);
    TRY(weft_input_open(w->a->prompts, &f));
    enum weft_status status = read_prompts(w, f, true);
    fclose(f);
    return status;
}

static enum weft_status generate(struct work *w)
{
    TRY(open_all(w));
    bool talk = !w->a->prompt && !w->a->prompts && isatty(STDIN_FILENO);
    if (!talk)
        TRY(take_prompts(w));
    if (!talk && !w->answers.count)
        return FAIL(WEFT_INVALID, "there is no prompt: pass --prompt TEXT, --prompts FILE or text on standard input");
    TRY(open_session(w, talk));
    if (talk)
        return converse(w);
    TRY(decode_all(w));
    if (w->a->stats)
        print_stats(w);
    return WEFT_OK;
}

static enum weft_status check(const void *args)
{
    const struct args *a = args;
    if (a->prompt && a->prompts)
        return FAIL(WEFT_INVALID, "--prompt and --prompts are mutually exclusive");
    if (a->ids && a->stop.count)
        return FAIL(WEFT_INVALID, "--stop and --ids are mutually exclusive: with --ids there is no text");
    return WEFT_OK;
}

static enum weft_status run(void *args)
{
    struct work w = {.a = args};
    enum weft_status status = generate(&w);
    close_all(&w);
    return status;
}

const struct weft_cmd weft_cmd_generate = {
    .name = "generate",
    .summary = "generate text with a trained model",
    .doc = "Continues a prompt with MODEL: a run, a checkpoint, or a folder with config.json and model.safetensors. "
           "Without a prompt, on a terminal, it answers line by line.",
    .notes = "The answer to a prompt is a function of the model, the sampling options and the seed. It does not depend "
             "on other prompts, --batch, the number of threads or the machine.",
    .args = table,
    .check = check,
    .takes = WEFT_TAKES_WEIGHTS | WEFT_TAKES_THREADS | WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
