/* SPDX-License-Identifier: MIT
 *
 * checksum.c - computes checksums: a polynomial modulo the prime 2^61 - 1 whose coefficients are the data's 32-bit
 * words:
 *
 *     h = before * K^(n+1) + bytes * K^n + w_1 K^(n-1) + ... + w_n
 * Any two words differ by less than the prime, so a change within one word, such as a flipped bit, is always detected.
 * So is a swap of two words: it changes h by (w_i - w_j)(K^i - K^j), and K is a primitive root, whose powers repeat
 * only after 2^61 - 2 words. Other damage is missed only if K is a root of the difference, with probability words /
 * 2^61.
 *
 * In portable C, it reaches 4.5 GB/s on a core where a single chain of CRC-32C instructions reaches 6 GB/s and
 * base/sha256.c 0.1 GB/s; it has 61 bits, while CRC-32C has 32.
 */
#include "ckpt/ckpt.h"

#include <string.h>

__extension__ typedef unsigned __int128 wide;

#define PRIME ((UINT64_C(1) << 61) - 1)
#define K UINT64_C(0x94518d2d8858a0e) /* the first primitive root at or above SHA-256("weft") mod 2^61 - 1 */
enum { WORDS = 64 };                  /* words summed before each reduction: 64 * 2^32 * 2^61 + 2^122 < 2^123 */

static uint64_t reduce(wide x)
{
    uint64_t h = (uint64_t)(x & PRIME) + (uint64_t)(x >> 61 & PRIME) + (uint64_t)(x >> 122);
    h = (h & PRIME) + (h >> 61);
    return h >= PRIME ? h - PRIME : h;
}

static uint64_t add_words(uint64_t h, const unsigned char *from, int count, const uint64_t *power)
{
    wide sum = (wide)h * power[count];
    for (int i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, from + 4 * i, sizeof word);
        sum += (wide)word * power[count - 1 - i];
    }
    return reduce(sum);
}

static uint64_t add_all(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    unsigned char tail[4 * WORDS] = {0};
    uint64_t power[WORDS + 1] = {1};
    for (int i = 0; i < WORDS; i++)
        power[i + 1] = reduce((wide)power[i] * K);
    for (; bytes >= sizeof tail; bytes -= sizeof tail, from += sizeof tail)
        h = add_words(h, from, WORDS, power);
    if (!bytes)
        return h;
    memcpy(tail, from, bytes);
    return add_words(h, tail, (int)weft_div_up((int64_t)bytes, 4), power);
}

uint64_t weft_checksum(uint64_t before, const void *data, size_t bytes)
{
    return add_all(reduce((wide)before * K + bytes), data, bytes);
}

/* ---- pieces: their checksums are the sums of w_i K^(n-i) alone */

uint64_t weft_checksum_piece(const void *data, size_t bytes) { return add_all(0, data, bytes); }

uint64_t weft_checksum_join(uint64_t before, uint64_t piece, size_t bytes)
{
    uint64_t power = 1, square = K;
    for (uint64_t n = (uint64_t)weft_div_up((int64_t)bytes, 4); n; n /= 2) {
        if (n % 2)
            power = reduce((wide)power * square);
        square = reduce((wide)square * square);
    }
    return reduce((wide)before * power + piece);
}

uint64_t weft_checksum_whole(uint64_t before, uint64_t piece, size_t bytes)
{
    return weft_checksum_join(reduce((wide)before * K + bytes), piece, bytes);
}
