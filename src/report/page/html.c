/* SPDX-License-Identifier: MIT
 *
 * html.c - writes small parts of the page. Text from a study's files is escaped, never used as markup.
 */
#include "report/read/results.h"

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

void weft_html_note(void *to, bool warning, const char *text)
{
    fputs(warning ? "<li class=\"warning\"><strong>Note:</strong> " : "<li>", to);
    weft_html(to, text);
    fputs("</li>\n", to);
}

void weft_html_open_page(const char *title, const char *what, bool charts, FILE *to)
{
    fprintf(to,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<meta name=\"color-scheme\" content=\"light dark\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
            "%simg-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n<title>",
            charts ? "script-src 'unsafe-inline'; " : "");
    weft_html(to, title);
    fprintf(to, ": %s</title>\n<style>\n%s\n%s</style>\n</head>\n<body>\n", what, charts ? weft_embedded_uplot_css : "",
            weft_embedded_style);
}

void weft_html_open_data(FILE *to) { fputs("<script type=\"application/json\" id=\"data\">\n", to); }

void weft_html_close_page(bool charts, FILE *to)
{
    if (charts)
        fprintf(to, "\n</script>\n<script>\n/*\n%s\n*/\n%s\n%s</script>\n", weft_embedded_uplot_licence,
                weft_embedded_uplot_js, weft_embedded_charts);
    fputs("</body>\n</html>\n", to);
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
