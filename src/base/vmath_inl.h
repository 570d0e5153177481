/* SPDX-License-Identifier: MIT
 *
 * vmath_inl.h - vector math on sixteen floats: loads, stores, reductions and elementary functions.
 *
 * It does not use libm, because a compiler's or library's vector exp gives different bits in a loop's tail than in its
 * body. Here a tail runs the same sixteen-lane code on a partly filled vector, so a result never depends on its
 * position. A sum over a row is accumulated in sixteen lanes, which are then added in one fixed tree. Contraction is
 * off (see Makefile); a fused multiply-add is always an explicit vfma, so every copy of a formula rounds the same way.
 *
 * Each file that includes the header is compiled once per instruction-set level. All levels give the same bits; only
 * the payload of a NaN may differ. Without 512-bit registers, the compiler splits the vectors. tests/unit/vmath.c
 * measures the accuracy against libm in double, and compares the levels.
 */
#ifndef WEFT_VMATH_H
#define WEFT_VMATH_H

#include "base/base.h"

#include <math.h>
#include <string.h>
#if defined(__FMA__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* The 512-bit level uses masks for selects, and for tails, which then need no copy in memory. */
#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define VMASKS
#endif

#define VLANES 16

typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));
typedef uint64_t vul __attribute__((vector_size(64)));
typedef uint16_t vh __attribute__((vector_size(32)));

#define VINLINE static inline __attribute__((always_inline, unused))

