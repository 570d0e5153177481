/* SPDX-License-Identifier: MIT
 *
 * 07 - trains a run as `weft train` does, with progress, cancels it half way from another thread, and resumes it.
 *
 *     07_train FOLDER
 */
#include <weft.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { STEPS = 20 };

struct watch {
    atomic_llong step;
    struct weft_cancel *cancel;
};

static void show(void *context, const struct weft_train_progress *now)
{
    struct watch *w = context;
    printf("step %2lld of %lld  loss %.4f\n", (long long)now->step, (long long)now->steps, now->loss);
    w->step = now->step;
}

static void *cancel_half_way(void *context)
{
    struct watch *w = context;
    while (w->step < STEPS / 2)
        usleep(1000);
    weft_cancel_set(w->cancel);
    return NULL;
}

int main(int count, char **words)
{
    struct watch w = {0, NULL};
    struct weft_config *config;
    struct weft_train_result result;
    pthread_t thread;
    if (count < 2 || weft_config_create(&config, "gpt2") || weft_config_set(config, "steps=20") ||
        weft_config_set(config, "eval_samples=16") || weft_cancel_create(&w.cancel))
        return fprintf(stderr, "usage: %s FOLDER\n%s\n", words[0], weft_error()), 2;
    struct weft_train_options o = {.folder = words[1], .cancel = w.cancel, .context = &w, .on_progress = show};
    pthread_create(&thread, NULL, cancel_half_way, &w);
    enum weft_status status = weft_train(config, &o, &result);
    pthread_join(thread, NULL);
    printf("%s\n", status == WEFT_STOPPED ? weft_error() : "it was not stopped");

    o.cancel = NULL;
    o.resume = true;
    status = weft_train(config, &o, &result);
    printf("%s\n", status == WEFT_OK ? result.weights_sha256 : weft_error());
    weft_cancel_free(w.cancel);
    weft_config_free(config);
    return status == WEFT_OK && result.finished ? 0 : 1;
}
