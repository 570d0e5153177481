/* SPDX-License-Identifier: MIT
 *
 * cut.c - cuts an output into tiles of work. A finer cut loses some cache reuse and starts the engine more often, but
 * never changes a sum.
 *
 * The first cut depends on the shape alone: tiles are as large as the engine prefers, but numerous enough to keep
 * several cores busy, even for a single row. If the current threads would not finish these tiles at the same time, the
 * cut that minimises the time of the slowest thread is used instead. The cost model is simple: the cost of a tile is
 * that of its multiply-adds plus that of reading and packing each of its rows and columns.
 */
#include "dnn/engine.h"

#define TILES 64                /* minimum number of tiles if the output is large enough */
#define TILES_LARGE 16          /* the same, if B does not stay in cache and every tile must read it again */
#define RESIDENT (1536u * 1024) /* bytes of B that fit into a second-level cache together with A */
#define FINEST (1 << 18)        /* minimum multiply-adds per tile when cutting for many threads (a few microseconds) */
#define IDLE 16                 /* the first cut is kept if threads are idle for at most 1/IDLE of the time */

/* If all of B stays in a core's cache, cutting rows is free; otherwise the longer side is cut, so that a tile reads
 * little data relative to its work. */
static struct weft_dnn_cut by_shape(const struct weft_dnn_engine *e, int64_t tiles, int64_t blocks, int64_t panels,
                                    bool resident)
{
    struct weft_dnn_cut c = {.down = weft_div_up(blocks, e->blocks), .across = weft_div_up(panels, e->panels)};
    for (;;) {
        c.blocks = weft_div_up(blocks, c.down);
        c.panels = weft_div_up(panels, c.across);
        if (c.down * c.across >= tiles || (c.blocks == 1 && c.panels == 1))
            break;
        if (c.panels == 1 || (c.blocks > 1 && (resident || c.blocks * e->block >= c.panels * e->panel)))
            c.down = weft_div_up(blocks, c.blocks / 2);
        else
            c.across = weft_div_up(panels, c.panels / 2);
    }
    c.down = weft_div_up(blocks, c.blocks);
    c.across = weft_div_up(panels, c.panels);
    return c;
}

/* Returns the cost of the slowest thread per element of the depth. */
static int64_t cost(const struct weft_dnn_engine *e, const struct weft_dnn_cut *c, int64_t groups, int64_t threads)
{
    int64_t rows = c->blocks * e->block, columns = c->panels * e->panel;
    return weft_div_up(groups * c->down * c->across, threads) * (rows * columns + e->edge * (rows + columns));
}

static struct weft_dnn_cut by_threads(const struct weft_dnn_engine *e, struct weft_dnn_cut c,
                                      const struct weft_dnn_job *job, int64_t groups, int64_t threads)
{
    int64_t blocks = weft_div_up(job->rows, e->block), panels = weft_div_up(job->width, e->panel);
    int64_t tiles = groups * c.down * c.across, idle = weft_round_up(tiles, threads) - tiles;
    int64_t finest = weft_div_up(weft_max(FINEST, e->grain), weft_max(job->depth, 1) * e->block * e->panel);
    if (idle * IDLE <= tiles || c.blocks * c.panels <= finest)
        return c;
    struct weft_dnn_cut best = c;
    int64_t least = cost(e, &c, groups, threads) * (IDLE - 1) / IDLE;
    for (int64_t b = 1; b <= c.blocks; b++)
        for (int64_t p = weft_div_up(finest, b); p <= c.panels; p++) {
            struct weft_dnn_cut t = {b, p, weft_div_up(blocks, b), weft_div_up(panels, p)};
            int64_t this = cost(e, &t, groups, threads);
            if (this < least) {
                least = this;
                best = t;
            }
        }
    return best;
}

struct weft_dnn_cut weft_dnn_cut(const struct weft_dnn_engine *e, const struct weft_dnn_job *job, int64_t groups,
                                 size_t b_bytes)
{
    int64_t blocks = weft_div_up(job->rows, e->block), panels = weft_div_up(job->width, e->panel);
    bool resident = b_bytes <= RESIDENT, one_block = job->rows <= e->block;
    int64_t tiles = job->plan->outer ? e->tiles_outer : resident || one_block ? TILES : TILES_LARGE;
    if (e->grain && !one_block)
        tiles = weft_min(tiles, weft_div_up(job->rows * job->width * job->depth * groups, e->grain));
    struct weft_dnn_cut c = by_shape(e, weft_div_up(tiles, groups), blocks, panels, resident);
    int threads = weft_threads_cut();
    return one_block || threads == 1 ? c : by_threads(e, c, job, groups, threads);
}
