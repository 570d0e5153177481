/* SPDX-License-Identifier: MIT
 *
 * 03 - a model of four WsFFN layers: the terms of its loss in training, and its logits in inference, which omits them.
 */
#include <weft.h>

#include <stdio.h>
#include <stdlib.h>

#define TRY(call)                                                                                                      \
    if ((call) != WEFT_OK)                                                                                             \
    return fprintf(stderr, "%s\n", weft_error()), 1

int main(void)
{
    struct weft_config *config;
    struct weft_model *model;
    struct weft_model_info info;
    struct weft_trainer *trainer;
    struct weft_loss_terms losses;
    struct weft_forward *forward;
    TRY(weft_config_create(&config, "ws"));
    TRY(weft_config_set(config, "width=64"));
    TRY(weft_config_set(config, "heads=4"));
    TRY(weft_model_create(&model, config, 0));
    TRY(weft_model_init(model));
    TRY(weft_model_describe(model, &info));
    printf("%lld layers, %lld weights\n", (long long)info.layers, (long long)info.params);

    TRY(weft_trainer_create(&trainer, model, 0)); /* on the samples of its task, recall */
    for (int step = 0; step < 3; step++)
        TRY(weft_trainer_step(trainer, 0, NULL, NULL, &losses));
    for (int i = 0; i < losses.count; i++)
        printf("%-8s %.6f\n", losses.term[i].name, losses.term[i].value);
    weft_trainer_free(trainer);

    const int32_t tokens[4] = {1, 2, 3, 4};
    float *logits = malloc(4 * (size_t)info.vocab * sizeof *logits);
    TRY(weft_forward_create(&forward, model, 1, 4));
    TRY(weft_forward_tokens(forward, 1, 4, tokens, logits));
    printf("logits of token 0 after each of four tokens:");
    for (int t = 0; t < 4; t++)
        printf(" %.3f", logits[t * info.vocab]);
    puts("");

    free(logits);
    weft_forward_free(forward);
    weft_model_free(model);
    weft_config_free(config);
    return 0;
}
