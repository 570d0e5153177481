/* SPDX-License-Identifier: MIT
 *
 * threads.c - the thread pool: every tile once, scopes, calls inside tiles, several callers, forks, and the state of
 * the calling program that it leaves alone (cores, signals, floating-point modes).
 *
 * run-tests: 1 s, asan 1 s, tsan 5 s
 */
#define _GNU_SOURCE
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

enum { TILES = 1000 };
static const int counts[] = {1, 2, 3, 4, 8, 100};
enum { COUNTS = sizeof counts / sizeof *counts };

struct tally {
    int threads;
    int done[TILES];
    bool thread_in_range[TILES];
};

static void tally_tile(void *context, int64_t tile, int thread)
{
    struct tally *tally = context;
    tally->done[tile]++;
    tally->thread_in_range[tile] = thread >= 0 && thread < tally->threads;
}

/* Whether each of the first tiles was computed once, and no other. */
static bool covers(int64_t tiles)
{
    struct tally tally = {.threads = weft_threads()};
    bool good = true;
    weft_parallel(tiles, tally_tile, &tally);
    for (int64_t t = 0; t < TILES; t++)
        good &= tally.done[t] == (t < tiles) && (t >= tiles || tally.thread_in_range[t]);
    return good;
}

static void every_tile_once(void **state)
{
    (void)state;
    for (int c = 0; c < COUNTS; c++) {
        assert_int_equal(weft_threads_set(counts[c]), WEFT_OK);
        assert_int_equal(weft_threads(), counts[c]);
        for (int64_t tiles = 0; tiles <= TILES; tiles = tiles * 3 + 1)
            assert_true(covers(tiles));
    }
    assert_int_equal(weft_threads_set(-1), WEFT_INVALID);
    assert_int_equal(weft_threads_set(5000), WEFT_INVALID);
}

/* Calls follow each other as fast as possible: a late worker meets the next call. */
static void calls_in_a_row(void **state)
{
    (void)state;
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, 4);
    for (int i = 0; i < 20000; i++)
        assert_true(covers(1 + i % 7));
    weft_threads_leave(&scope);
}

struct meeting {
    atomic_int arrived;
    bool met[2];
};

static void wait_for_both(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct timespec moment = {0, 1000000};
    struct meeting *m = context;
    atomic_fetch_add(&m->arrived, 1);
    for (int i = 0; i < 10000 && atomic_load(&m->arrived) < 2; i++)
        nanosleep(&moment, NULL);
    m->met[tile] = atomic_load(&m->arrived) == 2;
}

/* Whether two tiles are computed at the same time. */
static bool runs_parallel(void)
{
    struct meeting m = {0};
    weft_parallel(2, wait_for_both, &m);
    return m.met[0] && m.met[1];
}

static void threads_work_at_the_same_time(void **state)
{
    (void)state;
    const struct timespec moment = {0, 5000000};
    assert_int_equal(weft_threads_set(2), WEFT_OK);
    for (int i = 0; i < 5; i++) {
        assert_true(runs_parallel());
        nanosleep(&moment, NULL); /* they fall asleep */
    }
}

/* ---- how many */

