/* SPDX-License-Identifier: MIT
 *
 * answer.c - converts prompts to tokens and answers to text, detects where an answer ends, and prints it.
 *
 * Text is printed as soon as it is final: when its last character is complete and it cannot be the beginning of a stop
 * text.
 */
#define _GNU_SOURCE
#include "cmd/kit/answer.h"
#include "base/json.h"
#include "base/opt.h"
#include "text/tokenizer/bpe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum weft_status grow(void **list, int64_t *room, int64_t wanted, size_t size)
{
    if (wanted <= *room)
        return WEFT_OK;
    int64_t more = weft_max(64, 2 * wanted);
    void *new_list = realloc(*list, (size_t)more * size);
    if (!new_list)
        return FAIL(WEFT_NOMEM, "not enough memory for an answer");
    *list = new_list;
    *room = more;
    return WEFT_OK;
}

static enum weft_status make_room(struct weft_answer *r, int64_t more)
{
    int64_t room = r->room;
    TRY(grow((void **)&r->tokens, &room, r->count + more, sizeof *r->tokens));
    TRY(grow((void **)&r->logprobs, &r->room, r->count + more, sizeof *r->logprobs));
    return WEFT_OK;
}

/* ---- prompts */

/* Parses token ids separated by spaces. */
static enum weft_status read_ids(const struct weft_answers *a, struct weft_answer *r, const char *text)
{
    char *copy = strdup(text), *state;
    enum weft_status status = copy ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a prompt");
    for (char *word = copy ? strtok_r(copy, " ,\t\r\n", &state) : NULL; word && status == WEFT_OK;
         word = strtok_r(NULL, " ,\t\r\n", &state)) {
        int64_t id;
        if (!weft_text_int(word, &id) || id < 0 || id >= a->vocab)
            status = FAIL(WEFT_INVALID, "the prompt contains \"%s\": with --ids, pass token ids from 0 to %lld", word,
                          (long long)a->vocab - 1);
        else if ((status = make_room(r, 1)) == WEFT_OK)
            r->tokens[r->count++] = (int32_t)id;
    }
    free(copy);
    return status;
}

/* Prepends the tokens that the model's texts begin with, unless the prompt already begins with them. */
static enum weft_status encode(const struct weft_answers *a, struct weft_answer *r, const char *text, size_t bytes)
{
    int32_t begin = weft_tokenizer_begin(a->tokenizer);
    struct weft_ids ids = {0};
    enum weft_status status = weft_encode(a->tokenizer, text, bytes, true, !r->count, &ids);
    if (status == WEFT_OK)
        status = make_room(r, (int64_t)ids.count + 1);
    if (status == WEFT_OK && !r->count && begin >= 0 && !(ids.count && ids.id[0] == begin))
        r->tokens[r->count++] = begin;
    for (size_t i = 0; status == WEFT_OK && i < ids.count; i++)
        r->tokens[r->count++] = ids.id[i];
    free(ids.id);
    return status;
}

enum weft_status weft_answer_continue(struct weft_answers *a, struct weft_answer *r, const char *prompt, size_t bytes)
{
    free(r->prompt);
    r->prompt = strndup(prompt, bytes);
    if (!r->prompt)
        return FAIL(WEFT_NOMEM, "not enough memory for a prompt");
    TRY(a->ids ? read_ids(a, r, r->prompt) : encode(a, r, prompt, bytes));
    if (!r->count)
        return FAIL(WEFT_INVALID, "the prompt is empty: pass a text to continue");
    if (r->count > a->context - 1)
        return FAIL(
            WEFT_INVALID,
            "the prompt has %lld tokens, which leaves no room for an answer in the context of %lld: pass --context N",
            (long long)r->count, (long long)a->context);
    r->prompt_count = r->listed = r->count;
    r->bytes = r->shown = 0;
    r->prompt_shown = false;
    r->why = WEFT_GOES_ON;
    return WEFT_OK;
}

enum weft_status weft_answers_add(struct weft_answers *a, const char *prompt, size_t bytes)
{
    int64_t room = a->room;
    TRY(grow((void **)&a->list, &room, a->count + 1, sizeof *a->list));
    a->room = (int)room;
    a->list[a->count] = (struct weft_answer){0};
    TRY(weft_answer_continue(a, &a->list[a->count++], prompt, bytes));
    return WEFT_OK;
}

