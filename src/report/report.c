/* SPDX-License-Identifier: MIT
 *
 * report.c - writes report.html, report.md and report.csv. If one of them cannot be replaced, all remain unchanged.
 */
#define _GNU_SOURCE
#include "ckpt/ckpt.h"
#include "report/read/results.h"

#include <stdlib.h>

static const char *const endings[] = {"html", "md", "csv"};
enum { FILES = sizeof endings / sizeof *endings };

enum weft_status weft_report_file_make(struct weft_report_file *file, void (*print)(const void *of, FILE *to),
                                       const void *of)
{
    FILE *to = open_memstream(&file->text, &file->bytes);
    if (to)
        print(of, to);
    if (!to || !weft_output_close(to))
        return FAIL(WEFT_NOMEM, "not enough memory for the report");
    return WEFT_OK;
}

enum weft_status weft_report_save(const char *folder, const struct weft_report_file *files, int count)
{
    struct weft_file file[FILES];
    enum weft_status status = WEFT_OK;
    int begun = 0;
    for (; begun < count && status == WEFT_OK; begun++) {
        char path[4096];
        if (snprintf(path, sizeof path, "%s/report.%s", folder, endings[begun]) >= (int)sizeof path)
            status = FAIL(WEFT_INVALID, "the path of the folder is too long");
        else
            status = weft_file_begin(&file[begun], path);
        if (status != WEFT_OK)
            break;
        status = weft_file_add(&file[begun], files[begun].text, files[begun].bytes);
    }
    return weft_files_end(file, begun, status);
}

/* ---- reports of a study */

struct study {
    const struct weft_results *r;
    struct weft_curves c;
};

static void print_page(const void *of, FILE *to)
{
    const struct study *s = of;
    weft_report_page(s->r, &s->c, to);
}
static void print_markdown(const void *of, FILE *to) { weft_report_markdown(((const struct study *)of)->r, to); }
static void print_csv(const void *of, FILE *to) { weft_report_csv(((const struct study *)of)->r, to); }

static enum weft_status make(const struct weft_results *r, struct weft_report_file files[FILES])
{
    static void (*const print[FILES])(const void *of, FILE *to) = {print_page, print_markdown, print_csv};
    struct study s = {.r = r};
    enum weft_status status = weft_curves_init(&s.c, r);
    for (int i = 0; i < FILES && status == WEFT_OK; i++)
        status = weft_report_file_make(&files[i], print[i], &s);
    weft_curves_release(&s.c);
    return status;
}

enum weft_status weft_report_write(const char *folder)
{
    struct weft_results r;
    struct weft_report_file files[FILES] = {{0}};
    enum weft_status status = weft_results_load(&r, folder);
    if (status == WEFT_OK)
        status = weft_looks_record(&r);
    if (status == WEFT_OK)
        status = make(&r, files);
    if (status == WEFT_OK)
        status = weft_report_save(folder, files, FILES);
    for (int i = 0; i < FILES; i++)
        free(files[i].text);
    weft_results_release(&r);
    return status;
}
