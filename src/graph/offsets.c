/* SPDX-License-Identifier: MIT
 *
 * offsets.c - assigns buffer offsets to pieces with lifetimes.
 *
 * Pieces are placed in order of descending size, each at the lowest offset at which it overlaps no placed piece that is
 * live at the same time. The result is not optimal, because the problem is two-dimensional bin packing, but it is
 * within a few per cent of the maximum number of bytes that are live at the same time.
 */
#include "graph/internal.h"

#include <stdlib.h>

static int larger_first(const void *a, const void *b)
{
    const struct piece *const *x = a, *const *y = b;
    if ((*x)->bytes != (*y)->bytes)
        return (*x)->bytes < (*y)->bytes ? 1 : -1;
    return *x < *y ? -1 : *x > *y;
}

/* Returns the lowest offset at which a piece fits. `placed` is ordered by offset. */
static size_t lowest_gap(const struct piece *piece, struct piece *const *placed, int count)
{
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        const struct piece *other = placed[i];
        if (other->last < piece->first || other->first > piece->last)
            continue;
        if (other->offset >= at && other->offset - at >= piece->bytes)
            break;
        size_t behind = other->offset + other->bytes;
        at = behind > at ? behind : at;
    }
    return at;
}

enum weft_status weft_pieces_assign_offsets(struct piece *pieces, int count, struct weft_arena *arena, size_t *total)
{
    *total = 0;
    struct piece **order = weft_arena_alloc(arena, (size_t)count * sizeof *order);
    struct piece **placed = weft_arena_alloc(arena, (size_t)count * sizeof *placed);
    if (!order || !placed)
        return WEFT_NOMEM;
    for (int i = 0; i < count; i++)
        order[i] = &pieces[i];
    qsort(order, (size_t)count, sizeof *order, larger_first);
    for (int i = 0; i < count; i++) {
        struct piece *piece = order[i];
        size_t end;
        piece->offset = lowest_gap(piece, placed, i);
        TRY(weft_size_add(piece->offset, piece->bytes, &end));
        *total = end > *total ? end : *total;
        int slot = i;
        for (; slot > 0 && placed[slot - 1]->offset > piece->offset; slot--)
            placed[slot] = placed[slot - 1];
        placed[slot] = piece;
    }
    return WEFT_OK;
}
