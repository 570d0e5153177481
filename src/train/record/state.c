/* SPDX-License-Identifier: MIT
 *
 * state.c - writes checkpoints, from which a run is resumed: RUN/step-STEP with
 *
 *     config.json            every option, as the run had it
 *     model.safetensors      the weights; metadata: the binding (binding.c)
 *     optimizer.safetensors  the moments; metadata: the binding, samples (the next to read), loss, seconds, the origin
 *     masks.safetensors      if weights are pruned: the masks (prune_file.c); metadata: the binding
 *     tokenizer.json         if the task's data has one
 *
 * Nothing else carries over from step to step, because samples, masks and learning rates are functions of the step.
 *
 * The files are the same for any number of ranks. Rank 0 creates the folder and the files' headers; then each rank
 * writes the values that it owns directly from memory; rank 0 turns the folder into a checkpoint when all ranks are
 * done.
 */
#include "ckpt/ckpt.h"
#include "train/prune/prune.h"
#include "train/ranks/ranks.h"
#include "train/record/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 4096, NUMBER = 40, ARRAYS = 3 };

/* The contents of a checkpoint in addition to the trainer's state. Only rank 0 has the texts. */
struct saving {
    const struct weft_learner *t;
    const char *config, *tokenizer; /* contents of the files; tokenizer NULL: none */
    size_t tokenizer_bytes;
    const struct weft_origin *origin;
    struct weft_binding binding;
    char folder[ROOM];
    uint64_t (*sums)[ARRAYS]; /* weft_checksum_piece of each span's weights and moments; NULL: no other ranks */
    struct weft_arena arena;
};

/* ---- the values of a file */

struct values {
    const char *name;
    int first, end; /* range of the arrays in the file: 0 weights, 1 and 2 moments */
};
static const struct values model = {"model.safetensors", 0, 1}, optimizer = {"optimizer.safetensors", 1, 3};
static const char *const prefixes[ARRAYS] = {"", "moments.0.", "moments.1."};

static const float *own_values(const struct weft_learner *t, int array, const struct weft_own *own)
{
    return array == 0 ? t->model->params.weights + t->spans[own->span].first : t->moments[array - 1] + own->moment;
}

static size_t span_bytes(const struct weft_learner *t, int64_t span)
{
    return (size_t)t->spans[span].count * sizeof(float);
}

/* Returns a weight's checksum from the checksums of its spans, the first of which is *span; then advances *span to the
 * next weight. */
static uint64_t sum_of(const struct saving *s, const struct weft_param *w, int array, int64_t *span)
{
    uint64_t sum = 0;
    for (int64_t done = 0; done < w->count; done += s->t->spans[(*span)++].count)
        sum = weft_checksum_join(sum, s->sums[*span][array], span_bytes(s->t, *span));
    return sum;
}

/* Lists every weight's part of each array, under its name with a prefix. */
static enum weft_status list_entries(struct saving *s, const struct values *v, struct weft_entry **entries)
{
    const struct weft_params *p = &s->t->model->params;
    struct weft_entry *to = *entries =
        weft_arena_alloc(&s->arena, (size_t)(v->end - v->first) * (size_t)p->count * sizeof *to);
    if (!to)
        return FAIL(WEFT_NOMEM, "not enough memory for a checkpoint's list of tensors");
    for (int array = v->first; array < v->end; array++) {
        const float *values = array == 0 ? p->weights : s->t->moments[array - 1];
        int64_t span = 0;
        for (int i = 0; i < p->count; i++, to++) {
            const struct weft_param *w = &p->list[i];
            *to = (struct weft_entry){.name = weft_arena_print(&s->arena, "%s%s", prefixes[array], w->name),
                                      .dtype = WEFT_F32,
                                      .ndim = w->ndim,
                                      .data = s->sums ? NULL : values + w->offset,
                                      .sum = s->sums ? sum_of(s, w, array, &span) : 0};
            memcpy(to->dim, w->dim, sizeof w->dim);
            if (!to->name)
                return FAIL(WEFT_NOMEM, "not enough memory for the names of tensors");
        }
    }
    return WEFT_OK;
}

