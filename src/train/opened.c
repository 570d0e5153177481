/* SPDX-License-Identifier: MIT
 *
 * opened.c - loads the weights of a trained model for all commands and the C API.
 */
#include "train/record/record.h"

#include <string.h>

static bool is_file(const char *path)
{
    static const char end[] = ".safetensors";
    size_t n = strlen(path), m = sizeof end - 1;
    return n >= m && strcmp(path + n - m, end) == 0;
}

enum weft_status weft_weights_open(struct weft_nn *model, const char *path)
{
    char folder[4096];
    if (is_file(path))
        return weft_nn_load(model, path);
    TRY(weft_nn_folder(path, folder, sizeof folder));
    TRY(weft_nn_load(model, folder));
    TRY(weft_state_verify(folder, &model->params));
    return WEFT_OK;
}
