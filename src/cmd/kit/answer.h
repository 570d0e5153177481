/* SPDX-License-Identifier: MIT
 *
 * answer.h - prompts and what a model made of them: tokens, text, where it ends, and how it is printed (answer.c).
 */
#ifndef WEFT_CMD_ANSWER_H
#define WEFT_CMD_ANSWER_H

#include "base/base.h"

/* Why an answer ends: the end-of-text token, a stop text, as many tokens as wanted, no room in the model's context. */
enum weft_answer_end { WEFT_GOES_ON, WEFT_END_TOKEN, WEFT_END_STOP, WEFT_END_LENGTH, WEFT_END_CONTEXT };

struct weft_answer {
    int32_t *tokens; /* of the prompt, then new ones */
    double *logprobs;
    int64_t prompt_count, count, room;
    int64_t drawn; /* tokens so far, over all turns of a conversation */
    char *prompt;
    char *text; /* of the new tokens */
    size_t bytes, text_room;
    size_t shown;   /* bytes that were printed */
    int64_t listed; /* tokens that were printed */
    bool prompt_shown;
    enum weft_answer_end why;
};

struct weft_answers {
    /* Set by the caller: */
    const struct weft_tokenizer *tokenizer; /* NULL: all is in token numbers */
    int64_t vocab, context, most;           /* most: new tokens */
    const char *const *stop;
    int stop_count;
    bool ids, logprobs, json, quiet; /* quiet: the prompt is not printed */
    /* Its own: */
    struct weft_answer *list;
    int count, room;
    int printed; /* answers that are printed wholly */
};

/* A prompt: its text or, with `ids`, its token numbers. */
enum weft_status weft_answers_add(struct weft_answers *a, const char *prompt, size_t bytes);
void weft_answers_release(struct weft_answers *a);
/* The next turn of a conversation: more of a prompt behind an answer. */
enum weft_status weft_answer_continue(struct weft_answers *a, struct weft_answer *answer, const char *prompt,
                                      size_t bytes);
/* A new token; sets why the answer ends. */
enum weft_status weft_answer_add(struct weft_answers *a, struct weft_answer *answer, int32_t token, double logprob);
/* Prints what is new, in the order of the prompts. */
enum weft_status weft_answers_print(struct weft_answers *a);

#endif
