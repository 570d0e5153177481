/* SPDX-License-Identifier: MIT
 *
 * origin.c - what the bits of a run come from beside its config: data, instruction set, program, and how many checks of
 * its gates failed. Checkpoints keep it, so that a run that goes on elsewhere, or on other data, is noticed.
 */
#include "train/internal.h"

#include <string.h>

const char *weft_origin_name(int i)
{
    static const char *const names[WEFT_ORIGINS] = {"data_sha256", "isa", "program_sha256", "gates_failed"};
    return names[i];
}

enum weft_status weft_origin_find(struct weft_origin *o, const struct weft_recipe *r, int gates_failed)
{
    *o = (struct weft_origin){0};
    if (r->task->fingerprint)
        r->task->fingerprint(r->task_options, o->text[WEFT_ORIGIN_DATA]);
    snprintf(o->text[WEFT_ORIGIN_ISA], sizeof o->text[0], "%s", weft_isa_name(weft_isa()));
    TRY(weft_program_hash(o->text[WEFT_ORIGIN_PROGRAM]));
    snprintf(o->text[WEFT_ORIGIN_GATES], sizeof o->text[0], "%d", gates_failed);
    return WEFT_OK;
}

enum weft_status weft_origin_compare(struct weft_record *record, const struct weft_origin *before)
{
    for (int i = 0; i < WEFT_ORIGINS; i++) {
        const char *was = before->text[i], *is = record->origin.text[i];
        if (!*was || strcmp(was, is) == 0)
            continue;
        if (i == WEFT_ORIGIN_DATA)
            return FAIL(WEFT_INVALID,
                        "the data are not those that the run in %s was trained on: bring those back, or give another "
                        "folder",
                        record->folder);
        weft_record_change(record, weft_origin_name(i), was, is);
    }
    return WEFT_OK;
}