static void the_default_comes_from_the_environment(void **state)
{
    (void)state;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    int cores = CPU_COUNT(&set);
    static const struct {
        const char *omp, *slurm;
        int most;
    } rows[] = {{"1", NULL, 1},     {"1", "2", 1},      {NULL, "1", 1},    {"100000", NULL, 4096},
                {NULL, NULL, 4096}, {"", "junk", 4096}, {"-3", "0", 4096}, {"2,2", NULL, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rows[i].omp ? setenv("OMP_NUM_THREADS", rows[i].omp, 1) : unsetenv("OMP_NUM_THREADS");
        rows[i].slurm ? setenv("SLURM_CPUS_PER_TASK", rows[i].slurm, 1) : unsetenv("SLURM_CPUS_PER_TASK");
        assert_int_equal(weft_threads_set(0), WEFT_OK);
        assert_int_equal(weft_threads(), weft_min(cores, rows[i].most));
    }
    unsetenv("OMP_NUM_THREADS");
    unsetenv("SLURM_CPUS_PER_TASK");
    assert_int_equal(weft_threads_set(0), WEFT_OK);
}

static void scopes_nest(void **state)
{
    (void)state;
    struct weft_threads_scope outer, same, inner;
    assert_int_equal(weft_threads_set(2), WEFT_OK);
    weft_threads_enter(&outer, 3);
    assert_int_equal(weft_threads(), 3);
    assert_int_equal(weft_threads_set(5), WEFT_OK); /* sets the process's number, not this scope's */
    assert_int_equal(weft_threads(), 3);
    assert_true(covers(TILES));
    weft_threads_enter(&same, 0);
    assert_int_equal(weft_threads(), 3);
    assert_true(covers(TILES));
    weft_threads_leave(&same);
    weft_threads_enter(&inner, 8);
    assert_int_equal(weft_threads(), 8);
    assert_true(covers(TILES));
    weft_threads_leave(&inner);
    assert_int_equal(weft_threads(), 3);
    assert_true(covers(TILES));
    weft_threads_leave(&outer);
    assert_int_equal(weft_threads(), 5);
}

static void note_thread_of(void *context, int64_t tile, int thread) { ((int *)context)[tile] = thread; }

/* Checks need this: a kernel whose result depends on threads must not pass because one thread was late. */
static void every_thread_computes_its_own_share(void **state)
{
    (void)state;
    struct weft_threads_scope scope;
    int thread_of[TILES];
    for (int c = 0; c < COUNTS; c++) {
        int64_t threads = weft_min(counts[c], 64); /* with more, several have one share */
        weft_threads_enter(&scope, (int)threads);
        weft_threads_even();
        for (int64_t tiles = 2; tiles <= TILES; tiles = tiles * 3 + 1) {
            weft_parallel(tiles, note_thread_of, thread_of);
            for (int64_t i = 0; tiles >= threads && i < threads; i++)
                for (int64_t t = tiles * i / threads; t < tiles * (i + 1) / threads; t++)
                    assert_int_equal(thread_of[t], i);
            assert_true(covers(tiles));
        }
        weft_threads_leave(&scope);
    }
    assert_true(covers(TILES));
}

/* ---- calls inside tiles */

struct nested {
    bool good[TILES];
    int thread;
};

static void note_thread(void *context, int64_t tile, int thread)
{
    (void)tile;
    struct nested *n = context;
    n->thread = thread;
}

static void call_inside(void *context, int64_t tile, int thread)
{
    bool *good = context;
    struct nested direct = {.thread = -1}, scoped = {.thread = -1};
    struct weft_threads_scope scope;
    weft_parallel(3, note_thread, &direct); /* shares the scratch of the tile around it */
    weft_threads_enter(&scope, 4);          /* has scratch of its own */
    weft_parallel(3, note_thread, &scoped);
    bool alone = weft_threads() == 1;
    weft_threads_leave(&scope);
    good[tile] = alone && direct.thread == thread && scoped.thread == 0;
}

static void calls_inside_tiles_run_on_their_thread(void **state)
{
    (void)state;
    bool good[TILES] = {0};
    assert_int_equal(weft_threads_set(4), WEFT_OK);
    weft_parallel(TILES, call_inside, good);
    for (int t = 0; t < TILES; t++)
        assert_true(good[t]);
    assert_int_equal(weft_threads(), 4);
}

/* ---- several callers */

static void *call_often(void *context)
{
    struct weft_threads_scope scope;
    bool good = true;
    weft_threads_enter(&scope, *(int *)context);
    for (int i = 0; i < 300; i++)
        good &= covers(1 + i * 3) && weft_threads() == *(int *)context;
    weft_threads_leave(&scope);
    for (int i = 0; i < 300; i++)
        good &= covers(1 + i * 3);
    return good ? context : NULL;
}

static void callers_have_teams_of_their_own(void **state)
{
    (void)state;
    int threads[] = {2, 3, 2, 4};
    pthread_t callers[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, call_often, &threads[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *good;
        assert_int_equal(pthread_join(callers[i], &good), 0);
        assert_non_null(good);
    }
}

/* ---- forks */

static void a_fork_starts_threads_of_its_own(void **state)
{
    (void)state;
    struct weft_threads_scope outer, inner;
    assert_int_equal(weft_threads_set(2), WEFT_OK);
    assert_true(runs_parallel());
    weft_threads_enter(&outer, 3);
    assert_true(covers(TILES)); /* the scope has borrowed a team */
    weft_threads_enter(&inner, 2);
    pid_t pid = fork();
    if (pid == 0) {
        bool good = runs_parallel();
        weft_threads_leave(&inner);
        good = good && covers(TILES) && runs_parallel();
        weft_threads_leave(&outer);
        _exit(good && runs_parallel() ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    weft_threads_leave(&inner);
    assert_true(runs_parallel());
    weft_threads_leave(&outer);
    assert_true(runs_parallel());
}

/* ---- what is the program's */

static void count_cores(void *context, int64_t tile, int thread)
{
    cpu_set_t mine;
    (void)thread;
    ((int *)context)[tile] = sched_getaffinity(0, sizeof mine, &mine) ? 0 : CPU_COUNT(&mine);
}

/* Several processes, or teams, must not sit on the same cores. */
static void no_thread_is_pinned(void **state)
{
    (void)state;
    int cores, seen[TILES];
    count_cores(&cores, 0, 0);
    for (int threads = 2; threads <= weft_min(cores + 1, 64); threads++) {
        assert_int_equal(weft_threads_set(threads), WEFT_OK);
        weft_parallel(TILES, count_cores, seen);
        for (int t = 0; t < TILES; t++)
            assert_int_equal(seen[t], cores);
    }
    int now;
    count_cores(&now, 0, 0);
    assert_int_equal(now, cores);
}

static atomic_int strangers; /* signals that a thread other than the main one handled */
static pthread_t main_thread;

static void handle(int number)
{
    (void)number;
    if (!pthread_equal(pthread_self(), main_thread))
        atomic_fetch_add(&strangers, 1);
}

static void signals_are_not_for_workers(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = handle}, before;
    main_thread = pthread_self();
    assert_int_equal(weft_threads_set(7), WEFT_OK);
    sigaction(SIGUSR1, &action, &before);
    for (int i = 0; i < 100; i++) {
        assert_true(covers(TILES));
        kill(getpid(), SIGUSR1);
    }
    sigaction(SIGUSR1, &before, NULL);
    assert_int_equal(atomic_load(&strangers), 0);
}

#if defined(__x86_64__)
static void halve(void *context, int64_t tile, int thread)
{
    (void)thread;
    volatile float least = 0x1p-126f;
    ((float *)context)[tile] = least * 0.5f;
}

/* A library compiled with -ffast-math sets flushing to zero in the thread that loads it: tiles would differ by who
 * computes them. */
static void modes_of_floating_point_are_the_same_everywhere(void **state)
{
    (void)state;
    const unsigned flush = 1u << 15 | 1u << 6, before = __builtin_ia32_stmxcsr();
    float halves[TILES];
    assert_int_equal(weft_threads_set(6), WEFT_OK);
    __builtin_ia32_ldmxcsr(before | flush);
    weft_parallel(TILES, halve, halves);
    unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before);
    assert_int_equal(after & flush, flush); /* the program's own setting is back */
    for (int t = 0; t < TILES; t++)
        assert_true(halves[t] == 0x1p-127f);
}
#endif

static int reset(void **state)
{
    (void)state;
    return weft_threads_set(0) != WEFT_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_tile_once, reset),
        cmocka_unit_test_teardown(calls_in_a_row, reset),
        cmocka_unit_test_teardown(threads_work_at_the_same_time, reset),
        cmocka_unit_test_teardown(the_default_comes_from_the_environment, reset),
        cmocka_unit_test_teardown(scopes_nest, reset),
        cmocka_unit_test_teardown(every_thread_computes_its_own_share, reset),
        cmocka_unit_test_teardown(calls_inside_tiles_run_on_their_thread, reset),
        cmocka_unit_test_teardown(callers_have_teams_of_their_own, reset),
        cmocka_unit_test_teardown(a_fork_starts_threads_of_its_own, reset),
        cmocka_unit_test_teardown(no_thread_is_pinned, reset),
        cmocka_unit_test_teardown(signals_are_not_for_workers, reset),
#if defined(__x86_64__)
        cmocka_unit_test_teardown(modes_of_floating_point_are_the_same_everywhere, reset),
#endif
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
