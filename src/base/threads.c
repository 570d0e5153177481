/* SPDX-License-Identifier: MIT
 *
 * threads.c - the only file that knows OpenMP.
 *
 * Each thread has a share of the tiles, the same in every call with as many: tiles go along the rows, so what a core
 * wrote in one op is in its own cache in the next. Tiles are taken one by one, and who has done his share takes from
 * the others', so a slow core does fewer. Which thread computes a tile never matters: tiles are pieces of an output,
 * and a tile's sums are its own.
 */
#define _GNU_SOURCE
#include "base/base.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>

static int limit, in_use;

/* The cores of the process as it started: pinning the main thread must not shrink what is seen later. */
static const cpu_set_t *cores(void)
{
    static cpu_set_t set;
    static bool known;
    if (!known && sched_getaffinity(0, sizeof set, &set) != 0)
        CPU_SET(0, &set);
    known = true;
    return &set;
}

/* OMP_NUM_THREADS is honoured as the default, as everywhere. */
static int default_threads(void) { return (int)weft_max(1, weft_min(omp_get_max_threads(), CPU_COUNT(cores()))); }

/* Two OpenMP threads were seen to share one core for whole runs. Each thread gets a core of its own when they are as
 * many as the cores. With fewer threads all may use all: other processes may run beside this one, and if each took the
 * first cores they would sit on the same. */
static void pin_threads(int threads)
{
    const cpu_set_t *all = cores();
    bool one_each = threads == CPU_COUNT(all);
#pragma omp parallel num_threads(threads)
    {
        cpu_set_t mine = *all;
        if (one_each) {
            int core = -1;
            for (int nth = omp_get_thread_num(); nth >= 0; nth -= CPU_ISSET(core, all) != 0)
                core++;
            CPU_ZERO(&mine);
            CPU_SET(core, &mine);
        }
        sched_setaffinity(0, sizeof mine, &mine);
    }
}

void weft_threads_unpin(void) { sched_setaffinity(0, sizeof(cpu_set_t), cores()); }

enum weft_status weft_threads_set(int threads)
{
    if (threads < 0 || threads > 4096)
        return FAIL(WEFT_INVALID, "threads = %d: give 1 to 4096, or 0 for one per core", threads);
    if (threads == 0)
        threads = default_threads();
    limit = in_use = threads;
    omp_set_num_threads(threads); /* for libraries that thread by themselves: the bare engine in benches */
    return WEFT_OK;
}

void weft_threads_use(int threads) { in_use = (int)weft_max(1, weft_min(threads, weft_threads_limit())); }

int weft_threads_limit(void)
{
    if (!limit)
        (void)weft_threads_set(0);
    return limit;
}

int weft_threads(void)
{
    (void)weft_threads_limit();
    return in_use;
}

/* What is left of a thread's share. On lines of their own, for each is mostly taken from by its owner. */
struct share {
    _Alignas(128) _Atomic int64_t next;
    int64_t end;
};

enum { SHARES = 64 }; /* with more threads, several own one */

static void work(struct share *shares, int count, int thread, weft_tile_fn *fn, void *context)
{
    for (int i = 0; i < count; i++) {
        struct share *s = &shares[(thread + i) % count];
        int64_t tile;
        while ((tile = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed)) < s->end)
            fn(context, tile, thread);
    }
}

void weft_parallel(int64_t tiles, weft_tile_fn *fn, void *context)
{
    int threads = (int)weft_min(weft_threads(), tiles);
    if (threads <= 1) {
        for (int64_t t = 0; t < tiles; t++)
            fn(context, t, 0);
        return;
    }
    static int pinned;
    if (pinned != in_use) {
        pinned = in_use;
        pin_threads(in_use);
    }
    struct share shares[SHARES];
    int count = (int)weft_min(threads, SHARES);
    for (int i = 0; i < count; i++) {
        atomic_init(&shares[i].next, tiles * i / count);
        shares[i].end = tiles * (i + 1) / count;
    }
#pragma omp parallel num_threads(threads)
    work(shares, count, omp_get_thread_num(), fn, context);
}
