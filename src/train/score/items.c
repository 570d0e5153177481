/* SPDX-License-Identifier: MIT
 *
 * items.c - collects the costs of a test's items during scoring, and reads and writes their file.
 *
 * An item is summed in f64 in the order of the samples, so its cost depends neither on the batch size nor on the number
 * of threads.
 */
#include "train/score/items.h"
#include "base/fields.h"
#include "ckpt/ckpt.h"
#include "train/record/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const kinds[] = {
    [WEFT_ITEMS_SAMPLES] = "samples", [WEFT_ITEMS_DOCUMENTS] = "documents", [WEFT_ITEMS_WINDOWS] = "windows",
    [WEFT_ITEMS_CHOICES] = "choices", [WEFT_ITEMS_PAIRS] = "pairs",
};

static enum weft_status make_room(struct weft_items *t, int64_t count, bool norm)
{
    t->nll = calloc((size_t)count, sizeof *t->nll);
    t->norm = norm ? calloc((size_t)count, sizeof *t->norm) : NULL;
    t->tokens = calloc((size_t)count, sizeof *t->tokens);
    if (!t->nll || !t->tokens || (norm && !t->norm))
        return FAIL(WEFT_NOMEM, "not enough memory for %lld items", (long long)count);
    return WEFT_OK;
}

void weft_items_release(struct weft_items *t)
{
    free(t->nll);
    free(t->norm);
    free(t->tokens);
    free(t->document);
    *t = (struct weft_items){0};
}

/* ---- collecting */

/* Finds the documents of the samples. If there are few documents, the samples, of which there are more, are the items
 * instead.
 */
static enum weft_status find_documents(struct weft_items *t, const struct weft_recipe *r, int64_t samples,
                                       int64_t *count)
{
    *count = samples;
    if (!r->task->documents || samples < 1)
        return WEFT_OK;
    t->document = calloc((size_t)samples, sizeof *t->document);
    if (!t->document)
        return FAIL(WEFT_NOMEM, "not enough memory for the documents of %lld samples", (long long)samples);
    TRY(r->task->documents(r->task_options, samples, t->document, count, &t->end));
    if (*count >= WEFT_LEAST_DOCUMENTS) {
        t->kind = kinds[WEFT_ITEMS_DOCUMENTS];
        return WEFT_OK;
    }
    free(t->document);
    t->document = NULL;
    *count = samples;
    return WEFT_OK;
}

enum weft_status weft_items_init(struct weft_items *t, const struct weft_recipe *r, int64_t samples)
{
    int64_t count;
    *t = (struct weft_items){.kind = kinds[WEFT_ITEMS_SAMPLES]};
    weft_sha256_init(&t->sha);
    TRY(find_documents(t, r, samples, &count));
    t->per_item = weft_max(1, (count + WEFT_MOST_ITEMS - 1) / WEFT_MOST_ITEMS);
    t->count = weft_max(1, (count + t->per_item - 1) / t->per_item);
    TRY(make_room(t, t->count, false));
    return WEFT_OK;
}

static void add_cost(struct weft_items *t, int64_t item, double nll, int64_t tokens)
{
    t->nll[item] += nll;
    t->overflow |= t->tokens[item] > INT32_MAX - tokens;
    t->tokens[item] += t->overflow ? 0 : (int32_t)tokens;
}

static void add_sample(struct weft_items *t, int64_t length, const int32_t *targets, const float *nll)
{
    int64_t at = t->document ? t->document[t->sample] : t->sample;
    weft_sha256_add(&t->sha, &at, sizeof at);
    for (int64_t i = 0; i < length; i++) {
        int64_t item = weft_min(at / t->per_item, t->count - 1);
        if (targets[i] < 0)
            continue;
        add_cost(t, item, nll[i], 1);
        at += t->document && targets[i] == t->end;
    }
    t->sample++;
}

void weft_items_add(struct weft_items *t, int64_t samples, int64_t length, const int32_t *tokens,
                    const int32_t *targets, const float *nll)
{
    for (int64_t s = 0; s < samples; s++) {
        weft_sha256_add(&t->sha, tokens + s * length, (size_t)length * sizeof *tokens);
        weft_sha256_add(&t->sha, targets + s * length, (size_t)length * sizeof *targets);
        add_sample(t, length, targets + s * length, nll + s * length);
    }
}

