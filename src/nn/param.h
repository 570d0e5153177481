/* SPDX-License-Identifier: MIT
 *
 * param.h - the named weights of a model (param.c).
 *
 * Invariants: weights are one flat f32 array; gradients are a second one of the same layout. A weight's initial value
 * is a function of (seed, init_key, its name, the element) alone, so weights that different models have in common start
 * with the same values.
 */
#ifndef WEFT_PARAM_H
#define WEFT_PARAM_H

#include "nn/spec.h"
#include "tensor/tensor.h"

/* How a weight whose size depends on the context is adapted to a model with a different context: missing rows of
 * positions repeat the existing rows, starting with the first; missing columns of distances repeat the last column. */
enum weft_extend { WEFT_EXTEND_NOT, WEFT_EXTEND_ROWS, WEFT_EXTEND_COLUMNS };
/* The role of a weight in the graph. The gate live also derives the role from the ops that read the weight, and
 * compares the two. */
enum weft_role {
    WEFT_VECTOR,      /* one dimension: gains, biases, factors */
    WEFT_TABLE,       /* rows or columns that are looked up: embeddings, biases by position or distance */
    WEFT_HEAD,        /* produces the logits; a tied table counts as a table */
    WEFT_MATRIX,      /* multiplies activations */
    WEFT_INTO_STREAM, /* multiplies activations; the product is added to the residual stream */
    WEFT_TAPS,        /* filter of a convolution over tokens */
};
/* Groups of weights that an optimiser treats alike. Embeddings, matrices and the head are decayed. */
enum weft_trained_as {
    WEFT_TRAINED_BY_ROLE, /* only in declarations: the group follows from the role */
    WEFT_TRAINED_EMBEDDING,
    WEFT_TRAINED_MATRIX,
    WEFT_TRAINED_HEAD,
    WEFT_TRAINED_VECTOR,
    WEFT_TRAINED_SCALAR,
};
/* The half of a block that declares a weight; NONE for the norms before the halves. */
enum weft_half { WEFT_HALF_NONE, WEFT_HALF_ATTN, WEFT_HALF_FFN };
enum weft_init { WEFT_INIT_NORMAL, WEFT_INIT_CONSTANT, WEFT_INIT_UNIFORM };
enum { WEFT_PARAM_ALIGN = 64 }; /* alignment in bytes */
#define WEFT_DEVIATION 0.02     /* default standard deviation */

/* One side of a matrix, and its size relative to a model of width mup_width (scaling=mup). */
struct weft_fan {
    int64_t size;
    double wider;
};
/* Returns a side that grows with the model's width. */
static inline struct weft_fan weft_grows(const struct weft_spec *spec, int64_t size)
{
    return (struct weft_fan){size, spec->wider};
}
/* Returns a side whose size does not depend on the model's width; under mup, its relative size is size / usual. */
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
    bool tied; /* the table also produces the logits */
    /* The options that count the units (heads, channels, ranks) to which this weight's rows and columns belong; used
     * for the importance of a unit (units.h). NULL: none. */
    const char *unit[2];
    enum weft_init init;
    double init_value;   /* standard deviation, constant, or bound of the uniform distribution */
    int64_t init_blocks; /* number of diagonal blocks to initialise, with zeros elsewhere; 0: the whole matrix */
    enum weft_extend extend;
    double rate; /* factor applied to the learning rate; 0 means 1 */
    /* Recorded when the weight is declared. */
    const struct weft_part *part; /* the part that declares it; NULL: the model itself */
    enum weft_half half;
    int layer;      /* index of its block; -1: outside the blocks */
    int rows_layer; /* index of the block whose units its rows belong to; usually the same */
    bool decay;     /* whether the weight is decayed, which follows from its group */
    int64_t count;
    int64_t offset; /* index of its first element in the flat arrays; a multiple of WEFT_PARAM_ALIGN */
};

/* The weights of a model. Functions that declare a weight return nothing; `status` keeps the first failure. */
struct weft_params {
    struct weft_arena arena;
    enum weft_status status;
    char scope[64];
    /* The current declarer, recorded with each weight. */
    int layer, rows_layer;
    enum weft_half half;
    const struct weft_part *part;
    struct weft_param *list;
    int count, room;
    int64_t elements; /* number of elements of all weights, without gaps */
    int64_t total;    /* number of elements of a flat array, including the gaps, which stay 0 */
    float *weights;
    struct weft_safetensors *file; /* file that the weights are mapped from, read-only; NULL: none */
};

void weft_params_scope(struct weft_params *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void weft_params_vector(struct weft_params *p, const char *name, int64_t n, double constant);
/* Declares a matrix [out, in]; `deviation` is the standard deviation of its initial values in a model of width
 * mup_width. */
void weft_params_matrix(struct weft_params *p, const char *name, struct weft_fan out, struct weft_fan in,
                        double deviation);
/* Declare a table or a head: rows of the model's width that are looked up or multiplied, with the same standard
 * deviation at every width. */
void weft_params_table(struct weft_params *p, const char *name, int64_t rows, int64_t width);
void weft_params_head(struct weft_params *p, const char *name, int64_t rows, int64_t width);
/* Scales the initial values and the learning rate of a weight according to maximal update parametrisation, given the
 * relative widths of its sides. */
void weft_param_scale(struct weft_param *w, double out_wider, double in_wider);
/* Declares a weight from its fields; name, ndim and dim are required. The other functions cover the usual cases. */
void weft_params_add(struct weft_params *p, struct weft_param w);
/* Declares a linear layer: the matrix [out, in], whose sides both grow with the model's width, and, in models with
 * biases, `name`_bias [out]. */
void weft_params_linear(struct weft_params *p, const struct weft_spec *spec, const char *name, int64_t out, int64_t in);
/* Like weft_params_linear, but `bias` determines whether there is a bias. */
void weft_params_biased(struct weft_params *p, const struct weft_spec *spec, const char *name, int64_t out, int64_t in,
                        bool bias);
/* Like weft_params_linear, for a projection into the residual stream, whose standard deviation decreases with depth. */
void weft_params_project(struct weft_params *p, const struct weft_spec *spec, const char *name, int64_t out,
                         int64_t in);

/* Sets the options that count the units of the rows and columns of the weight that was just declared; NULL: none. */
void weft_params_units(struct weft_params *p, const char *name, const char *rows, const char *columns);
const char *weft_role_name(enum weft_role role);

/* Returns a flat, zeroed array the size of all weights; freed by weft_params_array_free. */
float *weft_params_array(const struct weft_params *p);
void weft_params_array_free(const struct weft_params *p, float *array);
/* Allocates the weights if they are not allocated yet. Must be called before writing weights. */
enum weft_status weft_params_alloc(struct weft_params *p);
/* Releases the memory of weights mapped from a file; the next access reads them again. */
void weft_params_drop(const struct weft_params *p);
/* Like weft_params_alloc, then initialises the weights randomly. */
enum weft_status weft_params_init(struct weft_params *p, uint64_t seed);
void weft_params_release(struct weft_params *p);
int weft_params_find(const struct weft_params *p, const char *name); /* -1: none */
/* Writes the SHA-256 of the values of one weight. */
void weft_param_hash(const struct weft_params *p, int i, char hex[65]);
/* Writes one SHA-256 of the names, shapes and f32 values of all weights, in order. */
void weft_params_hash(const struct weft_params *p, char hex[65]);
/* Like weft_params_hash, but for any array with the same layout. */
void weft_array_hash(const struct weft_params *p, const float *array, char hex[65]);

#endif
