/* SPDX-License-Identifier: MIT
 *
 * binding.c - binds the files of a checkpoint to each other and to the log, by the files' hashes and the head of the
 * log's chain at the time of saving. Both safetensors files contain the whole binding, so neither can be replaced by
 * the file of a different step.
 */
#include "base/fields.h"
#include "ckpt/ckpt.h"
#include "text/text.h"
#include "train/prune/prune.h"
#include "train/ranks/ranks.h"
#include "train/record/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 4096 };

static const struct {
    const char *name;
    size_t offset;
} fields[WEFT_BINDING_FIELDS] = {
    {"step", offsetof(struct weft_binding, step)},
    {"config_sha256", offsetof(struct weft_binding, config)},
    {"tokenizer_sha256", offsetof(struct weft_binding, tokenizer)},
    {"weights_sha256", offsetof(struct weft_binding, weights)},
    {"optimizer_sha256", offsetof(struct weft_binding, optimizer)},
    {"stream_sha256", offsetof(struct weft_binding, stream)},
    {"losses_sha256", offsetof(struct weft_binding, losses)},
    {"chain", offsetof(struct weft_binding, chain)},
};

struct digests {
    const struct weft_learner *t;
    unsigned char (*of)[2][32]; /* hashes of each span's moments */
};

static void digest_span(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct digests *d = context;
    const struct weft_own *own = &d->t->own[tile];
    for (int i = 0; i < 2; i++) {
        struct weft_sha256 sha;
        weft_sha256_init(&sha);
        weft_sha256_add(&sha, d->t->moments[i] + own->moment, (size_t)d->t->spans[own->span].count * sizeof(float));
        weft_sha256_bytes(&sha, d->of[own->span][i]);
    }
}

/* Hashes the weights' names and dimensions, the hashes of all moments, span by span, and the masks if there are any. */
static enum weft_status hash_moments(const struct weft_learner *t, char hex[65])
{
    const struct weft_params *p = &t->model->params;
    struct weft_sha256 sha;
    struct digests d = {t, calloc((size_t)t->span_count, sizeof *d.of)};
    if (!d.of)
        return FAIL(WEFT_NOMEM, "not enough memory for the hashes of moments");
    weft_parallel(t->own_count, digest_span, &d);
    t->comm->phase = "sharing the hashes of moments";
    enum weft_status status = weft_ranks_spans(t, d.of, sizeof *d.of);
    weft_sha256_init(&sha);
    for (int i = 0; i < p->count; i++) {
        weft_sha256_add(&sha, p->list[i].name, strlen(p->list[i].name) + 1);
        weft_sha256_add(&sha, p->list[i].dim, (size_t)p->list[i].ndim * sizeof p->list[i].dim[0]);
    }
    weft_sha256_add(&sha, d.of, (size_t)t->span_count * sizeof *d.of);
    for (int i = 0; t->mask && i < p->count; i++)
        weft_sha256_add(&sha, weft_mask_of(t, &p->list[i]), (size_t)weft_mask_words(&p->list[i]) * sizeof *t->mask);
    weft_sha256_hex(&sha, hex);
    free(d.of);
    return status;
}

static void hash_text(const void *text, size_t bytes, char hex[65])
{
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    weft_sha256_add(&sha, text, bytes);
    weft_sha256_hex(&sha, hex);
}

enum weft_status weft_binding_make(struct weft_binding *b, const struct weft_learner *t, const char *config,
                                   const char *tokenizer, size_t tokenizer_bytes)
{
    *b = (struct weft_binding){0};
    snprintf(b->step, sizeof b->step, "%" PRId64, t->step);
    hash_text(config, strlen(config), b->config);
    hash_text(tokenizer, tokenizer_bytes, b->tokenizer);
    weft_params_hash(&t->model->params, b->weights);
    memcpy(b->stream, t->stream, sizeof b->stream);
    memcpy(b->losses, t->loss_chain, sizeof b->losses);
    return hash_moments(t, b->optimizer);
}

void weft_binding_metadata(const struct weft_binding *b, const char **list)
{
    for (int i = 0; i < WEFT_BINDING_FIELDS; i++) {
        list[2 * i] = fields[i].name;
        list[2 * i + 1] = (const char *)b + fields[i].offset;
    }
}

bool weft_binding_read(const struct weft_safetensors *f, struct weft_binding *b)
{
    *b = (struct weft_binding){0};
    for (int i = 0; i < WEFT_BINDING_FIELDS; i++) {
        const char *text = weft_safetensors_metadata(f, fields[i].name);
        if (!text || (i > 0 && !weft_is_sha256(text)))
            return false;
        snprintf((char *)b + fields[i].offset, 65, "%s", text);
    }
    return true;
}

const char *weft_binding_differs(const struct weft_binding *a, const struct weft_binding *b)
{
    for (int i = 0; i < WEFT_BINDING_FIELDS; i++)
        if (strcmp((const char *)a + fields[i].offset, (const char *)b + fields[i].offset) != 0)
            return fields[i].name;
    return NULL;
}

static enum weft_status check_file(const char *folder, const char *name, size_t limit, const char *wanted)
{
    char path[ROOM + 32], hex[65];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    hash_text("", 0, hex);
    if (access(path, F_OK) == 0)
        TRY(weft_sha256_within(path, limit, hex));
    if (strcmp(hex, wanted) != 0)
        return FAIL(WEFT_FORMAT, "%s/%s is not the one that was saved with these weights", folder, name);
    return WEFT_OK;
}

enum weft_status weft_binding_check_texts(const struct weft_binding *b, const char *folder)
{
    TRY(check_file(folder, "config.json", WEFT_MAX_CONFIG_BYTES, b->config));
    TRY(check_file(folder, "tokenizer.json", WEFT_MAX_TOKENIZER_BYTES, b->tokenizer));
    return WEFT_OK;
}

enum weft_status weft_binding_check_weights(const struct weft_binding *b, const struct weft_params *p,
                                            const char *folder)
{
    char hex[65];
    weft_params_hash(p, hex);
    if (strcmp(hex, b->weights) != 0)
        return FAIL(WEFT_FORMAT,
                    "the weights in %s do not match their saved hash: the checkpoint is damaged or was modified",
                    folder);
    return WEFT_OK;
}

enum weft_status weft_binding_check_moments(const struct weft_binding *b, const struct weft_learner *t,
                                            const char *folder)
{
    char hex[65];
    TRY(hash_moments(t, hex));
    if (strcmp(hex, b->optimizer) != 0)
        return FAIL(WEFT_FORMAT,
                    "the moments in %s do not match their saved hash: the checkpoint is damaged or was modified",
                    folder);
    return WEFT_OK;
}
