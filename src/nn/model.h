/* SPDX-License-Identifier: MIT
 *
 * model.h - a model and its weights, in memory and on disk.
 */
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include "nn/param.h"
#include "ops/types.h"

/* Halves of a block, as a set. */
enum { WEFT_WITHOUT_ATTN = 1, WEFT_WITHOUT_FFN = 2, WEFT_WITHOUT_BOTH = 3 };

struct weft_nn {
    const struct weft_spec *spec;
    struct weft_params params;
    /* For checks of what one layer contributes: in graphs, this layer is built as this spec says; NULL: none is. It has
     * the model's sizes, and no weights in the layer that the model lacks. */
    const struct weft_spec *other;
    int other_layer;
    /* Likewise, by layer: the halves that graphs leave out, so that the stream passes them unchanged; NULL: none. */
    const unsigned char *left_out;
    char origin[65]; /* SHA-256 of the file that weft_nn_adopt took weights from; "": none */
};

/* The spec must outlive the model. The weights are declared here, but have no memory yet. */
enum weft_status weft_nn_create(struct weft_nn **model, const struct weft_spec *spec);
enum weft_status weft_nn_init(struct weft_nn *model); /* allocates the weights and draws their initial values */
void weft_nn_free(struct weft_nn *model);

/* ---- weights on disk (weights.c): safetensors under the weights' own names */

enum weft_status weft_nn_save(const struct weft_nn *model, const char *path); /* a file; f32 */
/* The folder with config.json and model.safetensors that a path stands for: itself, or a run's newest valid checkpoint.
 */
enum weft_status weft_nn_folder(const char *path, char *folder, size_t room);
/* The file with the weights: `path` itself, or that of such a folder. */
enum weft_status weft_nn_file(const char *path, char *file, size_t room);
/* Loads the weights of a file or of such a folder. Names and shapes must be the model's, none missing and none more;
 * the error lists what does not fit. Narrower floats are widened. */
enum weft_status weft_nn_load(struct weft_nn *model, const char *path);

/* ---- weights of another model (weights_adopt.c), to begin training with */

enum weft_fit { WEFT_FIT_COPIED, WEFT_FIT_EXTENDED, WEFT_FIT_NEW, WEFT_FIT_LEFT };
typedef void weft_fit_fn(void *context, const char *name, enum weft_fit fit);
/* Takes over, into a model with initial weights, those of a file or folder as above that fit by name and shape, and
 * those that can be extended to another context. What fits nowhere is left, and refused unless `leave` is true. Every
 * weight of both is reported to `fn`, which may be NULL. A model that has no weights yet is only compared. */
enum weft_status weft_nn_adopt(struct weft_nn *model, const char *path, bool leave, weft_fit_fn *fn, void *context);
/* As weft_nn_load, of weights that were trained at another context: those whose size follows it are extended, and then
 * all are reported to `fn`, which may be NULL. */
enum weft_status weft_nn_load_at(struct weft_nn *model, const char *path, weft_fit_fn *fn, void *context);

#endif
