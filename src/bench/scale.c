/* SPDX-License-Identifier: MIT
 *
 * scale.c - implements the model of scale.h: time, traffic, memory and checkpoints of a step on several ranks.
 */
#define _GNU_SOURCE
#include "bench/scale.h"
#include "train/account.h"
#include "train/ranks/partition.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#define BACKWARD (2.0 / 3) /* fraction of a micro-batch's time spent in the backward pass */
#define UPDATE 28 /* bytes that an update moves per parameter: weight and moments read and written, gradient read */
#define SAVED 12  /* bytes of a checkpoint per parameter */

/* ---- rates */

enum { COPIED = 1 << 26, PIECES = 64, TIMES = 5 };

static void copy_piece(void *context, int64_t tile, int thread)
{
    (void)thread;
    char *memory = context;
    memcpy(memory + COPIED + tile * (COPIED / PIECES), memory + tile * (COPIED / PIECES), COPIED / PIECES);
}

enum weft_status weft_memory_rate(double *bytes_per_s)
{
    char *memory = weft_pages_alloc(2 * (size_t)COPIED);
    double least = INFINITY;
    if (!memory)
        return FAIL(WEFT_NOMEM, "not enough memory to measure the memory bandwidth");
    for (int i = 0; i < TIMES; i++) {
        double start = weft_seconds();
        weft_parallel(PIECES, copy_piece, memory);
        least = fmin(least, weft_seconds() - start);
    }
    weft_pages_free(memory, 2 * (size_t)COPIED);
    *bytes_per_s = 2.0 * COPIED / least;
    return WEFT_OK;
}

static enum weft_status write_all(int file, const char *from, size_t bytes)
{
    for (ssize_t n; bytes; bytes -= (size_t)n, from += n)
        if ((n = write(file, from, bytes)) <= 0)
            return FAIL(WEFT_IO, "cannot measure the speed of the disk, because writing failed: pass --disk");
    return fsync(file) == 0 ? WEFT_OK
                            : FAIL(WEFT_IO, "cannot measure the speed of the disk, because fsync failed: pass --disk");
}

enum weft_status weft_disk_rate(const char *folder, double *bytes_per_s)
{
    int file = open(folder, O_TMPFILE | O_WRONLY, 0600);
    char *bytes = file < 0 ? NULL : weft_pages_alloc(COPIED);
    if (!bytes) {
        if (file >= 0)
            close(file);
        return FAIL(WEFT_IO, "cannot write a file in %s to measure the speed of the disk: pass --disk", folder);
    }
    memset(bytes, 1, COPIED);
    double start = weft_seconds();
    enum weft_status status = write_all(file, bytes, COPIED);
    *bytes_per_s = COPIED / (weft_seconds() - start);
    weft_pages_free(bytes, COPIED);
    close(file);
    return status;
}

/* ---- a step */

static double bucket_bytes(const struct weft_nn *model, int64_t ranks)
{
    int64_t weights = model->params.total;
    return sizeof(float) * (double)weft_min(weights, weft_partition_bucket(weights, ranks));
}

/* The fraction of gradients that a backward pass completes before its end: all except the embedding's. */
static double early_share(const struct weft_nn *model)
{
    int64_t late = 0;
    for (int i = 0; i < model->params.count; i++)
        if (model->params.list[i].layer < 0 && model->params.list[i].role == WEFT_TABLE)
            late += model->params.list[i].count;
    return 1 - (double)late / (double)model->params.elements;
}

/* The last bucket of these gradients is also complete only at the end of the pass. */
static void communicate(const struct weft_nn *model, const struct weft_scale_machine *m, struct weft_scale *s)
{
    double weights = 4 * (double)model->params.total, others = (double)(s->ranks - 1);
    double bucket = bucket_bytes(model, s->ranks);
    double bytes = weights * others / (double)s->ranks, buckets = ceil(weights / bucket);
    double early = fmax(0, early_share(model) - fmin(1, bucket / weights));
    s->sent_bytes = (int64_t)(2 * bytes);
    s->gradients = bytes / m->network + others * buckets * m->wait;
    s->weights = bytes / m->network + others * m->wait;
    s->hidden = fmin(early * s->gradients, BACKWARD * m->micro_batch);
}

static double seconds(const struct weft_recipe *recipe, const struct weft_scale_machine *m, struct weft_scale *s)
{
    s->compute = (double)weft_recipe_most(recipe, s->ranks) * m->micro_batch;
    return s->compute + s->update + s->gradients + s->weights - s->hidden;
}

static enum weft_status check_ranks(const struct weft_recipe *recipe, int64_t ranks)
{
    int64_t groups = weft_recipe_groups(recipe);
    if (ranks <= groups)
        return WEFT_OK;
    return FAIL(
        WEFT_INVALID,
        "%lld ranks for %lld gradient groups: a rank computes whole groups of a step's micro-batches, so further "
        "ranks would be idle. Set grad_groups and micro_batches to %lld or more, or use fewer ranks",
        (long long)ranks, (long long)groups, (long long)ranks);
}

enum weft_status weft_scale_predict(const struct weft_scale_load *load, const struct weft_scale_machine *m,
                                    int64_t ranks, struct weft_scale *s)
{
    const struct weft_nn *model = load->model;
    double updated = UPDATE * (double)model->params.total / m->memory;
    struct weft_scale one = {.ranks = 1, .update = updated};
    TRY(check_ranks(load->recipe, ranks));
    *s = (struct weft_scale){.ranks = ranks, .update = updated / (double)ranks};
    communicate(model, m, s);
    s->step = seconds(load->recipe, m, s);
    s->efficiency = seconds(load->recipe, m, &one) / ((double)ranks * s->step);
    s->tokens_per_s = (double)(load->recipe->micro_batches * model->spec->batch * model->spec->context) / s->step;
    s->bytes_per_rank = weft_account_state(model, load->recipe, ranks) + load->activation_bytes;
    s->checkpoint_bytes = SAVED * model->params.elements;
    s->checkpoint = (double)s->checkpoint_bytes / m->disk;
    return WEFT_OK;
}
