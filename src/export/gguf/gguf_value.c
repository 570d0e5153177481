/* SPDX-License-Identifier: MIT
 *
 * gguf_value.c - reads the values of a GGUF file's keys.
 */
#include "export/gguf/gguf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool weft_gguf_whole(const struct weft_gguf_key *key, int64_t *n)
{
    static const struct {
        int bits;
        bool sign;
    } kinds[WEFT_GGUF_TYPES] = {
        [WEFT_GGUF_U8] = {8},   [WEFT_GGUF_I8] = {8, true},   [WEFT_GGUF_U16] = {16}, [WEFT_GGUF_I16] = {16, true},
        [WEFT_GGUF_U32] = {32}, [WEFT_GGUF_I32] = {32, true}, [WEFT_GGUF_U64] = {64}, [WEFT_GGUF_I64] = {64, true},
    };
    int bits = kinds[key->type].bits;
    uint64_t u = 0;
    if (!bits)
        return false;
    memcpy(&u, key->at, (size_t)bits / 8);
    *n = kinds[key->type].sign ? (int64_t)(u << (64 - bits)) >> (64 - bits) : (int64_t)u;
    return kinds[key->type].sign || u <= INT64_MAX;
}

double weft_gguf_shortest(float x)
{
    char text[32];
    for (int digits = 0; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*e", digits, (double)x);
        if ((float)strtod(text, NULL) == x)
            return strtod(text, NULL);
    }
    return (double)x;
}

bool weft_gguf_number(const struct weft_gguf_key *key, double *x)
{
    int64_t whole;
    float narrow;
    if (key->type == WEFT_GGUF_F32) {
        memcpy(&narrow, key->at, sizeof narrow);
        *x = isfinite(narrow) ? weft_gguf_shortest(narrow) : (double)narrow;
    } else if (key->type == WEFT_GGUF_F64) {
        memcpy(x, key->at, sizeof *x);
    } else if (key->type == WEFT_GGUF_BOOL) {
        *x = *key->at;
    } else {
        *x = weft_gguf_whole(key, &whole) ? (double)whole : NAN;
    }
    return isfinite(*x);
}

const unsigned char *weft_gguf_text(const unsigned char *at, const char **text, size_t *bytes)
{
    uint64_t n;
    memcpy(&n, at, sizeof n);
    *text = (const char *)at + sizeof n;
    *bytes = n;
    return at + sizeof n + n;
}

bool weft_gguf_is(const struct weft_gguf_key *key, const char *text)
{
    const char *has;
    size_t bytes;
    if (!key || key->type != WEFT_GGUF_TEXT)
        return false;
    weft_gguf_text(key->at, &has, &bytes);
    return bytes == strlen(text) && memcmp(has, text, bytes) == 0;
}

void weft_gguf_show(const struct weft_gguf_key *key, char text[64])
{
    double x;
    const char *has;
    size_t bytes;
    if (!key)
        snprintf(text, 64, "missing");
    else if (weft_gguf_number(key, &x))
        snprintf(text, 64, "%.9g", x);
    else if (key->type == WEFT_GGUF_TEXT) {
        weft_gguf_text(key->at, &has, &bytes);
        snprintf(text, 64, "\"%.*s\"", (int)weft_min((int64_t)bytes, 60), has);
    } else
        snprintf(text, 64, key->type == WEFT_GGUF_LIST ? "a list" : "not finite");
}