void weft_answers_release(struct weft_answers *a)
{
    for (int i = 0; i < a->count; i++) {
        free(a->list[i].tokens);
        free(a->list[i].logprobs);
        free(a->list[i].prompt);
        free(a->list[i].text);
    }
    free(a->list);
    a->list = NULL;
    a->count = a->room = 0;
}

/* ---- new tokens */

static enum weft_status token_text(const struct weft_answers *a, int32_t token, char text[256], size_t *bytes)
{
    *bytes = 0;
    text[0] = 0;
    if (!a->tokenizer || token >= weft_tokenizer_vocab(a->tokenizer)) /* a vocabulary may be padded */
        return WEFT_OK;
    TRY(weft_decode(a->tokenizer, &token, 1, false, text, 255, bytes));
    *bytes = *bytes < 255 ? *bytes : 255;
    text[*bytes] = 0;
    return WEFT_OK;
}

/* Truncates the text before the first stop text in it. */
static bool find_stop(const struct weft_answers *a, struct weft_answer *r)
{
    char *first = NULL;
    for (int i = 0; i < a->stop_count; i++) {
        char *found = *a->stop[i] ? memmem(r->text, r->bytes, a->stop[i], strlen(a->stop[i])) : NULL;
        first = found && (!first || found < first) ? found : first;
    }
    if (first)
        r->bytes = (size_t)(first - r->text);
    return first;
}

static enum weft_status add_text(struct weft_answers *a, struct weft_answer *r, int32_t token)
{
    char text[256];
    size_t bytes;
    int64_t room = (int64_t)r->text_room;
    TRY(token_text(a, token, text, &bytes));
    TRY(grow((void **)&r->text, &room, (int64_t)(r->bytes + bytes + 1), 1));
    r->text_room = (size_t)room;
    memcpy(r->text + r->bytes, text, bytes);
    r->bytes += bytes;
    return WEFT_OK;
}

enum weft_status weft_answer_add(struct weft_answers *a, struct weft_answer *r, int32_t token, double logprob)
{
    r->drawn++;
    if (a->tokenizer && token == weft_tokenizer_end(a->tokenizer)) {
        r->why = WEFT_END_TOKEN;
        return WEFT_OK;
    }
    TRY(make_room(r, 1));
    r->logprobs[r->count] = logprob;
    r->tokens[r->count++] = token;
    TRY(add_text(a, r, token));
    if (find_stop(a, r))
        r->why = WEFT_END_STOP;
    else if (r->count - r->prompt_count >= a->most)
        r->why = WEFT_END_LENGTH;
    else if (r->count >= a->context) {
        r->why = WEFT_END_CONTEXT;
        weft_note_once("context",
                       "an answer ended at the end of the context of %lld tokens: pass a longer one with --context N",
                       (long long)a->context);
    }
    return WEFT_OK;
}

/* ---- printing */

/* Returns the number of bytes of the text that later tokens cannot change. */
static size_t certain(const struct weft_answers *a, const struct weft_answer *r)
{
    size_t held = 0, from = r->bytes;
    if (r->why != WEFT_GOES_ON)
        return r->bytes;
    for (int i = 0; i < a->stop_count; i++)
        held = strlen(a->stop[i]) > held + 1 ? strlen(a->stop[i]) - 1 : held;
    size_t end = r->bytes > held ? r->bytes - held : 0;
    for (from = end; from > 0 && end - from < 3 && ((unsigned char)r->text[from - 1] & 0xc0) == 0x80;)
        from--;
    uint32_t code;
    bool open = from > 0 && (unsigned char)r->text[from - 1] >= 0xc0 &&
                weft_utf8_read(r->text + from - 1, end - from + 1, &code) != end - from + 1;
    return weft_max((int64_t)r->shown, (int64_t)(open ? from - 1 : end));
}

/* Prints text; on a terminal, control characters are escaped. */
static void write_text(const char *text, size_t bytes)
{
    char piece[1024];
    if (!isatty(STDOUT_FILENO)) {
        fwrite(text, 1, bytes, stdout);
        return;
    }
    for (size_t at = 0, n; at < bytes; at += n) {
        n = (size_t)weft_min((int64_t)sizeof piece - 1, (int64_t)(bytes - at));
        memcpy(piece, text + at, n);
        piece[n] = 0;
        weft_text_print(stdout, piece);
    }
}

static void list_token(const struct weft_answers *a, const struct weft_answer *r, int64_t i)
{
    char text[256];
    size_t bytes;
    if (token_text(a, r->tokens[i], text, &bytes) != WEFT_OK)
        weft_error_clear();
    printf("%d\t%.6f\t", (int)r->tokens[i], r->logprobs[i]);
    for (size_t b = 0; b < bytes; b++)
        printf((unsigned char)text[b] < ' ' || text[b] == '\\' ? "\\x%02x" : "%c", (unsigned char)text[b]);
    puts("");
}

