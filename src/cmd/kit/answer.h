/* SPDX-License-Identifier: MIT
 *
 * answer.h - prompts and their answers: tokens, text, the end of an answer, and printing (answer.c).
 */
#ifndef WEFT_CMD_ANSWER_H
#define WEFT_CMD_ANSWER_H

#include "base/base.h"

/* Reasons why an answer ends: the end-of-text token, a stop text, the maximum number of tokens, or a full context. */
enum weft_answer_end { WEFT_GOES_ON, WEFT_END_TOKEN, WEFT_END_STOP, WEFT_END_LENGTH, WEFT_END_CONTEXT };

struct weft_answer {
    int32_t *tokens; /* the prompt, then new tokens */
    double *logprobs;
    int64_t prompt_count, count, room;
    int64_t drawn; /* number of tokens drawn, over all turns of a conversation */
    char *prompt;
    char *text; /* text of the new tokens */
    size_t bytes, text_room;
    size_t shown;   /* number of bytes printed */
    int64_t listed; /* number of tokens printed */
    bool prompt_shown;
    enum weft_answer_end why;
};

struct weft_answers {
    /* Set by the caller: */
    const struct weft_tokenizer *tokenizer; /* NULL: prompts and answers are token ids */
    int64_t vocab, context, most;           /* most: maximum number of new tokens */
    const char *const *stop;
    int stop_count;
    bool ids, logprobs, json, quiet; /* quiet: the prompt is not printed */
    /* Internal: */
    struct weft_answer *list;
    int count, room;
    int printed; /* number of completely printed answers */
};

/* Adds a prompt: its text or, with `ids`, its token ids. */
enum weft_status weft_answers_add(struct weft_answers *a, const char *prompt, size_t bytes);
void weft_answers_release(struct weft_answers *a);
/* Appends the next turn of a conversation to an answer. */
enum weft_status weft_answer_continue(struct weft_answers *a, struct weft_answer *answer, const char *prompt,
                                      size_t bytes);
/* Adds a new token; sets `why` if the answer ends. */
enum weft_status weft_answer_add(struct weft_answers *a, struct weft_answer *answer, int32_t token, double logprob);
/* Prints new output in the order of the prompts. */
enum weft_status weft_answers_print(struct weft_answers *a);

#endif
