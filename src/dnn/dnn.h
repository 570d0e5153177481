/* SPDX-License-Identifier: MIT
 *
 * dnn.h - matrix products (matmuls). No other room uses AMX or oneDNN.
 *
 * The three matmuls of training, for weights W [N,K] (out, in) and rows X [M,K]:
 *     Y  [M,N]  = X W^t  (+ bias) (+ addend)      reduction over K      weft_dnn_product, W packed WEFT_PACK_Y
 *     dX [M,K]  = dY W           (+ addend)       reduction over N      weft_dnn_product, W packed WEFT_PACK_DX
 *     dW [N,K] += dY^t X                          reduction over M      weft_dnn_outer
 * Y and dX are the same operation, rows times a packed matrix: dX is Y of the transposed matrix.
 *
 * Invariants:
 *  - An output element depends, to the bit, only on the operands and on (reduction length, N, dtype), never on M, the
 *    row's index, neighbouring elements, the chunk, or the number of threads. Missing rows are padded, so that the
 *    kernel stays the same; a reduction is never split.
 *  - Results do not depend on the processor either. f32: one sum per element, by fused multiply-add, in order.
 *    bf16: the sums of the AMX instruction (pairs_inl.h), for operands that are 0 or at least WEFT_BF16_FLOOR in
 *    magnitude.
 *  - Matmuls run on tiles of the output through weft_parallel; nothing here is created or allocated after planning.
 *
 * Engines behind this interface:
 *   bf16 with AMX                own tile loop
 *   everything else              own vector loop, compiled per instruction-set level
 * The library has no other engines. A program can also be linked with oneDNN (src/dnn/onednn): benchmarks compare with
 * it, tests use it as a reference, and WEFT_ENGINE=onednn selects it for both types (it allocates in every call).
 */
#ifndef WEFT_DNN_H
#define WEFT_DNN_H

#include "tensor/tensor.h"

enum weft_pack { WEFT_PACK_Y, WEFT_PACK_DX };

/* A matmul of fixed width: rows [*, depth] times a packed [depth, width] matrix, in `groups` independent groups. Group
 * g reads the rows' columns starting at g*depth and writes the output's columns starting at g*width (grouped linear).
 * If `batched`, the matrices of the groups follow each other in memory instead. */
struct weft_dnn_shape {
    enum weft_dtype dtype; /* type of both operands: F32 or BF16 */
    int64_t depth, width;
    int64_t groups; /* 1 for a plain matmul */
    bool batched;
    int64_t max_rows;
};

/* Describes the engines that run here, e.g. "f32: avx512 loop; bf16: amx tile loop". */
const char *weft_dnn_describe(void);
/* Prints a notice, once, if matmuls of this dtype are slower on this machine than one would expect. Meant for the start
 * of training and of benchmarks. */
void weft_dnn_note_speed(enum weft_dtype dtype);
/* Returns the instruction set, such as "amx"; with oneDNN as the engine, whose results differ in rounding, such as
 * "amx-onednn". */
const char *weft_dnn_path(void);
/* Returns whether two such paths give bit-identical results. Weft's own engines always do; with oneDNN, only equal
 * paths do. */
bool weft_dnn_same_bits(const char *path, const char *other);

/* weft_dnn_pack_bytes computes the size of `groups` packed [depth, width] matrices; weft_dnn_pack packs them from f32
 * or bf16, in parallel. The source is W [groups, width, depth] for WEFT_PACK_Y and W [groups, depth, width] for
 * WEFT_PACK_DX. */
enum weft_status weft_dnn_pack_bytes(const struct weft_dnn_shape *s, size_t *bytes);
void weft_dnn_pack(const struct weft_dnn_shape *s, enum weft_pack how, const void *w, enum weft_dtype w_dtype,
                   void *packed);

/* out = rows x packed (+ bias[groups*width]) (+ addend, f32 or bf16, shaped like out; may be out itself if the dtypes
 * agree). `out` is F32 or BF16. weft_dnn_product_plan stores the scratch it needs: shared bytes in *scratch, and bytes
 * per thread in *local. */
