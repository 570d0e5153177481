/* SPDX-License-Identifier: MIT
 *
 * onnx.h - a model as an ONNX file of standard operators: the builder that its forward pass is written with.
 *
 * A value is its name in the file. Rows of all sequences stand below each other, [batch * length, width], as in Weft's
 * own graphs; attention works on [batch, heads, length, width]. Weights keep their names, shapes and bytes.
 *
 * Invariants: the first failure stays in `status`, and what is built after it does no harm. The file uses operators of
 * opset 17 alone. No weight is copied in memory: it is written when it is first used.
 */
#ifndef WEFT_ONNX_H
#define WEFT_ONNX_H

#include "ckpt/ckpt.h"
#include "nn/net.h"

/* Types of elements, as the format numbers them. */
enum weft_onnx_type { WEFT_ONNX_FLOAT = 1, WEFT_ONNX_INT64 = 7, WEFT_ONNX_BOOL = 9 };
enum { WEFT_ONNX_DIMS = 4 };

/* A size that is known, or one that the caller chooses, under a name. */
struct weft_onnx_dim {
    const char *symbol; /* NULL: it is known */
    int64_t size;
};
/* Of an input, an output, or a tensor in the file (whose dimensions are known). */
struct weft_onnx_shape {
    int ndim;
    struct weft_onnx_dim dim[WEFT_ONNX_DIMS];
};

/* An attribute of a node: one number (its type is INT or FLOAT), or a list. */
enum weft_onnx_attr_type { WEFT_ATTR_FLOAT = 1, WEFT_ATTR_INT = 2, WEFT_ATTR_INTS = 7 };
struct weft_onnx_attr {
    const char *name;
    enum weft_onnx_attr_type type;
    double real;
    int count;
    int64_t list[WEFT_ONNX_DIMS];
};

/* A protobuf message that grows. */
struct weft_proto {
    unsigned char *data;
    size_t used, room;
    bool failed; /* no memory: the message is not complete */
};

/* A file that is being written, and the graph in it. */
struct weft_onnx {
    const struct weft_nn *model;
    const struct weft_spec *spec;
    enum weft_status status;
    struct weft_arena arena; /* of names */
    struct weft_file file[2];
    int64_t data_bytes; /* written so far */
    struct weft_proto nodes, tensors, inputs, outputs;
    struct weft_onnx_known {
        const char *name;
        struct weft_onnx_known *next;
    } * known;      /* constants that are in the file */
    bool *written;  /* by weight: it is in the file */
    int values;     /* made so far: their names are numbered */
    char scope[64]; /* of weights and names: "blocks.3.attn" */
    int layer;

    /* Of all tokens (onnx_model.c): */
    const char *rows;          /* int64 [2]: batch and length */
    const char *past, *total;  /* int64 [1]: columns before the new tokens, and all columns */
    const char *behind;        /* int64 [batch, 1, length, total]: visible tokens from a column up to a row's own */
    const char *visible;       /* bool, likewise: a row sees the column */
    const char *mask;          /* int64 [batch, total]: 1 or 0 */
    const char *own;           /* int64 [batch, length]: visible tokens up to a new one, itself included */
    const char *cosine, *sine; /* f32 [batch, 1, length, half of what rotates]; NULL without rope */
    const char *alibi;         /* f32 [batch, heads, length, total]; NULL without alibi */

    /* Within a layer, and from a layer to the next one (onnx_recip.c); NULL: there is none. */
    const char *probabilities; /* [batch, heads, length, total] */
    const char *latent;        /* M3's c [rows, L] */
    const char *context;       /* what M3 adds to the next one's c */
    const char *gate;          /* M1's factor of the heads [rows, H] */
};

/* ---- the file format (onnx.c) */

/* Begins FOLDER/model.onnx and model.onnx.data. */
enum weft_status weft_onnx_begin(struct weft_onnx *g, const struct weft_nn *model, const char *folder);
/* Both files appear, complete, or neither does. To be called once they are begun, also after a failure. */
enum weft_status weft_onnx_end(struct weft_onnx *g);
void weft_onnx_fail(struct weft_onnx *g, enum weft_status status);
/* One node. The lists end with NULL; the attribute may be NULL. */
void weft_onnx_node(struct weft_onnx *g, const char *type, const struct weft_onnx_attr *attr, const char *const *inputs,
                    const char *const *outputs);
/* A constant: in the file itself, or if it is large beside it. */
void weft_onnx_tensor(struct weft_onnx *g, const char *name, enum weft_onnx_type type,
                      const struct weft_onnx_shape *shape, const void *data);
void weft_onnx_input(struct weft_onnx *g, const char *name, enum weft_onnx_type type, struct weft_onnx_shape shape);
void weft_onnx_output(struct weft_onnx *g, const char *name, enum weft_onnx_type type, struct weft_onnx_shape shape);

/* ---- values (onnx_ops.c) */

