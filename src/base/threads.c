/* SPDX-License-Identifier: MIT
 *
 * threads.c - runs the tiles of an output on teams of threads.
 *
 * Each thread of a team has the same share of the tiles in every call. Tiles follow the rows, so values that a core
 * wrote in one op are in its own cache in the next. Tiles are taken one by one, and a thread that has finished its
 * share takes tiles from the others, so a slow core computes fewer tiles. Results do not depend on which thread
 * computes a tile, because tiles are pieces of an output and each computes its own sums.
 *
 * A caller borrows a team for a scope, so callers on several threads never wait for each other. A call ends when its
 * tiles are done. It does not wait for workers that have not joined by then, so on a busy machine an unscheduled thread
 * delays nobody. A waiting thread spins for a moment, then sleeps. Threads are not pinned, because several teams or
 * processes would pick the same cores.
 */
#define _GNU_SOURCE
#include "base/base.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPIN 50e-6 /* seconds; waking a sleeping thread takes about as long */

enum { SHARES = 64, LINE = 128, MAX_THREADS = 4096 };

/* The remaining tiles of a thread's share. They have their own cache line, because usually only the owner takes
 * them. */
struct share {
    _Alignas(LINE) _Atomic int64_t next;
    int64_t end;
};

/* The bits of weft_team.call: number of workers that may still join, and above them the call's number. */
enum { PLACES = 0xffff, NUMBER = 16 };

struct weft_team {
    struct weft_team *next; /* in the list of idle teams */
    int threads, workers;   /* threads asked for, including the caller; workers started */
    unsigned generation;
    _Atomic int indices; /* number of indices assigned to started workers */
    weft_tile_fn *fn;
    void *context;
    int share_count;
    bool even;                    /* all workers join, and none takes work from the others */
    struct weft_counter *counter; /* the caller's, like levels_below */
    int levels_below;
    struct share shares[SHARES]; /* if there are more than SHARES threads, some own a share jointly */
    _Alignas(LINE) _Atomic uint64_t call;
    _Atomic uint32_t bell, asleep; /* incremented by every call; workers sleep on it */
    _Alignas(LINE) _Atomic uint32_t left,
        caller_asleep; /* number of workers that left the call; its caller sleeps on it */
};

static _Thread_local struct weft_threads here; /* all 0 outside of any scope */
static unsigned generation;                    /* counts forks: a child has none of its parent's threads */

/* ---- number of threads */

static _Atomic int default_threads; /* 0: not determined yet */

/* Returns the number of cores, or a lower number if the environment sets one. */
static int threads_of_machine(void)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"};
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        long n = text ? strtol(text, NULL, 10) : 0;
        if (n > 0)
            return (int)weft_min(n, cores);
    }
    return cores;
}

enum weft_status weft_threads_set(int threads)
{
    if (threads < 0 || threads > MAX_THREADS)
        return FAIL(WEFT_INVALID, "threads = %d is out of range: expected 1 to %d, or 0 for one per core", threads,
                    MAX_THREADS);
    atomic_store(&default_threads, threads ? threads : threads_of_machine());
    return WEFT_OK;
}

int weft_threads(void)
{
    if (!here.count && !atomic_load(&default_threads))
        (void)weft_threads_set(0);
    return here.count ? here.count : atomic_load(&default_threads);
}

/* ---- waiting */

typedef bool done_fn(struct weft_team *team, uint64_t *state);

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool spin(struct weft_team *team, done_fn *done, uint64_t *state)
{
    for (double end = 0, now = 0; now <= end; now = weft_seconds(), end = end ? end : now + SPIN)
        for (int i = 0; i < 8; i++, relax())
            if (done(team, state))
                return true;
    return false;
}

/* Waits until done() is true. The thread that makes it true changes `word` and wakes its sleepers. */
static void wait_until(struct weft_team *team, done_fn *done, uint64_t *state, _Atomic uint32_t *word,
                       _Atomic uint32_t *asleep)
{
    if (spin(team, done, state))
        return;
    atomic_fetch_add(asleep, 1);
    for (uint32_t seen = atomic_load(word); !done(team, state); seen = atomic_load(word))
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(asleep, 1);
}

static void wake(_Atomic uint32_t *word, const _Atomic uint32_t *asleep, int count)
{
    if (atomic_load(asleep))
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* ---- working */

static void work(struct weft_team *team, int thread)
{
    int count = team->share_count;
    struct weft_threads outside = here;
    here = (struct weft_threads){
        .count = 1, .index = thread, .in_tile = true, .counter = team->counter, .levels_below = team->levels_below};
    for (int i = 0; i < (team->even ? 1 : count); i++) {
        struct share *s = &team->shares[(thread + i) % count];
        int64_t tile;
        while ((tile = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed)) < s->end)
            team->fn(team->context, tile, thread);
    }
    here = outside;
}

/* Joins the open call, unless it is full or this worker has already joined it. */
static bool join(struct weft_team *team, uint64_t *last)
{
    uint64_t call = atomic_load(&team->call);
    while (call & PLACES && call >> NUMBER != *last)
        if (atomic_compare_exchange_weak(&team->call, &call, call - 1)) {
            *last = call >> NUMBER;
            return true;
        }
    return false;
}

static bool all_left(struct weft_team *team, uint64_t *joined) { return atomic_load(&team->left) == *joined; }