/* Lists the parts that this rank owns. */
static enum weft_status list_pieces(struct saving *s, const struct values *v, struct weft_piece **pieces,
                                    int64_t *count)
{
    const struct weft_learner *t = s->t;
    const struct weft_params *p = &t->model->params;
    struct weft_piece *to = *pieces =
        weft_arena_alloc(&s->arena, (size_t)(v->end - v->first) * (size_t)t->own_count * sizeof *to + 1);
    if (!to)
        return FAIL(WEFT_NOMEM, "not enough memory for a checkpoint's list of pieces");
    for (int array = v->first; array < v->end; array++)
        for (int64_t i = 0, w = 0; i < t->own_count; i++, to++) {
            int64_t span = t->own[i].span, first = t->spans[span].first;
            while (first >= p->list[w].offset + p->list[w].count)
                w++;
            *to = (struct weft_piece){(array - v->first) * p->count + (int)w,
                                      (size_t)(first - p->list[w].offset) * sizeof(float),
                                      own_values(t, array, &t->own[i]), span_bytes(t, span)};
        }
    *count = to - *pieces;
    return WEFT_OK;
}

static void name_file(const struct saving *s, const char *name, char path[ROOM + 32])
{
    snprintf(path, ROOM + 32, "%s/%s", s->folder, name);
}

static enum weft_status fill_file(struct saving *s, const struct values *v)
{
    char path[ROOM + 32];
    struct weft_entry *entries;
    struct weft_piece *pieces;
    int64_t count = 0;
    name_file(s, v->name, path);
    TRY(list_entries(s, v, &entries));
    TRY(list_pieces(s, v, &pieces, &count));
    TRY(weft_safetensors_fill(path, entries, (v->end - v->first) * s->t->model->params.count, pieces, count));
    return WEFT_OK;
}

/* ---- the files, written by rank 0 */

static enum weft_status write_file(struct saving *s, const struct values *v, const char *const *metadata)
{
    char path[ROOM + 32];
    struct weft_entry *entries;
    name_file(s, v->name, path);
    TRY(list_entries(s, v, &entries));
    TRY(weft_safetensors_write(path, entries, (v->end - v->first) * s->t->model->params.count, metadata));
    return WEFT_OK;
}

static enum weft_status write_model(struct saving *s)
{
    const char *metadata[2 * WEFT_BINDING_FIELDS + 1] = {0};
    weft_binding_metadata(&s->binding, metadata);
    TRY(write_file(s, &model, metadata));
    return WEFT_OK;
}

static enum weft_status write_optimizer(struct saving *s)
{
    const struct weft_learner *t = s->t;
    char samples[NUMBER], loss[NUMBER], seconds[NUMBER];
    snprintf(samples, sizeof samples, "%" PRId64, t->step * t->recipe->micro_batches * t->model->spec->batch);
    snprintf(loss, sizeof loss, "%.17g", t->loss);
    snprintf(seconds, sizeof seconds, "%.3f", t->seconds);
    enum { OWN = 6 };
    const char *metadata[OWN + 2 * (WEFT_ORIGINS + WEFT_BINDING_FIELDS) + 1] = {"samples", samples,   "loss",
                                                                                loss,      "seconds", seconds};
    for (int i = 0; i < WEFT_ORIGINS; i++) {
        metadata[OWN + 2 * i] = weft_origin_name(i);
        metadata[OWN + 2 * i + 1] = s->origin->text[i];
    }
    weft_binding_metadata(&s->binding, metadata + OWN + 2 * WEFT_ORIGINS);
    TRY(write_file(s, &optimizer, metadata));
    return WEFT_OK;
}

/* Writes the masks, all of which every rank has. */
static enum weft_status write_masks(const struct saving *s)
{
    char path[ROOM + 32];
    const char *metadata[2 * WEFT_BINDING_FIELDS + 1] = {0};
    if (!s->t->mask)
        return WEFT_OK;
    name_file(s, "masks.safetensors", path);
    weft_binding_metadata(&s->binding, metadata);
    TRY(weft_masks_save(s->t, path, metadata));
    return WEFT_OK;
}

static enum weft_status write_files(struct saving *s)
{
    char path[ROOM + 32];
    name_file(s, "config.json", path);
    TRY(weft_file_replace(path, s->config, strlen(s->config)));
    TRY(write_model(s));
    TRY(write_optimizer(s));
    TRY(write_masks(s));
    name_file(s, "tokenizer.json", path);
    if (s->tokenizer)
        TRY(weft_file_replace(path, s->tokenizer, s->tokenizer_bytes));
    return WEFT_OK;
}

