/* SPDX-License-Identifier: MIT
 *
 * dnn.h - matrix products: the only room that knows AMX and oneDNN.
 *
 * The three products of training, for weights W [N,K] (out, in) and rows X [M,K]:
 *     Y  [M,N]  = X W^t  (+ bias) (+ addend)      reduction over K      weft_dnn_product, W packed WEFT_PACK_Y
 *     dX [M,K]  = dY W           (+ addend)       reduction over N      weft_dnn_product, W packed WEFT_PACK_DX
 *     dW [N,K] += dY^t X                          reduction over M      weft_dnn_outer
 * so Y and dX are one thing, rows times packed matrix, and dX is Y of the transposed matrix.
 *
 * Invariants:
 *  - The bits of an output element depend on the numbers and on (reduction length, N, dtype): never on M, which row it
 *    is, its neighbours, the chunk, or the number of threads. Rows are padded rather than the kernel changed; a
 *    reduction is never split.
 *  - Products run on tiles of the output through weft_parallel; nothing here is created or allocated after planning.
 *  - They do not depend on the processor either. f32: one sum per element, by fused multiply-add, in order. bf16: the
 *    sums of the AMX instruction (pairs_inl.h), of operands that are 0 or not below WEFT_BF16_FLOOR.
 *
 * Engines behind this one door, chosen by rule:
 *   bf16, AMX                    own tile loop
 *   all else                     own vector loop, compiled per instruction-set level
 * The library has no other. A program can also be linked with oneDNN (src/dnn/onednn): benches compare with it, tests
 * use it as a reference, and WEFT_ENGINE=onednn makes it the engine of both types (it allocates in every call).
 */
#ifndef WEFT_DNN_H
#define WEFT_DNN_H

#include "tensor/tensor.h"

enum weft_pack { WEFT_PACK_Y, WEFT_PACK_DX };

/* A product of fixed width: rows [*, depth] times a packed [depth, width] matrix, `groups` times side by side.
 * Group g reads columns g*depth.. of the rows and writes columns g*width.. of the output (grouped linear), or, when
 * `batched`, reads and writes matrices that follow each other in memory. */
struct weft_dnn_shape {
    enum weft_dtype dtype; /* of both operands: F32 or BF16 */
    int64_t depth, width;
    int64_t groups; /* 1: plain */
    bool batched;
    int64_t max_rows;
};

/* What the machine runs, e.g. "f32: avx512 loop; bf16: amx tile loop". */
const char *weft_dnn_describe(void);
/* The instruction set, such as "amx"; with an engine that is not our own, on which the bits of results depend,
 * "amx-onednn". */
const char *weft_dnn_path(void);
/* Whether results of two such paths have the same bits: own engines have, those of others only on the same path. */
bool weft_dnn_same_bits(const char *path, const char *other);

/* Bytes of `groups` packed [depth, width] matrices, and packing from f32 or bf16. For WEFT_PACK_Y the source is W
 * [groups, width, depth]; for WEFT_PACK_DX it is W [groups, depth, width]. Runs in parallel. */
enum weft_status weft_dnn_pack_bytes(const struct weft_dnn_shape *s, size_t *bytes);
void weft_dnn_pack(const struct weft_dnn_shape *s, enum weft_pack how, const void *w, enum weft_dtype w_dtype,
                   void *packed);

/* out = rows x packed (+ bias[groups*width]) (+ addend, f32 or bf16, shaped as out; may be out itself when dtypes
 * agree). `out` is F32 or BF16. Scratch as booked by weft_dnn_product_plan: shared bytes and bytes per thread. */
struct weft_dnn_product;
enum weft_status weft_dnn_product_plan(const struct weft_dnn_shape *s, enum weft_dtype out, struct weft_arena *arena,
                                       struct weft_dnn_product **product, size_t *scratch, size_t *local);
void weft_dnn_product_run(const struct weft_dnn_product *p, int64_t rows, const void *a, const void *packed,
                          const float *bias, const void *addend, enum weft_dtype addend_dtype, void *out, void *scratch,
                          void *local, size_t local_stride);

/* dw[groups, n, k] += dy[rows, groups*n]^t x[rows, groups*k], both operands dtype of the shape (depth = k, width = n),
 * dw f32. */
struct weft_dnn_outer;
enum weft_status weft_dnn_outer_plan(const struct weft_dnn_shape *s, struct weft_arena *arena,
                                     struct weft_dnn_outer **outer, size_t *scratch, size_t *local);
void weft_dnn_outer_run(const struct weft_dnn_outer *o, int64_t rows, const void *dy, const void *x, float *dw,
                        void *scratch, void *local, size_t local_stride);

/* bf16 products of small blocks, for an op that works between two of them: on AMX tiles (tile_attention_amx.c), or with
 * the same bits on vectors (loop_tiles.c). Products only between begin and end, which set up and release the tile
 * registers of the calling thread. All sizes are multiples of 32, the caller pads with zeros (rows and columns of a
 * product: of 16). Left operands are bf16 [rows][depth]; right operands [depth, width] are packed as panels of 16
 * columns, a panel [depth/2][16] pairs. What `add` continues in c must be a multiple of 2^-126, as all sums of products
 * are: else a sum could be denormal, which AMX takes for 0. */
struct weft_dnn_tiles {
    bool amx;
    void (*begin)(void);
    void (*end)(void);
    void (*product)(int64_t rows, int64_t columns, int64_t depth, const uint16_t *a, const uint16_t *b, float *c,
                    bool add);
    /* Right operands from x [depth][width], and from x [width][depth]; a left operand [width][rows] from x
     * [rows][width]. */
    void (*pack)(int64_t depth, int64_t width, const uint16_t *x, uint16_t *b);
    void (*pack_transposed)(int64_t depth, int64_t width, const uint16_t *x, uint16_t *b);
    void (*transpose)(int64_t rows, int64_t width, const uint16_t *x, uint16_t *a);
};
const struct weft_dnn_tiles *weft_dnn_tiles(void);
/* The smallest number of which all floats that are at least as large are multiples of 2^-126. */
#define WEFT_DNN_TILES_SMALLEST 0x1p-103f

/* Bare products, for benches: one of the three on random operands of its own, as often as it is run. What a training
 * step pays for every product is part of a run: packing activations, and oneDNN's reorders. */
struct weft_dnn_bare {
    char name[96]; /* of the formulation and who computes it */
    enum weft_status (*run)(struct weft_dnn_bare *bare);
    void (*free)(struct weft_dnn_bare *bare);
};
typedef enum weft_status weft_dnn_bare_fn(struct weft_dnn_bare **bare, const struct weft_product *p, int how,
                                          enum weft_dtype dtype);

/* By the engine behind the door, as a model's products are; `how` is 0. */
weft_dnn_bare_fn weft_dnn_bare_own;
/* The yardstick of benches: a formulation of oneDNN, free to use all threads and any order of summation, or in a
 * program without oneDNN the same as weft_dnn_bare_own. `how` counts from 0; WEFT_UNSUPPORTED past the last, and where
 * it has none for this product. */
weft_dnn_bare_fn weft_dnn_bare_create;
bool weft_dnn_bare_is_own(void);
const char *weft_dnn_bare_whose(void); /* "onednn" or "own" */

#endif
