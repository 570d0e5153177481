/* SPDX-License-Identifier: MIT
 *
 * hf_export.c - writes a model as a Hugging Face folder.
 */
#include "ckpt/ckpt.h"
#include "export/hf/hf.h"
#include "export/torch/torch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The tensors for transformers, created one after the other from Weft's weights. */
struct tensors {
    struct weft_entry *entry;
    char (*name)[128];
    int count;
};

static float *find_or_add(struct tensors *t, const char *name, const struct weft_hf_place *p)
{
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->name[i], name) == 0)
            return (float *)t->entry[i].data;
    struct weft_entry *e = &t->entry[t->count];
    snprintf(t->name[t->count], sizeof *t->name, "%s", name);
    *e = (struct weft_entry){.name = t->name[t->count], .dtype = WEFT_F32, .ndim = p->ndim};
    memcpy(e->dim, p->dim, sizeof e->dim);
    int64_t count = 1;
    for (int d = 0; d < p->ndim; d++)
        count *= p->dim[d];
    e->data = calloc((size_t)count, sizeof(float));
    t->count += e->data != NULL;
    return (float *)e->data;
}

static enum weft_status add_weight(struct tensors *t, const struct weft_hf_family *family, const struct weft_params *p,
                                   const struct weft_param *w)
{
    char theirs[128];
    const struct weft_hf_name *rule = weft_hf_name(family, w, theirs);
    if (!rule)
        return FAIL(WEFT_INVALID, "%s has no weight %s", family->architecture, w->name);
    struct weft_hf_place place = weft_hf_place(rule, w);
    float *to = find_or_add(t, theirs, &place);
    const float *from = p->weights + w->offset;
    if (!to)
        return FAIL(WEFT_NOMEM, "not enough memory for a copy of %s", w->name);
    for (int64_t i = 0; i < place.rows; i++)
        for (int64_t j = 0; j < place.columns; j++)
            to[place.at + (rule->transposed ? j * place.row + i : i * place.row + j)] = from[i * place.columns + j];
    return WEFT_OK;
}

static enum weft_status write_weights(const struct weft_nn *model, const struct weft_hf_family *family,
                                      const char *path)
{
    const struct weft_params *p = &model->params;
    struct tensors t = {calloc((size_t)p->count, sizeof *t.entry), calloc((size_t)p->count, sizeof *t.name), 0};
    enum weft_status status = t.entry && t.name ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for a list of weights");
    for (int i = 0; status == WEFT_OK && i < p->count; i++)
        status = add_weight(&t, family, p, &p->list[i]);
    if (status == WEFT_OK)
        status = weft_safetensors_write(path, t.entry, t.count, (const char *const[]){"format", "pt", NULL});
    for (int i = 0; i < t.count; i++)
        free((void *)t.entry[i].data);
    free(t.entry);
    free(t.name);
    return status;
}

enum weft_status weft_hf_json_write(const json_t *object, const char *path)
{
    char *text = json_dumps(object, JSON_INDENT(2));
    enum weft_status status =
        text ? weft_file_replace(path, text, strlen(text)) : FAIL(WEFT_NOMEM, "not enough memory for %s", path);
    free(text);
    return status;
}

/* Writes weights and config; the model's code is written before them, because it may be rejected. */
static enum weft_status write_files(const struct weft_nn *model, const struct weft_hf_family *family,
                                    const json_t *config, const char *folder)
{
    char path[4200];
    snprintf(path, sizeof path, "%.4095s/model.safetensors", folder);
    TRY(write_weights(model, family, path));
    snprintf(path, sizeof path, "%.4095s/config.json", folder);
    TRY(weft_hf_json_write(config, path));
    return WEFT_OK;
}

/* Removes a new folder if the first file could not be written, for example because the model was rejected. */
static enum weft_status keep_folder(enum weft_status status, const char *folder)
{
    if (status != WEFT_OK)
        rmdir(folder);
    return status;
}

enum weft_status weft_hf_export(const struct weft_nn *model, const struct weft_hf_family *family, const char *folder)
{
    json_t *config = NULL;
    TRY(weft_folder_make(folder));
    if (family == &weft_hf_own)
        TRY(keep_folder(weft_hf_own_code(model, folder), folder));
    enum weft_status status =
        family == &weft_hf_own ? weft_hf_own_config(model, &config) : weft_hf_config_make(family, model->spec, &config);
    if (status == WEFT_OK)
        status = write_files(model, family, config, folder);
    json_decref(config);
    return status;
}

enum weft_status weft_hf_export_module(const struct weft_nn *model, const char *folder)
{
    char path[4200];
    json_t *config = NULL;
    TRY(weft_folder_make(folder));
    snprintf(path, sizeof path, "%.4095s/model.py", folder);
    TRY(keep_folder(weft_torch_print(model, WEFT_TORCH_MODULE, path), folder));
    enum weft_status status = weft_hf_own_config(model, &config);
    if (status == WEFT_OK) {
        json_object_del(config, "architectures");
        json_object_del(config, "auto_map");
        status = write_files(model, &weft_hf_own, config, folder);
    }
    json_decref(config);
    return status;
}
