/* SPDX-License-Identifier: MIT
 *
 * html.c - text inside HTML: nothing that a study's files say is taken as markup.
 */
#include "report/results.h"

void weft_html(FILE *to, const char *text)
{
    for (; *text; text++) {
        const char *name = *text == '&'    ? "&amp;"
                           : *text == '<'  ? "&lt;"
                           : *text == '>'  ? "&gt;"
                           : *text == '"'  ? "&quot;"
                           : *text == '\'' ? "&#39;"
                                           : NULL;
        if (name)
            fputs(name, to);
        else
            fputc(*text, to);
    }
}
