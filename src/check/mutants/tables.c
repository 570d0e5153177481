/* SPDX-License-Identifier: MIT
 *
 * tables.c - mutants of tables: kernel, derivative and reference all read the wrong rows, or never read some rows.
 */
#include "check/mutants/mutants.h"

#include <stdlib.h>

/* Reads elsewhere(row) instead of the requested row, in the table with `broken_rows` rows. */
static int64_t broken_rows;
static int32_t (*elsewhere)(int32_t row);

static void embed_elsewhere(const struct weft_call *call, void (*kernel)(const struct weft_call *))
{
    enum { IDS = 1 };
    struct weft_call other = *call;
    struct weft_tensor ids = *call->in[IDS];
    const struct weft_tensor *table = call->in[0] ? call->in[0] : call->gin[0];
    int64_t n = weft_tensor_count(&ids);
    int32_t *copy = malloc((size_t)n * sizeof *copy + 1);
    for (int64_t i = 0; copy && i < n; i++) {
        int32_t id = ((const int32_t *)ids.data)[i];
        copy[i] = table->dim[0] == broken_rows ? elsewhere(id) : id;
    }
    ids.data = copy;
    other.in[IDS] = &ids;
    if (copy)
        kernel(&other);
    free(copy);
}

static void run(const struct weft_call *c) { embed_elsewhere(c, weft_sound_op(WEFT_OP_embed)->fwd.run); }
static void ref(const struct weft_call *c) { embed_elsewhere(c, weft_sound_op(WEFT_OP_embed)->fwd.ref); }
static void bwd_run(const struct weft_call *c) { embed_elsewhere(c, weft_sound_op(WEFT_OP_embed)->bwd.run); }
static void bwd_ref(const struct weft_call *c) { embed_elsewhere(c, weft_sound_op(WEFT_OP_embed)->bwd.ref); }

static void read_elsewhere(int64_t rows, int32_t (*where)(int32_t row))
{
    struct weft_op *op = weft_break_op(WEFT_OP_embed);
    broken_rows = rows;
    elsewhere = where;
    op->fwd.run = run;
    op->fwd.ref = ref;
    op->bwd.run = bwd_run;
    op->bwd.ref = bwd_ref;
}

static int32_t wrap_100(int32_t row) { return row % 100; }
static int32_t wrap_128(int32_t row) { return row % 128; }
static int32_t pair(int32_t row) { return row & ~1; }
static int32_t stop_at_170(int32_t row) { return row < 170 ? row : 170; }
static int32_t exchange_the_last(int32_t row) { return row == 229 ? 228 : row; }

static void wrap_positions(void) { read_elsewhere(200, wrap_100); }
static void pair_positions(void) { read_elsewhere(200, pair); }
static void stop_positions(void) { read_elsewhere(200, stop_at_170); }
static void lose_the_last(void) { read_elsewhere(230, exchange_the_last); }
static void wrap_tokens(void) { read_elsewhere(300, wrap_128); }

/* Distances of 40 and more share a bias, whatever relative_max is. */
static struct weft_value *short_bias(struct weft_build *b, const void *options)
{
    enum { DISTANCES = 40 };
    struct weft_value *all = weft_pos_relative.bias(b, options);
    return all && weft_shape_width(&all->shape) > DISTANCES ? weft_slice(b->g, all, 0, DISTANCES) : all;
}

static void shorten_distances(void) { WEFT_BREAK_PART(weft_pos, weft_pos_relative)->bias = short_bias; }

#define LONG "layers=2 context=200 batch=3 width=32 heads=4 "
#define ROWS .gate = WEFT_GATE_LIVE, .check = "tables that the batch reaches"
const struct weft_mutant weft_mutants_tables[] = {
    {"positions wrap around after 100", LONG "pos=learned", ROWS, .install = wrap_positions},
    {"two positions share a row", LONG "pos=learned", ROWS, .install = pair_positions},
    {"positions from 170 upwards are identical", LONG "pos=learned tie=no", ROWS, .install = stop_positions},
    {"the last position reads the row of the previous one", "layers=1 context=230 batch=1 width=24 heads=3 pos=learned",
     ROWS, .install = lose_the_last},
    {"token ids wrap around after 128", LONG "vocab=300 tie=no", ROWS, .install = wrap_tokens},
    {"token ids of a tied table wrap around after 128", LONG "vocab=300 tie=yes", .gate = WEFT_GATE_CAUSAL,
     .check = "EVAL: rows that do not change with their own token", .install = wrap_tokens},
    {"distances from 40 upwards share a bias", LONG "pos=relative", ROWS, .install = shorten_distances},
    {0},
};
