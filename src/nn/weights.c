/* SPDX-License-Identifier: MIT
 *
 * weights.c - reads and writes a model's weights as model.safetensors, under the weights' own names; writes f32, and
 * also reads narrower floats.
 */
#include "ckpt/ckpt.h"
#include "nn/net.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_NAME "model.safetensors"
enum { ROOM = 4096 };

/* ---- saving */

enum weft_status weft_nn_save(const struct weft_nn *model, const char *path)
{
    const struct weft_params *p = &model->params;
    struct weft_entry *entries = calloc((size_t)p->count, sizeof *entries);
    if (!entries)
        return FAIL(WEFT_NOMEM, "not enough memory for a list of %d weights", p->count);
    for (int i = 0; i < p->count; i++) {
        const struct weft_param *w = &p->list[i];
        entries[i] =
            (struct weft_entry){.name = w->name, .dtype = WEFT_F32, .ndim = w->ndim, .data = p->weights + w->offset};
        memcpy(entries[i].dim, w->dim, sizeof w->dim);
    }
    enum weft_status status = weft_safetensors_write(path, entries, p->count, NULL);
    free(entries);
    return status;
}

/* ---- finding */

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static enum weft_status join(char *path, size_t room, const char *folder)
{
    int n = snprintf(path, room, "%s/" FILE_NAME, folder);
    return n >= 0 && (size_t)n < room ? WEFT_OK : FAIL(WEFT_INVALID, "the path %.64s... is too long", folder);
}

static enum weft_status verify(const char *folder, void *context)
{
    char path[ROOM];
    (void)context;
    TRY(join(path, sizeof path, folder));
    TRY(weft_safetensors_check(path));
    return WEFT_OK;
}

enum weft_status weft_nn_folder(const char *path, char *folder, size_t room)
{
    char file[ROOM];
    struct stat st;
    int64_t step;
    TRY(join(file, sizeof file, path));
    if (stat(file, &st) == 0) {
        if (strlen(path) >= room)
            return FAIL(WEFT_INVALID, "the path %.64s... is too long", path);
        strcpy(folder, path);
        return WEFT_OK;
    }
    if (!is_folder(path))
        return FAIL(WEFT_INVALID,
                    "%s is not a folder with weights: expected the folder of a run (weft train --out) or of a "
                    "checkpoint, with " FILE_NAME,
                    path);
    TRY(weft_ckpt_latest(path, verify, NULL, &step, folder, room));
    if (step < 0)
        return FAIL(WEFT_INVALID, "%s has neither " FILE_NAME " nor a valid checkpoint step-N: train the run first",
                    path);
    return WEFT_OK;
}

enum weft_status weft_nn_file(const char *path, char *file, size_t room)
{
    char folder[ROOM];
    struct stat st;
    if (stat(path, &st))
        return FAIL(WEFT_IO, "%s is neither a folder nor a file with weights: %s", path, strerror(errno));
    bool is_file = !S_ISDIR(st.st_mode);
    if (is_file && strlen(path) >= room)
        return FAIL(WEFT_INVALID, "the path %.64s... is too long", path);
    if (is_file) {
        strcpy(file, path);
        return WEFT_OK;
    }
    TRY(weft_nn_folder(path, folder, sizeof folder));
    TRY(join(file, room, folder));
    return WEFT_OK;
}

/* ---- loading */

/* A message that lists as many of the mismatched weights as fit. */
struct mismatches {
    int count;
    size_t used;
    char text[1200];
};

static void mismatch(struct mismatches *m, const char *name, const char *what)
{
    size_t room = sizeof m->text - m->used;
    int n = snprintf(m->text + m->used, room, "%s%s %s", m->count ? "; " : "", name, what);
    m->count++;
    if (n >= 0 && (size_t)n < room)
        m->used += (size_t)n;
    else
        m->text[m->used] = 0;
}