struct weft_dnn_product;
enum weft_status weft_dnn_product_plan(const struct weft_dnn_shape *s, enum weft_dtype out, struct weft_arena *arena,
                                       struct weft_dnn_product **product, size_t *scratch, size_t *local);
void weft_dnn_product_run(const struct weft_dnn_product *p, int64_t rows, const void *a, const void *packed,
                          const float *bias, const void *addend, enum weft_dtype addend_dtype, void *out, void *scratch,
                          void *local, size_t local_stride);

/* dw[groups, n, k] += dy[rows, groups*n]^t x[rows, groups*k]. Both operands have the shape's dtype (depth = k, width =
 * n); dw is f32. */
struct weft_dnn_outer;
enum weft_status weft_dnn_outer_plan(const struct weft_dnn_shape *s, struct weft_arena *arena,
                                     struct weft_dnn_outer **outer, size_t *scratch, size_t *local);
void weft_dnn_outer_run(const struct weft_dnn_outer *o, int64_t rows, const void *dy, const void *x, float *dw,
                        void *scratch, void *local, size_t local_stride);

/* bf16 matmuls of small blocks, for an op that does other work between two of them. They run on AMX tiles
 * (tile_attention_amx.c) or on vectors (loop_tiles.c), with bit-identical results. Call product() only between begin()
 * and end(), which set up and release the tile registers of the calling thread. All sizes are multiples of 32, except
 * that the rows and columns of a matmul may be multiples of 16; the caller pads with zeros. Left operands are bf16
 * [rows][depth]; right operands [depth, width] are packed as panels of 16 columns, where each panel holds [depth/2][16]
 * pairs. With `add`, the values already in c must be multiples of 2^-126, as all sums of products are; otherwise a sum
 * could be denormal, which AMX flushes to 0. */
struct weft_dnn_tiles {
    bool amx;
    void (*begin)(void);
    void (*end)(void);
    void (*product)(int64_t rows, int64_t columns, int64_t depth, const uint16_t *a, const uint16_t *b, float *c,
                    bool add);
    /* pack() and pack_transposed() pack a right operand from x [depth][width] or x [width][depth]; transpose() builds a
     * left operand [width][rows] from x [rows][width]. */
    void (*pack)(int64_t depth, int64_t width, const uint16_t *x, uint16_t *b);
    void (*pack_transposed)(int64_t depth, int64_t width, const uint16_t *x, uint16_t *b);
    void (*transpose)(int64_t rows, int64_t width, const uint16_t *x, uint16_t *a);
};
const struct weft_dnn_tiles *weft_dnn_tiles(void);
/* All floats with at least this magnitude are multiples of 2^-126. */
#define WEFT_DNN_TILES_SMALLEST 0x1p-103f

/* Bare matmuls, for benchmarks: each run computes one of the three matmuls on random operands. A run includes the
 * overhead of each matmul in a training step: packing the activations, and oneDNN's reorders. */
struct weft_dnn_bare {
    char name[96]; /* the formulation and the engine that computes it */
    enum weft_status (*run)(struct weft_dnn_bare *bare);
    void (*free)(struct weft_dnn_bare *bare);
};
typedef enum weft_status weft_dnn_bare_fn(struct weft_dnn_bare **bare, const struct weft_product *p, int how,
                                          enum weft_dtype dtype);

/* Creates a bare matmul on the engine that computes a model's matmuls; `how` must be 0. */
weft_dnn_bare_fn weft_dnn_bare_own;
/* Creates the yardstick of benchmarks: formulation `how` of oneDNN, which may use all threads and any order of
 * summation; in a program without oneDNN, it equals weft_dnn_bare_own. `how` counts from 0; the function returns
 * WEFT_UNSUPPORTED past the last formulation, or if oneDNN has no such formulation of this matmul. */
weft_dnn_bare_fn weft_dnn_bare_create;
bool weft_dnn_bare_is_own(void);
const char *weft_dnn_bare_whose(void); /* "onednn" or "own" */

#endif
