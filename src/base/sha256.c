/* SPDX-License-Identifier: MIT
 *
 * sha256.c - computes SHA-256 (FIPS 180-4), for fingerprints of weights, samples and files. The code is too short to
 * justify a library.
 *
 * Weights can take half a gigabyte, and samples are hashed at every step, so x86's SHA instructions are used if
 * available: 1 GB/s instead of 0.09.
 */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* Computes one round. The standard shifts the words of the state by one; here callers rotate the arguments instead. */
static void round_of(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d, const uint32_t *e,
                     const uint32_t *f, const uint32_t *g, uint32_t *h, uint32_t added)
{
    uint32_t choice = *g ^ (*e & (*f ^ *g)), majority = (*a & *b) | (*c & (*a | *b));
    *h += (rotate(*e, 6) ^ rotate(*e, 11) ^ rotate(*e, 25)) + choice + added;
    *d += *h;
    *h += (rotate(*a, 2) ^ rotate(*a, 13) ^ rotate(*a, 22)) + majority;
}

static void compress_plain(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] + (rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i += 8) {
        const uint32_t *k = round_constant + i, *x = w + i;
        round_of(&a, &b, &c, &d, &e, &f, &g, &h, k[0] + x[0]);
        round_of(&h, &a, &b, &c, &d, &e, &f, &g, k[1] + x[1]);
        round_of(&g, &h, &a, &b, &c, &d, &e, &f, k[2] + x[2]);
        round_of(&f, &g, &h, &a, &b, &c, &d, &e, k[3] + x[3]);
        round_of(&e, &f, &g, &h, &a, &b, &c, &d, k[4] + x[4]);
        round_of(&d, &e, &f, &g, &h, &a, &b, &c, k[5] + x[5]);
        round_of(&c, &d, &e, &f, &g, &h, &a, &b, k[6] + x[6]);
        round_of(&b, &c, &d, &e, &f, &g, &h, &a, k[7] + x[7]);
    }
    const uint32_t end[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += end[i];
}

#if defined(__x86_64__)
/* The level base uses the portable path, so that it is also tested. */
static bool has_instructions(void)
{
    static _Atomic int known = -1; /* concurrent callers find the same value */
    unsigned a, b = 0, c, d;
    if (known < 0)
        known = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1;
    return known && weft_isa() > WEFT_ISA_BASE;
}

/* The instructions hold the state as (a, b, e, f) and (c, d, g, h), and each performs two rounds. */
__attribute__((target("sha,sse4.1"))) static void compress_fast(uint32_t state[8], const unsigned char *block)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
    __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0), w[16];
    const __m128i abef_before = abef, cdgh_before = cdgh;
    for (int i = 0; i < 16; i++) {
        if (i < 4) {
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(block + 16 * i)), big_endian);
        } else {
            __m128i sum =
                _mm_add_epi32(_mm_sha256msg1_epu32(w[i - 4], w[i - 3]), _mm_alignr_epi8(w[i - 1], w[i - 2], 4));
            w[i] = _mm_sha256msg2_epu32(sum, w[i - 1]);
        }
        __m128i x = _mm_add_epi32(w[i], _mm_loadu_si128((const __m128i *)(round_constant + 4 * i)));
        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, x);
        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(x, 0x0e));
    }
    low = _mm_shuffle_epi32(_mm_add_epi32(abef, abef_before), 0x1b);
    high = _mm_shuffle_epi32(_mm_add_epi32(cdgh, cdgh_before), 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(low, high, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(high, low, 8));
}
#else
static bool has_instructions(void) { return false; }
static void compress_fast(uint32_t state[8], const unsigned char *block) { compress_plain(state, block); }
#endif

static void compress(uint32_t state[8], const unsigned char *block)
{
    if (has_instructions())
        compress_fast(state, block);
    else
        compress_plain(state, block);
}

void weft_sha256_init(struct weft_sha256 *sha)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sha->state, start, sizeof start);
    sha->bytes = 0;
}

void weft_sha256_add(struct weft_sha256 *sha, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    while (bytes) {
        size_t held = sha->bytes % 64, take = (size_t)weft_min((int64_t)(64 - held), (int64_t)bytes);
        memcpy(sha->block + held, from, take);
        sha->bytes += take;
        from += take;
        bytes -= take;
        if (held + take == 64)
            compress(sha->state, sha->block);
    }
}

void weft_sha256_bytes(struct weft_sha256 *sha, unsigned char hash[32])
{
    uint64_t bits = sha->bytes * 8;
    static const unsigned char zeros[64];
    unsigned char tail[8];
    for (int i = 0; i < 8; i++)
        tail[i] = (unsigned char)(bits >> (56 - 8 * i));
    weft_sha256_add(sha, "\x80", 1);
    weft_sha256_add(sha, zeros, (120 - sha->bytes % 64) % 64);
    weft_sha256_add(sha, tail, 8);
    for (int i = 0; i < 32; i++)
        hash[i] = (unsigned char)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
}

void weft_sha256_hex(struct weft_sha256 *sha, char hex[65])
{
    unsigned char hash[32];
    weft_sha256_bytes(sha, hash);
    for (int i = 0; i < 64; i++)
        hex[i] = "0123456789abcdef"[hash[i / 2] >> (i % 2 ? 0 : 4) & 15];
    hex[64] = 0;
}

enum weft_status weft_sha256_file(const char *path, char hex[65])
{
    struct weft_sha256 sha;
    char block[4096];
    FILE *f;
    TRY(weft_input_open(path, &f));
    weft_sha256_init(&sha);
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        weft_sha256_add(&sha, block, n);
    bool failed = ferror(f);
    fclose(f);
    weft_sha256_hex(&sha, hex);
    return failed ? FAIL(WEFT_IO, "%s cannot be read", path) : WEFT_OK;
}

enum weft_status weft_sha256_within(const char *path, size_t limit, char hex[65])
{
    struct weft_sha256 sha;
    char *text = NULL;
    size_t bytes;
    enum weft_status status = weft_slurp(path, limit, &text, &bytes);
    if (status == WEFT_OK) {
        weft_sha256_init(&sha);
        weft_sha256_add(&sha, text, bytes);
        weft_sha256_hex(&sha, hex);
    }
    free(text);
    return status;
}
