/* SPDX-License-Identifier: MIT
 *
 * html.c - small parts of the page. Text: nothing that a study's files say is taken as markup.
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

void weft_html_open_table(const char *label, const char *const *columns, FILE *to)
{
    fprintf(to,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table class=\"plain\">"
            "<thead><tr>",
            label);
    for (; *columns; columns++)
        fprintf(to, "<th scope=\"col\">%s</th>", *columns);
    fputs("</tr></thead><tbody>\n", to);
}

void weft_html_close_table(FILE *to) { fputs("</tbody></table></div>\n", to); }

void weft_html_key(const struct weft_results *r, const char *also, FILE *to)
{
    fputs("<p class=\"key\">", to);
    for (int i = 0; i < r->arm_count; i++)
        if (!r->arm[i].repeats)
            fprintf(to,
                    "<span class=\"c%d\"><svg class=\"swatch\" viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path "
                    "class=\"line d%d\" d=\"M0 5H26\"/></svg> %s</span> &nbsp; ",
                    i % 7, i / 7 % 4, r->arm[i].name);
    fprintf(to, "%s</p>\n", also);
}
