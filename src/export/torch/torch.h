/* SPDX-License-Identifier: MIT
 *
 * torch.h - exports a model as plain PyTorch: a folder with model.py and model.safetensors.
 */
#ifndef WEFT_TORCH_H
#define WEFT_TORCH_H

#include "nn/model.h"

/* Writes the model into a new folder. The class in model.py computes logits and, given targets, the loss of training.
 */
enum weft_status weft_torch_export(const struct weft_nn *model, const char *folder);

#endif
