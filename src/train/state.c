/* SPDX-License-Identifier: MIT
 *
 * state.c - checkpoints, from which a run is resumed: RUN/step-STEP with
 *
 *     config.json            every option, as the run had it
 *     model.safetensors      the weights; metadata: the binding (binding.c)
 *     optimizer.safetensors  the moments; metadata: the binding, samples (the next to read), loss, seconds, the origin
 *     tokenizer.json         if the task's data have one
 *
 * Nothing else carries over from step to step: samples, masks and learning rates are functions of the step.
 */
#include "base/fields.h"
#include "base/opt.h"
#include "ckpt/ckpt.h"
#include "train/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 4096, NAME = 256, NUMBER = 40 };

static const int64_t MOST = 1000000000000; /* of steps and of samples; training's are below WEFT_HELD_OUT */

static int64_t step_samples(const struct weft_learner *t) { return t->recipe->micro_batches * t->model->spec->batch; }

static int64_t next_sample(const struct weft_learner *t) { return t->step * step_samples(t); }

/* ---- saving */

/* Every weight's part of a flat array, under its name behind a prefix. */
static enum weft_status add_array(const struct weft_params *p, const float *array, const char *prefix,
                                  struct weft_arena *names, struct weft_entry *to)
{
    for (int i = 0; i < p->count; i++) {
        const struct weft_param *w = &p->list[i];
        to[i] = (struct weft_entry){.name = weft_arena_print(names, "%s%s", prefix, w->name),
                                    .dtype = WEFT_F32,
                                    .ndim = w->ndim,
                                    .data = array + w->offset};
        memcpy(to[i].dim, w->dim, sizeof w->dim);
        if (!to[i].name)
            return FAIL(WEFT_NOMEM, "not enough memory for the names of tensors");
    }
    return WEFT_OK;
}

static enum weft_status save_model(const struct weft_learner *t, const char *path, const struct weft_binding *binding,
                                   struct weft_arena *arena)
{
    const struct weft_params *p = &t->model->params;
    struct weft_entry *entries = weft_arena_alloc(arena, (size_t)p->count * sizeof *entries);
    const char *metadata[2 * WEFT_BINDING_FIELDS + 1] = {0};
    if (!entries)
        return FAIL(WEFT_NOMEM, "not enough memory for a checkpoint's list of tensors");
    weft_binding_metadata(binding, metadata);
    TRY(add_array(p, p->weights, "", arena, entries));
    TRY(weft_safetensors_write(path, entries, p->count, metadata));
    return WEFT_OK;
}

static enum weft_status save_optimizer(const struct weft_learner *t, const char *path, const struct weft_origin *origin,
                                       const struct weft_binding *binding, struct weft_arena *arena)
{
    const struct weft_params *p = &t->model->params;
    struct weft_entry *entries = weft_arena_alloc(arena, 2 * (size_t)p->count * sizeof *entries);
    char samples[NUMBER], loss[NUMBER], seconds[NUMBER];
    if (!entries)
        return FAIL(WEFT_NOMEM, "not enough memory for a checkpoint's list of tensors");
    snprintf(samples, sizeof samples, "%" PRId64, next_sample(t));
    snprintf(loss, sizeof loss, "%.17g", t->loss);
    snprintf(seconds, sizeof seconds, "%.3f", t->seconds);
    TRY(add_array(p, t->moments[0], "moments.0.", arena, entries));
    TRY(add_array(p, t->moments[1], "moments.1.", arena, entries + p->count));
    enum { OWN = 6 };
    const char *metadata[OWN + 2 * (WEFT_ORIGINS + WEFT_BINDING_FIELDS) + 1] = {"samples", samples,   "loss",
                                                                                loss,      "seconds", seconds};
    for (int i = 0; i < WEFT_ORIGINS; i++) {
        metadata[OWN + 2 * i] = weft_origin_name(i);
        metadata[OWN + 2 * i + 1] = origin->text[i];
    }
    weft_binding_metadata(binding, metadata + OWN + 2 * WEFT_ORIGINS);
    TRY(weft_safetensors_write(path, entries, 2 * p->count, metadata));
    return WEFT_OK;
}

/* What a checkpoint is made of, besides the trainer's state. */
struct saving {
    const char *config, *tokenizer; /* their texts; tokenizer: NULL: there is none */
    size_t tokenizer_bytes;
    const struct weft_origin *origin;
    struct weft_binding binding;
};

