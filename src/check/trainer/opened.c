/* SPDX-License-Identifier: MIT
 *
 * opened.c - checks that saved weights have the same bits when they are opened in each of the ways that the commands
 * and the C API offer: from a checkpoint, a run or a file, as initial weights, and at a different context.
 *
 * By definition, a weight of the same shape has the saved values. If its shape depends on the context, row p has the
 * values of the saved row p mod (number of rows), or column c those of the saved column min(c, the last). When saved
 * weights are used as initial weights, those that the file does not contain are randomly initialised.
 */
#include "check/trainer/stepped.h"
#include "ckpt/ckpt.h"
#include "train/record/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 400 };

struct saved {
    const struct weft_rehearsal *s;
    const struct weft_params *params;
    const float *values; /* values in the file */
    char run[ROOM], checkpoint[ROOM], file[ROOM], narrow[ROOM];
};

/* ---- the ways */

static enum weft_status open_checkpoint(const struct saved *saved, struct weft_nn *model)
{
    return weft_weights_open(model, saved->checkpoint);
}

static enum weft_status open_over(const struct saved *saved, struct weft_nn *model)
{
    TRY(weft_params_alloc(&model->params));
    TRY(weft_weights_open(model, saved->run));
    return WEFT_OK;
}

static enum weft_status open_file(const struct saved *saved, struct weft_nn *model)
{
    return weft_weights_open(model, saved->file);
}

static enum weft_status open_narrow(const struct saved *saved, struct weft_nn *model)
{
    return weft_weights_open(model, saved->narrow);
}

static enum weft_status begin_with(const struct saved *saved, struct weft_nn *model, const char *path)
{
    struct weft_recipe recipe = saved->s->recipe;
    recipe.init = path;
    recipe.init_leave = true;
    return weft_recipe_weights(&recipe, model, NULL, NULL);
}

static enum weft_status begin_with_run(const struct saved *saved, struct weft_nn *model)
{
    return begin_with(saved, model, saved->run);
}

static enum weft_status begin_with_narrow(const struct saved *saved, struct weft_nn *model)
{
    return begin_with(saved, model, saved->narrow);
}

static enum weft_status open_at(const struct saved *saved, struct weft_nn *model)
{
    return weft_nn_load_at(model, saved->checkpoint, NULL, NULL);
}

static const struct way {
    const char *name;
    enum weft_status (*open)(const struct saved *saved, struct weft_nn *model);
    int64_t vocab, context; /* added to the sizes of the saved model; context may be negative */
    bool narrow;            /* read the file in bf16 */
} ways[] = {
    {"opened from a checkpoint", open_checkpoint},
    {"opened from a run, over others", open_over},
    {"opened from a file", open_file},
    {"opened from a file in bf16", open_narrow, .narrow = true},
    {"opened at a longer context", open_at, .context = 9},
    {"opened at a shorter context", open_at, .context = -1},
    {"taken as initial weights", begin_with_run},
    {"taken as initial weights from a file in bf16", begin_with_narrow, .narrow = true},
    {"taken as initial weights of a larger vocabulary", begin_with_run, .vocab = 3},
};

/* ---- the expected values */

struct expected {
    const struct saved *saved;
    const struct weft_nn *drawn; /* model with initial weights; NULL: all weights must be in the file */
};

static bool is_same_shape(const struct weft_param *a, const struct weft_param *b)
{
    return a->ndim == b->ndim && memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) == 0;
}

/* Writes the values that a weight of the model must have. */
static void expect(const struct expected *e, const struct weft_param *w, float *to)
{
    const struct weft_params *p = e->saved->params;
    int found = weft_params_find(p, w->name);
    const struct weft_param *from = found < 0 ? NULL : &p->list[found];
    const float *values = from ? e->saved->values + from->offset : NULL;
    if (from && is_same_shape(from, w)) {
        memcpy(to, values, (size_t)w->count * sizeof *to);
    } else if (!from || w->extend == WEFT_EXTEND_NOT) {
        for (int64_t i = 0; i < w->count; i++)
            to[i] = e->drawn ? e->drawn->params.weights[w->offset + i] : NAN;
    } else {
        int64_t rows = from->dim[0], columns = from->dim[1];
        for (int64_t r = 0; r < w->dim[0]; r++)
            for (int64_t c = 0; c < w->dim[1]; c++)
                *to++ = w->extend == WEFT_EXTEND_ROWS ? values[r % rows * columns + c]
                                                      : values[r * columns + weft_min(c, columns - 1)];
    }
}

struct difference {
    int64_t count, element; /* number of elements that differ; the first of them */
    const char *name;       /* weight of the first one */
};

static void compare(const struct weft_param *w, const float *got, const float *want, struct difference *d)
{
    for (int64_t i = 0; i < w->count; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0 && d->count++ == 0) {
            d->name = w->name;
            d->element = i;
        }
}

