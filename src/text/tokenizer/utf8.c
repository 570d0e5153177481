/* SPDX-License-Identifier: MIT
 *
 * utf8.c - reads and writes UTF-8 characters, and shortens names for messages.
 */
#include "text/tokenizer/bpe.h"

#include <string.h>

size_t weft_utf8_read(const char *text, size_t bytes, uint32_t *code)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *u = (const unsigned char *)text;
    if (!bytes)
        return 0;
    size_t size = u[0] < 0x80 ? 1 : u[0] < 0xc0 ? 0 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : u[0] < 0xf8 ? 4 : 0;
    if (size == 0 || size > bytes)
        return 0;
    uint32_t c = size == 1 ? u[0] : u[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((u[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (u[i] & 0x3f);
    }
    if (c < least[size] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *code = c;
    return size;
}

size_t weft_utf8_write(uint32_t code, char text[4])
{
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size; i-- > 1; code >>= 6)
        text[i] = (char)(0x80 | (code & 0x3f));
    text[0] = (char)(size == 1 ? code : (0xf00u >> size & 0xf0) | code);
    return size;
}

size_t weft_utf8_valid(const char *text, size_t bytes)
{
    size_t at = 0, size;
    uint64_t word;
    uint32_t code;
    for (;;) {
        while (bytes - at >= 8 && (memcpy(&word, text + at, 8), !(word & 0x8080808080808080u)))
            at += 8;
        if (!(size = weft_utf8_read(text + at, bytes - at, &code)))
            return at;
        at += size;
    }
}

struct weft_shown weft_name_show(const char *name)
{
    struct weft_shown s;
    size_t n = strlen(name);
    n = n < sizeof s.text ? n : sizeof s.text - 1;
    while (n && ((unsigned char)name[n] & 0xc0) == 0x80) /* do not split a character */
        n--;
    memcpy(s.text, name, n);
    s.text[n] = 0;
    return s;
}
