/* SPDX-License-Identifier: MIT
 *
 * cpu.c - creates oneDNN's engine for this processor.
 */
#include "dnn/onednn/onednn.h"

#include <pthread.h>

static dnnl_engine_t engine;
static dnnl_status_t status;

static void create(void)
{
    static const dnnl_cpu_isa_t isa[] = {dnnl_cpu_isa_sse41, dnnl_cpu_isa_avx2, dnnl_cpu_isa_avx512_core_bf16};
    if (weft_isa() < WEFT_ISA_AMX)
        status = dnnl_set_max_cpu_isa(isa[weft_isa()]);
    if (status == dnnl_success)
        status = dnnl_engine_create(&engine, dnnl_cpu, 0);
}

enum weft_status weft_dnn_onednn_cpu(dnnl_engine_t *cpu)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, create);
    DNNL(status);
    *cpu = engine;
    return WEFT_OK;
}
