/* SPDX-License-Identifier: MIT
 *
 * gguf_import.c - loads the weights of a GGUF file.
 */
#include "export/gguf/gguf.h"

#include <stdlib.h>
#include <string.h>

/* Finds a weight and checks its shape; then, if `values` is true, reads it. */
static enum weft_status read_weight(struct weft_nn *model, const struct weft_gguf_family *family,
                                    const struct weft_gguf *f, const struct weft_param *w, bool values, bool *used)
{
    char theirs[128];
    const struct weft_hf_name *rule = weft_hf_name(&family->names, w, theirs);
    if (!rule)
        return FAIL(WEFT_INVALID, "%s has no weight %s", family->names.type, w->name);
    struct weft_hf_place place = weft_hf_place(rule, w);
    int at = weft_gguf_find(f, theirs);
    if (at < 0)
        return FAIL(WEFT_INVALID, "%s has no tensor %s", weft_gguf_path(f), theirs);
    const struct weft_entry *e = weft_gguf_at(f, at);
    TRY(weft_hf_check(e, &place));
    used[at] = true;
    if (!values)
        return WEFT_OK;
    for (int64_t i = 0; i < place.rows; i++) {
        float *to = model->params.weights + w->offset + weft_gguf_row(family, model->spec, w->name, i) * place.columns;
        for (int64_t j = 0; j < place.columns; j++)
            to[j] = weft_hf_value(e, place.at + i * place.row + j);
    }
    return WEFT_OK;
}

/* Allocates no memory before all weights are known to be in the file, so the import needs no more memory than the
 * file's size. */
static enum weft_status read_all(struct weft_nn *model, const struct weft_gguf_family *family,
                                 const struct weft_gguf *f, bool *used)
{
    struct weft_params *p = &model->params;
    for (int i = 0; i < p->count; i++)
        TRY(read_weight(model, family, f, &p->list[i], false, used));
    if (weft_gguf_rope_listed(model->spec) && weft_gguf_find(f, "rope_freqs.weight") >= 0)
        used[weft_gguf_find(f, "rope_freqs.weight")] = true;
    for (int i = 0; i < weft_gguf_count(f); i++)
        if (!used[i])
            return FAIL(WEFT_INVALID, "%s has a tensor %s that the model does not have", weft_gguf_path(f),
                        weft_gguf_at(f, i)->name);
    TRY(weft_params_alloc(p));
    for (int i = 0; i < p->count; i++)
        TRY(read_weight(model, family, f, &p->list[i], true, used));
    return WEFT_OK;
}

enum weft_status weft_gguf_weights(struct weft_nn *model, const struct weft_hf_family *family,
                                   const struct weft_gguf *f)
{
    bool *used = calloc((size_t)weft_gguf_count(f) + 1, sizeof *used);
    if (!used)
        return FAIL(WEFT_NOMEM, "not enough memory for a list of tensors");
    enum weft_status status = read_all(model, weft_gguf_family(family->type), f, used);
    free(used);
    return status;
}
