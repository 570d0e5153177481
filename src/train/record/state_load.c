/* SPDX-License-Identifier: MIT
 *
 * state_load.c - loads and inspects checkpoints; state.c describes their contents.
 *
 * A rank reads the parts that it owns and receives the other weights from their owners. Verifying a checkpoint means
 * loading it: each byte is read once, and the hashes cover everything that was read.
 */
#include "base/fields.h"
#include "base/opt.h"
#include "ckpt/ckpt.h"
#include "train/prune/prune.h"
#include "train/ranks/ranks.h"
#include "train/record/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 4096, NAME = 256 };

/* Maximum number of steps and of samples; training samples are below WEFT_HELD_OUT. */
static const int64_t MOST = 1000000000000;

/* ---- loading */

struct loading {
    struct weft_learner *t;
    struct weft_origin *origin;
    struct weft_binding *binding;
};

/* Reads a weight's complete part of an array and verifies its checksum. */
static enum weft_status read_whole(const struct weft_safetensors *f, const struct weft_param *w, const char *name,
                                   float *to)
{
    struct weft_tensor tensor = {.data = to, .dtype = WEFT_F32, .ndim = w->ndim};
    memcpy(tensor.dim, w->dim, sizeof w->dim);
    TRY(weft_safetensors_read(f, name, &tensor));
    return WEFT_OK;
}

static enum weft_status find_values(const struct weft_safetensors *f, const struct weft_param *w, const char *name,
                                    const char **values)
{
    const struct weft_entry *e = weft_safetensors_find(f, name);
    if (!e || e->foreign || e->dtype != WEFT_F32 || e->bytes != (size_t)w->count * sizeof(float))
        return FAIL(WEFT_FORMAT, "the file has no tensor %s of the expected size", name);
    *values = e->data;
    return WEFT_OK;
}

/* Reads every weight's part of an array, under its name with a prefix: the whole part or, with several ranks, the spans
 * that this rank owns, which are contiguous in a compact array. */
static enum weft_status read_array(const struct weft_safetensors *f, const struct weft_learner *t, float *array,
                                   bool compact, const char *prefix)
{
    const struct weft_params *p = &t->model->params;
    const struct weft_own *own = t->own, *end = own + t->own_count;
    for (int i = 0; i < p->count; i++) {
        const struct weft_param *w = &p->list[i];
        char name[NAME];
        const char *values = NULL;
        snprintf(name, sizeof name, "%s%s", prefix, w->name);
        if (t->comm->size == 1) {
            TRY(read_whole(f, w, name, array + w->offset));
            continue;
        }
        TRY(find_values(f, w, name, &values));
        for (; own < end && t->spans[own->span].first < w->offset + w->count; own++) {
            const struct weft_span *span = &t->spans[own->span];
            memcpy(array + (compact ? own->moment : span->first),
                   values + (size_t)(span->first - w->offset) * sizeof(float), (size_t)span->count * sizeof(float));
        }
    }
    return WEFT_OK;
}

static enum weft_status read_number(const struct weft_safetensors *f, const char *name, double *number)
{
    const char *text = weft_safetensors_metadata(f, name);
    char *end = NULL;
    *number = text ? strtod(text, &end) : 0;
    if (!text || end == text || *end)
        return FAIL(WEFT_FORMAT, "%s is missing, or is not a number", name);
    return WEFT_OK;
}

static enum weft_status read_count(const struct weft_safetensors *f, const char *name, int64_t *count)
{
    const char *text = weft_safetensors_metadata(f, name);
    if (!text || !weft_text_int(text, count) || *count < 0 || *count > MOST)
        return FAIL(WEFT_FORMAT, "%s is missing, or is not a number from 0 to %" PRId64, name, MOST);
    return WEFT_OK;
}

/* Older checkpoints have no origin. */
static void read_origin(const struct weft_safetensors *f, struct weft_origin *origin)
{
    for (int i = 0; i < WEFT_ORIGINS; i++) {
        const char *text = weft_safetensors_metadata(f, weft_origin_name(i));
        snprintf(origin->text[i], sizeof origin->text[i], "%s", text ? text : "");
    }
}

static enum weft_status read_binding(const struct weft_safetensors *f, const char *name, struct weft_binding *binding)
{
    if (!weft_binding_read(f, binding))
        return FAIL(WEFT_FORMAT, "%s lacks some of the hashes that bind it to the run", name);
    return WEFT_OK;
}

static enum weft_status compare_bindings(const struct weft_binding *model, const struct weft_binding *optimizer)
{
    const char *name = weft_binding_differs(model, optimizer);
    if (name)
        return FAIL(WEFT_FORMAT,
                    "model.safetensors and optimizer.safetensors belong to different checkpoints: %s differs", name);
    return WEFT_OK;
}

