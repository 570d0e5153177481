/* SPDX-License-Identifier: MIT
 *
 * amx.h - AMX tile instructions: the processor's, or with -DWEFT_EMULATE_AMX (make emulated) their emulation in
 * tests/emulated/amx_in_c.h, to test AMX code on machines without AMX.
 */
#ifndef WEFT_DNN_AMX_H
#define WEFT_DNN_AMX_H

#if defined(WEFT_EMULATE_AMX)
#include <amx_in_c.h>
#else
#include <immintrin.h>
#endif

#endif