/* ---- the checkpoint, written by all ranks */

struct summing {
    const struct weft_learner *t;
    uint64_t (*sums)[ARRAYS];
};

static void sum_span(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct summing *s = context;
    const struct weft_own *own = &s->t->own[tile];
    for (int array = 0; array < ARRAYS; array++)
        s->sums[own->span][array] = weft_checksum_piece(own_values(s->t, array, own), span_bytes(s->t, own->span));
}

static enum weft_status share_sums(struct saving *s)
{
    const struct weft_learner *t = s->t;
    if (t->comm->size == 1)
        return WEFT_OK;
    s->sums = weft_arena_alloc(&s->arena, (size_t)t->span_count * sizeof *s->sums);
    if (!s->sums)
        return FAIL(WEFT_NOMEM, "not enough memory for a checkpoint's checksums");
    weft_parallel(t->own_count, sum_span, &(struct summing){t, s->sums});
    TRY(weft_ranks_spans(t, s->sums, sizeof *s->sums));
    return WEFT_OK;
}

static enum weft_status begin_folder(struct saving *s, const char *run)
{
    TRY(weft_ckpt_begin(run, s->t->step, s->folder, sizeof s->folder));
    TRY(write_files(s));
    return WEFT_OK;
}

static enum weft_status fill_files(struct saving *s, const char *run)
{
    snprintf(s->folder, sizeof s->folder, "%s/.writing-%09" PRId64, run, s->t->step);
    TRY(fill_file(s, &model));
    TRY(fill_file(s, &optimizer));
    return WEFT_OK;
}

static enum weft_status save_checkpoint(struct saving *s, const char *run)
{
    struct weft_comm *c = s->t->comm;
    bool first = c->rank == 0;
    c->phase = "saving a checkpoint";
    TRY(share_sums(s));
    TRY(weft_comm_join(c, first ? begin_folder(s, run) : WEFT_OK));
    if (s->sums)
        TRY(weft_comm_join(c, fill_files(s, run)));
    TRY(weft_comm_join(c, first ? weft_ckpt_commit(run, s->t->step, (int)s->t->recipe->keep) : WEFT_OK));
    return WEFT_OK;
}

static enum weft_status begin_saving(struct saving *s, const struct weft_learner *t, const char *config,
                                     const struct weft_origin *origin)
{
    const struct weft_task *task = t->recipe->task;
    *s = (struct saving){.t = t, .config = config, .origin = origin};
    if (task->tokenizer)
        s->tokenizer = task->tokenizer(t->recipe->task_options, &s->tokenizer_bytes);
    TRY(weft_binding_make(&s->binding, t, config, s->tokenizer, s->tokenizer_bytes));
    return WEFT_OK;
}

/* Flushes the log to disk before the checkpoint, which is useless without its record. */
static enum weft_status record_checkpoint(const struct weft_learner *t, struct weft_record *record,
                                          struct weft_binding *binding, bool due)
{
    TRY(weft_log_checkpoint(record, t, binding, due));
    if (fsync(fileno(record->log)) || fsync(fileno(record->events)))
        return FAIL(WEFT_IO, "cannot flush the log in %s to disk: %s", record->folder, strerror(errno));
    return WEFT_OK;
}

enum weft_status weft_state_save(const struct weft_learner *t, const char *run, struct weft_record *record, bool due)
{
    struct saving s;
    TRY(begin_saving(&s, t, record ? record->config : "", record ? &record->origin : NULL));
    TRY(weft_comm_join(t->comm, record ? record_checkpoint(t, record, &s.binding, due) : WEFT_OK));
    if (record && record->replays)
        return weft_saved_compare(t, record, &s.binding);
    enum weft_status status = save_checkpoint(&s, run);
    weft_arena_release(&s.arena);
    return status;
}

enum weft_status weft_state_save_alone(const struct weft_learner *t, const char *run, const char *config)
{
    struct saving s;
    struct weft_origin origin;
    TRY(weft_origin_find(&origin, t->recipe, 0));
    TRY(begin_saving(&s, t, config, &origin));
    memset(s.binding.chain, '0', sizeof s.binding.chain - 1);
    enum weft_status status = save_checkpoint(&s, run);
    weft_arena_release(&s.arena);
    return status;
}
