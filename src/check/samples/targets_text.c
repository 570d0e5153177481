/* SPDX-License-Identifier: MIT
 *
 * targets_text.c - the definition of text: a sample is a window of the data, its targets are the tokens that follow.
 *
 * A plain reader reads the data again in the order of the windows. Training reads the train files in a new order each
 * epoch. Validation and test take the first and the second half of one order of the val files; if there are test files,
 * the test uses them instead. The windows at the boundaries of files are looked up in these orders. Files that have
 * been moved cannot be read again; then only the window itself is checked.
 */
#include "check/samples/samples.h"
#include "text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum split { TRAIN, VAL, TEST, SPLITS };
static const char *const names[] = {"train", "val", "test"};

struct files {
    struct weft_token_files *split[SPLITS]; /* NULL: no files, or they cannot be read */
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
    struct files *files = *context = calloc(1, sizeof *files);
    if (!files || !(files->window = calloc((size_t)d->length + 1, sizeof *files->window)))
        return FAIL(WEFT_NOMEM, "not enough memory for samples");
    for (int i = 0; i < SPLITS; i++)
        if (weft_token_files_open(&files->split[i], folder_of(d), names[i]) != WEFT_OK ||
            weft_token_files_count(files->split[i]) == 0) {
            weft_token_files_close(files->split[i]);
            files->split[i] = NULL;
            weft_error_clear();
        }
    return WEFT_OK;
}

static void close_files(void *context)
{
    struct files *files = context;
    for (int i = 0; files && i < SPLITS; i++)
        weft_token_files_close(files->split[i]);
    free(files ? files->window : NULL);
    free(files);
}

/* Returns the number of windows in a split. A window has one token more than the sample. */
static int64_t count_windows(const struct files *files, enum split split, int64_t length)
{
    int64_t tokens = files->split[split] ? weft_token_files_tokens(files->split[split]) : 0;
    return tokens > 0 ? (tokens - 1) / length : 0;
}

static uint64_t held_out_key(void) { return weft_key_name(0, "held out"); }

/* Returns the first place in the order of val that belongs to the test split. */
static uint64_t second_half(uint64_t windows) { return windows - windows / 2; }

/* Returns the window that a sample reads and sets *from to its split; SPLITS: unknown. */
static uint64_t window_of(const struct weft_drawn *d, const struct files *files, enum split *from)
{
    bool held_out = d->index >= WEFT_HELD_OUT, test = d->index >= WEFT_TEST, own = files->split[TEST];
    *from = !held_out ? TRAIN : test && own ? TEST : VAL;
    uint64_t n = (uint64_t)count_windows(files, *from, d->length);
    if (n == 0) {
        *from = SPLITS;
        return 0;
    }
    if (!held_out)
        return weft_order_sample(n, (uint64_t)d->spec->seed, d->index);
    uint64_t i = d->index - (test ? WEFT_TEST : WEFT_HELD_OUT) + (test && !own ? second_half(n) : 0);
    return i < n ? weft_order(n, held_out_key(), i) : n; /* the files end before window n does */
}

/* Returns a sample that reads this window. */
static uint64_t sample_of(const struct weft_drawn *d, const struct files *files, enum split split, int64_t window)
{
    uint64_t n = (uint64_t)count_windows(files, split, d->length);
    if (split == TRAIN)
        return weft_order_first(n, (uint64_t)d->spec->seed, (uint64_t)window);
    uint64_t place = weft_order_place(n, held_out_key(), (uint64_t)window);
    if (split == TEST)
        return WEFT_TEST + place;
    return files->split[TEST] || place < second_half(n) ? WEFT_HELD_OUT + place : WEFT_TEST + place - second_half(n);
}

static const char *wrong_text(const struct weft_drawn *d, void *context)
{
    const struct files *files = context;
    enum split from;
    for (int64_t i = 0; i + 1 < d->length; i++)
        if (d->targets[i] != d->tokens[i + 1])
            return "a target is not the next token";
    int64_t first = (int64_t)window_of(d, files, &from) * d->length;
    if (from == SPLITS)
        return NULL;
    if (!weft_token_files_read(files->split[from], first, d->length + 1, files->window)) {
        weft_error_clear();
        return "the window of the sample cannot be read";
    }
    if (memcmp(files->window, d->tokens, (size_t)d->length * sizeof *d->tokens) != 0)
        return "the tokens differ from the window in the files";
    return d->targets[d->length - 1] == files->window[d->length] ? NULL
                                                                 : "the last target is not the token after the window";
}

/* ---- boundaries of files */

enum { BOUNDARIES_KEY = 99 };
#define SHARE 0.01 /* fraction of the time limit for each split */
#define MOST_SECONDS 0.3

struct around {
    struct weft_drawn drawn;
    struct files *files;
    enum split split;
    int64_t windows, defects, defect_at;
    const char *defect;
};

/* Returns whether the task has the sample. */
static bool exists(const struct weft_drawn *d)
{
    uint64_t first = d->index >= WEFT_TEST ? WEFT_TEST : d->index >= WEFT_HELD_OUT ? WEFT_HELD_OUT : 0;
    return first == 0 || (int64_t)(d->index - first) < weft_recipe_held_out(d->recipe, first, INT64_MAX);
}

static const char *wrong_window(const struct around *a, int64_t window)
{
    const struct weft_drawn *d = &a->drawn;
    enum split from;
    if ((int64_t)window_of(d, a->files, &from) != window || from != a->split || !exists(d))
        return "no sample reads this window";
    d->recipe->task->sample(d->spec, d->recipe->task_options, d->index, d->tokens, d->targets);
    return wrong_text(d, a->files);
}

