/* SPDX-License-Identifier: MIT
 *
 * 04 - a training loop of your own, on tokens that you make: each token is the one before plus 3. A checkpoint is
 * saved.
 *
 *     04_training_loop FOLDER
 */
#include <weft.h>

#include <stdio.h>

#define TRY(call)                                                                                                      \
    if ((call) != WEFT_OK)                                                                                             \
    return fprintf(stderr, "%s\n", weft_error()), 1

enum { BATCH = 8, LENGTH = 16, VOCAB = 32, STEPS = 120 };

static void fill(int step, int32_t tokens[BATCH][LENGTH], int32_t targets[BATCH][LENGTH])
{
    for (int b = 0; b < BATCH; b++)
        for (int t = 0; t < LENGTH; t++) {
            tokens[b][t] = (7 * step + 5 * b + 3 * t) % VOCAB;
            targets[b][t] = (tokens[b][t] + 3) % VOCAB;
        }
}

int main(int count, char **words)
{
    const char *settings[] = {"vocab=32", "batch=8", "context=16", "recall_length=8", "steps=120", "warmup=10"};
    int32_t tokens[BATCH][LENGTH], targets[BATCH][LENGTH];
    struct weft_config *config;
    struct weft_model *model;
    struct weft_trainer *trainer;
    struct weft_loss_terms losses;
    TRY(weft_config_create(&config, "llama"));
    for (int i = 0; i < 6; i++)
        TRY(weft_config_set(config, settings[i]));
    TRY(weft_model_create(&model, config, 0));
    TRY(weft_model_init(model));
    TRY(weft_trainer_create(&trainer, model, LENGTH));
    for (int step = 0; step < STEPS; step++) {
        fill(step, tokens, targets);
        TRY(weft_trainer_gradient(trainer, BATCH, tokens[0], targets[0], &losses));
        TRY(weft_trainer_update(trainer)); /* the gradient may be looked at, or changed, in between */
        if (step % 20 == 0 || step == STEPS - 1)
            printf("step %3d  loss %.4f\n", step + 1, losses.term[0].value);
    }
    if (count > 1)
        TRY(weft_trainer_save(trainer, words[1]));
    weft_trainer_free(trainer);
    weft_model_free(model);
    weft_config_free(config);
    return losses.term[0].value < 0.5 ? 0 : 1;
}
