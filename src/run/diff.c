/* SPDX-License-Identifier: MIT
 *
 * diff.c - compares the logs of two runs, then repeats both side by side.
 */
#include "run/diff.h"
#include "ckpt/ckpt.h"
#include "train/record/record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 4096 };

/* ---- records */

/* Returns the length of the prefix that identifies a record: its text up to the end of the key after the step. */
static size_t kind_length(const char *text)
{
    const char *key = strstr(text, ", \"");
    const char *end = key ? strchr(key + 3, '"') : NULL;
    return end ? (size_t)(end - text) : strlen(text);
}

static const struct weft_expected_record *find(const struct weft_expected_record *list, const char *text, int64_t step)
{
    size_t kind = kind_length(text);
    while (list && (list->step < step || (list->step == step && strncmp(list->text, text, kind) != 0)))
        list = list->next;
    return list && list->step == step ? list : NULL;
}

/* Ignores records that only one log has, because the runs may have been logged at different steps, and the head, which
 * contains the hash of the config. */
static void compare_records(struct weft_diff *d, const struct weft_expected_record *a,
                            const struct weft_expected_record *b)
{
    d->record = -1;
    for (; a && d->record < 0; a = a->next) {
        const struct weft_expected_record *other = find(b, a->text, a->step);
        if (a->step == 0 || a->kind != WEFT_RECORD_STEP || !other || strcmp(a->text, other->text) == 0)
            continue;
        d->record = a->step;
        snprintf(d->text[0], sizeof d->text[0], "%s}", a->text);
        snprintf(d->text[1], sizeof d->text[1], "%s}", other->text);
    }
}

static bool has_checkpoint(const struct weft_diff_side *side, int64_t step, char path[ROOM])
{
    snprintf(path, ROOM, "%s/step-%09" PRId64, side->folder, step);
    return access(path, F_OK) == 0;
}

/* Finds the last checkpoint of both runs with identical records, which contain the hashes of its contents. */
static void find_common(struct weft_diff *d, const struct weft_expected_record *a, const struct weft_expected_record *b)
{
    char path[ROOM];
    for (; a && (d->record < 0 || a->step < d->record); a = a->next) {
        const struct weft_expected_record *other =
            strstr(a->text, "optimizer_sha256") ? find(b, a->text, a->step) : NULL;
        if (other && strcmp(a->text, other->text) == 0 && has_checkpoint(&d->side[0], a->step, path) &&
            has_checkpoint(&d->side[1], a->step, path))
            d->common = a->step;
    }
}

static enum weft_status read_logs(struct weft_diff *d)
{
    struct weft_record record[2] = {{0}};
    enum weft_status status = weft_record_read(&record[0], d->side[0].folder);
    if (status == WEFT_OK)
        status = weft_record_read(&record[1], d->side[1].folder);
    if (status == WEFT_OK) {
        compare_records(d, record[0].expected, record[1].expected);
        find_common(d, record[0].expected, record[1].expected);
    }
    weft_record_close(&record[0]);
    weft_record_close(&record[1]);
    return status;
}

/* ---- tensors */

static bool differ(struct weft_diff *d, const char *what, const struct weft_params *p, const float *a, const float *b)
{
    for (int i = 0; i < p->count; i++)
        for (int64_t e = p->list[i].offset; e < p->list[i].offset + p->list[i].count; e++)
            if (memcmp(&a[e], &b[e], sizeof *a) != 0) {
                d->what = what;
                snprintf(d->tensor, sizeof d->tensor, "%s", p->list[i].name);
                d->element = e - p->list[i].offset;
                d->value[0] = a[e];
                d->value[1] = b[e];
                return true;
            }
    return false;
}

static bool gradients_differ(struct weft_diff *d, const struct weft_learner *a, const struct weft_learner *b)
{
    double x = a->sums[0].losses.list[0].value, y = b->sums[0].losses.list[0].value;
    d->value[0] = x;
    d->value[1] = y;
    if (strcmp(a->next_stream, b->next_stream) != 0)
        d->what = "samples";
    else if (memcmp(&x, &y, sizeof x) != 0)
        d->what = "loss";
    else
        return differ(d, "gradient", &a->model->params, a->sums[0].grads, b->sums[0].grads);
    return true;
}

