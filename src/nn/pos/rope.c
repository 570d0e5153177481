/* SPDX-License-Identifier: MIT
 *
 * pos/rope - rotary positions: in every head, coordinates i and i + D/2 of queries and keys rotate by pos /
 * base^(2i/D). No parameters. Scores depend only on the distance of two tokens.
 */
#include "nn/build.h"

#include <stddef.h>

struct rope {
    double base;
};

static const struct weft_opt options[] = {
    {"rope_base", WEFT_OPT_REAL, offsetof(struct rope, base), "10000", 2, 1e12,
     .help = "the slowest pair makes one turn in about 2 pi times this many tokens"},
};

static enum weft_status resolve(struct weft_spec *spec, void *opts)
{
    if (spec->rotated % 2)
        return FAIL(WEFT_INVALID, "pos=rope turns pairs, but %lld columns of a head are to be rotated: make that even",
                    (long long)spec->rotated);
    return WEFT_OK;
}

static struct weft_value *rotate(struct weft_build *b, const void *opts, struct weft_value *x, int64_t heads,
                                 enum weft_side side)
{
    const struct rope *o = opts;
    return weft_rope(b->g, x, b->position, heads, o->base);
}

const struct weft_pos weft_pos_rope = {
    .part = {.kind = WEFT_POS,
             .name = "rope",
             .summary = "queries and keys rotated by their positions",
             .owner = WEFT_OWNER("pos=rope", options),
             .options_bytes = sizeof(struct rope),
             .resolve = resolve},
    .rotate = rotate,
};