static void print_shape(char *text, size_t room, int ndim, const int64_t *dim)
{
    size_t used = 0;
    for (int i = 0; i < ndim && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%lld", i ? "x" : "", (long long)dim[i]);
}

static void compare(struct mismatches *m, const struct weft_param *w, const struct weft_entry *e)
{
    char have[96] = "1", want[96] = "1", what[256];
    if (!e) {
        mismatch(m, w->name, "is missing");
    } else if (e->ndim != w->ndim || memcmp(e->dim, w->dim, (size_t)w->ndim * sizeof w->dim[0])) {
        print_shape(have, sizeof have, e->ndim, e->dim);
        print_shape(want, sizeof want, w->ndim, w->dim);
        snprintf(what, sizeof what, "is %s, not %s", have, want);
        mismatch(m, w->name, what);
    } else if (e->foreign || !weft_dtype_is_float(e->dtype)) {
        snprintf(what, sizeof what, "is %s, which is not a float type that can be read",
                 e->foreign ? e->foreign : weft_dtype_name(e->dtype));
        mismatch(m, w->name, what);
    }
}

static enum weft_status check_fit(const struct weft_params *p, const struct weft_safetensors *f, const char *path)
{
    struct mismatches m = {0};
    for (int i = 0; i < p->count; i++)
        compare(&m, &p->list[i], weft_safetensors_find(f, p->list[i].name));
    for (int i = 0; i < weft_safetensors_count(f); i++) {
        const char *name = weft_safetensors_at(f, i)->name;
        if (weft_params_find(p, name) < 0)
            mismatch(&m, name, "is not a weight of the model");
    }
    if (m.count)
        return FAIL(WEFT_FORMAT, "%s does not match the model in %d of its weights: %s", path, m.count, m.text);
    return WEFT_OK;
}

static enum weft_status check_finite(const struct weft_param *w, const float *values, const char *path)
{
    for (int64_t i = 0; i < w->count; i++)
        if (!isfinite(values[i]))
            return FAIL(WEFT_FORMAT, "%s cannot be used: the weight %s is not finite at element %lld", path, w->name,
                        (long long)i);
    return WEFT_OK;
}

static enum weft_status read_all(struct weft_params *p, const struct weft_safetensors *f, const char *path)
{
    TRY(weft_params_alloc(p));
    for (int i = 0; i < p->count; i++) {
        const struct weft_param *w = &p->list[i];
        struct weft_tensor to = {p->weights + w->offset, WEFT_F32, w->ndim, {0}};
        memcpy(to.dim, w->dim, sizeof to.dim);
        TRY(weft_safetensors_read(f, w->name, &to));
        TRY(check_finite(w, to.data, path));
    }
    return WEFT_OK;
}

/* Returns the start of the weights in the file if their layout matches memory, as in most files that weft_nn_save
 * wrote; else NULL. */
static const float *find_alike(const struct weft_params *p, const struct weft_safetensors *f)
{
    const float *start = weft_safetensors_find(f, p->list[0].name)->data;
    bool alike = (uintptr_t)start % WEFT_PARAM_ALIGN == 0 && p->elements == p->total;
    for (int i = 0; alike && i < p->count; i++) {
        const struct weft_entry *e = weft_safetensors_find(f, p->list[i].name);
        alike = e->dtype == WEFT_F32 && e->data == start + p->list[i].offset;
    }
    return alike ? start : NULL;
}

static enum weft_status check_all(const struct weft_params *p, const struct weft_safetensors *f, const char *path)
{
    for (int i = 0; i < p->count; i++) {
        const struct weft_entry *e = weft_safetensors_find(f, p->list[i].name);
        TRY(weft_safetensors_verify(f, e));
        TRY(check_finite(&p->list[i], e->data, path));
    }
    return WEFT_OK;
}

/* Maps the weights from the file if possible. If the weights are already in memory, where other code may point to them,
 * overwrites them instead. */
static enum weft_status load(struct weft_params *p, struct weft_safetensors *f, const char *path)
{
    TRY(check_fit(p, f, path));
    const float *start = p->weights ? NULL : find_alike(p, f);
    if (!start)
        return read_all(p, f, path);
    TRY(check_all(p, f, path));
    p->file = f;
    p->weights = (float *)(uintptr_t)start;
    return WEFT_OK;
}

enum weft_status weft_nn_load(struct weft_nn *model, const char *path)
{
    char file[ROOM];
    struct weft_safetensors *f = NULL;
    TRY(weft_nn_file(path, file, sizeof file));
    TRY(weft_safetensors_open(&f, file));
    enum weft_status status = load(&model->params, f, file);
    if (model->params.file != f)
        weft_safetensors_close(f);
    return status;
}