void weft_onnx_scope(struct weft_onnx *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A new name; never NULL. */
const char *weft_onnx_name(struct weft_onnx *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The output of a new node. */
const char *weft_onnx_op(struct weft_onnx *g, const char *type, const struct weft_onnx_attr *attr,
                         const char *const *inputs);
#define WEFT_NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define OP(g, type, ...) weft_onnx_op(g, type, NULL, WEFT_NAMES(__VA_ARGS__))
#define OP_INT(g, type, attr, value, ...)                                                                              \
    weft_onnx_op(g, type, &(struct weft_onnx_attr){attr, WEFT_ATTR_INT, 0, 1, {value}}, WEFT_NAMES(__VA_ARGS__))
/* Over one axis, which stays, with 1 element. */
#define OP_AXES(g, type, axis, ...)                                                                                    \
    weft_onnx_op(g, type, &(struct weft_onnx_attr){"axes", WEFT_ATTR_INTS, 0, 1, {axis}}, WEFT_NAMES(__VA_ARGS__))
#define CONCAT(g, axis, ...) OP_INT(g, "Concat", "axis", axis, __VA_ARGS__)

/* Constants: f32 and int64 without dimensions, and int64 [count]. */
const char *weft_onnx_real(struct weft_onnx *g, double x);
const char *weft_onnx_int(struct weft_onnx *g, int64_t n);
const char *weft_onnx_list(struct weft_onnx *g, int count, const int64_t *list);
#define INTS(g, ...)                                                                                                   \
    weft_onnx_list(g, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
/* Whether the file has a constant of this name; if not, it does from now on: the caller writes it. */
bool weft_onnx_has(struct weft_onnx *g, const char *name);

/* The weight `name` of the scope, and whether the model has it. */
const char *weft_onnx_weight(struct weft_onnx *g, const char *name);
bool weft_onnx_weighs(const struct weft_onnx *g, const char *name);
/* x W^t, with the weight's bias if there is one, for rows x. */
const char *weft_onnx_linear(struct weft_onnx *g, const char *x, const char *name);
/* A mixing weight: the learned "alpha" of the scope, or the constant. */
const char *weft_onnx_alpha(struct weft_onnx *g, double alpha);

const char *weft_onnx_reshape(struct weft_onnx *g, const char *x, const char *shape);
const char *weft_onnx_swap(struct weft_onnx *g, const char *x); /* axes 1 and 2 of four */
/* Rows [batch * length, heads * width] as [batch, heads, length, width]. */
const char *weft_onnx_heads(struct weft_onnx *g, const char *x, int64_t heads);
/* Elements first <= i < end of an axis; the two are int64 [1]. */
const char *weft_onnx_slice(struct weft_onnx *g, const char *x, const char *first, const char *end, int64_t axis);
/* x / sqrt(mean of x^2 + eps) * gain, over the last axis. */
const char *weft_onnx_rms(struct weft_onnx *g, const char *x, const char *gain, double eps);

/* Keeps x [batch, heads, length, width] in the layer's state of this name and returns what is kept of all tokens, along
 * axis 2: of the last `window` alone, unless that is 0. */
const char *weft_onnx_keep(struct weft_onnx *g, const char *name, int64_t heads, int64_t width, int64_t window,
                           const char *x);
/* The name of the layer's state, as an input or as an output. */
const char *weft_onnx_past(struct weft_onnx *g, const char *name);
const char *weft_onnx_present(struct weft_onnx *g, const char *name);

/* An option of the model's parts by its name, which must be one of theirs. */
int64_t weft_onnx_whole(const struct weft_onnx *g, const char *name); /* also of a choice or a switch */
double weft_onnx_number(const struct weft_onnx *g, const char *name);
bool weft_onnx_is(const struct weft_onnx *g, enum weft_part_kind kind, const char *name);

/* ---- the model, part by part */

/* Attention of a layer, up to the output projection: rows to rows (onnx_attention.c). */
const char *weft_onnx_attention(struct weft_onnx *g, const char *x);
/* What mechanisms do with the key latent (NULL: attention has none), with raw keys, with the heads' outputs
 * [batch, length, heads, width], and with the hidden activation (onnx_recip.c). */
const char *weft_onnx_recip_latent(struct weft_onnx *g, const char *x, const char *c);
const char *weft_onnx_recip_keys(struct weft_onnx *g, const char *k, const char *name);
const char *weft_onnx_recip_heads(struct weft_onnx *g, const char *o);
const char *weft_onnx_recip_hidden(struct weft_onnx *g, const char *h);

/* The whole graph (onnx_model.c). */
void weft_onnx_build(struct weft_onnx *g);
/* Writes model.onnx with its data, config.json and genai_config.json into a folder (onnx_export.c). `end` is the token
 * that ends a text; -1: there is none. */
enum weft_status weft_onnx_export(const struct weft_nn *model, int32_t end, const char *folder);

#endif
