/* SPDX-License-Identifier: MIT
 *
 * engine.h - what stands behind the door of dnn.h: one struct of functions per engine.
 *
 * Every product is out[rows, width] = A[rows, depth] B[depth, width] (+ bias) (+ addend). B is packed in panels of a
 * fixed number of columns, the whole depth of a panel contiguous. The outer product dW = dY^t X is the same thing with
 * A = dY read across, B = X packed into scratch, and dW itself as addend. The door cuts the output into tiles of whole
 * panels and whole row blocks; an engine computes one tile on one thread. How the output is cut never changes a sum:
 * that is each engine's promise.
 */
#ifndef WEFT_DNN_ENGINE_H
#define WEFT_DNN_ENGINE_H

#include "dnn/dnn.h"

/* A matrix in memory: element (i, j) is data[i * stride + j], or data[j * stride + i] when `across`. */
struct weft_dnn_matrix {
    const void *data;
    enum weft_dtype dtype;
    int64_t stride;
    bool across;
};

/* A product of one group as planned. An engine's plan() fills the last four. */
struct weft_dnn_plan {
    enum weft_dtype dtype;
    int64_t depth, width; /* of the outer product: depth is the most rows */
    bool outer;
    size_t panel_bytes; /* of one packed panel of B, a multiple of 64 */
    size_t local_bytes; /* private scratch of a thread */
    size_t strip_bytes; /* of one row block of A, packed ahead; a multiple of 64 */
    const void *kernel; /* the engine's own */
};

/* One group's product in one call. */
struct weft_dnn_job {
    const struct weft_dnn_plan *plan;
    int64_t rows, depth, width;
    struct weft_dnn_matrix a; /* [rows, depth] */
    const char *strips;       /* row blocks of A, packed ahead, or NULL: a tile packs what it needs itself */
    const char *b;            /* panels */
    const float *bias;        /* or NULL */
    const void *addend;       /* or NULL; shaped and strided as out, may be out */
    enum weft_dtype addend_dtype;
    void *out;
    enum weft_dtype out_dtype;
    int64_t out_stride;
};

/* An output in tiles of work. */
struct weft_dnn_cut {
    int64_t blocks, panels; /* row blocks and panels of a tile */
    int64_t down, across;   /* tiles of one group's output */
};

struct weft_dnn_engine {
    const char *name;
    int64_t block, blocks; /* rows of a row block, and how many of them a tile of work has at most */
    int64_t panel, panels; /* columns of a panel, and how many of them a tile of work has at most */
    int64_t tiles_outer; /* into how many tiles of work an outer product is cut at least, where its output allows it */
    int64_t grain;       /* multiply-adds of a tile of work, at least, where there are several row blocks; 0: any */
    int64_t edge;        /* what a row or a column of a tile costs besides, in multiply-adds for each step of depth */
    int64_t pack_depth;  /* how much of the depth one call of pack() takes; 0: all of it */
    enum weft_status (*plan)(struct weft_dnn_plan *plan);
    /* Packs depth0 .. depth1-1 of the panel of `columns` columns that begins at `column` of w [depth, width]. With
     * depth1 = depth it also writes the padding that follows. Like tile(), it runs on any thread and may fail; dnn.c
     * reports the failure. */
    enum weft_status (*pack)(const struct weft_dnn_plan *plan, const struct weft_dnn_matrix *w, int64_t depth0,
                             int64_t depth1, int64_t column, int64_t columns, void *panel);
    /* Or NULL. Of an outer product: packs depth0 .. depth1-1 of rows row0 .. row1-1 of A into the strips of their row
     * blocks; row0 is the first of a block, depth0 a multiple of WEFT_DNN_STRIP. It pays where the rows of a block are
     * needed by as many tiles as pack_ahead says. */
    enum weft_status (*pack_rows)(const struct weft_dnn_plan *plan, const struct weft_dnn_matrix *a, int64_t depth0,
                                  int64_t depth1, int64_t row0, int64_t row1, char *strips);
    int64_t pack_ahead;
    /* Rows row0 .. row1-1 of panels panel0 .. panel1-1; row0 is the first of a block. */
    enum weft_status (*tile)(const struct weft_dnn_job *job, int64_t row0, int64_t row1, int64_t panel0, int64_t panel1,
                             void *local);
};

enum { WEFT_DNN_STRIP = 128 };

/* For the threads of the calling thread; b_bytes: of the packed B of one group (cut.c). */
struct weft_dnn_cut weft_dnn_cut(const struct weft_dnn_engine *e, const struct weft_dnn_job *job, int64_t groups,
                                 size_t b_bytes);

extern const struct weft_dnn_engine weft_dnn_amx;
extern const struct weft_dnn_engine weft_dnn_loop, weft_dnn_loop_v3, weft_dnn_loop_v4;
extern const struct weft_dnn_tiles weft_dnn_tiles_amx;
extern const struct weft_dnn_tiles weft_dnn_tiles_loop, weft_dnn_tiles_loop_v3, weft_dnn_tiles_loop_v4;

/* In a source that is compiled once per level: the name at the level it is compiled for. */
#ifdef WEFT_LEVEL
#define WEFT_DNN_PASTE_(name, level) name##_##level
#define WEFT_DNN_PASTE(name, level) WEFT_DNN_PASTE_(name, level)
#define WEFT_DNN_LEVEL(name) WEFT_DNN_PASTE(name, WEFT_LEVEL)
#else
#define WEFT_DNN_LEVEL(name) name
#endif

/* Another library's products, in programs that are linked with them (src/dnn/onednn): an engine, which
 * WEFT_ENGINE=<name> chooses, and bare products for benches. */
struct weft_dnn_rival {
    const char *name;
    const struct weft_dnn_engine *engine;
    weft_dnn_bare_fn *bare;
};
extern const struct weft_dnn_rival *weft_dnn_rival; /* NULL: the program has none. Set before main */

#endif
