/* SPDX-License-Identifier: MIT
 *
 * hf.h - the folders of Hugging Face: config.json, model.safetensors (or several files with an index) and
 * tokenizer.json.
 *
 * A family is what transformers calls a model type. It says which models of Weft it has, what they are called in its
 * config.json, and its weights' names; both ways go through the same tables. A model that no family has is written as
 * one of Weft's own, together with code for exactly this model.
 */
#ifndef WEFT_HF_H
#define WEFT_HF_H

#include "ckpt/ckpt.h"
#include "nn/net.h"

#include <jansson.h>

/* A weight under its two names, in which %d is the layer. Several of ours side by side can be one of theirs. */
struct weft_hf_name {
    const char *ours, *theirs;
    int piece, pieces; /* 0: it is alone */
    bool transposed;   /* theirs is [in, out] */
};

struct weft_hf_family {
    const char *type, *architecture; /* model_type, and the class that transformers loads */
    const char *preset;
    const char *const *needs;         /* settings without which a model is none of the family, NULL-terminated */
    const struct weft_hf_name *names; /* end with NULL */
    const struct weft_hf_size *sizes; /* end with NULL */
};

/* A key of config.json that is an option of ours; NULL: hf_rope.c has it. */
struct weft_hf_size {
    const char *ours, *theirs;
};

/* The family that has a model; refused, with what stands against it, if none has. */
enum weft_status weft_hf_family_of(const struct weft_spec *spec, const struct weft_hf_family **family);
/* The family of a model_type; refused by name if there is none. */
enum weft_status weft_hf_family_find(const char *type, const char *where, const struct weft_hf_family **family);
/* The rule for one of our weights, and their name of it; NULL if there is none. */
const struct weft_hf_name *weft_hf_name(const struct weft_hf_family *family, const struct weft_param *w,
                                        char theirs[128]);

/* One of our weights inside theirs: theirs[at + i * row + j] = ours[i * columns + j], or with j and i changed for one
 * that is transposed; rows x columns are ours (hf.c). */
struct weft_hf_place {
    int64_t rows, columns, at, row;
    int ndim;
    int64_t dim[WEFT_MAX_DIMS]; /* of theirs */
};
struct weft_hf_place weft_hf_place(const struct weft_hf_name *rule, const struct weft_param *w);

/* One of their weights in a file (hf_entry.c): whether it has the type, F32, F16 or BF16, and the shape; and its
 * elements. */
enum weft_status weft_hf_check(const struct weft_entry *e, const struct weft_hf_place *p);
float weft_hf_value(const struct weft_entry *e, int64_t i);

/* ---- models that none of their architectures is (hf_own.c): a family of its own, with its code in the folder */

extern const struct weft_hf_family weft_hf_own;
const struct weft_hf_name *weft_hf_own_name(const struct weft_param *w, char theirs[128]);
enum weft_status weft_hf_own_config(const struct weft_nn *model, json_t **config);
enum weft_status weft_hf_own_read(const json_t *config, const char *where, struct weft_settings *settings);
/* Writes the code of a model with these options, an object of texts, into a folder (hf_code.c). */
enum weft_status weft_hf_code(const json_t *options, const char *folder);

/* ---- config.json (hf_config.c) */

/* The caller releases it. */
enum weft_status weft_hf_config_make(const struct weft_hf_family *family, const struct weft_spec *spec,
                                     json_t **config);
/* Adds the settings that a config.json means. What changes a result and is not understood is refused by name. */
enum weft_status weft_hf_config_read(const struct weft_hf_family *family, const json_t *config, const char *where,
                                     struct weft_settings *settings);

/* Adds the setting NAME=VALUE of a number, or of true or false (hf_setting.c). */
enum weft_status weft_hf_setting(struct weft_settings *s, const char *name, const json_t *value, const char *where);

/* rope_parameters, or rope_scaling as it once was: of a model's spec, and as settings (hf_rope.c). */
json_t *weft_hf_rope_make(const struct weft_spec *spec);
enum weft_status weft_hf_rope_read(const json_t *config, const char *where, struct weft_settings *settings);

/* ---- whole folders */

/* Writes config.json and model.safetensors, in f32, into a folder, and for weft_hf_own the code (hf_export.c). */
enum weft_status weft_hf_export(const struct weft_nn *model, const struct weft_hf_family *family, const char *folder);
/* Writes a tokenizer into a folder, as tokenizer.json with what transformers wants beside it (hf_tokenizer.c). NULL:
 * none.
 */
struct weft_tokenizer;
enum weft_status weft_hf_tokenizer(const struct weft_tokenizer *t, int64_t context, const char *folder);
/* Writes a small file such as config.json. */
enum weft_status weft_hf_json_write(const json_t *object, const char *path);
/* Their weights into the model's (hf_import.c). Each must be there with its shape, in f32, f16 or bf16; one that the
 * model has no place for is refused. */
enum weft_status weft_hf_weights(struct weft_nn *model, const struct weft_hf_family *family, const char *folder);

#endif