static bool states_differ(struct weft_diff *d, const char *weights, const char *moments, const struct weft_learner *a,
                          const struct weft_learner *b)
{
    const struct weft_params *p = &a->model->params;
    return differ(d, weights, p, a->model->params.weights, b->model->params.weights) ||
           differ(d, moments, p, a->moments[0], b->moments[0]) || differ(d, moments, p, a->moments[1], b->moments[1]);
}

/* ---- retraining */

struct twins {
    struct weft_nn *model[3];
    struct weft_learner *t[3]; /* A, B, and one for stored checkpoints */
};

static enum weft_status open_one(struct twins *w, int i, const struct weft_diff_side *side, int64_t common)
{
    char path[ROOM];
    TRY(weft_recipe_open(side->recipe, side->spec));
    TRY(weft_nn_create(&w->model[i], side->spec));
    TRY(weft_recipe_weights(side->recipe, w->model[i], NULL, NULL));
    TRY(weft_learner_create(&w->t[i], w->model[i], side->recipe, NULL));
    if (common && has_checkpoint(side, common, path))
        TRY(weft_state_load_one(w->t[i], path));
    return WEFT_OK;
}

static enum weft_status check_alike(const struct weft_params *a, const struct weft_params *b)
{
    bool same = a->count == b->count && a->total == b->total;
    for (int i = 0; same && i < a->count; i++)
        same = strcmp(a->list[i].name, b->list[i].name) == 0 && a->list[i].count == b->list[i].count;
    if (!same)
        return FAIL(WEFT_INVALID, "the models of the runs have different weights: use `weft compare` instead");
    return WEFT_OK;
}

/* Compares a checkpoint of this step, if there is one, with retraining. */
static enum weft_status compare_stored(struct weft_diff *d, struct twins *w, int i, bool *found)
{
    static const char *const weights[] = {"weights in the checkpoint of A", "weights in the checkpoint of B"};
    static const char *const moments[] = {"moments in the checkpoint of A", "moments in the checkpoint of B"};
    char path[ROOM];
    *found = false;
    if (!has_checkpoint(&d->side[i], w->t[i]->step, path))
        return WEFT_OK;
    TRY(weft_state_load_one(w->t[2], path));
    *found = states_differ(d, weights[i], moments[i], w->t[2], w->t[i]);
    return WEFT_OK;
}

static enum weft_status take_step(struct weft_diff *d, struct twins *w, bool *found)
{
    TRY(weft_learner_gradient(w->t[0]));
    TRY(weft_learner_gradient(w->t[1]));
    *found = gradients_differ(d, w->t[0], w->t[1]);
    if (*found && strcmp(d->what, "samples") != 0)
        weft_learner_find_difference(w->t[0], w->t[1], d->op, sizeof d->op, d->op_value);
    TRY(weft_learner_update(w->t[0]));
    TRY(weft_learner_update(w->t[1]));
    *found = *found || states_differ(d, "weights", "moments", w->t[0], w->t[1]);
    for (int i = 0; i < 2 && !*found; i++)
        TRY(compare_stored(d, w, i, found));
    return WEFT_OK;
}

static enum weft_status walk(struct weft_diff *d, struct twins *w)
{
    int64_t last = weft_min(d->side[0].recipe->steps, d->side[1].recipe->steps);
    bool found = states_differ(d, "weights", "moments", w->t[0], w->t[1]);
    last = d->record > 0 ? weft_min(last, d->record) : last;
    while (!found && w->t[0]->step < last) {
        TRY(take_step(d, w, &found));
        if (d->on_step)
            d->on_step(d->context, w->t[0]->step, last);
    }
    d->step = found ? w->t[0]->step : -1;
    return WEFT_OK;
}

static enum weft_status walk_both(struct weft_diff *d, struct twins *w)
{
    TRY(open_one(w, 0, &d->side[0], d->common));
    TRY(open_one(w, 1, &d->side[1], d->common));
    TRY(check_alike(&w->model[0]->params, &w->model[1]->params));
    TRY(open_one(w, 2, &d->side[0], 0));
    TRY(walk(d, w));
    return WEFT_OK;
}

enum weft_status weft_diff_run(struct weft_diff *d)
{
    struct twins w = {{0}, {0}};
    TRY(read_logs(d));
    enum weft_status status = walk_both(d, &w);
    for (int i = 0; i < 3; i++) {
        weft_learner_free(w.t[i]);
        weft_nn_free(w.model[i]);
    }
    return status;
}