static void begin_saving(struct saving *s, const struct weft_learner *t, const char *config,
                         const struct weft_origin *origin)
{
    const struct weft_task *task = t->recipe->task;
    *s = (struct saving){.config = config, .origin = origin};
    if (task->tokenizer)
        s->tokenizer = task->tokenizer(t->recipe->task_options, &s->tokenizer_bytes);
    weft_binding_make(&s->binding, t, config, s->tokenizer, s->tokenizer_bytes);
}

static enum weft_status save_files(const struct weft_learner *t, const char *folder, const struct saving *s,
                                   struct weft_arena *arena)
{
    char path[ROOM + 32];
    snprintf(path, sizeof path, "%s/config.json", folder);
    TRY(weft_file_replace(path, s->config, strlen(s->config)));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    TRY(save_model(t, path, &s->binding, arena));
    snprintf(path, sizeof path, "%s/optimizer.safetensors", folder);
    TRY(save_optimizer(t, path, s->origin, &s->binding, arena));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (s->tokenizer)
        TRY(weft_file_replace(path, s->tokenizer, s->tokenizer_bytes));
    return WEFT_OK;
}

static enum weft_status save_checkpoint(const struct weft_learner *t, const char *run, const struct saving *s)
{
    char folder[ROOM];
    struct weft_arena arena = {0};
    TRY(weft_ckpt_begin(run, t->step, folder, sizeof folder));
    enum weft_status status = save_files(t, folder, s, &arena);
    weft_arena_release(&arena);
    TRY(status);
    TRY(weft_ckpt_commit(run, t->step, (int)t->recipe->keep));
    return WEFT_OK;
}

/* The log comes to disk before the checkpoint, which is of no use without its record. */
static enum weft_status record_checkpoint(const struct weft_learner *t, struct weft_record *record,
                                          struct weft_binding *binding, bool due)
{
    TRY(weft_log_checkpoint(record, t, binding, due));
    if (fsync(fileno(record->log)) || fsync(fileno(record->events)))
        return FAIL(WEFT_IO, "the log in %s could not be brought to disk: %s", record->folder, strerror(errno));
    return WEFT_OK;
}

enum weft_status weft_state_save(const struct weft_learner *t, struct weft_record *record, bool due)
{
    struct saving s;
    begin_saving(&s, t, record->config, &record->origin);
    TRY(record_checkpoint(t, record, &s.binding, due));
    if (record->replays)
        return WEFT_OK;
    TRY(save_checkpoint(t, record->folder, &s));
    return WEFT_OK;
}

enum weft_status weft_state_save_alone(const struct weft_learner *t, const char *run, const char *config)
{
    struct saving s;
    struct weft_origin origin;
    TRY(weft_origin_find(&origin, t->recipe, 0));
    begin_saving(&s, t, config, &origin);
    memset(s.binding.chain, '0', sizeof s.binding.chain - 1);
    TRY(save_checkpoint(t, run, &s));
    return WEFT_OK;
}

/* ---- loading */

struct loading {
    struct weft_learner *t;
    struct weft_origin *origin;
    struct weft_binding *binding;
};