static enum weft_status read_optimizer(const struct loading *l, const struct weft_safetensors *f)
{
    struct weft_learner *t = l->t;
    int64_t step, samples, each = t->recipe->micro_batches * t->model->spec->batch;
    TRY(read_count(f, "step", &step));
    TRY(read_count(f, "samples", &samples));
    TRY(read_number(f, "loss", &t->loss));
    TRY(read_number(f, "seconds", &t->seconds));
    if (samples % each || samples / each != step) /* a product could overflow */
        return FAIL(WEFT_FORMAT, "%" PRId64 " samples were read by step %" PRId64 ": expected %" PRId64 " in each step",
                    samples, step, each);
    TRY(read_binding(f, "optimizer.safetensors", l->binding));
    t->step = step;
    memcpy(t->stream, l->binding->stream, sizeof t->stream);
    memcpy(t->loss_chain, l->binding->losses, sizeof t->loss_chain);
    read_origin(f, l->origin);
    TRY(read_array(f, t, t->moments[0], true, "moments.0."));
    TRY(read_array(f, t, t->moments[1], true, "moments.1."));
    return WEFT_OK;
}

static enum weft_status read_model(const struct loading *l, const struct weft_safetensors *f)
{
    struct weft_binding binding;
    TRY(read_binding(f, "model.safetensors", &binding));
    TRY(compare_bindings(&binding, l->binding));
    TRY(read_array(f, l->t, l->t->model->params.weights, false, ""));
    return WEFT_OK;
}

static enum weft_status load_file(const struct loading *l, const char *folder, const char *name,
                                  enum weft_status (*read)(const struct loading *, const struct weft_safetensors *))
{
    char path[ROOM + 32];
    struct weft_safetensors *f;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    TRY(weft_safetensors_open(&f, path));
    enum weft_status status = read(l, f);
    weft_safetensors_close(f);
    return status;
}

static enum weft_status read_masks(const struct loading *l, const char *folder)
{
    char path[ROOM + 32];
    snprintf(path, sizeof path, "%s/masks.safetensors", folder);
    if (l->t->mask)
        TRY(weft_masks_load(l->t, path));
    return WEFT_OK;
}

static enum weft_status read_files(const struct loading *l, const char *folder)
{
    TRY(load_file(l, folder, "optimizer.safetensors", read_optimizer));
    TRY(load_file(l, folder, "model.safetensors", read_model));
    TRY(read_masks(l, folder));
    TRY(weft_binding_check_texts(l->binding, folder));
    return WEFT_OK;
}

static enum weft_status check_hashes(const struct loading *l, const char *folder)
{
    TRY(weft_binding_check_weights(l->binding, &l->t->model->params, folder));
    TRY(weft_binding_check_moments(l->binding, l->t, folder));
    return WEFT_OK;
}

void (*weft_state_loaded)(struct weft_learner *t);

/* All ranks call it together. */
enum weft_status weft_state_load_from(struct weft_learner *t, const char *folder, struct weft_origin *origin,
                                      struct weft_binding *binding)
{
    const struct loading l = {t, origin, binding};
    t->comm->phase = "loading a checkpoint";
    TRY(weft_comm_join(t->comm, read_files(&l, folder)));
    TRY(weft_ranks_weights(t));
    TRY(weft_comm_join(t->comm, check_hashes(&l, folder)));
    if (weft_state_loaded)
        weft_state_loaded(t);
    return WEFT_OK;
}

enum weft_status weft_state_load_one(struct weft_learner *t, const char *checkpoint)
{
    struct weft_origin origin;
    struct weft_binding binding;
    TRY(weft_state_load_from(t, checkpoint, &origin, &binding));
    return WEFT_OK;
}

/* Rank 0 finds the newest valid checkpoint; the others load each one that it tries. "" ends the search. */
static enum weft_status share_folder(struct weft_comm *c, char *folder)
{
    if (c->size == 1)
        return WEFT_OK;
    char *all = calloc((size_t)c->size, ROOM);
    if (!all)
        return FAIL(WEFT_NOMEM, "not enough memory for a path");
    c->phase = "looking for a checkpoint";
    memcpy(all + (size_t)c->rank * ROOM, folder, strlen(folder));
    enum weft_status status = weft_comm_gather(c, all, ROOM);
    memcpy(folder, all, ROOM);
    free(all);
    return status;
}

