/* SPDX-License-Identifier: MIT
 *
 * gguf.h - GGUF, the file format of llama.cpp: metadata, a list of tensors, and their values.
 *
 *     "GGUF", version (u32), number of tensors and of keys (u64)
 *     each key: its name, its type (u32), its value; a list has the type of its elements (u32) and their number (u64)
 *     each tensor: its name, the number of its dimensions (u32), the dimensions, innermost first (u64), its type (u32),
 *         and the offset of its values (u64) from the start of all values
 *     the values, each tensor at an offset that is a multiple of general.alignment
 *
 * Strings are their length (u64) and their bytes. All numbers are little-endian. GGUF uses the families of hf.h,
 * because its keys are those of config.json under different names.
 */
#ifndef WEFT_GGUF_H
#define WEFT_GGUF_H

#include "export/hf/hf.h"

#define WEFT_GGUF_MAGIC "GGUF"
enum { WEFT_GGUF_VERSION = 3, WEFT_GGUF_ALIGNMENT = 32 };

/* Types of values, with their codes in files. */
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

/* ---- reading (gguf.c). Every size and string is checked when the file is opened, so it is safe to open any file. */

struct weft_gguf; /* a memory-mapped file, see weft_safetensors */

struct weft_gguf_key {
    const char *name;
    enum weft_gguf_type type, of; /* of: type of a list's elements */
    uint64_t count;               /* number of a list's elements */
    const unsigned char *at;      /* its value, or a list's first element; not aligned */
};

enum weft_status weft_gguf_open(struct weft_gguf **f, const char *path);
void weft_gguf_close(struct weft_gguf *f); /* f may be NULL */
const char *weft_gguf_path(const struct weft_gguf *f);
int weft_gguf_key_count(const struct weft_gguf *f);
const struct weft_gguf_key *weft_gguf_key_at(const struct weft_gguf *f, int i);              /* sorted by name */
const struct weft_gguf_key *weft_gguf_key_find(const struct weft_gguf *f, const char *name); /* or NULL */
/* Tensors, with the outermost dimension first. They are F32, F16 (foreign) or BF16; other types are errors. */
int weft_gguf_count(const struct weft_gguf *f);
const struct weft_entry *weft_gguf_at(const struct weft_gguf *f, int i); /* sorted by name */
int weft_gguf_find(const struct weft_gguf *f, const char *name);         /* -1: none */

/* Converts a number, or a boolean to 0 or 1; returns false for other types and non-finite numbers. An f32 becomes the
 * shortest decimal number that rounds to it: 1e-5, not 9.99999974e-6. */
bool weft_gguf_number(const struct weft_gguf_key *key, double *x);
double weft_gguf_shortest(float x);
/* Converts an integer of any type; returns false for other types and integers that are too large. */
bool weft_gguf_whole(const struct weft_gguf_key *key, int64_t *n);
/* Finds the string at `at` and its length in bytes; returns its end, which is the next element of a list of strings. */
const unsigned char *weft_gguf_text(const unsigned char *at, const char **text, size_t *bytes);
/* Returns whether the key exists and is this string. */
bool weft_gguf_is(const struct weft_gguf_key *key, const char *text);
/* Writes a value for a message: a number, the beginning of a string, "a list", or for NULL "missing". */
void weft_gguf_show(const struct weft_gguf_key *key, char text[64]);

/* ---- models in GGUF (gguf_family.c) */

struct weft_gguf_family {
    struct weft_hf_family names; /* GGUF's names of Weft's weights, and GGUF's keys without the architecture's name */
    bool paired; /* coordinates that rotate together are half a head apart in Weft's queries and keys, but adjacent in
                    GGUF's */
};
/* Returns the family of an architecture; NULL: there is none. */
const struct weft_gguf_family *weft_gguf_family(const char *architecture);
/* Returns GGUF's family for a model of a family of transformers. (GGUF's qwen2 requires heads of width / heads columns;
 * its llama may have the same biases.) */
const struct weft_gguf_family *weft_gguf_family_of(const struct weft_spec *spec, const struct weft_hf_family *family);
/* Returns the row of Weft's weight that is row i of GGUF's weight. */
int64_t weft_gguf_row(const struct weft_gguf_family *family, const struct weft_spec *spec, const char *ours, int64_t i);

/* ---- import */

/* Adds the settings that correspond to the metadata (gguf_config.c). Unknown keys that change a result are errors that
 * name the key. Sets *family to a family of transformers, never to NULL. */
enum weft_status weft_gguf_config(const struct weft_gguf *f, const struct weft_hf_family **family,
                                  struct weft_settings *settings);
/* Like weft_hf_weights (gguf_import.c). */
enum weft_status weft_gguf_weights(struct weft_nn *model, const struct weft_hf_family *family,
                                   const struct weft_gguf *f);
/* Creates the tokenizer, or NULL if the file has none (gguf_tokenizer.c). */
struct weft_tokenizer;
enum weft_status weft_gguf_tokenizer(const struct weft_gguf *f, struct weft_tokenizer **t);
/* Creates the tokenizer.json of a SentencePiece tokenizer (gguf_sentencepiece.c). The caller releases it. */
enum weft_status weft_gguf_sentencepiece(const struct weft_gguf *f, json_t **root);
/* Types of tokens in tokenizer.ggml.token_type. */
enum {
    WEFT_GGUF_NORMAL = 1,
    WEFT_GGUF_UNKNOWN = 2,
    WEFT_GGUF_CONTROL = 3,
    WEFT_GGUF_UNUSED = 5,
    WEFT_GGUF_BYTE = 6,
};

/* Adds rope_parameters to a config.json, for a model with this head width, linear scaling (1: none), and optionally
 * rope_freqs.weight (gguf_rope.c). */
enum weft_status weft_gguf_rope_read(const struct weft_gguf *f, const char *type, int64_t head, double linear,
                                     json_t *config);
/* Return whether a model has the tensor rope_freqs.weight, and the tensor's element i. */
bool weft_gguf_rope_listed(const struct weft_spec *spec);
float weft_gguf_rope_factor(const struct weft_spec *spec, int64_t i);

/* ---- export (gguf_export.c) */

/* Types of exported matrices, in the order of weft_gguf_weight_names, which is NULL-terminated. Vectors and positions
 * stay f32. */
enum weft_gguf_weight { WEFT_GGUF_WEIGHT_F32, WEFT_GGUF_WEIGHT_F16, WEFT_GGUF_WEIGHT_BF16, WEFT_GGUF_WEIGHT_Q8_0 };
extern const char *const weft_gguf_weight_names[];

/* Writes a file. The tokenizer may be NULL; one that GGUF cannot represent is left out, with a notice. */
enum weft_status weft_gguf_export(const struct weft_nn *model, const struct weft_tokenizer *tokenizer,
                                  enum weft_gguf_weight weight, const char *path);

/* Collects keys and values for a file (gguf_write.c). Write errors are reported when `to` is closed. */
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
/* Adds the keys of scaled rope (gguf_rope.c). */
enum weft_status weft_gguf_rope_write(struct weft_gguf_out *o, const char *type, const struct weft_spec *spec);
/* Adds a tokenizer's keys, with a name for each of the model's tokens (gguf_tokenizer.c). */
enum weft_status weft_gguf_add_tokenizer(struct weft_gguf_out *o, const struct weft_tokenizer *t, int64_t vocab);

#endif
