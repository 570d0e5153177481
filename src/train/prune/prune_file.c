/* SPDX-License-Identifier: MIT
 *
 * prune_file.c - stores masks on disk: for each pruned weight, i32 [count / 32] under its name; bit i % 32 of word i /
 * 32 is element i.
 */
#include "ckpt/ckpt.h"
#include "train/prune/prune.h"

#include <stdlib.h>

enum weft_status weft_masks_save(const struct weft_learner *t, const char *path, const char *const *metadata)
{
    const struct weft_params *p = &t->model->params;
    struct weft_entry *entries = calloc((size_t)p->count, sizeof *entries);
    int count = 0;
    if (!entries)
        return FAIL(WEFT_NOMEM, "not enough memory for a list of masks");
    for (int i = 0; i < p->count; i++)
        if (weft_mask_exists(t, i))
            entries[count++] = (struct weft_entry){.name = p->list[i].name,
                                                   .dtype = WEFT_I32,
                                                   .ndim = 1,
                                                   .dim = {weft_mask_words(&p->list[i])},
                                                   .data = weft_mask_of(t, &p->list[i])};
    enum weft_status status = weft_safetensors_write(path, entries, count, metadata);
    free(entries);
    return status;
}

static enum weft_status read_masks(struct weft_learner *t, const struct weft_safetensors *f)
{
    const struct weft_params *p = &t->model->params;
    for (int i = 0; i < p->count; i++) {
        const struct weft_param *w = &p->list[i];
        struct weft_tensor mask = {
            .data = weft_mask_of(t, w), .dtype = WEFT_I32, .ndim = 1, .dim = {weft_mask_words(w)}};
        if (weft_mask_exists(t, i))
            TRY(weft_safetensors_read(f, w->name, &mask));
    }
    return WEFT_OK;
}

enum weft_status weft_masks_load(struct weft_learner *t, const char *path)
{
    struct weft_safetensors *f;
    TRY(weft_safetensors_open(&f, path));
    enum weft_status status = read_masks(t, f);
    weft_safetensors_close(f);
    weft_masks_count(t);
    return status;
}
