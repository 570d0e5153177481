/* SPDX-License-Identifier: MIT
 *
 * awake_inl.h - helpers for vector work between two small-block matmuls (struct weft_dnn_tiles); they use instructions
 * that every processor with AMX has.
 */
#ifndef WEFT_DNN_AWAKE_H
#define WEFT_DNN_AWAKE_H

#include "base/vmath_inl.h"
#include "dnn/dnn.h"

typedef uint16_t vw __attribute__((vector_size(64)));

/* Keeps the tile unit awake with a dummy matmul that overwrites tile register 0. After about 150 ns of idle time, the
 * unit goes to sleep and then takes 300 ns to wake up, so call this function regularly during vector work. */
VINLINE void keep_awake(bool amx)
{
#if defined(__x86_64__) && !defined(WEFT_EMULATE_AMX)
    if (amx)
        __asm__ volatile("tdpbf16ps %tmm6, %tmm4, %tmm0");
#endif
}

/* Converts a and b to 32 bf16 numbers. Every processor with AMX also has an instruction for this; it differs only in
 * flushing denormals to 0 and in the payload of NaNs, which no matmul passes on. */
VINLINE vw to_bf16(bool amx, vf a, vf b)
{
    vw w;
#if defined(VMASKS) && !defined(WEFT_EMULATE_AMX)
    if (amx) {
        __m512i floor = _mm512_set1_epi32(WEFT_BF16_FLOOR - 1), size = _mm512_set1_epi32(0x7fffffff);
        __m512i sign = _mm512_set1_epi32((int)0x80000000);
        a = (vf)_mm512_mask_and_epi32((__m512i)a, _mm512_cmple_epu32_mask(_mm512_and_epi32((__m512i)a, size), floor),
                                      (__m512i)a, sign);
        b = (vf)_mm512_mask_and_epi32((__m512i)b, _mm512_cmple_epu32_mask(_mm512_and_epi32((__m512i)b, size), floor),
                                      (__m512i)b, sign);
        __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(w) : "v"(b), "v"(a));
        return w;
    }
#endif
    vh half[2] = {vnarrow(a), vnarrow(b)};
    memcpy(&w, half, sizeof w);
    return w;
}

#endif
