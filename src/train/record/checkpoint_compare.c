/* SPDX-License-Identifier: MIT
 *
 * checkpoint_compare.c - compares a checkpoint in a replayed run's folder, bit by bit, with the one that would be saved
 * now.
 */
#include "base/opt.h"
#include "ckpt/ckpt.h"
#include "train/record/internal.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 4096, NAME = 256 };

static enum weft_status compare_array(const struct weft_safetensors *f, const struct weft_params *p, const float *array,
                                      const char *prefix, const char *path)
{
    for (int i = 0; i < p->count; i++) {
        const struct weft_param *w = &p->list[i];
        char name[NAME];
        snprintf(name, sizeof name, "%s%s", prefix, w->name);
        const struct weft_entry *e = weft_safetensors_find(f, name);
        size_t bytes = (size_t)w->count * sizeof *array;
        if (!e || e->foreign || e->dtype != WEFT_F32 || e->bytes != bytes || memcmp(e->data, array + w->offset, bytes))
            return FAIL(WEFT_CHECK, "%s in %s does not match the result of training again", name, path);
    }
    return WEFT_OK;
}

static enum weft_status compare_file(const struct weft_learner *t, const struct weft_safetensors *f,
                                     const struct weft_binding *binding, const char *path, bool optimizer)
{
    struct weft_binding found;
    const struct weft_params *p = &t->model->params;
    double loss;
    if (!weft_binding_read(f, &found))
        return FAIL(WEFT_FORMAT, "%s lacks some of the hashes that bind it to the run", path);
    const char *differs = weft_binding_differs(binding, &found);
    if (differs)
        return FAIL(WEFT_CHECK, "%s of %s does not match the result of training again", differs, path);
    if (!optimizer)
        return compare_array(f, p, p->weights, "", path);
    const char *text = weft_safetensors_metadata(f, "loss");
    if (!text || !weft_text_real(text, &loss) || loss != t->loss)
        return FAIL(WEFT_CHECK, "the loss in %s does not match the result of training again", path);
    TRY(compare_array(f, p, t->moments[0], "moments.0.", path));
    TRY(compare_array(f, p, t->moments[1], "moments.1.", path));
    return WEFT_OK;
}

static enum weft_status compare(const struct weft_learner *t, const char *folder, const struct weft_binding *binding,
                                bool optimizer)
{
    char path[ROOM + 32];
    struct weft_safetensors *f;
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, optimizer ? "optimizer" : "model");
    TRY(weft_safetensors_open(&f, path));
    enum weft_status status = compare_file(t, f, binding, path, optimizer);
    weft_safetensors_close(f);
    return status;
}

/* Checks whether the checkpoint in the folder belongs to this record. A run that was stopped and resumed at the same
 * step has saved its checkpoint twice; the folder holds the last one. */
static enum weft_status is_of_this_record(const char *folder, const struct weft_binding *binding, bool *is)
{
    char path[ROOM + 32];
    struct weft_safetensors *f;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    TRY(weft_safetensors_open(&f, path));
    const char *chain = weft_safetensors_metadata(f, "chain");
    *is = chain && strcmp(chain, binding->chain) == 0;
    weft_safetensors_close(f);
    return WEFT_OK;
}

enum weft_status weft_saved_compare(const struct weft_learner *t, struct weft_record *record,
                                    const struct weft_binding *binding)
{
    char folder[ROOM];
    bool is;
    snprintf(folder, sizeof folder, "%s/step-%09" PRId64, record->folder, t->step);
    if (access(folder, F_OK))
        return WEFT_OK;
    TRY(is_of_this_record(folder, binding, &is));
    if (!is)
        return WEFT_OK;
    TRY(compare(t, folder, binding, false));
    TRY(compare(t, folder, binding, true));
    TRY(weft_binding_check_texts(binding, folder));
    record->checkpoints++;
    return WEFT_OK;
}
