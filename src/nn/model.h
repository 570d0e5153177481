/* SPDX-License-Identifier: MIT
 *
 * model.h - a model and its weights, in memory and on disk.
 */
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include "nn/param.h"
#include "ops/types.h"

/* A set of halves of a block. */
enum { WEFT_WITHOUT_ATTN = 1, WEFT_WITHOUT_FFN = 2, WEFT_WITHOUT_BOTH = 3 };

struct weft_nn {
    const struct weft_spec *spec;
    struct weft_params params;
    /* For checks of one layer's contribution: graphs build layer `other_layer` from this spec; NULL: none. The spec has
     * the model's sizes and, in this layer, no weights that the model lacks. */
    const struct weft_spec *other;
    int other_layer;
    /* Also for checks: for each layer, the halves that graphs omit, which pass the residual stream through unchanged;
     * NULL: none. */
    const unsigned char *left_out;
    char origin[65]; /* SHA-256 of the file that weft_nn_adopt loaded weights from; "": none */
};

/* Creates a model and declares its weights without allocating them. The spec must outlive the model. */
enum weft_status weft_nn_create(struct weft_nn **model, const struct weft_spec *spec);
enum weft_status weft_nn_init(struct weft_nn *model); /* allocates the weights and initialises them randomly */
void weft_nn_free(struct weft_nn *model);

/* ---- weights on disk (weights.c): safetensors files with Weft's weight names */

enum weft_status weft_nn_save(const struct weft_nn *model, const char *path); /* writes a file in f32 */
/* Finds the folder with config.json and model.safetensors that a path refers to: itself, or a run's newest valid
 * checkpoint. */
enum weft_status weft_nn_folder(const char *path, char *folder, size_t room);
/* Finds the file with the weights: `path` itself, or the one in the folder that weft_nn_folder finds. */
enum weft_status weft_nn_file(const char *path, char *file, size_t room);
/* Loads the weights from a path that weft_nn_file accepts. Names and shapes must match the model's exactly; the error
 * lists missing, extra and mismatched weights. Narrower floats are widened. */
enum weft_status weft_nn_load(struct weft_nn *model, const char *path);

/* ---- weights of a different model (weights_adopt.c) as initial weights */

enum weft_fit { WEFT_FIT_COPIED, WEFT_FIT_EXTENDED, WEFT_FIT_NEW, WEFT_FIT_LEFT };
typedef void weft_fit_fn(void *context, const char *name, enum weft_fit fit);
/* Replaces a model's initial weights with weights from `path` (see weft_nn_file) that match by name and shape, or that
 * can be extended to a different context. Unmatched weights of the file are ignored if `leave` is true, and an error
 * otherwise. Reports every weight of the model and the file to `fn`, which may be NULL. If the model's weights are not
 * allocated, only compares and reports nothing. */
enum weft_status weft_nn_adopt(struct weft_nn *model, const char *path, bool leave, weft_fit_fn *fn, void *context);
/* Like weft_nn_load, for weights that were trained with a different context: extends those whose size depends on it,
 * and then reports all weights to `fn`, which may be NULL. */
enum weft_status weft_nn_load_at(struct weft_nn *model, const char *path, weft_fit_fn *fn, void *context);

#endif
