/* SPDX-License-Identifier: MIT
 *
 * study.c - any bytes as a study's folder: study.json up to the first zero byte, runs.jsonl after it. If it is
 * accepted, all reports can be written, and the HTML page contains no markup from the files.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "report/read/results.h"

static void write_reports(const struct weft_results *r)
{
    struct weft_curves c;
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    MUST(to);
    if (weft_curves_init(&c, r) == WEFT_OK) {
        weft_report_page(r, &c, to);
        MUST(fflush(to) == 0 && !strstr(text, "<hostile"));
        weft_report_markdown(r, to);
        weft_report_csv(r, to);
        weft_results_print(r, to);
    }
    weft_curves_release(&c);
    MUST(fclose(to) == 0);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_results r;
    if (weft_results_load(&r, fuzz_folder("study.json", "runs.jsonl", data, size)) == WEFT_OK)
        write_reports(&r);
    weft_results_release(&r);
    return 0;
}