static enum weft_status read_array(const struct weft_safetensors *f, const struct weft_params *p, float *array,
                                   const char *prefix)
{
    for (int i = 0; i < p->count; i++) {
        const struct weft_param *w = &p->list[i];
        char name[NAME];
        struct weft_tensor to = {.data = array + w->offset, .dtype = WEFT_F32, .ndim = w->ndim};
        memcpy(to.dim, w->dim, sizeof w->dim);
        snprintf(name, sizeof name, "%s%s", prefix, w->name);
        TRY(weft_safetensors_read(f, name, &to));
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

/* Checkpoints of before it was kept have none. */
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
        return FAIL(WEFT_FORMAT, "%s has not all of the hashes that bind it to the run", name);
    return WEFT_OK;
}

static enum weft_status compare_bindings(const struct weft_binding *model, const struct weft_binding *optimizer)
{
    const char *name = weft_binding_differs(model, optimizer);
    if (name)
        return FAIL(WEFT_FORMAT, "model.safetensors and optimizer.safetensors are of different checkpoints: %s differs",
                    name);
    return WEFT_OK;
}

static enum weft_status read_optimizer(const struct loading *l, const struct weft_safetensors *f)
{
    struct weft_learner *t = l->t;
    const struct weft_params *p = &t->model->params;
    int64_t step, samples, each = step_samples(t);
    TRY(read_count(f, "step", &step));
    TRY(read_count(f, "samples", &samples));
    TRY(read_number(f, "loss", &t->loss));
    TRY(read_number(f, "seconds", &t->seconds));
    if (samples % each || samples / each != step) /* a product might not fit */
        return FAIL(WEFT_FORMAT, "%" PRId64 " samples were read by step %" PRId64 ", not %" PRId64 " in each", samples,
                    step, each);
    TRY(read_binding(f, "optimizer.safetensors", l->binding));
    t->step = step;
    memcpy(t->stream, l->binding->stream, sizeof t->stream);
    memcpy(t->loss_chain, l->binding->losses, sizeof t->loss_chain);
    read_origin(f, l->origin);
    TRY(read_array(f, p, t->moments[0], "moments.0."));
    TRY(read_array(f, p, t->moments[1], "moments.1."));
    return WEFT_OK;
}

static enum weft_status read_model(const struct loading *l, const struct weft_safetensors *f)
{
    const struct weft_params *p = &l->t->model->params;
    struct weft_binding binding;
    TRY(read_binding(f, "model.safetensors", &binding));
    TRY(compare_bindings(&binding, l->binding));
    TRY(read_array(f, p, p->weights, ""));
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

/* To verify a checkpoint is to load it: each byte is read once. */
static enum weft_status load(const char *folder, void *loading)
{
    TRY(load_file(loading, folder, "optimizer.safetensors", read_optimizer));
    TRY(load_file(loading, folder, "model.safetensors", read_model));
    const struct loading *l = loading;
    TRY(weft_binding_check_texts(l->binding, folder));
    TRY(weft_binding_check_weights(l->binding, &l->t->model->params, folder));
    TRY(weft_binding_check_moments(l->binding, l->t, folder));
    return WEFT_OK;
}

enum weft_status weft_state_load_from(struct weft_learner *t, const char *folder, struct weft_origin *origin,
                                      struct weft_binding *binding)
{
    TRY(load(folder, &(struct loading){t, origin, binding}));
    return WEFT_OK;
}

enum weft_status weft_state_load_one(struct weft_learner *t, const char *checkpoint)
{
    struct weft_origin origin;
    struct weft_binding binding;
    TRY(weft_state_load_from(t, checkpoint, &origin, &binding));
    return WEFT_OK;
}

enum weft_status weft_state_load(struct weft_learner *t, const char *run, char *folder, struct weft_origin *origin,
                                 struct weft_binding *binding)
{
    struct loading loading = {t, origin, binding};
    int64_t any, good;
    TRY(weft_ckpt_latest(run, NULL, NULL, &any, folder, ROOM));
    TRY(weft_ckpt_latest(run, load, &loading, &good, folder, ROOM));
    if (any >= 0 && good < 0)
        return FAIL(WEFT_FORMAT, "no checkpoint in %s can be used: start again, in another folder", run);
    if (good >= 0 && good != t->step)
        return FAIL(WEFT_FORMAT, "%s holds step %" PRId64 ", which is not the step in its name", folder, t->step);
    if (good < 0)
        *folder = 0;
    return WEFT_OK;
}

/* False: there is no such file, or it is not bound. */
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
        weft_note_once("binding", "%s has no hashes: nothing shows that its weights are as they were saved",
                       checkpoint);
    if (both)
        TRY(compare_bindings(&binding, &other));
    if (!bound)
        return WEFT_OK;
    TRY(weft_binding_check_texts(&binding, checkpoint));
    TRY(weft_binding_check_weights(&binding, params, checkpoint));
    return WEFT_OK;
}

/* ---- looking */

static enum weft_status verify_model(const char *folder, void *context)
{
    char path[ROOM + 32];
    (void)context;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    TRY(weft_safetensors_check(path));
    return WEFT_OK;
}

/* Step and hash in the metadata of the weights' file; -1: it has none. */
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
    if (access(path, F_OK) == 0) { /* a checkpoint itself */
        TRY(weft_safetensors_check(path));
        return read_found(path, step, hash);
    }
    TRY(weft_ckpt_latest(run, verify_model, NULL, step, folder, sizeof folder));
    if (*step < 0)
        return WEFT_OK;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    return read_found(path, step, hash);
}
