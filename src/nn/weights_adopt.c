/* SPDX-License-Identifier: MIT
 *
 * weights_adopt.c - loads weights of a different model as initial weights: copies those that match by name and shape,
 * and keeps the initial values of weights that the file lacks. Also loads weights of the same model with a different
 * context, in which case none may be missing.
 *
 * A weight whose size depends on the context is extended or truncated: row p of learned positions becomes a copy of row
 * p mod n, where n is the number of rows in the file; distances beyond the last one in the file reuse its bias, as they
 * did in the file's model.
 */
#include "ckpt/ckpt.h"
#include "nn/net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct adopting {
    struct weft_params *params;
    const struct weft_safetensors *file;
    const char *path;
    weft_fit_fn *fn;
    void *context;
    char left[800]; /* names of the file's unmatched weights, with their shapes if these differ */
    int left_count, taken;
};

static bool is_same_shape(const struct weft_param *w, const struct weft_entry *e)
{
    return e->ndim == w->ndim && memcmp(e->dim, w->dim, (size_t)w->ndim * sizeof w->dim[0]) == 0;
}

static bool can_extend(const struct weft_param *w, const struct weft_entry *e)
{
    int kept = w->extend == WEFT_EXTEND_ROWS ? 1 : 0;
    return w->extend != WEFT_EXTEND_NOT && e->ndim == 2 && w->ndim == 2 && e->dim[kept] == w->dim[kept];
}

static enum weft_fit fit_of(const struct weft_param *w, const struct weft_entry *e)
{
    if (!e || e->foreign || !weft_dtype_is_float(e->dtype))
        return WEFT_FIT_NEW;
    return is_same_shape(w, e) ? WEFT_FIT_COPIED : can_extend(w, e) ? WEFT_FIT_EXTENDED : WEFT_FIT_NEW;
}

static enum weft_status read_entry(const struct adopting *a, const struct weft_entry *e, float *to)
{
    struct weft_tensor tensor = {to, WEFT_F32, e->ndim, {0}};
    memcpy(tensor.dim, e->dim, sizeof tensor.dim);
    TRY(weft_safetensors_read(a->file, e->name, &tensor));
    for (int64_t i = 0; i < weft_tensor_count(&tensor); i++)
        if (!isfinite(to[i]))
            return FAIL(WEFT_FORMAT, "%s cannot be used: the weight %s is not finite at element %lld", a->path, e->name,
                        (long long)i);
    return WEFT_OK;
}

static void extend(const struct weft_param *w, const struct weft_entry *e, const float *from, float *to)
{
    for (int64_t r = 0; r < w->dim[0]; r++)
        for (int64_t c = 0; c < w->dim[1]; c++)
            to[r * w->dim[1] + c] = w->extend == WEFT_EXTEND_ROWS ? from[r % e->dim[0] * e->dim[1] + c]
                                                                  : from[r * e->dim[1] + weft_min(c, e->dim[1] - 1)];
}

static enum weft_status take(struct adopting *a, const struct weft_param *w, const struct weft_entry *e,
                             enum weft_fit fit)
{
    float *to = a->params->weights + w->offset;
    if (fit == WEFT_FIT_COPIED)
        return read_entry(a, e, to);
    if (fit != WEFT_FIT_EXTENDED)
        return WEFT_OK;
    float *whole = malloc((size_t)(e->dim[0] * e->dim[1]) * sizeof *whole);
    enum weft_status status = whole ? read_entry(a, e, whole) : FAIL(WEFT_NOMEM, "not enough memory for %s", w->name);
    if (status == WEFT_OK)
        extend(w, e, whole, to);
    free(whole);
    return status;
}

static void report(const struct adopting *a, const char *name, enum weft_fit fit)
{
    if (a->fn && a->params->weights)
        a->fn(a->context, name, fit);
}

/* Adds a name to a list if there is room. */
static void add_name(char *list, size_t size, const char *name)
{
    size_t used = strlen(list);
    if (used + strlen(name) + 3 < size)
        snprintf(list + used, size - used, "%s%s", used ? ", " : "", name);
}

