/* SPDX-License-Identifier: MIT
 *
 * amx_in_c.h - the tile instructions of AMX in plain C, as Intel's Architecture Instruction Set Extensions Programming
 * Reference defines them: denormal inputs and outputs are 0, and TDPBF16PS sums even and odd elements separately.
 */
#ifndef WEFT_TESTS_AMX_IN_C_H
#define WEFT_TESTS_AMX_IN_C_H

#include "base/vmath_inl.h"

struct emulated_tiles {
    uint16_t bytes[8];
    uint8_t rows[8];
    uint8_t data[8][16][64];
};

/* Every source file has its own tiles; none passes tiles to a different file. */
static _Thread_local struct emulated_tiles emulated;

static inline void emulated_config(const void *config)
{
    const uint8_t *c = config;
    memset(&emulated, 0, sizeof emulated);
    memcpy(emulated.bytes, c + 16, sizeof emulated.bytes);
    memcpy(emulated.rows, c + 48, sizeof emulated.rows);
}

static inline void emulated_load(int t, const void *from, int64_t stride)
{
    memset(emulated.data[t], 0, sizeof emulated.data[t]);
    for (int r = 0; r < emulated.rows[t]; r++)
        memcpy(emulated.data[t][r], (const char *)from + r * stride, emulated.bytes[t]);
}

static inline void emulated_store(int t, void *to, int64_t stride)
{
    for (int r = 0; r < emulated.rows[t]; r++)
        memcpy((char *)to + r * stride, emulated.data[t][r], emulated.bytes[t]);
}

/* Denormals become 0. */
static inline vf emulated_flush(vf x)
{
    return vpick(vabs(x) < vset(0x1p-126f), (vf)((vi)x & vseti((int32_t)0x80000000)), x);
}

/* The first or second of the sixteen pairs of a row. */
static inline vf emulated_half(const uint8_t *row, int half)
{
    vu pairs;
    memcpy(&pairs, row, sizeof pairs);
    return emulated_flush((vf)(half ? pairs & 0xffff0000 : pairs << 16));
}

static inline void emulated_product(int to, int left, int right)
{
    struct emulated_tiles *e = &emulated;
    vf b[16][2], c;
    for (int k = 0; k < e->bytes[left] / 4; k++)
        for (int half = 0; half < 2; half++)
            b[k][half] = emulated_half(e->data[right][k], half);
    for (int m = 0; m < e->rows[to]; m++) {
        vf a[2] = {emulated_half(e->data[left][m], 0), emulated_half(e->data[left][m], 1)}, sum[2] = {{0}, {0}};
        for (int k = 0; k < e->bytes[left] / 4; k++)
            for (int half = 0; half < 2; half++)
                sum[half] = emulated_flush(vfma(vset(a[half][k]), b[k][half], sum[half]));
        memcpy(&c, e->data[to][m], sizeof c);
        c = emulated_flush(emulated_flush(c) + emulated_flush(sum[0] + sum[1]));
        memcpy(e->data[to][m], &c, sizeof c);
    }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig emulated_config
#define _tile_release() ((void)0)
#define _tile_zero(t) memset(emulated.data[t], 0, sizeof emulated.data[t])
#define _tile_loadd emulated_load
#define _tile_stored emulated_store
#define _tile_dpbf16ps emulated_product

#endif
