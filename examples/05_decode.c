/* SPDX-License-Identifier: MIT
 *
 * 05 - decodes with a session: a prompt is read once, then each new token costs one pass.
 *
 *     05_decode FOLDER TOKEN...      FOLDER: a run, a checkpoint or a model
 */
#include <weft.h>

#include <stdio.h>
#include <stdlib.h>

#define TRY(call)                                                                                                      \
    if ((call) != WEFT_OK)                                                                                             \
    return fprintf(stderr, "%s\n", weft_error()), 1

enum { MOST = 256, NEW = 8 };

int main(int count, char **words)
{
    struct weft_model *model;
    struct weft_model_info info;
    struct weft_session *session;
    struct weft_sampler *sampler;
    const struct weft_sampling greedy = {.temperature = 0};
    int32_t tokens[MOST];
    const float *logits;
    if (count < 3 || count - 2 > MOST)
        return fprintf(stderr, "usage: %s FOLDER TOKEN...\n", words[0]), 2;
    for (int i = 2; i < count; i++)
        tokens[i - 2] = atoi(words[i]);

    TRY(weft_model_open(&model, words[1], 0));
    TRY(weft_model_describe(model, &info));
    TRY(weft_session_create(&session, model, &(struct weft_session_size){.sequences = 1}));
    TRY(weft_sampler_create(&sampler, &greedy, info.vocab));

    TRY(weft_session_feed(session, &(struct weft_feed){0, tokens, count - 2}, 1, &logits));
    for (int i = 0; i < NEW && weft_session_length(session, 0) < info.context; i++) {
        int32_t token;
        double logprob;
        TRY(weft_sampler_draw(sampler, logits, NULL, 0, 1, (uint64_t)i, &token, &logprob));
        printf("%d (log probability %.3f)\n", (int)token, logprob);
        TRY(weft_session_feed(session, &(struct weft_feed){0, &token, 1}, 1, &logits));
    }
    weft_sampler_free(sampler);
    weft_session_free(session);
    weft_model_free(model);
    return 0;
}
