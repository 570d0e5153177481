/* SPDX-License-Identifier: MIT
 *
 * pos/rope - rotary positions: in every head, coordinates i and i + D/2 of queries and keys rotate by pos /
 * base^(2i/D). No parameters. Scores depend only on the distance of two tokens. Models whose context was extended after
 * training rotate by smaller angles (rope_scaling).
 */
#include "nn/build.h"
#include "ops/ops.h"

#include <stddef.h>

static const char *const scalings[] = {
    [WEFT_ROPE_PLAIN] = "none", [WEFT_ROPE_LINEAR] = "linear", [WEFT_ROPE_LLAMA3] = "llama3", NULL};

#define AT(field) offsetof(struct weft_rope_turns, field)
static const struct weft_opt options[] = {
    {"rope_base", WEFT_OPT_REAL, AT(base), "10000", 2, 1e12,
     .help = "base of the rotation frequencies: the slowest pair rotates once in about 2 pi times this many tokens"},
    {"rope_scaling", WEFT_OPT_CHOICE, AT(scaling), "none", .choices = scalings,
     .help =
         "slower rotation for a context longer than the original: of all pairs, or of the slow pairs as in Llama 3.1"},
    {"rope_factor", WEFT_OPT_REAL, AT(factor), "8", 1, 1e6, .needs = "rope_scaling!=none", .help = "slow-down factor"},
    {"rope_low", WEFT_OPT_REAL, AT(low), "1", 0, 1e6, .needs = "rope_scaling=llama3",
     .help = "number of rotations in the original context below which pairs are slowed fully"},
    {"rope_high", WEFT_OPT_REAL, AT(high), "4", 0, 1e6, .needs = "rope_scaling=llama3",
     .help = "number of rotations in the original context above which pairs are not slowed"},
    {"rope_original", WEFT_OPT_INT, AT(original), "8192", 1, 1 << 24, .needs = "rope_scaling=llama3",
     .help = "original context in tokens"},
};

static enum weft_status resolve(struct weft_spec *spec, void *opts)
{
    if (spec->rotated % 2)
        return FAIL(
            WEFT_INVALID,
            "pos=rope rotates pairs of columns, but a head has %lld columns to rotate: this number must be even",
            (long long)spec->rotated);
    const struct weft_rope_turns *o = opts;
    if (o->scaling == WEFT_ROPE_LLAMA3 && o->low >= o->high)
        return FAIL(WEFT_INVALID, "rope_low=%g must be less than rope_high=%g", o->low, o->high);
    return WEFT_OK;
}

/* Makes sure that some of a tiny model's few pairs rotate more slowly. */
static void shrink(const struct weft_spec *spec, void *opts)
{
    struct weft_rope_turns *o = opts;
    o->original = weft_min(o->original, 64);
}

static struct weft_value *rotate(struct weft_build *b, const void *opts, struct weft_value *x, int64_t heads,
                                 enum weft_side side)
{
    return weft_rope(b->g, x, b->position, heads, opts);
}

const struct weft_pos weft_pos_rope = {
    .part = {.kind = WEFT_POS,
             .name = "rope",
             .summary = "queries and keys rotated by position",
             .owner = WEFT_OWNER("pos=rope", options),
             .options_bytes = sizeof(struct weft_rope_turns),
             .resolve = resolve,
             .shrink = shrink},
    .rotate = rotate,
};
