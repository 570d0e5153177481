/* SPDX-License-Identifier: MIT
 *
 * targets_text.c - samples of text by its definition: a window of the data and, as targets, the tokens that follow.
 *
 * The data are read again, by the order in which windows are visited: training takes the train files, a new order each
 * epoch; validation and test one order of the val files, of which they take the first and the second half, or the test
 * files where there are any. Files that were moved since cannot be read again: then only what a window shows of itself
 * is checked.
 */
#include "check/stepped.h"
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

enum split { TRAIN, VAL, TEST, SPLITS };

struct files {
    struct weft_shards *split[SPLITS]; /* NULL: there are none, or they cannot be read */
    int32_t *window;
};

static const char *folder_of(const struct weft_drawn *d)
{
    const struct weft_owner *owner = &d->recipe->task->owner;
    for (int i = 0; i < owner->count; i++)
        if (strcmp(owner->options[i].name, "data") == 0)
            return *(const char *const *)(const void *)((const char *)d->recipe->task_options +
                                                        owner->options[i].offset);
    return "";
}

static enum weft_status open_files(const struct weft_drawn *d, void **context)
{
    static const char *const names[] = {"train", "val", "test"};
    struct files *files = *context = calloc(1, sizeof *files);
    if (!files || !(files->window = calloc((size_t)d->length + 1, sizeof *files->window)))
        return FAIL(WEFT_NOMEM, "not enough memory for samples");
    for (int i = 0; i < SPLITS; i++)
        if (weft_shards_exist(folder_of(d), names[i]) &&
            weft_shards_open(&files->split[i], folder_of(d), names[i]) != WEFT_OK) {
            files->split[i] = NULL;
            weft_error_clear();
        }
    return WEFT_OK;
}

static void close_files(void *context)
{
    struct files *files = context;
    for (int i = 0; files && i < SPLITS; i++)
        weft_shards_close(files->split[i]);
    free(files ? files->window : NULL);
    free(files);
}

/* The window that a sample is, and of which files. */
static uint64_t window_of(const struct weft_drawn *d, const struct files *files, const struct weft_shards **from)
{
    bool held_out = d->index >= WEFT_HELD_OUT, test = d->index >= WEFT_TEST, own = files->split[TEST];
    *from = files->split[!held_out ? TRAIN : test && own ? TEST : VAL];
    uint64_t n = *from ? (uint64_t)weft_shards_windows(*from, d->length) : 0;
    if (n == 0)
        return 0;
    if (!held_out)
        return weft_order_sample(n, (uint64_t)d->spec->seed, d->index);
    uint64_t first_half = n - n / 2, i = d->index - (test ? WEFT_TEST : WEFT_HELD_OUT);
    return weft_order(n, weft_key_name(0, "held out"), test && !own ? first_half + i : i);
}

static const char *wrong_text(const struct weft_drawn *d, void *context)
{
    const struct files *files = context;
    const struct weft_shards *from;
    for (int64_t i = 0; i + 1 < d->length; i++)
        if (d->targets[i] != d->tokens[i + 1])
            return "a target is not the next token";
    int64_t first = (int64_t)window_of(d, files, &from) * d->length;
    if (!from)
        return NULL;
    if (weft_shards_read(from, first, d->length + 1, files->window) != WEFT_OK) {
        weft_error_clear();
        return "its window cannot be read";
    }
    if (memcmp(files->window, d->tokens, (size_t)d->length * sizeof *d->tokens) != 0)
        return "the tokens are not those of its window";
    return d->targets[d->length - 1] == files->window[d->length] ? NULL
                                                                 : "the last target is not the token that follows";
}

/* The order that is taken for granted above; and that validation and test share their windows out. */
static enum weft_status check_windows(const struct weft_trial *t, const struct weft_drawn *d, void *context)
{
    const struct files *files = context;
    int64_t windows[SPLITS] = {0};
    for (int i = 0; i < SPLITS; i++)
        windows[i] = files->split[i] ? weft_shards_windows(files->split[i], d->length) : 0;
    int64_t val = weft_recipe_held_out(d->recipe, WEFT_HELD_OUT, INT64_MAX),
            test = weft_recipe_held_out(d->recipe, WEFT_TEST, INT64_MAX);
    if (windows[VAL] > 0)
        weft_trial_report(t, val + test == windows[VAL] + windows[TEST], (double)(val + test),
                          (double)(windows[VAL] + windows[TEST]), "windows of validation and test together",
                          "%lld and %lld", (long long)val, (long long)test);
    TRY(weft_check_order(t, (uint64_t)d->spec->seed, windows, SPLITS));
    return WEFT_OK;
}

const struct weft_definition weft_definition_text = {
    .task = "text", .open = open_files, .close = close_files, .wrong = wrong_text, .further = check_windows};
