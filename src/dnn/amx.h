/* SPDX-License-Identifier: MIT
 *
 * amx.h - the tile instructions: the processor's, or with -DWEFT_EMULATE_AMX (make emulated) those of
 * tests/emulated/amx_in_c.h, so that the code for AMX is tested on machines without it.
 */
#ifndef WEFT_DNN_AMX_H
#define WEFT_DNN_AMX_H

#if defined(WEFT_EMULATE_AMX)
#include <amx_in_c.h>
#else
#include <immintrin.h>
#endif

#endif
