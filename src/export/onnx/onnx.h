/* SPDX-License-Identifier: MIT
 *
 * onnx.h - a model as an ONNX file of standard operators: the file format, and the builder of its graph.
 *
 * A value is its name in the file. Weights keep their names, shapes and bytes. The forward pass is printed from the
 * model's form (print.c).
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
enum { WEFT_ONNX_DIMS = 6 };

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
    enum weft_status status;
    struct weft_arena arena; /* of names */
    struct weft_file file[2];
    int64_t data_bytes; /* written so far */
    struct weft_proto nodes, tensors, inputs, outputs;
    struct weft_onnx_known {
        const char *name;
        struct weft_onnx_known *next;
    } * known;      /* names that are in the file */
    int values;     /* number of names that were made */
    char scope[64]; /* of the names of nodes: "blocks.3/attention" */
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

/* Names the nodes that follow after a node of the model's graph: its layer and op. */
void weft_onnx_scope(struct weft_onnx *g, const struct weft_node *node);
/* A new name; never NULL. weft_onnx_fresh adds the scope and a number. */
const char *weft_onnx_name(struct weft_onnx *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *weft_onnx_fresh(struct weft_onnx *g, const char *name);
/* The output of a new node. */
const char *weft_onnx_op(struct weft_onnx *g, const char *type, const struct weft_onnx_attr *attr,
                         const char *const *inputs);
#define WEFT_NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NODE(g, type, ...) weft_onnx_op(g, type, NULL, WEFT_NAMES(__VA_ARGS__))
#define NODE_INT(g, type, attr, value, ...)                                                                            \
    weft_onnx_op(g, type, &(struct weft_onnx_attr){attr, WEFT_ATTR_INT, 0, 1, {value}}, WEFT_NAMES(__VA_ARGS__))
/* Over one axis, which stays, with 1 element. */
#define NODE_AXES(g, type, axis, ...)                                                                                  \
    weft_onnx_op(g, type, &(struct weft_onnx_attr){"axes", WEFT_ATTR_INTS, 0, 1, {axis}}, WEFT_NAMES(__VA_ARGS__))
#define CONCAT(g, axis, ...) NODE_INT(g, "Concat", "axis", axis, __VA_ARGS__)

/* Constants: f32 and int64 without dimensions, and int64 [count]. */
const char *weft_onnx_real(struct weft_onnx *g, double x);
const char *weft_onnx_int(struct weft_onnx *g, int64_t n);
const char *weft_onnx_list(struct weft_onnx *g, int count, const int64_t *list);
#define INTS(g, ...)                                                                                                   \
    weft_onnx_list(g, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
/* Whether the file has a tensor or input of this name; if not, it does from now on: the caller writes it. */
bool weft_onnx_has(struct weft_onnx *g, const char *name);
/* A weight of the model, which is written when it is first used. */
const char *weft_onnx_weight(struct weft_onnx *g, const char *name);
/* Elements first <= i < end of an axis; the two are int64 [1]. */
const char *weft_onnx_slice(struct weft_onnx *g, const char *x, const char *first, const char *end, int64_t axis);

/* ---- the model */

/* Writes model.onnx with its data, config.json and genai_config.json into a folder (onnx_export.c). `end` is the token
 * that ends a text; -1: there is none. */
enum weft_status weft_onnx_export(const struct weft_nn *model, int32_t end, const char *folder);

#endif
