/* SPDX-License-Identifier: MIT
 *
 * ladder - studies of the same arms at several sizes: whether a gain survives scale.
 */
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "cmd/cmd.h"
#include "report/report.h"

#include <stdlib.h>

struct args {
    struct weft_common common;
    struct weft_arg_list folders;
    const char *html;
};

static const struct weft_arg table[] = {
    {NULL, 0, "DIR", WEFT_ARG_FOLDER, offsetof(struct args, folders),
     .help = "Folders of studies with the same arms, the smallest models first", .many = true,
     .missing = "which studies? Give the folders of at least three, the smallest models first"},
    {"html", 0, "FILE", WEFT_ARG_FILE, offsetof(struct args, html), .help = "Write a page with pictures, too"},
    {0},
};

static enum weft_status write_page(const struct args *a, const struct weft_rungs *l)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (to)
        weft_rungs_page(l, to);
    enum weft_status status = to && weft_output_close(to) ? weft_file_replace(a->html, text, bytes)
                                                          : FAIL(WEFT_NOMEM, "not enough memory for %s", a->html);
    free(text);
    return status;
}

static enum weft_status print(const struct args *a, const struct weft_rungs *l)
{
    if (!a->common.json) {
        weft_rungs_print(l, stdout);
        return WEFT_OK;
    }
    struct weft_result *r = weft_result_create();
    weft_rungs_add(l, r);
    enum weft_status status = weft_result_print(r, stdout, true);
    weft_result_free(r);
    return status;
}

static enum weft_status run(void *args)
{
    const struct args *a = args;
    struct weft_rungs *l = calloc(1, sizeof *l);
    if (!l)
        return FAIL(WEFT_NOMEM, "not enough memory for a ladder");
    enum weft_status status = weft_rungs_load(l, a->folders.item, a->folders.count);
    if (status == WEFT_OK && a->html)
        status = write_page(a, l);
    if (status == WEFT_OK)
        status = print(a, l);
    weft_rungs_release(l);
    free(l);
    return status;
}

const struct weft_cmd weft_cmd_ladder = {
    .name = "ladder",
    .summary = "studies at several sizes: does a gain survive scale?",
    .doc = "Compares the arms of studies at several sizes. For every rung: how many times the compute of an arm the "
           "first arm "
           "would need for the same loss, with an interval; over all rungs: whether that gain grows, holds or shrinks.",
    .notes = "See docs/ladders.md.",
    .args = table,
    .takes = WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
