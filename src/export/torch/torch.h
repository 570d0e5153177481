/* SPDX-License-Identifier: MIT
 *
 * torch.h - prints a model as readable PyTorch code.
 */
#ifndef WEFT_TORCH_H
#define WEFT_TORCH_H

#include "nn/model.h"

/* The two kinds of code. A module is plain PyTorch, printed from the graph that trains: it computes logits and, given
 * targets, the loss. A decoder is a class for transformers with a cache, printed from the graph that decodes; a model
 * that reads later tokens is rejected. */
enum weft_torch_code { WEFT_TORCH_MODULE, WEFT_TORCH_DECODER };
enum weft_status weft_torch_print(const struct weft_nn *model, enum weft_torch_code code, const char *path);

/* Writes the name that a weight has in the code and its file: Weft's name with PyTorch's endings. wq and wq_bias are
 * wq.weight and wq.bias of a Linear, and gain is the weight of a norm. */
void weft_torch_weight_name(const struct weft_param *w, char name[128]);

#endif
