/* SPDX-License-Identifier: MIT
 *
 * engine.h - the interface of the engines behind dnn.h: one struct of functions per engine.
 *
 * Every matmul is out[rows, width] = A[rows, depth] B[depth, width] (+ bias) (+ addend). B is packed in panels of a
 * fixed number of columns, the whole depth of a panel contiguous. The outer product dW = dY^t X is the same operation,
 * with dY read transposed as A, X packed into scratch as B, and dW itself as the addend. dnn.c cuts the output into
 * tiles of whole panels and whole row blocks; an engine computes one tile on one thread. Every engine guarantees that
 * the cut does not change a sum.
 */
#ifndef WEFT_DNN_ENGINE_H
#define WEFT_DNN_ENGINE_H

#include "dnn/dnn.h"

/* A matrix in memory: element (i, j) is data[i * stride + j], or data[j * stride + i] if `across` (transposed). */
struct weft_dnn_matrix {
    const void *data;
    enum weft_dtype dtype;
    int64_t stride;
    bool across;
};

/* The plan of one group's matmul. An engine's plan() fills in the last four fields. */
struct weft_dnn_plan {
    enum weft_dtype dtype;
    int64_t depth, width; /* for an outer product, depth is the maximum number of rows */
    bool outer;
    size_t panel_bytes; /* size of one packed panel of B, a multiple of 64 */
    size_t local_bytes; /* size of each thread's own scratch */
    size_t strip_bytes; /* size of one row block of A packed ahead, a multiple of 64 */
    const void *kernel; /* private to the engine; may be NULL */
};

/* One group's matmul, with the operands of one call. */
struct weft_dnn_job {
    const struct weft_dnn_plan *plan;
    int64_t rows, depth, width;
    struct weft_dnn_matrix a; /* [rows, depth] */
    const char *strips;       /* row blocks of A packed ahead; NULL: each tile packs the rows it needs */
    const char *b;            /* the packed panels of B */
    const float *bias;        /* or NULL */
    const void *addend;       /* or NULL; has the shape and stride of out, and may be out itself */
    enum weft_dtype addend_dtype;
    void *out;
    enum weft_dtype out_dtype;
    int64_t out_stride;
};

/* How an output is cut into tiles of work. */
struct weft_dnn_cut {
    int64_t blocks, panels; /* row blocks and panels per tile */
    int64_t down, across;   /* number of tiles in one group's output, vertically and horizontally */
};

struct weft_dnn_engine {
    const char *name;
    int64_t block, blocks; /* rows per row block, and maximum number of row blocks per tile of work */
    int64_t panel, panels; /* columns per panel, and maximum number of panels per tile of work */
    int64_t tiles_outer;   /* minimum number of tiles of work in an outer product, if its output is large enough */
    int64_t grain; /* minimum number of multiply-adds per tile of work if there are several row blocks; 0: no minimum */
    int64_t edge;  /* additional cost of each row and column of a tile, in multiply-adds per element of the depth */
    int64_t pack_depth; /* depth that one call of pack() packs; 0: the whole depth */
    enum weft_status (*plan)(struct weft_dnn_plan *plan);
    /* Packs depths depth0 to depth1-1 of the panel of `columns` columns that begins at `column` of w [depth, width]. If
     * depth1 = depth, also writes the padding that follows. Like tile(), this function runs on any thread and may fail;
     * dnn.c reports the failure. */
    enum weft_status (*pack)(const struct weft_dnn_plan *plan, const struct weft_dnn_matrix *w, int64_t depth0,
                             int64_t depth1, int64_t column, int64_t columns, void *panel);
    /* Optional, for outer products: packs depths depth0 to depth1-1 of rows row0 to row1-1 of A into the strips of
     * their row blocks; row0 is the first row of a block, depth0 a multiple of WEFT_DNN_STRIP. Packing ahead pays off
     * if at least pack_ahead tiles need the rows of a block. */
    enum weft_status (*pack_rows)(const struct weft_dnn_plan *plan, const struct weft_dnn_matrix *a, int64_t depth0,
                                  int64_t depth1, int64_t row0, int64_t row1, char *strips);
    int64_t pack_ahead;
    /* Computes rows row0 to row1-1 of panels panel0 to panel1-1; row0 is the first row of a block. */
    enum weft_status (*tile)(const struct weft_dnn_job *job, int64_t row0, int64_t row1, int64_t panel0, int64_t panel1,
                             void *local);
};

enum { WEFT_DNN_STRIP = 128 };

/* Cuts a matmul for the calling thread's number of threads; b_bytes is the size of one group's packed B (cut.c). */
struct weft_dnn_cut weft_dnn_cut(const struct weft_dnn_engine *e, const struct weft_dnn_job *job, int64_t groups,
                                 size_t b_bytes);

extern const struct weft_dnn_engine weft_dnn_amx;
extern const struct weft_dnn_engine weft_dnn_loop, weft_dnn_loop_v3, weft_dnn_loop_v4;
extern const struct weft_dnn_tiles weft_dnn_tiles_amx;
extern const struct weft_dnn_tiles weft_dnn_tiles_loop, weft_dnn_tiles_loop_v3, weft_dnn_tiles_loop_v4;

/* Appends the level's suffix to a name in a source file that is compiled once per instruction-set level. */
#ifdef WEFT_LEVEL
#define WEFT_DNN_PASTE_(name, level) name##_##level
#define WEFT_DNN_PASTE(name, level) WEFT_DNN_PASTE_(name, level)
#define WEFT_DNN_LEVEL(name) WEFT_DNN_PASTE(name, WEFT_LEVEL)
#else
#define WEFT_DNN_LEVEL(name) name
#endif

/* A matmul library that the program is linked with (src/dnn/onednn): its engine, selected by WEFT_ENGINE=<name>, and
 * its bare matmuls for benchmarks. */
struct weft_dnn_rival {
    const char *name;
    const struct weft_dnn_engine *engine;
    weft_dnn_bare_fn *bare;
};
extern const struct weft_dnn_rival *weft_dnn_rival; /* set before main(); NULL: no such library */

#endif