static enum weft_status load(const char *folder, void *loading)
{
    const struct loading *l = loading;
    char name[ROOM];
    snprintf(name, sizeof name, "%s", folder);
    TRY(share_folder(l->t->comm, name));
    TRY(weft_state_load_from(l->t, folder, l->origin, l->binding));
    return WEFT_OK;
}

enum weft_status weft_state_load(struct weft_learner *t, const char *run, char *folder, struct weft_origin *origin,
                                 struct weft_binding *binding)
{
    struct loading loading = {t, origin, binding};
    int64_t any, good;
    char none[ROOM] = "";
    TRY(weft_ckpt_latest(run, NULL, NULL, &any, folder, ROOM));
    TRY(weft_ckpt_latest(run, load, &loading, &good, folder, ROOM));
    TRY(share_folder(t->comm, none));
    if (any >= 0 && good < 0)
        return FAIL(WEFT_FORMAT, "no checkpoint in %s can be used: start again in a different folder", run);
    if (good >= 0 && good != t->step)
        return FAIL(WEFT_FORMAT, "%s holds step %" PRId64 ", which is not the step in its name", folder, t->step);
    if (good < 0)
        *folder = 0;
    return WEFT_OK;
}

enum weft_status weft_state_follow(struct weft_learner *t)
{
    struct weft_origin origin;
    struct weft_binding binding;
    for (;;) {
        char folder[ROOM] = "";
        TRY(share_folder(t->comm, folder));
        if (!*folder)
            return WEFT_OK;
        if (weft_state_load_from(t, folder, &origin, &binding) != WEFT_OK)
            weft_error_clear(); /* rank 0 prints the error and tries the previous checkpoint */
    }
}

/* Sets *bound to false if there is no such file, or it has no binding. */
static enum weft_status find_binding(const char *folder, const char *name, struct weft_binding *binding, bool *bound)
{
    char path[ROOM + 32];
    struct weft_safetensors *f;
    *bound = false;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (access(path, F_OK))
        return WEFT_OK;
    TRY(weft_safetensors_open(&f, path));
    *bound = weft_binding_read(f, binding);
    weft_safetensors_close(f);
    return WEFT_OK;
}

enum weft_status weft_state_verify(const char *checkpoint, const struct weft_params *params)
{
    struct weft_binding binding, other;
    bool bound, both;
    TRY(find_binding(checkpoint, "model.safetensors", &binding, &bound));
    TRY(find_binding(checkpoint, "optimizer.safetensors", &other, &both));
    if (!bound)
        weft_note_once("binding", "%s has no hashes: its weights cannot be verified", checkpoint);
    if (both)
        TRY(compare_bindings(&binding, &other));
    if (!bound)
        return WEFT_OK;
    TRY(weft_binding_check_texts(&binding, checkpoint));
    TRY(weft_binding_check_weights(&binding, params, checkpoint));
    return WEFT_OK;
}

/* ---- finding checkpoints */

static enum weft_status verify_model(const char *folder, void *context)
{
    char path[ROOM + 32];
    (void)context;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    TRY(weft_safetensors_check(path));
    return WEFT_OK;
}

/* Reads step and hash from the metadata of the weights file; step -1: it has none. */
static enum weft_status read_found(const char *path, int64_t *step, char hash[65])
{
    struct weft_safetensors *f;
    TRY(weft_safetensors_open(&f, path));
    const char *found = weft_safetensors_metadata(f, "weights_sha256");
    if (!found || read_count(f, "step", step) != WEFT_OK)
        *step = -1;
    snprintf(hash, 65, "%s", found ? found : "");
    weft_safetensors_close(f);
    weft_error_clear();
    return WEFT_OK;
}

enum weft_status weft_state_origin(const char *checkpoint, struct weft_origin *origin)
{
    char path[ROOM + 32];
    struct weft_safetensors *f;
    *origin = (struct weft_origin){0};
    snprintf(path, sizeof path, "%s/optimizer.safetensors", checkpoint);
    if (access(path, F_OK))
        return WEFT_OK;
    TRY(weft_safetensors_open(&f, path));
    read_origin(f, origin);
    weft_safetensors_close(f);
    return WEFT_OK;
}

enum weft_status weft_state_find(const char *run, int64_t *step, char hash[65])
{
    char folder[ROOM], path[ROOM + 32];
    hash[0] = 0;
    snprintf(path, sizeof path, "%s/model.safetensors", run);
    if (access(path, F_OK) == 0) { /* the path is a checkpoint itself */
        TRY(weft_safetensors_check(path));
        return read_found(path, step, hash);
    }
    TRY(weft_ckpt_latest(run, verify_model, NULL, step, folder, sizeof folder));
    if (*step < 0)
        return WEFT_OK;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    return read_found(path, step, hash);
}
