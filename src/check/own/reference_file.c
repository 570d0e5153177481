/* SPDX-License-Identifier: MIT
 *
 * reference_file.c - writes the inputs of a reference as safetensors, and reads the results computed from them.
 */
#include "check/own/reference.h"
#include "ckpt/ckpt.h"

#include <math.h>
#include <string.h>

enum { SEQUENCES = 2, LENGTH = 12, NAME = 256 };

struct weft_net_size weft_reference_size(const struct weft_nn *model)
{
    return (struct weft_net_size){.sequences = SEQUENCES, .length = weft_min(LENGTH, model->spec->context)};
}

/* ---- inputs */

/* The options of the copy, written as metadata. */
struct options {
    struct weft_arena *arena;
    const char *list[2 * WEFT_MAX_SETTINGS + 1];
    int count;
};

static void add_option(void *context, const struct weft_opt *opt, const char *value)
{
    struct options *o = context;
    if (o->count + 2 > 2 * WEFT_MAX_SETTINGS)
        return;
    o->list[o->count++] = opt->name;
    o->list[o->count++] = weft_arena_print(o->arena, "%s", value);
}

static struct weft_entry of_tokens(const char *name, const struct weft_probe *p, const struct weft_value *v)
{
    struct weft_net_size size = weft_reference_size(p->model);
    return (struct weft_entry){.name = name,
                               .dtype = WEFT_I32,
                               .ndim = 2,
                               .dim = {size.sequences, size.length},
                               .data = weft_exec_tensor(p->exec, v)->data};
}

static enum weft_status write_entries(const struct weft_probe *p, const char *path, struct weft_arena *arena)
{
    const struct weft_params *params = &p->model->params;
    struct weft_entry *entries = weft_arena_alloc(arena, (size_t)(params->count + 2) * sizeof *entries);
    struct options options = {.arena = arena};
    if (!entries)
        return FAIL(WEFT_NOMEM, "not enough memory for a list of %d weights", params->count);
    for (int i = 0; i < params->count; i++) {
        const struct weft_param *w = &params->list[i];
        entries[i] = (struct weft_entry){
            .name = w->name, .dtype = WEFT_F32, .ndim = w->ndim, .data = params->weights + w->offset};
        memcpy(entries[i].dim, w->dim, sizeof w->dim);
    }
    entries[params->count] = of_tokens("tokens", p, p->net.tokens);
    entries[params->count + 1] = of_tokens("targets", p, p->net.targets);
    weft_spec_each(p->model->spec, &options, add_option);
    return weft_safetensors_write(path, entries, params->count + 2, options.list);
}

enum weft_status weft_reference_write(const struct weft_probe *p, const char *path)
{
    struct weft_arena arena = {0};
    enum weft_status status = write_entries(p, path, &arena);
    weft_arena_release(&arena);
    return status;
}

/* ---- reading the reference */

static void print_shape(char text[96], int ndim, const int64_t *dim)
{
    size_t used = (size_t)snprintf(text, 96, "[");
    for (int i = 0; i < ndim && used < 80; i++)
        used += (size_t)snprintf(text + used, 96 - used, "%s%lld", i ? ", " : "", (long long)dim[i]);
    snprintf(text + used, 96 - used, "]");
}

/* Leading dimensions may be split or merged if width and order are the same: [2, 12, 17] fits [24, 17]. */
static bool fits(const struct weft_entry *e, const struct weft_tensor *to)
{
    int64_t count = 1;
    for (int i = 0; i < e->ndim; i++)
        count *= e->dim[i];
    int64_t last = e->ndim ? e->dim[e->ndim - 1] : 1;
    return count == weft_tensor_count(to) && last == weft_tensor_width(to);
}

static enum weft_status check_finite(const char *path, const char *name, const struct weft_tensor *t)
{
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        if (!isfinite(weft_tensor_get(t, i)))
            return FAIL(WEFT_FORMAT,
                        "%s: %s is not finite at element %lld: correct the program that wrote it; a common cause is a "
                        "softmax that does not subtract the maximum",
                        path, name, (long long)i);
    return WEFT_OK;
}