enum weft_status weft_items_begin(struct weft_items *t, enum weft_items_kind kind, bool norm)
{
    *t = (struct weft_items){.kind = kinds[kind], .per_item = 1};
    weft_sha256_init(&t->sha);
    TRY(make_room(t, WEFT_MOST_ITEMS, norm));
    return WEFT_OK;
}

/* Merges each pair of neighbouring items into one. */
static void join_neighbours(struct weft_items *t)
{
    for (int64_t i = 0; i < t->count / 2; i++) {
        t->nll[i] = t->nll[2 * i] + t->nll[2 * i + 1];
        if (t->norm)
            t->norm[i] = t->norm[2 * i] + t->norm[2 * i + 1];
        t->overflow |= t->tokens[2 * i] > INT32_MAX - t->tokens[2 * i + 1];
        t->tokens[i] = t->overflow ? 1 : t->tokens[2 * i] + t->tokens[2 * i + 1];
    }
    t->count /= 2;
    t->per_item *= 2;
}

void weft_items_append(struct weft_items *t, double nll, double norm, int64_t tokens)
{
    if (t->sample % t->per_item == 0) {
        if (t->count == WEFT_MOST_ITEMS)
            join_neighbours(t); /* the samples so far still form whole items */
        int64_t next = t->count++;
        t->nll[next] = t->tokens[next] = 0;
        if (t->norm)
            t->norm[next] = 0;
    }
    add_cost(t, t->count - 1, nll, tokens);
    if (t->norm)
        t->norm[t->count - 1] += norm;
    t->sample++;
}

enum weft_status weft_items_finish(struct weft_items *t)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < t->count; i++)
        if (t->tokens[i]) {
            t->nll[kept] = t->nll[i];
            if (t->norm)
                t->norm[kept] = t->norm[i];
            t->tokens[kept++] = t->tokens[i];
        }
    t->count = kept;
    weft_sha256_add(&t->sha, t->kind, strlen(t->kind));
    weft_sha256_add(&t->sha, &t->per_item, sizeof t->per_item);
    weft_sha256_add(&t->sha, &t->end, sizeof t->end);
    weft_sha256_hex(&t->sha, t->items_sha256);
    if (t->overflow)
        return FAIL(WEFT_INVALID, "an item of the test has more than %d tokens: score fewer samples (eval_samples)",
                    INT32_MAX);
    return WEFT_OK;
}

double weft_items_loss(const struct weft_items *t)
{
    double nll = 0, tokens = 0;
    for (int64_t i = 0; i < t->count; i++) {
        nll += t->nll[i];
        tokens += t->tokens[i];
    }
    return tokens > 0 ? nll / tokens : NAN;
}

/* ---- the file */

enum weft_status weft_items_save(const struct weft_items *t, const char *path)
{
    struct weft_entry entries[] = {
        {.name = "nll", .dtype = WEFT_F64, .ndim = 1, .dim = {t->count}, .data = t->nll},
        {.name = "tokens", .dtype = WEFT_I32, .ndim = 1, .dim = {t->count}, .data = t->tokens},
        {.name = "norm", .dtype = WEFT_F64, .ndim = 1, .dim = {t->count}, .data = t->norm},
    };
    const char *metadata[] = {"weft.items", "1", "kind", t->kind, "items_sha256", t->items_sha256, NULL};
    TRY(weft_safetensors_write(path, entries, t->norm ? 3 : 2, metadata));
    return WEFT_OK;
}

static enum weft_status wrong(const char *path, const char *what)
{
    return FAIL(WEFT_FORMAT, "%s: %s: the file is damaged", path, what);
}

static enum weft_status read_metadata(struct weft_items *t, const struct weft_safetensors *f, const char *path)
{
    const char *version = weft_safetensors_metadata(f, "weft.items"), *kind = weft_safetensors_metadata(f, "kind");
    const char *hash = weft_safetensors_metadata(f, "items_sha256");
    if (!version || strcmp(version, "1") != 0)
        return FAIL(WEFT_FORMAT, "%s is not an items file that this version can read", path);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kind && strcmp(kind, kinds[i]) == 0)
            t->kind = kinds[i];
    if (!t->kind || !hash || !weft_is_sha256(hash))
        return wrong(path, "it lacks the kind of its items, or their hash");
    memcpy(t->items_sha256, hash, sizeof t->items_sha256);
    return WEFT_OK;
}

