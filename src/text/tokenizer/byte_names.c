/* SPDX-License-Identifier: MIT
 *
 * byte_names.c - reads and writes token names of GPT-2's files, where every byte is written as a visible character.
 */
#include "text/tokenizer/bpe.h"

#include <string.h>

void weft_byte_name_write(const struct weft_token *token, char *name)
{
    uint32_t code_of[256], hidden = 256;
    for (int b = 0; b < 256; b++)
        code_of[b] = weft_byte_visible(b) ? (uint32_t)b : hidden++;
    for (uint32_t i = 0; i < token->size; i++)
        name += weft_utf8_write(code_of[(unsigned char)token->bytes[i]], name);
    *name = 0;
}

size_t weft_byte_name_read(const char *name, char *bytes)
{
    int byte_of[324];
    int hidden = 256;
    size_t left = strlen(name), n = 0;
    uint32_t code;
    for (int b = 0; b < 256; b++)
        byte_of[b] = -1;
    for (int b = 0; b < 256; b++)
        byte_of[weft_byte_visible(b) ? b : hidden++] = b;
    for (size_t size; left; name += size, left -= size) {
        if (!(size = weft_utf8_read(name, left, &code)) || code >= (uint32_t)hidden || byte_of[code] < 0)
            return 0;
        bytes[n++] = (char)byte_of[code];
    }
    return n;
}
