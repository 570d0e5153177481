/* SPDX-License-Identifier: MIT
 *
 * report.c - writes report.html, report.md and report.csv. If one of them cannot be replaced, all stay as they were.
 */
#define _GNU_SOURCE
#include "ckpt/ckpt.h"
#include "report/results.h"

#include <stdlib.h>

enum { FILES = 3 };

struct output {
    char *text;
    size_t bytes;
};

static void print(int i, const struct weft_results *r, const struct weft_curves *c, FILE *to)
{
    if (i == 0)
        weft_report_page(r, c, to);
    else
        (i == 1 ? weft_report_markdown : weft_report_csv)(r, to);
}

static enum weft_status make(const struct weft_results *r, struct output out[FILES])
{
    struct weft_curves c;
    enum weft_status status = weft_curves_init(&c, r);
    for (int i = 0; i < FILES && status == WEFT_OK; i++) {
        FILE *to = open_memstream(&out[i].text, &out[i].bytes);
        if (to)
            print(i, r, &c, to);
        if (!to || !weft_output_close(to))
            status = FAIL(WEFT_NOMEM, "not enough memory for the report");
    }
    weft_curves_release(&c);
    return status;
}

static enum weft_status save(const char *folder, const struct output out[FILES])
{
    static const char *const endings[FILES] = {"html", "md", "csv"};
    struct weft_file file[FILES];
    enum weft_status status = WEFT_OK;
    int begun = 0;
    for (; begun < FILES && status == WEFT_OK; begun++) {
        char path[4096];
        if (snprintf(path, sizeof path, "%s/report.%s", folder, endings[begun]) >= (int)sizeof path)
            status = FAIL(WEFT_INVALID, "the path of the study's folder is too long");
        else
            status = weft_file_begin(&file[begun], path);
        if (status != WEFT_OK)
            break;
        status = weft_file_add(&file[begun], out[begun].text, out[begun].bytes);
    }
    return weft_files_end(file, begun, status);
}

enum weft_status weft_report_write(const char *folder)
{
    struct weft_results r;
    struct output out[FILES] = {{0}};
    enum weft_status status = weft_results_load(&r, folder);
    if (status == WEFT_OK)
        status = weft_looks_record(&r);
    if (status == WEFT_OK)
        status = make(&r, out);
    if (status == WEFT_OK)
        status = save(folder, out);
    for (int i = 0; i < FILES; i++)
        free(out[i].text);
    weft_results_release(&r);
    return status;
}
