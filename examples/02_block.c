/* SPDX-License-Identifier: MIT
 *
 * 02 - one block with Wasserstein-2 attention, applied to activations of your own.
 */
#include <weft.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define TRY(call)                                                                                                      \
    if ((call) != WEFT_OK)                                                                                             \
    return fprintf(stderr, "%s\n", weft_error()), 1

enum { SEQUENCES = 2, LENGTH = 64, WIDTH = 512, COUNT = SEQUENCES * LENGTH * WIDTH };

int main(void)
{
    const char *settings[] = {"width=512", "heads=8", "context=2048", "layers=1", "dtype=f32"};
    struct weft_config *config;
    struct weft_model *model;
    struct weft_forward *block;
    TRY(weft_config_create(&config, "w2"));
    for (int i = 0; i < 5; i++)
        TRY(weft_config_set(config, settings[i]));
    TRY(weft_model_create(&model, config, 0));
    TRY(weft_model_init(model));
    TRY(weft_forward_create_blocks(&block, model, SEQUENCES, LENGTH, 0, 1));

    float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)sin(i);
    TRY(weft_forward_activations(block, SEQUENCES, LENGTH, x, y));
    double change = 0;
    for (int i = 0; i < COUNT; i++)
        change += (y[i] - x[i]) * (y[i] - x[i]);
    printf("[%d, %d, %d] -> [%d, %d, %d], rms of what the block adds: %.4f\n", SEQUENCES, LENGTH, WIDTH, SEQUENCES,
           LENGTH, WIDTH, sqrt(change / COUNT));

    free(x);
    free(y);
    weft_forward_free(block);
    weft_model_free(model);
    weft_config_free(config);
    return 0;
}