static void look_at(struct around *a, int64_t window)
{
    a->drawn.index = sample_of(&a->drawn, a->files, a->split, window);
    const char *wrong = wrong_window(a, window);
    if (wrong && a->defects++ == 0) {
        a->defect = wrong;
        a->defect_at = window;
    }
}

/* Checks the windows that contain the last token of a file or the first of the next one, and their neighbours. */
static void look_around(struct around *a, int64_t boundary)
{
    int64_t token = weft_token_files_begin(a->files->split[a->split], boundary), length = a->drawn.length;
    int64_t first = weft_max(0, (token - 1) / length - 1), last = weft_min(a->windows - 1, token / length + 1);
    for (int64_t w = first; w <= last; w++)
        look_at(a, w);
}

/* Checks the last boundary and those around powers of two. Returns the number of checked boundaries. */
static int64_t look_at_some(struct around *a, int64_t boundaries)
{
    int64_t looked = 1, next = 1;
    look_around(a, boundaries);
    for (int64_t power = 1; power < boundaries; power *= 2)
        for (next = weft_max(next, power - 1); next <= power + 1 && next < boundaries; next++, looked++)
            look_around(a, next);
    return looked;
}

/* Checks all boundaries (boundary i is where file i begins), or a random one in each of several pieces. Returns the
 * number of checked boundaries. */
static int64_t look_at_boundaries(const struct weft_trial *t, struct around *a, int64_t boundaries)
{
    if (boundaries == 0)
        return 0;
    double start = weft_seconds();
    int64_t some = look_at_some(a, boundaries);
    int64_t pieces =
        weft_itself_fits(t->itself, SHARE, MOST_SECONDS, (weft_seconds() - start) / (double)some, boundaries);
    if (pieces <= some || some == boundaries)
        return some;
    int64_t begin = 1;
    for (int64_t i = 0; i < pieces; i++) {
        int64_t count = boundaries / pieces + (i < boundaries % pieces);
        look_around(a, begin + (int64_t)weft_below(BOUNDARIES_KEY, (uint64_t)i, (uint64_t)count));
        begin += count;
    }
    return weft_max(some, pieces);
}

static void check_split(const struct weft_trial *t, struct around *a)
{
    char name[160];
    a->windows = count_windows(a->files, a->split, a->drawn.length);
    if (a->windows == 0)
        return;
    int64_t boundaries = weft_token_files_count(a->files->split[a->split]) - 1;
    int64_t looked = look_at_boundaries(t, a, boundaries);
    look_at(a, 0);
    look_at(a, a->windows - 1);
    snprintf(name, sizeof name, "windows of %s unlike the files, at %lld of %lld boundaries and both ends",
             names[a->split], (long long)looked, (long long)boundaries);
    weft_trial_report(t, a->defects == 0, (double)a->defects, 0, name, "window %lld of %lld: %s",
                      (long long)a->defect_at, (long long)a->windows, a->defect);
}

static enum weft_status check_boundaries(const struct weft_trial *t, const struct weft_drawn *d, struct files *files)
{
    int32_t *sample = calloc((size_t)d->length, 2 * sizeof *sample);
    if (!sample)
        return FAIL(WEFT_NOMEM, "not enough memory for samples");
    for (enum split split = TRAIN; split < SPLITS; split++) {
        struct around a = {.drawn = *d, .files = files, .split = split, .defect = ""};
        a.drawn.tokens = sample;
        a.drawn.targets = sample + d->length;
        check_split(t, &a);
    }
    free(sample);
    return WEFT_OK;
}

/* ---- further checks */

static void check_shared(const struct weft_trial *t, const struct files *files)
{
    const char *path = "";
    int64_t shared = 0;
    for (int i = 0; i < SPLITS; i++)
        for (int k = 0; k < i; k++)
            if (files->split[i] && files->split[k])
                shared += weft_token_files_shared(files->split[i], files->split[k], &path);
    weft_trial_report(t, shared == 0, (double)shared, 0, "token files that two of train, val and test share", "%s",
                      path);
}

/* Checks that validation has the larger half of val's windows, or all of them if there are test files. */
static void check_held_out(const struct weft_trial *t, const struct weft_drawn *d, const struct files *files)
{
    int64_t of_val = count_windows(files, VAL, d->length), of_test = count_windows(files, TEST, d->length);
    int64_t val = weft_recipe_held_out(d->recipe, WEFT_HELD_OUT, INT64_MAX),
            test = weft_recipe_held_out(d->recipe, WEFT_TEST, INT64_MAX);
    int64_t plain_val = files->split[TEST] ? of_val : (int64_t)second_half((uint64_t)of_val);
    int64_t plain_test = files->split[TEST] ? of_test : of_val / 2;
    if (of_val > 0)
        weft_trial_report(t, val == plain_val && test == plain_test, (double)(val + test),
                          (double)(plain_val + plain_test), "windows of validation and test together",
                          "%lld and %lld, expected %lld and %lld", (long long)val, (long long)test,
                          (long long)plain_val, (long long)plain_test);
}

/* Checks the windows with a plain reader, their division between splits, and the order that other checks rely on. */
static enum weft_status check_windows(const struct weft_trial *t, const struct weft_drawn *d, void *context)
{
    struct files *files = context;
    int64_t windows[SPLITS];
    for (enum split i = TRAIN; i < SPLITS; i++)
        windows[i] = count_windows(files, i, d->length);
    check_held_out(t, d, files);
    check_shared(t, files);
    TRY(check_boundaries(t, d, files));
    TRY(weft_check_order(t, (uint64_t)d->spec->seed, windows, SPLITS));
    return WEFT_OK;
}

const struct weft_definition weft_definition_text = {
    .task = "text", .open = open_files, .close = close_files, .wrong = wrong_text, .further = check_windows};