static void *run_worker(void *context)
{
    struct weft_team *team = context;
    int index = 1 + atomic_fetch_add(&team->indices, 1);
    fesetenv(FE_DFL_ENV);
    for (uint64_t last = 0;;) {
        wait_until(team, join, &last, &team->bell, &team->asleep);
        work(team, index);
        atomic_fetch_add(&team->left, 1);
        wake(&team->left, &team->caller_asleep, 1);
    }
    return NULL;
}

static void run(struct weft_team *team, int64_t tiles, weft_tile_fn *fn, void *context)
{
    int count = team->share_count = (int)weft_min(weft_min(team->threads, tiles), SHARES);
    team->even = here.even && team->workers == team->threads - 1;
    uint64_t places = (uint64_t)(team->even ? team->workers : weft_min(team->workers, tiles - 1));
    team->fn = fn;
    team->context = context;
    team->counter = here.counter;
    team->levels_below = here.levels_below;
    for (int i = 0; i < count; i++) {
        atomic_store_explicit(&team->shares[i].next, tiles * i / count, memory_order_relaxed);
        team->shares[i].end = tiles * (i + 1) / count;
    }
    atomic_store(&team->left, 0);
    atomic_store(&team->call, ((atomic_load(&team->call) >> NUMBER) + 1) << NUMBER | places);
    atomic_fetch_add(&team->bell, 1);
    wake(&team->bell, &team->asleep, (int)places);
    work(team, 0);
    uint64_t joined = places;
    if (!team->even) /* closes the call for workers that have not joined */
        joined -= atomic_fetch_and(&team->call, ~(uint64_t)PLACES) & PLACES;
    wait_until(team, all_left, &joined, &team->left, &team->caller_asleep);
}

/* ---- teams */

static pthread_mutex_t list = PTHREAD_MUTEX_INITIALIZER;
static struct weft_team *idle;

static void lock_list(void) { pthread_mutex_lock(&list); }
static void unlock_list(void) { pthread_mutex_unlock(&list); }

static void forget_teams(void)
{
    generation++;
    idle = NULL;
    unlock_list();
}

static void survive_forks(void) { pthread_atfork(lock_list, unlock_list, forget_teams); }

int weft_thread_create(pthread_t *id, void *(*fn)(void *), void *context)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, WEFT_STACK);
    int error = pthread_create(id, &attr, fn, context);
    pthread_attr_destroy(&attr);
    return error;
}

/* Starts fewer workers if the system cannot start more. Workers block all signals, so that the program's own threads
 * receive them. */
static void start_workers(struct weft_team *team)
{
    sigset_t all, before;
    pthread_t id;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (team->workers < team->threads - 1 && weft_thread_create(&id, run_worker, team) == 0) {
        pthread_detach(id);
        team->workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Returns NULL if there is not enough memory for a team. */
static struct weft_team *borrow_team(int threads)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, survive_forks);
    lock_list();
    struct weft_team **at = &idle, *team;
    while ((team = *at) && team->threads != threads)
        at = &team->next;
    if (team)
        *at = team->next;
    unlock_list();
    if (team || !(team = aligned_alloc(LINE, sizeof *team)))
        return team;
    *team = (struct weft_team){.threads = threads, .generation = generation};
    start_workers(team);
    return team;
}

static void return_team(struct weft_team *team)
{
    lock_list();
    team->next = idle;
    idle = team;
    unlock_list();
}

static bool is_alive(const struct weft_team *team) { return team && team->generation == generation; }

/* ---- scopes and calls */

void weft_threads_enter(struct weft_threads_scope *scope, int threads)
{
    scope->outside = here;
    fegetenv(&scope->floats);
    fesetenv(FE_DFL_ENV);
    threads = here.in_tile ? 1 : threads ? threads : weft_threads();
    if (threads != here.count)
        here.team = NULL;
    here.count = threads;
    here.index = 0;
}

void weft_threads_even(void) { here.even = true; }

void weft_counter_set(struct weft_counter *counter) { here.counter = counter; }

struct weft_counter *weft_counter(void) { return here.counter; }

void weft_observer_set(struct weft_observer *observer) { here.observer = observer; }

struct weft_observer *weft_observer(void) { return here.observer; }

int weft_threads_cut(void) { return here.observer ? here.observer->threads : weft_threads(); }

void weft_isa_lower(int levels) { here.levels_below = levels; }

int weft_isa_lowered(void) { return here.levels_below; }

void weft_threads_leave(const struct weft_threads_scope *scope)
{
    if (is_alive(here.team) && here.team != scope->outside.team)
        return_team(here.team);
    here = scope->outside;
    fesetenv(&scope->floats);
}

/* Calls from inside a tile count as part of it. */
static void run_observed(int64_t tiles, weft_tile_fn *fn, void *context)
{
    struct weft_observer *observer = here.observer;
    here.observer = NULL;
    observer->call(observer, tiles);
    for (int64_t t = 0; t < tiles; t++) {
        fn(context, t, here.index);
        observer->tile(observer);
    }
    here.observer = observer;
}

void weft_parallel(int64_t tiles, weft_tile_fn *fn, void *context)
{
    struct weft_threads_scope scope;
    bool outside = !here.count, serial = tiles < 2;
    if (outside)
        weft_threads_enter(&scope, 0);
    if (!serial && here.count > 1 && !is_alive(here.team))
        here.team = borrow_team(here.count);
    if (!serial && here.team)
        run(here.team, tiles, fn, context);
    else if (here.observer)
        run_observed(tiles, fn, context);
    else
        for (int64_t t = 0; t < tiles; t++)
            fn(context, t, here.index);
    if (outside)
        weft_threads_leave(&scope);
}
