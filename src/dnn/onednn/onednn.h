/* SPDX-License-Identifier: MIT
 *
 * onednn.h - shared by the two users of oneDNN: the engine and the bare matmuls.
 */
#ifndef WEFT_DNN_ONEDNN_H
#define WEFT_DNN_ONEDNN_H

#include "dnn/engine.h"

#include <oneapi/dnnl/dnnl.h>

/* Converts a oneDNN failure to a status with a message. */
#define DNNL(expr)                                                                                                     \
    do {                                                                                                               \
        dnnl_status_t dnnl_ = (expr);                                                                                  \
        if (dnnl_ != dnnl_success)                                                                                     \
            return FAIL(dnnl_ == dnnl_out_of_memory ? WEFT_NOMEM : WEFT_UNSUPPORTED, "oneDNN: %s returned status %d",  \
                        #expr, (int)dnnl_);                                                                            \
    } while (0)

/* Returns the process's only CPU engine, created at first use and limited to the instruction sets of weft_isa(). */
enum weft_status weft_dnn_onednn_cpu(dnnl_engine_t *cpu);

/* oneDNN runs on OpenMP threads. The number of threads is a setting of the calling thread. Primitives read it when they
 * are created, and some read it again when they run. (Declared here because omp.h is part of the compiler.) */
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);

weft_dnn_bare_fn weft_dnn_onednn_bare;

static inline dnnl_data_type_t weft_dnn_onednn_type(enum weft_dtype dtype)
{
    return dtype == WEFT_BF16 ? dnnl_bf16 : dnnl_f32;
}

#endif
