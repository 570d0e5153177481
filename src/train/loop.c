/* SPDX-License-Identifier: MIT
 *
 * loop.c - steps until done, telling how far it is, then the held-out score.
 */
#include "train/train.h"

enum weft_status weft_train(struct weft_trainer *t, weft_progress_fn *report, void *context, struct weft_score *score)
{
    struct weft_progress now = {.steps = t->recipe->steps};
    struct weft_losses losses;
    double start = weft_seconds();
    int64_t first = t->step, tokens = t->recipe->micro_batches * t->model->spec->batch * t->length;
    while (t->step < now.steps) {
        TRY(weft_trainer_step(t, &losses));
        now.loss = losses.list[0].value;
        now.step = t->step;
        now.seconds = weft_seconds() - start;
        now.tokens_per_s = (double)((now.step - first) * tokens) / now.seconds;
        now.seconds_left = now.seconds / (double)(now.step - first) * (double)(now.steps - now.step);
        report(context, &now);
    }
    TRY(weft_trainer_evaluate(t, score));
    return WEFT_OK;
}
