/* SPDX-License-Identifier: MIT
 *
 * origin.c - determines the origin of a run apart from its config: data, the definition of its numbers, instruction
 * set, program, and the number of failed checks of its gates. Checkpoints store it, so that resuming a run elsewhere or
 * on different data is detected.
 */
#include "dnn/dnn.h"
#include "train/record/internal.h"

const char *weft_origin_name(int i)
{
    static const char *const names[WEFT_ORIGINS] = {"data_sha256", "numbers", "isa", "program_sha256", "gates_failed"};
    return names[i];
}

void weft_origin_data(const struct weft_recipe *r, char hash[65])
{
    hash[0] = 0;
    if (r->task->fingerprint)
        r->task->fingerprint(r->task_options, hash);
}

enum weft_status weft_origin_find(struct weft_origin *o, const struct weft_recipe *r, int gates_failed)
{
    *o = (struct weft_origin){0};
    weft_origin_data(r, o->text[WEFT_ORIGIN_DATA]);
    snprintf(o->text[WEFT_ORIGIN_NUMBERS], sizeof o->text[0], "%s", WEFT_NUMBERS);
    snprintf(o->text[WEFT_ORIGIN_ISA], sizeof o->text[0], "%s", weft_dnn_path());
    TRY(weft_program_hash(o->text[WEFT_ORIGIN_PROGRAM]));
    snprintf(o->text[WEFT_ORIGIN_GATES], sizeof o->text[0], "%d", gates_failed);
    return WEFT_OK;
}
