/* SPDX-License-Identifier: MIT
 *
 * replace.c - replaces parts and ops by broken copies, and restores them.
 */
#include "check/mutants/mutants.h"
#include "train/record/record.h"

#include <assert.h>
#include <string.h>

enum { MAX_PARTS = 4, MAX_PART_BYTES = 512 };

static const struct weft_op *sound_op[WEFT_OP_COUNT];
static struct weft_op broken_op[WEFT_OP_COUNT];
static struct {
    const struct weft_part *sound;
    _Alignas(16) char broken[MAX_PART_BYTES];
} parts[MAX_PARTS];
static int part_count;

struct weft_op *weft_break_op(enum weft_op_id id)
{
    sound_op[id] = weft_op(id);
    broken_op[id] = *sound_op[id];
    weft_op_replace(id, &broken_op[id]);
    return &broken_op[id];
}

const struct weft_op *weft_sound_op(enum weft_op_id id) { return sound_op[id]; }

void *weft_break_part(const struct weft_part *part, const void *whole, size_t bytes)
{
    assert(part_count < MAX_PARTS && bytes <= MAX_PART_BYTES);
    parts[part_count].sound = part;
    memcpy(parts[part_count].broken, whole, bytes);
    weft_part_replace(part, (const struct weft_part *)parts[part_count].broken);
    return parts[part_count++].broken;
}

void weft_mutants_restore(void)
{
    for (int id = 0; id < WEFT_OP_COUNT; id++)
        weft_op_replace((enum weft_op_id)id, NULL);
    while (part_count > 0)
        weft_part_replace(parts[--part_count].sound, NULL);
    weft_state_loaded = NULL;
}
