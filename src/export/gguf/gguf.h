/* SPDX-License-Identifier: MIT
 *
 * gguf.h - GGUF, the file of llama.cpp: metadata, a list of tensors, and their values.
 *
 *     "GGUF", version (u32), number of tensors and of keys (u64)
 *     each key: its name, its type (u32), its value; a list has the type of its elements (u32) and their number (u64)
 *     each tensor: its name, the number of its dimensions (u32), these from the innermost on (u64), its type (u32), and
 *         where its values begin (u64), counted from the first of all
 *     the values, each tensor at a multiple of general.alignment
 *
 * Texts are their length (u64) and their bytes. All numbers are little-endian. The families of hf.h serve for it too:
 * its keys are those of config.json under other names.
 */
#ifndef WEFT_GGUF_H
#define WEFT_GGUF_H

#include "export/hf/hf.h"

#define WEFT_GGUF_MAGIC "GGUF"
enum { WEFT_GGUF_VERSION = 3, WEFT_GGUF_ALIGNMENT = 32 };

/* Types of values, by their numbers in files. */
enum weft_gguf_type {
    WEFT_GGUF_U8,
    WEFT_GGUF_I8,
    WEFT_GGUF_U16,
    WEFT_GGUF_I16,
    WEFT_GGUF_U32,
    WEFT_GGUF_I32,
    WEFT_GGUF_F32,
    WEFT_GGUF_BOOL,
    WEFT_GGUF_TEXT,
    WEFT_GGUF_LIST,
    WEFT_GGUF_U64,
    WEFT_GGUF_I64,
    WEFT_GGUF_F64,
    WEFT_GGUF_TYPES,
};

/* ---- reading (gguf.c). Every size and text is checked when the file is opened: it is safe to open any file. */

struct weft_gguf; /* a memory-mapped file, see weft_safetensors */

struct weft_gguf_key {
    const char *name;
    enum weft_gguf_type type, of; /* of: of a list's elements */
    uint64_t count;               /* of a list */
    const unsigned char *at;      /* its value, or a list's first element; not aligned */
};

enum weft_status weft_gguf_open(struct weft_gguf **f, const char *path);
void weft_gguf_close(struct weft_gguf *f); /* NULL is fine */
const char *weft_gguf_path(const struct weft_gguf *f);
int weft_gguf_key_count(const struct weft_gguf *f);
const struct weft_gguf_key *weft_gguf_key_at(const struct weft_gguf *f, int i);              /* sorted by name */
const struct weft_gguf_key *weft_gguf_key_find(const struct weft_gguf *f, const char *name); /* or NULL */
/* Tensors, with the outermost dimension first. They are F32, F16 (foreign) or BF16: others are refused. */
int weft_gguf_count(const struct weft_gguf *f);
const struct weft_entry *weft_gguf_at(const struct weft_gguf *f, int i); /* sorted by name */
int weft_gguf_find(const struct weft_gguf *f, const char *name);         /* -1: none */

/* A number, or false and true as 0 and 1; false: it is something else, or it is not finite. An f32 is the shortest
 * decimal number that becomes it: 1e-5, not 9.99999974e-6. */
bool weft_gguf_number(const struct weft_gguf_key *key, double *x);
double weft_gguf_shortest(float x);
/* A whole number, whatever its type; false: it is something else, or too large. */
bool weft_gguf_whole(const struct weft_gguf_key *key, int64_t *n);
/* The text at `at` and its bytes; returns where it ends, which is the next element of a list of texts. */
const unsigned char *weft_gguf_text(const unsigned char *at, const char **text, size_t *bytes);
/* Whether the key is there and is this text. */
bool weft_gguf_is(const struct weft_gguf_key *key, const char *text);
/* A value for a message: a number, the beginning of a text, "a list", or for NULL "missing". */
void weft_gguf_show(const struct weft_gguf_key *key, char text[64]);

/* ---- models as GGUF has them (gguf_family.c) */

struct weft_gguf_family {
    struct weft_hf_family names; /* their names of our weights, and their keys, without the architecture's name */
    bool paired; /* what rotates together, half a head apart in our queries and keys, lies side by side in theirs */
};
/* The family of an architecture; NULL: there is none. */
const struct weft_gguf_family *weft_gguf_family(const char *architecture);
/* The same of a model that transformers has. (GGUF's qwen2 has heads as wide as width / heads; its llama may have the
 * same biases.) */