/* Joins the ids into a list separated by spaces, because a field of a flat JSON object cannot be an array. */
static char *join_ids(const int32_t *tokens, int64_t count)
{
    char *text = malloc(12 * (size_t)count + 1);
    size_t used = 0;
    if (text)
        *text = 0;
    for (int64_t i = 0; text && i < count; i++)
        used += (size_t)sprintf(text + used, "%s%d", i ? " " : "", (int)tokens[i]);
    return text;
}

static char *join_logprobs(const double *list, int64_t count)
{
    char *text = malloc(32 * (size_t)count + 1);
    size_t used = 0;
    if (text)
        *text = 0;
    for (int64_t i = 0; text && i < count; i++)
        used += (size_t)sprintf(text + used, "%s%.6f", i ? " " : "", list[i]);
    return text;
}

/* Replaces invalid UTF-8 with U+FFFD. */
static char *valid_text(const char *text, size_t bytes)
{
    char *to = malloc(3 * bytes + 1);
    size_t used = 0;
    for (size_t at = 0; to && at < bytes;) {
        uint32_t code;
        size_t n = weft_utf8_read(text + at, bytes - at, &code);
        memcpy(to + used, n ? text + at : "\xef\xbf\xbd", n ? n : 3);
        used += n ? n : 3;
        at += n ? n : 1;
    }
    if (to)
        to[used] = 0;
    return to;
}

static enum weft_status print_json(const struct weft_answers *a, const struct weft_answer *r)
{
    static const char *const ends[] = {"", "end_of_text", "stop", "length", "context"};
    struct weft_result *result = weft_result_create();
    int64_t n = r->count - r->prompt_count;
    double sum = 0;
    char *prompt = valid_text(r->prompt, strlen(r->prompt)), *text = valid_text(r->text, r->bytes);
    char *ids = join_ids(r->tokens + r->prompt_count, n), *logprobs = join_logprobs(r->logprobs + r->prompt_count, n);
    for (int64_t i = r->prompt_count; i < r->count; i++)
        sum += r->logprobs[i];
    weft_result_text(result, "prompt", prompt);
    if (!a->ids)
        weft_result_text(result, "text", text);
    weft_result_text(result, "ids", ids);
    if (a->logprobs)
        weft_result_text(result, "logprobs", logprobs);
    weft_result_int(result, "prompt_tokens", r->prompt_count);
    weft_result_int(result, "tokens", n);
    weft_result_real(result, "logprob", sum);
    weft_result_text(result, "end", ends[r->why]);
    bool whole = prompt && text && ids && logprobs;
    enum weft_status status =
        whole ? weft_result_print(result, stdout, true) : FAIL(WEFT_NOMEM, "not enough memory for a result");
    weft_result_free(result);
    free(prompt);
    free(text);
    free(ids);
    free(logprobs);
    return status;
}

static void print_text(const struct weft_answers *a, struct weft_answer *r)
{
    size_t end = certain(a, r);
    if (!r->prompt_shown && !a->quiet)
        write_text(r->prompt, strlen(r->prompt));
    r->prompt_shown = true;
    write_text(r->text + r->shown, end - r->shown);
    r->shown = end;
    if (r->why != WEFT_GOES_ON)
        puts("");
}

static void print_lines(const struct weft_answers *a, struct weft_answer *r)
{
    for (; r->listed < r->count; r->listed++)
        if (a->logprobs)
            list_token(a, r, r->listed);
        else
            printf("%s%d", r->listed > r->prompt_count ? " " : "", (int)r->tokens[r->listed]);
    if (r->why != WEFT_GOES_ON && !a->logprobs)
        puts("");
}

enum weft_status weft_answers_print(struct weft_answers *a)
{
    for (; a->printed < a->count; a->printed++) {
        struct weft_answer *r = &a->list[a->printed];
        if (a->json && r->why != WEFT_GOES_ON)
            TRY(print_json(a, r));
        else if (!a->json && (a->logprobs || a->ids))
            print_lines(a, r);
        else if (!a->json)
            print_text(a, r);
        if (r->why == WEFT_GOES_ON)
            break;
    }
    if (fflush(stdout))
        return FAIL(WEFT_IO, "the answer cannot be written: %s", strerror(errno));
    return WEFT_OK;
}
