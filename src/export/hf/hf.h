/* SPDX-License-Identifier: MIT
 *
 * hf.h - Hugging Face folders: config.json, model.safetensors (or several files with an index) and tokenizer.json.
 *
 * A family is what transformers calls a model type. Its tables define which Weft models belong to it, their settings in
 * config.json, and the names of their weights; import and export use the same tables. A model that belongs to no family
 * is written as a type of Weft's own, together with code for exactly this model.
 */
#ifndef WEFT_HF_H
#define WEFT_HF_H

#include "ckpt/ckpt.h"
#include "nn/net.h"

#include <jansson.h>

/* The names of a weight in Weft (ours) and in transformers (theirs), in which %d is the layer index. Several weights of
 * Weft can form one weight in transformers, side by side. */
struct weft_hf_name {
    const char *ours, *theirs;
    int piece, pieces; /* index of the piece and number of pieces in their weight; pieces is 0 if there is only one */
    bool transposed;   /* their weight is [in, out] */
};

struct weft_hf_family {
    const char *type, *architecture; /* model_type, and the class that transformers loads */
    const char *preset;
    const char *const *needs;         /* settings that every model of the family has, NULL-terminated */
    const struct weft_hf_name *names; /* end with NULL */
    const struct weft_hf_size *sizes; /* end with NULL */
};

/* A key of config.json that corresponds to an option of Weft; NULL: handled by hf_rope.c. */
struct weft_hf_size {
    const char *ours, *theirs;
};

/* Finds the family of a model; if there is none, the error gives the reason. */
enum weft_status weft_hf_family_of(const struct weft_spec *spec, const struct weft_hf_family **family);
/* Finds the family of a model_type; an unknown one is an error that names it. */
enum weft_status weft_hf_family_find(const char *type, const char *where, const struct weft_hf_family **family);
/* Returns the rule for one of Weft's weights, and the weight's name in the family; NULL if the family does not have the
 * weight. */
const struct weft_hf_name *weft_hf_name(const struct weft_hf_family *family, const struct weft_param *w,
                                        char theirs[128]);

/* The place of one of Weft's weights (ours) inside a weight of transformers (theirs):
 * theirs[at + i * row + j] = ours[i * columns + j], or with i and j swapped if transposed; ours has the shape
 * rows x columns (hf.c). */
struct weft_hf_place {
    int64_t rows, columns, at, row;
    int ndim;
    int64_t dim[WEFT_MAX_DIMS]; /* shape of theirs */
};
struct weft_hf_place weft_hf_place(const struct weft_hf_name *rule, const struct weft_param *w);

/* Check the type (F32, F16 or BF16) and shape of a weight in an imported file, and return its elements (hf_entry.c).
 */
enum weft_status weft_hf_check(const struct weft_entry *e, const struct weft_hf_place *p);
float weft_hf_value(const struct weft_entry *e, int64_t i);

/* ---- models that match no architecture of transformers (hf_own.c): a family of Weft's own, with its code in the
 * folder */

extern const struct weft_hf_family weft_hf_own;
const struct weft_hf_name *weft_hf_own_name(const struct weft_param *w, char theirs[128]);
enum weft_status weft_hf_own_config(const struct weft_nn *model, json_t **config);
enum weft_status weft_hf_own_read(const json_t *config, const char *where, struct weft_settings *settings);
/* Writes the model's code into a folder. */
enum weft_status weft_hf_own_code(const struct weft_nn *model, const char *folder);

/* ---- config.json (hf_config.c) */

/* Creates the config.json of a model; the caller releases it. */
enum weft_status weft_hf_config_make(const struct weft_hf_family *family, const struct weft_spec *spec,
                                     json_t **config);
/* Adds the settings that correspond to a config.json. Unknown keys that change a result are errors that name the key.
 */
enum weft_status weft_hf_config_read(const struct weft_hf_family *family, const json_t *config, const char *where,
                                     struct weft_settings *settings);

/* Adds the setting NAME=VALUE with a number or a boolean (hf_setting.c). */
enum weft_status weft_hf_setting(struct weft_settings *s, const char *name, const json_t *value, const char *where);

/* Convert rope_parameters, or its older form rope_scaling, from a model's spec and to settings (hf_rope.c). */
json_t *weft_hf_rope_make(const struct weft_spec *spec);
enum weft_status weft_hf_rope_read(const json_t *config, const char *where, struct weft_settings *settings);

/* ---- whole folders */

/* Writes config.json, model.safetensors in f32 and, for weft_hf_own, the code into a folder (hf_export.c). */
enum weft_status weft_hf_export(const struct weft_nn *model, const struct weft_hf_family *family, const char *folder);
/* Writes a folder with plain PyTorch, model.py, the weights that it loads, and a config.json with which the folder can
 * be imported again. */
enum weft_status weft_hf_export_module(const struct weft_nn *model, const char *folder);
/* Writes a tokenizer into a folder: tokenizer.json and the files that transformers needs with it (hf_tokenizer.c). Does
 * nothing if the tokenizer is NULL. */
struct weft_tokenizer;
enum weft_status weft_hf_tokenizer(const struct weft_tokenizer *t, int64_t context, const char *folder);
/* Writes a small file such as config.json. */
enum weft_status weft_hf_json_write(const json_t *object, const char *path);
/* Loads the weights in the files into the model (hf_import.c). Each weight must have the expected shape and be f32, f16
 * or bf16; missing and unknown weights are errors. */
enum weft_status weft_hf_weights(struct weft_nn *model, const struct weft_hf_family *family, const char *folder);

#endif
