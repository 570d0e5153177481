/* SPDX-License-Identifier: MIT
 *
 * escape.c - escapes text for a terminal. Names, settings and paths come from files and the command line. A control
 * character in them could move the cursor or overwrite earlier output, so messages show it as \xNN.
 */
#define _GNU_SOURCE
#include "base/base.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Returns the size of the printable UTF-8 character at `text`, or 0 if it is not printable. C1 controls have two
 * bytes. */
static int printable(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    int n = *c < 0x80 ? 1 : *c >= 0xc2 && *c < 0xe0 ? 2 : (*c & 0xf0) == 0xe0 ? 3 : *c >= 0xf0 && *c < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    bool control = *c < ' ' || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0);
    return control ? 0 : n;
}

bool weft_text_printable(const char *text)
{
    for (int n; *text; text += n)
        if (!(n = printable(text)))
            return false;
    return true;
}

void weft_text_escape(const char *text, char *to, size_t size)
{
    for (int n; *text; text += n) {
        char piece[8];
        n = *text == '\n' ? 1 : printable(text);
        int used = n ? snprintf(piece, sizeof piece, "%.*s", n, text)
                     : snprintf(piece, sizeof piece, "\\x%02x", (unsigned char)*text);
        if ((size_t)used >= size)
            break;
        memcpy(to, piece, (size_t)used);
        to += used;
        size -= (size_t)used;
        n += !n;
    }
    *to = 0;
}

void weft_text_print(FILE *to, const char *text)
{
    size_t size = 4 * strlen(text) + 1;
    char *escaped = malloc(size);
    if (escaped)
        weft_text_escape(text, escaped, size);
    fputs(escaped ? escaped : "(not enough memory to print this text)", to);
    free(escaped);
}

void weft_say(FILE *to, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    weft_text_print(to, text ? text : format);
    free(text);
}
