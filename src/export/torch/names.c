/* SPDX-License-Identifier: MIT
 *
 * names.c - the names of weights in PyTorch.
 */
#include "export/torch/torch.h"

#include <stdio.h>
#include <string.h>

static void replace_end(char name[128], const char *end, const char *by)
{
    snprintf(name + strlen(name) - strlen(end), strlen(end) + 16, "%s", by);
}

void weft_torch_weight_name(const struct weft_param *w, char name[128])
{
    bool is_matrix = w->ndim == 2 && w->group <= WEFT_TRAINED_HEAD && !w->init_blocks;
    snprintf(name, 128, "%.100s", w->name);
    if (w->role == WEFT_HEAD)
        snprintf(name, 128, "lm_head.weight");
    else if (weft_ends_in(name, "_bias"))
        replace_end(name, "_bias", ".bias");
    else if (weft_ends_in(name, "_gain"))
        replace_end(name, "_gain", "_norm.weight");
    else if (weft_ends_in(name, ".gain"))
        replace_end(name, ".gain", ".weight");
    else if (is_matrix)
        replace_end(name, "", ".weight");
}