static bool is_column(const struct weft_entry *e, enum weft_dtype dtype)
{
    return e && !e->foreign && e->dtype == dtype && e->ndim == 1;
}

static enum weft_status read_items(struct weft_items *t, const struct weft_safetensors *f, const char *path)
{
    const struct weft_entry *nll = weft_safetensors_find(f, "nll"), *tokens = weft_safetensors_find(f, "tokens");
    const struct weft_entry *norm = weft_safetensors_find(f, "norm");
    TRY(read_metadata(t, f, path));
    if (!is_column(nll, WEFT_F64) || !is_column(tokens, WEFT_I32) || nll->dim[0] != tokens->dim[0] || nll->dim[0] < 1 ||
        nll->dim[0] > WEFT_MOST_ITEMS || (norm && (!is_column(norm, WEFT_F64) || norm->dim[0] != nll->dim[0])))
        return wrong(path, "nll and tokens are not lists of equal length");
    t->count = nll->dim[0];
    TRY(make_room(t, t->count, norm != NULL));
    TRY(weft_safetensors_read(f, "nll", &(struct weft_tensor){t->nll, WEFT_F64, 1, {t->count}}));
    TRY(weft_safetensors_read(f, "tokens", &(struct weft_tensor){t->tokens, WEFT_I32, 1, {t->count}}));
    if (norm)
        TRY(weft_safetensors_read(f, "norm", &(struct weft_tensor){t->norm, WEFT_F64, 1, {t->count}}));
    for (int64_t i = 0; i < t->count; i++)
        if (!isfinite(t->nll[i]) || (t->norm && !isfinite(t->norm[i])) || t->tokens[i] < 1)
            return wrong(path, "an item has no tokens, or its cost is not finite");
    return WEFT_OK;
}

enum weft_status weft_items_load(struct weft_items *t, const char *path)
{
    struct weft_safetensors *f = NULL;
    *t = (struct weft_items){0};
    TRY(weft_safetensors_open(&f, path));
    enum weft_status status = read_items(t, f, path);
    weft_safetensors_close(f);
    return status;
}

/* ---- the items of a run */

/* Returns whether there is a later test. The file has the items of the last test, and a run that is resumed with more
 * steps is tested again. */
static bool is_tested_later(const struct weft_record *record)
{
    const struct weft_expected_record *e = record->expected; /* the record of this test, which is not logged yet */
    for (e = e ? e->next : NULL; e; e = e->next)
        if (e->kind == WEFT_RECORD_STEP && strstr(e->text, ", \"test_loss\": "))
            return true;
    return false;
}

/* Returns whether the run was resumed later. Then a later test may have replaced the file, and the record of that test
 * may have been cut. */
static bool is_resumed_later(const struct weft_record *record)
{
    for (const struct weft_expected_record *e = record->expected; e; e = e->next)
        if (e->kind == WEFT_RECORD_CHANGE)
            return true;
    return false;
}

static enum weft_status compare(const struct weft_items *t, const char *path, bool decided)
{
    struct weft_items found;
    enum weft_status status = weft_items_load(&found, path);
    bool same = status == WEFT_OK && found.count == t->count && strcmp(found.items_sha256, t->items_sha256) == 0 &&
                memcmp(found.nll, t->nll, (size_t)t->count * sizeof *t->nll) == 0 &&
                memcmp(found.tokens, t->tokens, (size_t)t->count * sizeof *t->tokens) == 0;
    if (status == WEFT_OK && !same)
        status = decided ? FAIL(WEFT_CHECK, "%s does not match the results of this run's model", path)
                         : FAIL(WEFT_INVALID,
                                "%s does not belong to the last test in the log: it belongs to a later test or was "
                                "edited. Resume the run until it is finished",
                                path);
    weft_items_release(&found);
    return status;
}

enum weft_status weft_items_record(const struct weft_items *t, const struct weft_record *record)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", record->folder, WEFT_ITEMS_FILE) >= (int)sizeof path)
        return FAIL(WEFT_INVALID, "the path of the run's folder is too long");
    if (!record->replays)
        return t->count ? weft_items_save(t, path) : WEFT_OK;
    if (is_tested_later(record) || access(path, F_OK)) /* runs of earlier releases have none */
        return WEFT_OK;
    return compare(t, path, !is_resumed_later(record));
}