VINLINE vf vset(float x) { return (vf){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
VINLINE vi vseti(int32_t x) { return (vi){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }

/* Returns a in lanes where the mask is all ones, b where it is zero. */
VINLINE vf vpick(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }

/* One register of floats; part_fma returns a * b + c, rounded once. */
#if defined(__AVX512F__)
typedef vf vpart;
VINLINE vpart part_fma(vpart a, vpart b, vpart c) { return (vpart)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#elif defined(__FMA__)
typedef float vpart __attribute__((vector_size(32)));
VINLINE vpart part_fma(vpart a, vpart b, vpart c) { return (vpart)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
#else
typedef float vpart __attribute__((vector_size(16)));
#if defined(__aarch64__)
VINLINE vpart part_fma(vpart a, vpart b, vpart c)
{
    return (vpart)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#else
/* Without the instruction, the product is exact in double. The sum is rounded to odd: its last bit is set if it is
 * inexact. Rounding that to float is the same as rounding the exact sum (S. Boldo and G. Melquiond, Emulation of FMA
 * and correctly rounded sums: proved algorithms using rounding to odd, 2008). */
static __attribute__((noinline, unused)) vpart part_fma(vpart a, vpart b, vpart c)
{
    typedef double wide __attribute__((vector_size(32)));
    typedef int64_t wide_bits __attribute__((vector_size(32)));
    wide x = __builtin_convertvector(a, wide) * __builtin_convertvector(b, wide), y = __builtin_convertvector(c, wide);
    wide sum = x + y, rest = sum - x, error = (x - (sum - rest)) + (y - rest);
    wide_bits bits = (wide_bits)sum, inexact = (error < 0) | (error > 0), even = (bits & 1) - 1;
    wide_bits towards = ((error > 0) ^ (sum < 0)) & 2; /* 2: away from 0 */
    return __builtin_convertvector((wide)(bits + (inexact & even & (towards - 1))), vpart);
}
#endif
#endif
enum { PART = sizeof(vpart) / sizeof(float) };

VINLINE vpart part_set(float x) { return x - (vpart){0}; }

VINLINE vpart part_load(const float *p)
{
    vpart x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* Returns a * b + c, rounded once. */
VINLINE vf vfma(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return part_fma(a, b, c);
#elif defined(__FMA__)
#define VLOW(v) __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
#define VHIGH(v) __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)
    vpart low = part_fma(VLOW(a), VLOW(b), VLOW(c)), high = part_fma(VHIGH(a), VHIGH(b), VHIGH(c));
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#else
    vpart x[4], y[4], z[4];
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    memcpy(z, &c, sizeof z);
    for (int i = 0; i < 4; i++)
        z[i] = part_fma(x[i], y[i], z[i]);
    memcpy(&c, z, sizeof c);
    return c;
#endif
}

/* Returns b if either is NaN or both are 0, as the instructions do. */
VINLINE vf vmax(vf a, vf b)
{
#if defined(VMASKS)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#else
    return vpick(a > b, a, b);
#endif
}

VINLINE vf vmin(vf a, vf b)
{
#if defined(VMASKS)
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#else
    return vpick(a < b, a, b);
#endif
}

/* Returns a mask as bits: bit l is set if lane l is. vlanes does the reverse. */
VINLINE uint16_t vbits(vi mask)
{
#if defined(VMASKS)
    return (uint16_t)_mm512_movepi32_mask((__m512i)mask);
#else
    uint16_t bits = 0;
    for (int i = 0; i < VLANES; i++)
        bits |= (uint16_t)((uint32_t)mask[i] >> 31 << i);
    return bits;
#endif
}

VINLINE vi vlanes(uint16_t bits)
{
    vi bit = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
    return (vseti(bits) & bit) != vseti(0);
}

VINLINE bool vany(vi mask) { return vbits(mask) != 0; }

VINLINE vf vabs(vf a) { return (vf)((vi)a & vseti(0x7fffffff)); }

VINLINE vf vsqrt(vf a)
{
#if defined(__AVX512F__)
    return (vf)_mm512_sqrt_ps((__m512)a);
#else
    for (int i = 0; i < VLANES; i++)
        a[i] = sqrtf(a[i]);
    return a;
#endif
}

/* ---- memory. n is the number of elements left: lanes past n are read as 0 and not written. */

VINLINE vf vwiden(vh h)
{
#if defined(VMASKS)
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
#else
    return (vf)(__builtin_convertvector(h, vu) << 16);
#endif
}

/* Like weft_bf16_from_f32. */
VINLINE vh vnarrow(vf x)
{
    vu u = (vu)x, r = u + 0x7fff + ((u >> 16) & 1);
#if defined(VMASKS)
    __mmask16 nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
    __mmask16 small = _mm512_cmplt_epu32_mask((__m512i)(u & 0x7fffffff), _mm512_set1_epi32(WEFT_BF16_FLOOR));
    r = (vu)_mm512_mask_and_epi32((__m512i)r, small, (__m512i)u, _mm512_set1_epi32((int)0x80000000));
    r = (vu)_mm512_mask_mov_epi32((__m512i)r, nan, _mm512_set1_epi32(0x7fc00000));
    return (vh)_mm512_cvtepi32_epi16((__m512i)(r >> 16));
#else
    vi small = (vi)(u & 0x7fffffff) < vseti(WEFT_BF16_FLOOR);
    r = (vu)vpick(small, (vf)(u & 0x80000000), (vf)r);
    r = (vu)vpick(x != x, (vf)vseti(0x7fc00000), (vf)r);
    return __builtin_convertvector(r >> 16, vh);
#endif
}

/* Full vectors and tails are copied separately, because a copy of variable length would be a slow call to memcpy. */
#if defined(VMASKS)
VINLINE __mmask16 vtail(int64_t n) { return (__mmask16)((1u << n) - 1); } /* lanes 0 .. n-1, n < VLANES */
#endif

VINLINE vf vload_f32(const float *p, int64_t n)
{
    if (n >= VLANES) {
        vf whole;
        memcpy(&whole, p, sizeof whole);
        return whole;
    }
#if defined(VMASKS)
    return (vf)_mm512_maskz_loadu_ps(vtail(n), p);
#else
    vf tail = vset(0);
    memcpy(&tail, p, (size_t)n * sizeof *p);
    return tail;
#endif
}

VINLINE void vstore_f32(float *p, int64_t n, vf v)
{
    if (n >= VLANES)
        memcpy(p, &v, sizeof v);
    else
#if defined(VMASKS)
        _mm512_mask_storeu_ps(p, vtail(n), (__m512)v);
#else
        memcpy(p, &v, (size_t)n * sizeof *p);
#endif
}

VINLINE vh vload_half(const uint16_t *p, int64_t n)
{
    if (n >= VLANES) {
        vh whole;
        memcpy(&whole, p, sizeof whole);
        return whole;
    }
#if defined(VMASKS)
    return (vh)_mm256_maskz_loadu_epi16(vtail(n), p);
#else
    vh tail = {0};
    memcpy(&tail, p, (size_t)n * sizeof *p);
    return tail;
#endif
}

VINLINE vf vload_bf16(const uint16_t *p, int64_t n) { return vwiden(vload_half(p, n)); }

VINLINE void vstore_bf16(uint16_t *p, int64_t n, vf v)
{
    vh h = vnarrow(v);
    if (n >= VLANES)
        memcpy(p, &h, sizeof h);
    else
#if defined(VMASKS)
        _mm256_mask_storeu_epi16(p, vtail(n), (__m256i)h);
#else
        memcpy(p, &h, (size_t)n * sizeof *p);
#endif
}

/* Loads elements i .. i+15 of an f32 or bf16 array of n elements. The compiler moves the dtype test out of the loop. */
VINLINE vf vload(const void *p, enum weft_dtype dtype, int64_t i, int64_t n)
{
    return dtype == WEFT_BF16 ? vload_bf16((const uint16_t *)p + i, n - i) : vload_f32((const float *)p + i, n - i);
}

VINLINE void vstore(void *p, enum weft_dtype dtype, int64_t i, int64_t n, vf v)
{
    if (dtype == WEFT_BF16)
        vstore_bf16((uint16_t *)p + i, n - i, v);
    else
        vstore_f32((float *)p + i, n - i, v);
}

/* ---- reductions, in one fixed tree */

VINLINE float vsum(vf v)
{
    v = v + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    v = v + __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    v = v + __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    v = v + __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    return v[0];
}

VINLINE float vhighest(vf v)
{
    v = vmax(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    v = vmax(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    v = vmax(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    v = vmax(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
    return v[0];
}

/* ---- elementary functions. Polynomial coefficients after S. Moshier's Cephes (expf, logf, tanhf). */

/* e^x. Exactly 0 at and below -87.34 (no denormals, so -inf gives 0), inf above 88.72, NaN for NaN. */
VINLINE vf vexp(vf x)
{
    vf t = vfma(x, vset(1.44269504088896341f), vset(12582912.0f)); /* 1.5 * 2^23: the low bits are round(x/ln2) */
    vf k = t - vset(12582912.0f);
    vf r = vfma(k, vset(-0.693359375f), x);
    r = vfma(k, vset(2.12194440e-4f), r);
    vf p = vset(1.9875691500e-4f);
    p = vfma(p, r, vset(1.3981999507e-3f));
    p = vfma(p, r, vset(8.3334519073e-3f));
    p = vfma(p, r, vset(4.1665795894e-2f));
    p = vfma(p, r, vset(1.6666665459e-1f));
    p = vfma(p, r, vset(5.0000001201e-1f));
    vf y = vfma(p, r * r, r) + vset(1.0f);
#if defined(VMASKS)
    y = (vf)_mm512_scalef_ps((__m512)y, (__m512)k);
    __mmask16 over = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(88.72283905f), _CMP_GT_OQ);
    __mmask16 in = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-87.33654475f), _CMP_NLT_UQ);
    __mmask16 nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
    y = (vf)_mm512_mask_mov_ps((__m512)y, over, _mm512_set1_ps(INFINITY));
    return (vf)_mm512_mask_mov_ps(_mm512_maskz_mov_ps(in, (__m512)y), nan, (__m512)x);
#else
    /* Multiply by 2^n in two steps, so that n = 128 does not overflow. */
    vi n = (vi)((vu)t - 0x4b400000u); /* unsigned, because it wraps for huge x, whose results are replaced below */
    vi half = n >> 1;
    y = y * (vf)((vu)(half + 127) << 23) * (vf)((vu)(n - half + 127) << 23);
    y = vpick(x > vset(88.72283905f), vset(INFINITY), y);
    y = vpick(x < vset(-87.33654475f), vset(0.0f), y);
    return vpick(x != x, x, y);
#endif
}

/* ln x for x > 0; -inf at 0, NaN below 0. Denormals are treated as 0. */
VINLINE vf vlog(vf x)
{
    vi bits = (vi)x;
    vi e = (bits >> 23) - 126;
    vf m = (vf)((bits & 0x007fffff) | 0x3f000000); /* in [0.5, 1) */
    vi low = m < vset(0.707106781186547524f);
    e = e + low; /* a true lane is -1 */
    m = m + (vf)(low & (vi)m) - vset(1.0f);
    vf z = m * m;
    vf p = vset(7.0376836292e-2f);
    p = vfma(p, m, vset(-1.1514610310e-1f));
    p = vfma(p, m, vset(1.1676998740e-1f));
    p = vfma(p, m, vset(-1.2420140846e-1f));
    p = vfma(p, m, vset(1.4249322787e-1f));
    p = vfma(p, m, vset(-1.6668057665e-1f));
    p = vfma(p, m, vset(2.0000714765e-1f));
    p = vfma(p, m, vset(-2.4999993993e-1f));
    p = vfma(p, m, vset(3.3333331174e-1f));
    vf k = __builtin_convertvector(e, vf);
    vf y = p * m * z;
    y = vfma(k, vset(-2.12194440e-4f), y);
    y = vfma(z, vset(-0.5f), y);
    y = vfma(k, vset(0.693359375f), m + y);
    y = vpick(x == vset(INFINITY), x, y);
    y = vpick(x < vset(1.17549435e-38f), vset(-INFINITY), y);
    y = vpick(x < vset(0.0f), vset(NAN), y);
    return vpick(x != x, x, y);
}

VINLINE vf vtanh(vf x)
{
    vf a = vabs(x), z = x * x;
    vf p = vset(-5.70498872745e-3f);
    p = vfma(p, z, vset(2.06390887954e-2f));
    p = vfma(p, z, vset(-5.37397155531e-2f));
    p = vfma(p, z, vset(1.33314422036e-1f));
    p = vfma(p, z, vset(-3.33332819422e-1f));
    vf small = vfma(p * z, x, x);
    vf large = vset(1.0f) - vset(2.0f) / (vexp(a + a) + vset(1.0f));
    large = (vf)((vi)large | ((vi)x & (vi)vset(-0.0f)));
    vf y = vpick(a < vset(0.625f), small, large);
    return vpick(x != x, x, y);
}

VINLINE vf vsigmoid(vf x) { return vset(1.0f) / (vset(1.0f) + vexp(-x)); }

/* Scalar versions: lane 0 of the vector ones, so the bits are the same. */
VINLINE float vexp1(float x) { return vexp(vset(x))[0]; }
VINLINE float vlog1(float x) { return vlog(vset(x))[0]; }

/* ---- random bits */

VINLINE void vmul_wide(vu x, uint32_t by, vu *high, vu *low)
{
    vul even = ((vul)x & 0xffffffff) * by, odd = ((vul)x >> 32) * by;
    *low = (vu)((even & 0xffffffff) | odd << 32);
    *high = (vu)(even >> 32 | (odd & 0xffffffff00000000));
}

/* Philox 4x32-10 (Salmon et al., SC 2011) of sixteen counters with words a, b, c, d, lowest first. */
VINLINE void vphilox(uint64_t key, vu a, vu b, vu c, vu d, vu word[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9e3779b9, k1 += 0xbb67ae85) {
        vu high0, low0, high1, low1;
        vmul_wide(a, 0xd2511f53, &high0, &low0);
        vmul_wide(c, 0xcd9e8d57, &high1, &low1);
        a = high1 ^ b ^ k0;
        b = low1;
        c = high0 ^ d ^ k1;
        d = low0;
    }
    word[0] = a, word[1] = b, word[2] = c, word[3] = d;
}

/* Lane l of word[w] is weft_rand(key, high, low + l).u[w]. */
VINLINE void vrand(uint64_t key, uint64_t high, uint32_t low, vu word[4])
{
    vu zero = {0}, lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vphilox(key, lane + low, zero, zero + (uint32_t)high, zero + (uint32_t)(high >> 32), word);
}

#endif
