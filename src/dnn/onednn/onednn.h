/* SPDX-License-Identifier: MIT
 *
 * onednn.h - what the two users of oneDNN, the engine and the bare products, share.
 */
#ifndef WEFT_DNN_ONEDNN_H
#define WEFT_DNN_ONEDNN_H

#include "dnn/engine.h"

#include <oneapi/dnnl/dnnl.h>

/* Turns a failure of oneDNN into a status with a message. */
#define DNNL(expr)                                                                                                     \
    do {                                                                                                               \
        dnnl_status_t dnnl_ = (expr);                                                                                  \
        if (dnnl_ != dnnl_success)                                                                                     \
            return FAIL(dnnl_ == dnnl_out_of_memory ? WEFT_NOMEM : WEFT_UNSUPPORTED, "oneDNN: %s returned status %d",  \
                        #expr, (int)dnnl_);                                                                            \
    } while (0)

/* The process's one CPU engine, created at first use and limited to the instruction sets of weft_isa(). */
enum weft_status weft_dnn_onednn_cpu(dnnl_engine_t *cpu);

/* oneDNN's own threads are OpenMP's. How many it may use is a setting of the calling thread, which primitives capture
 * when they are created and some read again when they run. (Declared here: the header is the compiler's.) */
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);

weft_dnn_bare_fn weft_dnn_onednn_bare;

static inline dnnl_data_type_t weft_dnn_onednn_type(enum weft_dtype dtype)
{
    return dtype == WEFT_BF16 ? dnnl_bf16 : dnnl_f32;
}

#endif
