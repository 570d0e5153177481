/* SPDX-License-Identifier: MIT
 *
 * hf_import.c - loads the weights of a Hugging Face folder: one file, or several with an index.
 */
#include "base/fields.h"
#include "ckpt/ckpt.h"
#include "export/hf/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 1024 };

struct files {
    struct weft_safetensors *list[FILES];
    char name[FILES][256];
    int count;
};

static bool has(const char *folder, const char *name)
{
    char path[4400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, R_OK) == 0;
}

static enum weft_status open_file(struct files *f, const char *folder, const char *name)
{
    char path[4400];
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->name[i], name) == 0)
            return WEFT_OK;
    if (f->count == FILES || strlen(name) >= sizeof f->name[0] || strchr(name, '/'))
        return FAIL(WEFT_FORMAT, "%s: the index names %.64s, which is not a file in its folder, or more than %d files",
                    folder, name, FILES);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    TRY(weft_safetensors_open(&f->list[f->count], path));
    snprintf(f->name[f->count++], sizeof f->name[0], "%s", name);
    return WEFT_OK;
}

/* Opens the files that an index names, in the same folder. */
static enum weft_status open_index(struct files *f, const char *folder, const char *path, const json_t *index)
{
    const char *key;
    json_t *value;
    if (!json_is_object(index))
        return FAIL(WEFT_FORMAT, "%s has no weight_map", path);
    json_object_foreach((json_t *)index, key, value)
    {
        if (!json_is_string(value))
            return FAIL(WEFT_FORMAT, "%s: the file name of the weight %.64s is not a string", path, key);
        TRY(open_file(f, folder, json_string_value(value)));
    }
    return WEFT_OK;
}

static enum weft_status open_all(struct files *f, const char *folder)
{
    char path[4400];
    json_t *object = NULL;
    if (has(folder, "model.safetensors"))
        return open_file(f, folder, "model.safetensors");
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    if (has(folder, "model.safetensors.index.json")) {
        TRY(weft_fields_load(path, &object));
        enum weft_status status = open_index(f, folder, path, json_object_get(object, "weight_map"));
        json_decref(object);
        return status;
    }
    if (has(folder, "pytorch_model.bin") || has(folder, "pytorch_model.bin.index.json"))
        return FAIL(WEFT_INVALID,
                    "%s has pickled weights (pytorch_model.bin), which can run arbitrary code when loaded: save them "
                    "as safetensors, with the save_pretrained method of transformers",
                    folder);
    return FAIL(WEFT_INVALID, "%s has no model.safetensors and no model.safetensors.index.json", folder);
}

static void close_all(struct files *f)
{
    for (int i = 0; i < f->count; i++)
        weft_safetensors_close(f->list[i]);
}

/* Finds a weight by its name. Files of GPT-2 may lack the first part of the name, "transformer.". */
static const struct weft_entry *find(const struct files *f, const char *name, const struct weft_safetensors **in)
{
    const struct weft_entry *e = NULL;
    const char *rest = strncmp(name, "transformer.", 12) == 0 ? name + 12 : NULL;
    for (int i = 0; !e && i < f->count; i++) {
        *in = f->list[i];
        e = weft_safetensors_find(f->list[i], name);
        if (!e && rest)
            e = weft_safetensors_find(f->list[i], rest);
    }
    return e;
}

/* ---- one weight */

/* Finds a weight and checks its shape; then, if `values` is true, reads it. */
static enum weft_status read_weight(const struct files *f, const struct weft_hf_family *family,
                                    const struct weft_params *p, const struct weft_param *w, bool values)
{
    char theirs[128];
    const struct weft_safetensors *in;
    const struct weft_hf_name *rule = weft_hf_name(family, w, theirs);
    if (!rule)
        return FAIL(WEFT_INVALID, "%s has no weight %s", family->architecture, w->name);
    struct weft_hf_place place = weft_hf_place(rule, w);
    const struct weft_entry *e = find(f, theirs, &in);
    if (!e)
        return FAIL(WEFT_INVALID, "the files have no weight %s", theirs);
    TRY(weft_hf_check(e, &place));
    if (!values)
        return WEFT_OK;
    if (rule->piece == 0)
        TRY(weft_safetensors_verify(in, e));
    float *to = p->weights + w->offset;
    for (int64_t i = 0; i < place.rows; i++)
        for (int64_t j = 0; j < place.columns; j++)
            to[i * place.columns + j] =
                weft_hf_value(e, place.at + (rule->transposed ? j * place.row + i : i * place.row + j));
    return WEFT_OK;
}

/* ---- unused weights */

/* Accepts masks and tables that older programs saved with the weights, and an output layer that equals the
 * embedding. */
static bool may_be_left(const struct weft_nn *model, const char *name)
{
    return weft_ends_in(name, ".attn.bias") || weft_ends_in(name, ".attn.masked_bias") ||
           weft_ends_in(name, ".rotary_emb.inv_freq") || (model->spec->tie && strcmp(name, "lm_head.weight") == 0);
}

static bool is_used(const struct weft_nn *model, const struct weft_hf_family *family, const char *name)
{
    char theirs[128];
    for (int i = 0; i < model->params.count; i++)
        if (weft_hf_name(family, &model->params.list[i], theirs) &&
            (strcmp(theirs, name) == 0 || (strncmp(theirs, "transformer.", 12) == 0 && strcmp(theirs + 12, name) == 0)))
            return true;
    return false;
}

static enum weft_status check_left(const struct weft_nn *model, const struct weft_hf_family *family,
                                   const struct files *f)
{
    for (int i = 0; i < f->count; i++)
        for (int k = 0; k < weft_safetensors_count(f->list[i]); k++) {
            const char *name = weft_safetensors_at(f->list[i], k)->name;
            if (!may_be_left(model, name) && !is_used(model, family, name))
                return FAIL(WEFT_INVALID, "%s has a weight %s that the model does not have", f->name[i], name);
        }
    return WEFT_OK;
}

/* Allocates no memory before all weights are known to be in the files, so the import needs no more memory than their
 * size. */
static enum weft_status read_all(struct weft_nn *model, const struct weft_hf_family *family, const struct files *f)
{
    struct weft_params *p = &model->params;
    for (int i = 0; i < p->count; i++)
        TRY(read_weight(f, family, p, &p->list[i], false));
    TRY(check_left(model, family, f));
    TRY(weft_params_alloc(p));
    for (int i = 0; i < p->count; i++)
        TRY(read_weight(f, family, p, &p->list[i], true));
    return WEFT_OK;
}

enum weft_status weft_hf_weights(struct weft_nn *model, const struct weft_hf_family *family, const char *folder)
{
    struct files *f = calloc(1, sizeof *f);
    if (!f)
        return FAIL(WEFT_NOMEM, "not enough memory for a list of files");
    enum weft_status status = open_all(f, folder);
    if (status == WEFT_OK)
        status = read_all(model, family, f);
    close_all(f);
    free(f);
    return status;
}