static void print_dims(char text[128], int ndim, const int64_t *dim)
{
    size_t used = (size_t)snprintf(text, 128, "[");
    for (int i = 0; i < ndim; i++)
        used += (size_t)snprintf(text + used, 128 - used, "%s%lld", i ? ", " : "", (long long)dim[i]);
    snprintf(text + used, 128 - used, "]");
}

/* Reports an unused weight in the file. w is the model's weight with the same name; NULL: none. */
static void leave_out(struct adopting *a, const struct weft_entry *e, const struct weft_param *w)
{
    char text[400], theirs[128], ours[128];
    a->left_count++;
    report(a, e->name, WEFT_FIT_LEFT);
    if (!w || is_same_shape(w, e)) {
        add_name(a->left, sizeof a->left, e->name);
        return;
    }
    print_dims(theirs, e->ndim, e->dim);
    print_dims(ours, w->ndim, w->dim);
    snprintf(text, sizeof text, "%.120s %s (the model's is %s)", e->name, theirs, ours);
    add_name(a->left, sizeof a->left, text);
}

/* Adopts the weights. Unmatched weights are found before any weight is changed. */
static enum weft_status adopt(struct adopting *a, bool leave)
{
    for (int i = 0; i < weft_safetensors_count(a->file); i++) {
        const struct weft_entry *e = weft_safetensors_at(a->file, i);
        int w = weft_params_find(a->params, e->name);
        if (w < 0 || fit_of(&a->params->list[w], e) == WEFT_FIT_NEW)
            leave_out(a, e, w < 0 ? NULL : &a->params->list[w]);
        else
            a->taken++;
    }
    if (!a->taken)
        return FAIL(WEFT_INVALID,
                    "%s has no weight that matches this model by name and shape: the weights are from a different kind "
                    "of model",
                    a->path);
    if (a->left_count && !leave)
        return FAIL(WEFT_INVALID,
                    "%d weights of %s match no weight of this model by name and shape: %s. Change the model, or set "
                    "init_leave=yes to ignore them",
                    a->left_count, a->path, a->left);
    for (int i = 0; a->params->weights && i < a->params->count; i++) {
        const struct weft_param *w = &a->params->list[i];
        const struct weft_entry *e = weft_safetensors_find(a->file, w->name);
        enum weft_fit fit = fit_of(w, e);
        report(a, w->name, fit);
        TRY(take(a, w, e, fit));
    }
    return WEFT_OK;
}

enum weft_status weft_nn_adopt(struct weft_nn *model, const char *path, bool leave, weft_fit_fn *fn, void *context)
{
    char file[4096];
    struct weft_safetensors *f = NULL;
    TRY(weft_nn_file(path, file, sizeof file));
    TRY(weft_safetensors_open(&f, file));
    struct adopting a = {.params = &model->params, .file = f, .path = file, .fn = fn, .context = context};
    enum weft_status status = adopt(&a, leave);
    weft_safetensors_close(f);
    TRY(status);
    TRY(weft_sha256_file(file, model->origin));
    return WEFT_OK;
}

/* ---- a model with a different context */

struct watch {
    weft_fit_fn *fn;
    void *context;
    char missing[400]; /* weights that the file lacks */
};

static void watch(void *context, const char *name, enum weft_fit fit)
{
    struct watch *w = context;
    if (fit == WEFT_FIT_NEW)
        add_name(w->missing, sizeof w->missing, name);
    if (w->fn)
        w->fn(w->context, name, fit);
}

static bool follows_context(const struct weft_params *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->list[i].extend != WEFT_EXTEND_NOT)
            return true;
    return false;
}

enum weft_status weft_nn_load_at(struct weft_nn *model, const char *path, weft_fit_fn *fn, void *context)
{
    struct watch w = {.fn = fn, .context = context};
    if (!follows_context(&model->params))
        return weft_nn_load(model, path);
    TRY(weft_nn_init(model));
    TRY(weft_nn_adopt(model, path, false, watch, &w));
    return w.missing[0] ? FAIL(WEFT_FORMAT, "%s lacks weights of the model: %s", path, w.missing) : WEFT_OK;
}
