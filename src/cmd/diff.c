/* SPDX-License-Identifier: MIT
 *
 * diff - finds where two runs diverge: the first record, step, tensor and element that differ.
 */
#include "run/diff.h"
#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/kit/progress.h"

#include <math.h>

struct args {
    struct weft_common common;
    const char *folder[2];
};

static const struct weft_arg table[] = {
    {NULL, 0, "A", WEFT_ARG_FOLDER, offsetof(struct args, folder[0]), .help = "Folder of a run",
     .missing = "no runs given: pass two folders of runs"},
    {NULL, 0, "B", WEFT_ARG_FOLDER, offsetof(struct args, folder[1]), .help = "Folder of the run to compare with A",
     .missing = "only one run given: pass the folder of a second one"},
    {0},
};

static void print_step(void *context, int64_t step, int64_t last)
{
    weft_line_show(context, (double)step, (double)last, "step %lld/%lld of both", (long long)step, (long long)last);
}

/* Prints a value with all digits, even in the text output. */
static void add_value(struct weft_result *r, const char *name, double value, bool json)
{
    char text[40];
    snprintf(text, sizeof text, "%.9g", value);
    if (json)
        weft_result_real(r, name, value);
    else
        weft_result_text(r, name, text);
}

static void add_difference(struct weft_result *r, const struct weft_diff *d, bool json)
{
    weft_result_text(r, "what", d->what);
    if (*d->tensor) {
        weft_result_text(r, "tensor", d->tensor);
        weft_result_int(r, "element", d->element);
    }
    add_value(r, "a", d->value[0], json);
    add_value(r, "b", d->value[1], json);
    if (*d->op)
        weft_result_text(r, "op", d->op);
    if (*d->op && !isnan(d->op_value[0] + d->op_value[1])) {
        add_value(r, "op_a", d->op_value[0], json);
        add_value(r, "op_b", d->op_value[1], json);
    }
}

static enum weft_status print(const struct weft_diff *d, bool json)
{
    struct weft_result *r = weft_result_create();
    weft_result_int(r, "first_record", d->record);
    if (d->record >= 0) {
        weft_result_text(r, "record_a", d->text[0]);
        weft_result_text(r, "record_b", d->text[1]);
    }
    weft_result_int(r, "from_checkpoint", d->common);
    weft_result_int(r, "first_step", d->step);
    if (d->step >= 0)
        add_difference(r, d, json);
    return weft_result_finish(r, stdout, json);
}

static enum weft_status compare(struct args *a, struct weft_common run[2], struct weft_diff *d)
{
    struct weft_line line;
    for (int i = 0; i < 2; i++) {
        run[i].model = a->folder[i];
        TRY(weft_common_init(&run[i]));
        d->side[i] = (struct weft_diff_side){&run[i].spec, &run[i].recipe, a->folder[i]};
    }
    weft_line_init(&line, 0);
    d->context = &line;
    d->on_step = print_step;
    enum weft_status status = weft_diff_run(d);
    weft_line_end(&line);
    TRY(status);
    TRY(print(d, a->common.json));
    if (d->record >= 0 && d->step < 0)
        weft_say(stderr, "both runs give the same results when repeated, so one of the logs is wrong: `weft audit` "
                         "finds out which\n");
    return WEFT_OK;
}

static enum weft_status run(void *args)
{
    struct weft_common run[2] = {{0}, {0}};
    struct weft_diff d = {0};
    enum weft_status status = compare(args, run, &d);
    for (int i = 0; i < 2; i++)
        weft_common_release(&run[i]);
    return status;
}

const struct weft_cmd weft_cmd_diff = {
    .name = "diff",
    .summary = "find where two runs diverge",
    .doc = "Compares the logs of two runs of models with the same weights, and repeats both side by side from their "
           "last common checkpoint to the first record that differs. Prints the first step that differs and what "
           "differs in it: samples, loss, gradient, weights or moments, or a checkpoint that training does not "
           "reproduce, with the tensor, the element and both values. If the loss or a gradient differs, the step is "
           "repeated op by op, and `op` is the first result that differs.",
    .notes = "A first_record or first_step of -1 means that nothing differs. Nothing in the folders is changed.",
    .args = table,
    .takes = WEFT_TAKES_THREADS | WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
