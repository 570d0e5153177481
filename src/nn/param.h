/* SPDX-License-Identifier: MIT
 *
 * param.h - the named weights of a model (param.c).
 *
 * Invariants: weights are one flat f32 array, and gradients another of the same layout. A weight's initial value is a
 * function of (seed, init_key, its name, the element) alone, so models share what they have in common.
 */
#ifndef WEFT_PARAM_H
#define WEFT_PARAM_H

#include "nn/spec.h"
#include "tensor/tensor.h"

/* What becomes of a weight whose size follows the context when it is taken into a model of another one: rows of
 * positions that it lacks repeat from the first on; columns of distances repeat the last. */
enum weft_extend { WEFT_EXTEND_NOT, WEFT_EXTEND_ROWS, WEFT_EXTEND_COLUMNS };
/* What a weight is to the graph. The gate live derives it from the ops that read the weight, and compares. */
enum weft_role {
    WEFT_VECTOR,      /* one dimension: gains, biases, factors */
    WEFT_TABLE,       /* rows or columns that are looked up: embeddings, numbers by position or distance */
    WEFT_HEAD,        /* makes the logits; a tied table is a table */
    WEFT_MATRIX,      /* multiplied with activations */
    WEFT_INTO_STREAM, /* likewise, and the product is added to the residual stream */
    WEFT_TAPS,        /* of a convolution over tokens */
};
/* The weights that an optimiser treats alike. Those of the first three are decayed. */
enum weft_trained_as {
    WEFT_TRAINED_BY_ROLE, /* in a declaration only: the group follows from the role */
    WEFT_TRAINED_EMBEDDING,
    WEFT_TRAINED_MATRIX,
    WEFT_TRAINED_HEAD,
    WEFT_TRAINED_VECTOR,
    WEFT_TRAINED_SCALAR,
};
/* The half of a block that declares a weight. The norms before the halves belong to none. */
enum weft_half { WEFT_HALF_NONE, WEFT_HALF_ATTN, WEFT_HALF_FFN };
enum weft_init { WEFT_INIT_NORMAL, WEFT_INIT_CONSTANT, WEFT_INIT_UNIFORM };
enum { WEFT_PARAM_ALIGN = 64 }; /* bytes */
#define WEFT_DEVIATION 0.02     /* the default standard deviation */

/* One side of a matrix, and how many times as wide it is as in the model of the usual width (scaling=mup). */
struct weft_fan {
    int64_t size;
    double wider;
};
/* A side that grows with the model's width. */
static inline struct weft_fan weft_grows(const struct weft_spec *spec, int64_t size)
{
    return (struct weft_fan){size, spec->wider};
}
/* A side that has a size of its own, which is usually `usual`. */
static inline struct weft_fan weft_stays(const struct weft_spec *spec, int64_t size, int64_t usual)
{
    return (struct weft_fan){size, spec->mup ? (double)size / (double)usual : 1};
}

struct weft_part; /* part.h */

struct weft_param {
    const char *name;
    int ndim;
    int64_t dim[WEFT_MAX_DIMS];
    enum weft_role role;
    enum weft_trained_as group;
    bool tied; /* a table that makes the logits, too */
    /* The options that count the units (heads, channels, ranks) whose activations are this weight's rows or columns,
     * for the importance of a unit (units.h); NULL: none. */
    const char *unit[2];
    enum weft_init init;
    double init_value;   /* standard deviation, the constant, or the bound of the uniform distribution */
    int64_t init_blocks; /* not 0: only so many square blocks on the diagonal are drawn, the rest is 0 */
    enum weft_extend extend;
    double rate; /* factor of its learning rate; 0 stands for 1 */
    /* Recorded when the weight is declared. */
    const struct weft_part *part; /* that declares it; NULL: the model itself */
    enum weft_half half;
    int layer;      /* of its block; -1: outside the blocks */
    int rows_layer; /* the block whose units its rows belong to; usually its own */
    bool decay;     /* by its group */
    int64_t count;
    int64_t offset; /* of its first element in the flat arrays; a multiple of WEFT_PARAM_ALIGN */
};

/* Declaring a weight returns nothing: the first failure stays in `status`. */
struct weft_params {
    struct weft_arena arena;
    enum weft_status status;
    char scope[64];
    /* Who declares weights now, as it is recorded with each. */
    int layer, rows_layer;
    enum weft_half half;
    const struct weft_part *part;
    struct weft_param *list;
    int count, room;
    int64_t elements; /* of all weights */
    int64_t total;    /* of a flat array: with the gaps, which stay 0 */
    float *weights;
    struct weft_safetensors *file; /* not NULL: the weights lie in it, and cannot be written before weft_params_alloc */
};

void weft_params_scope(struct weft_params *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void weft_params_vector(struct weft_params *p, const char *name, int64_t n, double constant);
/* A matrix [out, in] whose initial values have this standard deviation in the model of the usual width. */
void weft_params_matrix(struct weft_params *p, const char *name, struct weft_fan out, struct weft_fan in,
                        double deviation);
/* Rows that are looked up, or, as the head, multiplied: one vector as wide as the model for each, the same at every
 * width. */
void weft_params_table(struct weft_params *p, const char *name, int64_t rows, int64_t width);
void weft_params_head(struct weft_params *p, const char *name, int64_t rows, int64_t width);
/* The weight as maximal update parametrisation wants it, as wide as the model's axes say: its initial values and its
 * learning rate. */
void weft_param_scale(struct weft_param *w, double out_wider, double in_wider);
/* A weight given by its fields; name, ndim and dim at least. The other functions are the usual cases. */
void weft_params_add(struct weft_params *p, struct weft_param w);
/* A linear layer: the matrix [out, in], both of which grow with the model's width, and, in models with biases,
 * `name`_bias [out]. */
void weft_params_linear(struct weft_params *p, const struct weft_spec *spec, const char *name, int64_t out, int64_t in);
/* The same with a bias in any case, or in none. */
void weft_params_biased(struct weft_params *p, const struct weft_spec *spec, const char *name, int64_t out, int64_t in,
                        bool bias);
/* The same for a projection into the residual stream: its standard deviation falls with depth. */
void weft_params_project(struct weft_params *p, const struct weft_spec *spec, const char *name, int64_t out,
                         int64_t in);

/* The options that count the units of rows and columns of a weight that was just declared; NULL: none. */
void weft_params_units(struct weft_params *p, const char *name, const char *rows, const char *columns);
const char *weft_role_name(enum weft_role role);

/* One flat zeroed array as large as all weights; freed by weft_params_array_free. */
float *weft_params_array(const struct weft_params *p);
void weft_params_array_free(const struct weft_params *p, float *array);
/* Allocates the weights, unless they are allocated already. Every writer calls it first. */
enum weft_status weft_params_alloc(struct weft_params *p);
/* Gives back the memory of weights that lie in a file: the next reader gets them from there again. */
void weft_params_drop(const struct weft_params *p);
/* Allocates the weights likewise, and draws their initial values. */
enum weft_status weft_params_init(struct weft_params *p, uint64_t seed);
void weft_params_release(struct weft_params *p);
int weft_params_find(const struct weft_params *p, const char *name); /* -1: none */
/* SHA-256 of the values of one weight. */
void weft_param_hash(const struct weft_params *p, int i, char hex[65]);
/* SHA-256 of every name, shape and f32 weight in order. */
void weft_params_hash(const struct weft_params *p, char hex[65]);
/* Likewise of another array with a place for every weight. */
void weft_array_hash(const struct weft_params *p, const float *array, char hex[65]);

#endif