static enum weft_status compare_all(const struct weft_trial *t, const struct expected *e, const struct weft_nn *model,
                                    const struct way *way)
{
    const struct weft_params *p = &model->params;
    struct difference d = {.name = ""};
    char name[160];
    float *want = calloc((size_t)p->total, sizeof *want);
    if (!want)
        return FAIL(WEFT_NOMEM, "not enough memory to check weights");
    for (int i = 0; i < p->count; i++) {
        expect(e, &p->list[i], want);
        compare(&p->list[i], p->weights + p->list[i].offset, want, &d);
    }
    free(want);
    snprintf(name, sizeof name, "weights that differ from the saved ones when they are %s%s", way->name,
             p->file ? " (mapped)" : "");
    weft_trial_report(t, d.count == 0, (double)d.count, 0, name, "first in %s, element %" PRId64, d.name, d.element);
    return WEFT_OK;
}

/* ---- each way */

static enum weft_status vary(const struct saved *saved, const struct way *way, struct weft_spec *spec)
{
    const struct weft_spec *own = &saved->s->spec;
    char settings[80];
    snprintf(settings, sizeof settings, "vocab=%" PRId64 " context=%" PRId64, own->vocab + way->vocab,
             weft_max(2, own->context + way->context));
    return weft_spec_vary(spec, own, settings);
}

static enum weft_status open_and_compare(const struct weft_trial *t, const struct saved *saved, const struct way *way,
                                         const struct weft_spec *spec)
{
    struct weft_nn *model = NULL, *drawn = NULL;
    enum weft_status status = weft_nn_create(&model, spec);
    if (status == WEFT_OK && way->vocab)
        status = weft_nn_create(&drawn, spec);
    if (status == WEFT_OK && way->vocab)
        status = weft_nn_init(drawn);
    if (status == WEFT_OK)
        status = way->open(saved, model);
    if (status == WEFT_OK)
        status = compare_all(t, &(struct expected){saved, drawn}, model, way);
    weft_nn_free(model);
    weft_nn_free(drawn);
    return status;
}

static enum weft_status try_way(const struct weft_trial *t, const struct saved *saved, const struct way *way)
{
    struct weft_spec spec;
    TRY(vary(saved, way, &spec));
    enum weft_status status = open_and_compare(t, saved, way, &spec);
    weft_spec_release(&spec);
    return weft_trial_refused(t, status, way->name);
}

/* ---- a bf16 file, as other programs write them */

static enum weft_status write_narrow(const struct saved *saved, const uint16_t *narrow)
{
    const struct weft_params *p = saved->params;
    struct weft_entry *entries = calloc((size_t)p->count, sizeof *entries);
    if (!entries)
        return FAIL(WEFT_NOMEM, "not enough memory for a list of weights");
    for (int i = 0; i < p->count; i++) {
        const struct weft_param *w = &p->list[i];
        entries[i] = (struct weft_entry){.name = w->name, .dtype = WEFT_BF16, .ndim = w->ndim};
        entries[i].data = narrow + w->offset;
        memcpy(entries[i].dim, w->dim, sizeof w->dim);
    }
    enum weft_status status = weft_safetensors_write(saved->narrow, entries, p->count, NULL);
    free(entries);
    return status;
}

/* Rounds all weights to bf16, writes them, and widens them again. */
static enum weft_status save_narrow(const struct saved *saved, uint16_t *narrow, float *wide)
{
    int64_t n = saved->params->total;
    weft_convert(narrow, WEFT_BF16, saved->values, WEFT_F32, n);
    weft_convert(wide, WEFT_F32, narrow, WEFT_BF16, n);
    return write_narrow(saved, narrow);
}

static enum weft_status try_all(const struct weft_trial *t, const struct saved *saved, const float *rounded)
{
    struct saved narrow = *saved;
    narrow.values = rounded;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        TRY(try_way(t, ways[i].narrow ? &narrow : saved, &ways[i]));
    return WEFT_OK;
}

enum weft_status weft_check_opened(const struct weft_trial *t, const struct weft_rehearsal *s, const char *run,
                                   const char *checkpoint)
{
    const struct weft_params *p = &s->model.params;
    struct saved saved = {.s = s, .params = p, .values = p->weights};
    snprintf(saved.run, ROOM, "%s", run);
    snprintf(saved.checkpoint, ROOM, "%s", checkpoint);
    snprintf(saved.file, ROOM, "%s/model.safetensors", checkpoint);
    snprintf(saved.narrow, ROOM, "%s/narrow.safetensors", run);
    uint16_t *narrow = calloc((size_t)p->total, sizeof *narrow);
    float *rounded = calloc((size_t)p->total, sizeof *rounded);
    enum weft_status status = narrow && rounded ? save_narrow(&saved, narrow, rounded)
                                                : FAIL(WEFT_NOMEM, "not enough memory to check weights");
    if (status == WEFT_OK)
        status = try_all(t, &saved, rounded);
    free(narrow);
    free(rounded);
    return status;
}
