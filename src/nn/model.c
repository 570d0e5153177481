/* SPDX-License-Identifier: MIT
 *
 * model.c - declares a model's weights and allocates them.
 */
#include "nn/build.h"

#include <stdlib.h>

static void declare(struct weft_params *p, const struct weft_spec *spec)
{
    p->layer = p->rows_layer = -1;
    weft_params_add(p, (struct weft_param){.name = "wte",
                                           .ndim = 2,
                                           .dim = {spec->vocab, spec->width},
                                           .role = WEFT_TABLE,
                                           .tied = spec->tie,
                                           .init_value = WEFT_DEVIATION});
    weft_chosen_params(&spec->part[WEFT_POS], p, spec);
    for (int layer = 0; layer < spec->layers; layer++)
        weft_block_params(p, spec, layer);
    p->layer = p->rows_layer = -1;
    if (!spec->post) {
        weft_params_scope(p, "norm");
        weft_chosen_params(&spec->part[WEFT_NORM], p, spec);
    }
    weft_params_scope(p, "%s", "");
    if (!spec->tie)
        weft_params_head(p, "head", spec->vocab, spec->width);
}

enum weft_status weft_nn_create(struct weft_nn **model, const struct weft_spec *spec)
{
    struct weft_nn *m = *model = calloc(1, sizeof *m);
    if (!m)
        return FAIL(WEFT_NOMEM, "not enough memory for a model");
    m->spec = spec;
    declare(&m->params, spec);
    TRY(m->params.status);
    return WEFT_OK;
}

enum weft_status weft_nn_init(struct weft_nn *m)
{
    uint64_t seed = (uint64_t)m->spec->seed, key = (uint64_t)m->spec->init_key;
    TRY(weft_params_init(&m->params, key ? weft_key(seed, key) : seed));
    return WEFT_OK;
}

void weft_nn_free(struct weft_nn *m)
{
    if (!m)
        return;
    weft_params_release(&m->params);
    free(m);
}
