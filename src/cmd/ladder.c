/* SPDX-License-Identifier: MIT
 *
 * ladder - compares studies of the same arms at several sizes, to show whether a gain survives scale.
 */
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
     .help = "Folders of at least three studies with the same arms, smallest models first", .many = true,
     .missing = "no studies given: pass the folders of at least three, smallest models first"},
    {"html", 0, "FILE", WEFT_ARG_FILE, offsetof(struct args, html), .help = "Also write a page with pictures"},
    {0},
};

static enum weft_status run(void *args)
{
    const struct args *a = args;
    struct weft_rungs *l = calloc(1, sizeof *l);
    if (!l)
        return FAIL(WEFT_NOMEM, "not enough memory for a ladder");
    enum weft_status status = weft_rungs_load(l, a->folders.item, a->folders.count);
    if (status == WEFT_OK && a->html)
        status = weft_rungs_write(l, a->html);
    if (status == WEFT_OK)
        status = weft_rungs_print(l, a->common.json, stdout);
    weft_rungs_release(l);
    free(l);
    return status;
}

const struct weft_cmd weft_cmd_ladder = {
    .name = "ladder",
    .summary = "compare studies at several sizes: does a gain survive scale?",
    .doc = "Compares the arms of studies at several sizes. For every rung and every other arm, prints by what factor "
           "the compute of the first arm would have to grow to reach that arm's loss, with an interval. Over all "
           "rungs, prints whether the gain grows, holds or shrinks.",
    .notes = "See docs/ladders.md.",
    .args = table,
    .takes = WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