static enum weft_status read_one(const struct weft_safetensors *f, const char *path, const char *name, const char *what,
                                 struct weft_arena *arena, struct weft_tensor *to)
{
    char have[96], want[96];
    const struct weft_entry *e = weft_safetensors_find(f, name);
    print_shape(want, to->ndim, to->dim);
    if (!e)
        return FAIL(WEFT_FORMAT, "%s has no tensor %s: write %s under this name, with shape %s", path, name, what,
                    want);
    if (e->foreign || !weft_dtype_is_float(e->dtype))
        return FAIL(WEFT_FORMAT, "%s: %s has type %s: write it as F64 or F32", path, name,
                    e->foreign ? e->foreign : weft_dtype_name(e->dtype));
    if (!fits(e, to)) {
        print_shape(have, e->ndim, e->dim);
        return FAIL(WEFT_FORMAT, "%s: %s has shape %s, expected %s: write %s", path, name, have, want, what);
    }
    to->dtype = WEFT_F64;
    to->ndim = e->ndim;
    memcpy(to->dim, e->dim, sizeof e->dim);
    to->data = weft_arena_alloc(arena, (size_t)weft_tensor_count(to) * sizeof(double));
    if (!to->data)
        return FAIL(WEFT_NOMEM, "not enough memory for %s", name);
    TRY(weft_safetensors_read(f, name, to));
    return check_finite(path, name, to);
}

static enum weft_status refuse_others(const struct weft_safetensors *f, const char *path, const struct weft_params *p)
{
    for (int i = 0; i < weft_safetensors_count(f); i++) {
        const char *name = weft_safetensors_at(f, i)->name;
        bool weight = strncmp(name, "grad.", 5) == 0 && weft_params_find(p, name + 5) >= 0;
        if (!weight && strcmp(name, "logits") != 0 && strcmp(name, "loss") != 0)
            return FAIL(WEFT_FORMAT,
                        "%s has an unknown tensor %s: write only logits, loss and grad.NAME for every weight NAME "
                        "of the file that --reference-inputs wrote with the same settings",
                        path, name);
    }
    return WEFT_OK;
}

static enum weft_status read_all(struct weft_reference *w, const struct weft_safetensors *f, const char *path,
                                 const struct weft_nn *model)
{
    const struct weft_params *p = &model->params;
    struct weft_net_size size = weft_reference_size(model);
    char name[NAME];
    TRY(refuse_others(f, path, p));
    w->grad = weft_arena_alloc(&w->arena, (size_t)p->count * sizeof *w->grad);
    if (!w->grad)
        return FAIL(WEFT_NOMEM, "not enough memory for a list of %d weights", p->count);
    w->logits = (struct weft_tensor){.ndim = 3, .dim = {size.sequences, size.length, model->spec->vocab}};
    w->loss = (struct weft_tensor){.ndim = 1, .dim = {1}};
    TRY(read_one(f, path, "logits", "the logits of every token", &w->arena, &w->logits));
    TRY(read_one(f, path, "loss", "the loss that is minimised", &w->arena, &w->loss));
    for (int i = 0; i < p->count; i++) {
        w->grad[i] = (struct weft_tensor){.ndim = p->list[i].ndim};
        memcpy(w->grad[i].dim, p->list[i].dim, sizeof w->grad[i].dim);
        snprintf(name, sizeof name, "grad.%s", p->list[i].name);
        TRY(read_one(f, path, name, "the gradient of the loss with respect to this weight", &w->arena, &w->grad[i]));
    }
    return WEFT_OK;
}

enum weft_status weft_reference_read(struct weft_reference *r, const struct weft_nn *model, const char *path)
{
    struct weft_safetensors *f;
    TRY(weft_safetensors_open(&f, path));
    enum weft_status status = read_all(r, f, path, model);
    weft_safetensors_close(f);
    return status;
}
