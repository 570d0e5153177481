/* SPDX-License-Identifier: MIT
 *
 * cpu.c - oneDNN's CPU engine, one for the process.
 */
#include "dnn/onednn/onednn.h"

#include <pthread.h>

static dnnl_engine_t the_cpu;
static dnnl_status_t cpu_status;

static void create_cpu(void)
{
    static const dnnl_cpu_isa_t isa[] = {dnnl_cpu_isa_sse41, dnnl_cpu_isa_avx2, dnnl_cpu_isa_avx512_core_bf16};
    if (weft_isa() < WEFT_ISA_AMX)
        cpu_status = dnnl_set_max_cpu_isa(isa[weft_isa()]);
    if (cpu_status == dnnl_success)
        cpu_status = dnnl_engine_create(&the_cpu, dnnl_cpu, 0);
}

enum weft_status weft_dnn_onednn_cpu(dnnl_engine_t *cpu)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, create_cpu);
    DNNL(cpu_status);
    *cpu = the_cpu;
    return WEFT_OK;
}
