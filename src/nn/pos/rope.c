/* SPDX-License-Identifier: MIT
 *
 * pos/rope - rotary positions: in every head, coordinates i and i + D/2 of queries and keys turn by pos / base^(2i/D).
 * No parameters. Scores then depend on the distance of two tokens alone.
 */
#include "nn/nn.h"

#include <stddef.h>

struct rope {
    double base;
};

static const struct weft_opt options[] = {
    {"rope_base", WEFT_OPT_REAL, offsetof(struct rope, base), "10000", 2, 1e12,
     .help = "the slowest pair turns once in about 2 pi times this many tokens"},
};

static enum weft_status resolve(struct weft_spec *spec, void *opts)
{
    (void)opts;
    if (spec->turned % 2)
        return FAIL(WEFT_INVALID, "pos=rope turns pairs, but %lld columns of a head are to be turned: make that even",
                    (long long)spec->turned);
    return WEFT_OK;
}

static struct weft_value *turn(struct weft_build *b, struct weft_value *x, int64_t heads, enum weft_side side)
{
    (void)side;
    const struct rope *o = b->spec->options[WEFT_POS];
    return weft_rope(b->g, x, b->place, heads, o->base);
}

const struct weft_variant weft_pos_rope = {
    .name = "rope",
    .summary = "queries and keys turned by their positions",
    .owner = WEFT_OWNER("pos=rope", options),
    .options_bytes = sizeof(struct rope),
    .resolve = resolve,
    .turn = turn,
};