const struct weft_gguf_family *weft_gguf_family_of(const struct weft_spec *spec, const struct weft_hf_family *family);
/* Which row of our weight is row i of theirs. */
int64_t weft_gguf_row(const struct weft_gguf_family *family, const struct weft_spec *spec, const char *ours, int64_t i);

/* ---- import */

/* Adds the settings that the metadata mean (gguf_config.c). What changes a result and is not understood is refused by
 * name. *family is of transformers; it is not NULL afterwards. */
enum weft_status weft_gguf_config(const struct weft_gguf *f, const struct weft_hf_family **family,
                                  struct weft_settings *settings);
/* As weft_hf_weights (gguf_import.c). */
enum weft_status weft_gguf_weights(struct weft_nn *model, const struct weft_hf_family *family,
                                   const struct weft_gguf *f);
/* The tokenizer, or NULL where the file has none (gguf_tokenizer.c). */
struct weft_tokenizer;
enum weft_status weft_gguf_tokenizer(const struct weft_gguf *f, struct weft_tokenizer **t);
/* The tokenizer.json of one of SentencePiece (gguf_sentencepiece.c). The caller releases it. */
enum weft_status weft_gguf_sentencepiece(const struct weft_gguf *f, json_t **root);
/* What a token is, in tokenizer.ggml.token_type. */
enum {
    WEFT_GGUF_NORMAL = 1,
    WEFT_GGUF_UNKNOWN = 2,
    WEFT_GGUF_CONTROL = 3,
    WEFT_GGUF_UNUSED = 5,
    WEFT_GGUF_BYTE = 6,
};

/* Adds rope_parameters to a config.json, of a model with this width of heads, linear scaling (1: none), and perhaps
 * rope_freqs.weight (gguf_rope.c). */
enum weft_status weft_gguf_rope_read(const struct weft_gguf *f, const char *type, int64_t head, double linear,
                                     json_t *config);
/* Whether a model has that tensor, and its element i. */
bool weft_gguf_rope_listed(const struct weft_spec *spec);
float weft_gguf_rope_factor(const struct weft_spec *spec, int64_t i);

/* ---- export (gguf_export.c) */

/* What matrices become; vectors and positions stay f32. In order of weft_gguf_weight_names, which ends with NULL. */
enum weft_gguf_weight { WEFT_GGUF_WEIGHT_F32, WEFT_GGUF_WEIGHT_F16, WEFT_GGUF_WEIGHT_BF16, WEFT_GGUF_WEIGHT_Q8_0 };
extern const char *const weft_gguf_weight_names[];

/* Writes a file. The tokenizer may be NULL; one that GGUF cannot have is left out, with a notice. */
enum weft_status weft_gguf_export(const struct weft_nn *model, const struct weft_tokenizer *tokenizer,
                                  enum weft_gguf_weight weight, const char *path);

/* Keys and their values, as they are collected for a file (gguf_write.c). Errors show when `to` is closed. */
struct weft_gguf_out {
    FILE *to;
    uint64_t count;
};
void weft_gguf_put(struct weft_gguf_out *o, const void *data, size_t bytes);
void weft_gguf_put_text(struct weft_gguf_out *o, const char *text);
void weft_gguf_put_key(struct weft_gguf_out *o, const char *name, enum weft_gguf_type type);
void weft_gguf_put_list(struct weft_gguf_out *o, const char *name, enum weft_gguf_type of, uint64_t count);
void weft_gguf_add_u32(struct weft_gguf_out *o, const char *name, uint32_t value);
void weft_gguf_add_f32(struct weft_gguf_out *o, const char *name, float value);
void weft_gguf_add_bool(struct weft_gguf_out *o, const char *name, bool value);
void weft_gguf_add_text(struct weft_gguf_out *o, const char *name, const char *value);
/* Adds the keys of scaled rotation (gguf_rope.c). */
enum weft_status weft_gguf_rope_write(struct weft_gguf_out *o, const char *type, const struct weft_spec *spec);
/* Adds a tokenizer's keys, with names for all of the model's tokens (gguf_tokenizer.c). */
enum weft_status weft_gguf_add_tokenizer(struct weft_gguf_out *o, const struct weft_tokenizer *t, int64_t vocab);

#endif
