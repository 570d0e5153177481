/* SPDX-License-Identifier: MIT
 *
 * 06 - many sessions in threads: all read one model, each decodes with a session of its own, and all of them get the
 * same tokens, since results depend on nothing else.
 */
#include <weft.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 8, NEW = 16, VOCAB = 64 };

struct work {
    struct weft_session *session;
    struct weft_sampler *sampler;
    int32_t token[NEW + 1];
};

static void *decode(void *context)
{
    struct work *w = context;
    const float *logits;
    w->token[0] = 5;
    for (int i = 0; i < NEW; i++)
        if (weft_session_feed(w->session, &(struct weft_feed){0, &w->token[i], 1}, 1, &logits) ||
            weft_sampler_draw(w->sampler, logits, NULL, 0, 2026, (uint64_t)i, &w->token[i + 1], NULL))
            return fprintf(stderr, "%s\n", weft_error()), (void *)1;
    return NULL;
}

int main(void)
{
    const struct weft_session_size size = {.sequences = 1};
    const struct weft_sampling sampling = {.temperature = 1, .top_k = 20};
    struct weft_config *config;
    struct weft_model *model;
    struct work w[THREADS];
    pthread_t thread[THREADS];
    int same = 0;
    if (weft_config_create(&config, "gpt2") || weft_config_set(config, "vocab=64") ||
        weft_model_create(&model, config, 1) || weft_model_init(model))
        return fprintf(stderr, "%s\n", weft_error()), 1;
    for (int i = 0; i < THREADS; i++)
        if (weft_session_create(&w[i].session, model, &size) || weft_sampler_create(&w[i].sampler, &sampling, VOCAB) ||
            pthread_create(&thread[i], NULL, decode, &w[i]))
            return fprintf(stderr, "%s\n", weft_error()), 1;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        same += memcmp(w[i].token, w[0].token, sizeof w[0].token) == 0;
        weft_sampler_free(w[i].sampler);
        weft_session_free(w[i].session);
    }
    printf("%d of %d threads decoded the same %d tokens\n", same, THREADS, NEW);
    weft_model_free(model);
    weft_config_free(config);
    return same == THREADS ? 0 : 1;
}
