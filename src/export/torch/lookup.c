/* SPDX-License-Identifier: MIT
 *
 * lookup.c - finds the atom of a graph's value, and the weight that an atom is, with its name in the code.
 */
#include "export/torch/print.h"

#include <string.h>

const struct weft_atom *weft_torch_of(const struct weft_torch_printer *p, const struct weft_value *v)
{
    return v ? p->form->of_value[v->id] : NULL;
}

const struct weft_param *weft_torch_weight(const struct weft_torch_printer *p, const struct weft_atom *a)
{
    return &p->model->params.list[weft_params_find(&p->model->params, a->name)];
}

int weft_torch_layer_of(const struct weft_param *w)
{
    int layer;
    return sscanf(w->name, "blocks.%d.", &layer) == 1 ? layer : WEFT_TORCH_MODEL;
}

/* Fails if the code cannot use a weight's name. */
static void check_name(struct weft_torch_printer *p, const struct weft_param *w, const char *name)
{
    for (const char *at = name; at; at = *at ? at + 1 : NULL) {
        int length = (int)strcspn(at, ".");
        if (!weft_torch_is_name(at, length) && p->status == WEFT_OK)
            p->status = FAIL(WEFT_INVALID,
                             "PyTorch export: the weight %s cannot be an attribute of a module, because of \"%.*s\": "
                             "choose a different name",
                             w->name, length, at);
        at += length;
    }
}

void weft_torch_name_weights(struct weft_torch_printer *p)
{
    const struct weft_params *list = &p->model->params;
    for (int i = 0; i < list->count; i++) {
        char name[128];
        int layer, length = 0;
        weft_torch_weight_name(&list->list[i], name);
        if (sscanf(name, "blocks.%d.%n", &layer, &length) != 1)
            length = 0;
        p->weight_names[i] = weft_torch_text(p, "%s", name + length);
        check_name(p, &list->list[i], p->weight_names[i]);
    }
}

const char *weft_torch_local_name(const struct weft_torch_printer *p, const struct weft_param *w)
{
    return p->weight_names[w - p->model->params.list];
}
