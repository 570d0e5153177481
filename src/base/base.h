/* SPDX-License-Identifier: MIT
 *
 * base.h - the ground floor: errors, checked sizes, arenas, threads, randomness, clock, memory, messages.
 *
 * Invariants:
 *  - A function that can fail returns enum weft_status; FAIL writes the story, TRY adds its own line to it.
 *  - Sizes are size_t or int64_t and every product of sizes goes through weft_size_mul / weft_size_add.
 *  - Everything parallel goes through weft_parallel, over tiles of the output, never over a reduction, so that results
 *    are the same bits for any number of threads.
 *  - Every random number is a pure function of a key and a counter.
 */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include "weft.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- errors (status.c) */

/* Records "message (file:line)" as a new story and returns the status: return FAIL(WEFT_INVALID, "heads = %d ..."). */
#define FAIL(status, ...) weft_fail((status), __FILE__, __LINE__, __VA_ARGS__)
#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        enum weft_status try_status_ = (expr);                                                                         \
        if (try_status_ != WEFT_OK) {                                                                                  \
            weft_trace(__FILE__, __LINE__);                                                                            \
            return try_status_;                                                                                        \
        }                                                                                                              \
    } while (0)

enum weft_status weft_fail(enum weft_status status, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));
void weft_trace(const char *file, int line) __attribute__((cold));
void weft_error_clear(void);
/* The program's exit code for WEFT_STOPPED. */
enum { WEFT_EXIT_STOPPED = 3 };

/* ---- checked sizes (status.c) */

enum weft_status weft_size_mul(size_t a, size_t b, size_t *product);
enum weft_status weft_size_add(size_t a, size_t b, size_t *sum);

/* The smallest multiple of `unit` that is >= n. */
static inline int64_t weft_round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
static inline int64_t weft_div_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }
static inline int64_t weft_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t weft_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- element types: here because vmath_inl.h loads and stores them; what they are is tensor.h's */

enum weft_dtype { WEFT_F32, WEFT_BF16, WEFT_F64, WEFT_I32 };

/* ---- arena (arena.c): many small allocations with one lifetime. Zeroed, 64-byte aligned. */

struct weft_arena {
    struct weft_arena_block *head;
    size_t bytes; /* handed out so far */
};

/* Returns NULL (with a story) when memory is out; an arena needs no init beyond {0}. */
void *weft_arena_alloc(struct weft_arena *arena, size_t bytes);
char *weft_arena_print(struct weft_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
void weft_arena_release(struct weft_arena *arena);

/* Large zeroed memory straight from the system, every page touched so that it is resident from here on. */
void *weft_pages_alloc(size_t bytes);
void weft_pages_free(void *pages, size_t bytes);

/* ---- small files (slurp.c) */

/* All bytes of a config file, at most 1 MiB of anything that can be opened, and a 0 behind them. The caller frees them,
 * also after a failure. */
enum weft_status weft_slurp(const char *path, char **text, size_t *size);

/* ---- folders (folder.c); those that are there are fine, those that are made survive a power cut */

/* Waits until a file, or the list of names that a folder is, would survive a power cut. */
enum weft_status weft_path_sync(const char *path);
/* With all folders above it. */
enum weft_status weft_folder_make(const char *path);
/* Only those above it. */
enum weft_status weft_folder_make_above(const char *path);

/* ---- threads (threads.c): the only place that knows OpenMP */

/* One tile of work; `thread` is in 0 .. weft_threads_limit()-1 and tells which private scratch is mine. */
typedef void weft_tile_fn(void *context, int64_t tile, int thread);

/* Runs fn for every tile in 0 .. tiles-1, in any order, on weft_threads() threads. Must not be nested. */
void weft_parallel(int64_t tiles, weft_tile_fn *fn, void *context);

/* weft_threads_set (public) sets both numbers; weft_threads_use lowers the number in use below the limit again. */
void weft_threads_use(int threads);
int weft_threads(void);
/* The calling thread may use all cores of the process again: for one about to become another program. */
void weft_threads_unpin(void);
int weft_threads_limit(void);

/* ---- the processor (cpu.c) */

/* Which of the compiled paths runs. Each includes the ones before it. WEFT_ISA=base|v3|v4|amx lowers the choice. */
enum weft_isa { WEFT_ISA_BASE, WEFT_ISA_V3, WEFT_ISA_V4, WEFT_ISA_AMX };
enum weft_isa weft_isa(void);
const char *weft_isa_name(enum weft_isa isa);
/* Refuses a WEFT_ISA that names none of them; weft_isa takes no notice of it. */
enum weft_status weft_isa_check(void);

/* ---- randomness (rng.c): Philox 4x32-10 of Random123, keyed and counted */

struct weft_rand4 {
    uint32_t u[4];
};
struct weft_rand4 weft_rand(uint64_t key, uint64_t counter_high, uint64_t counter_low);
/* Mixes a word into a key: keys for (seed, step, sample, ...) are folds of this. */
uint64_t weft_key(uint64_t key, uint64_t word);
uint64_t weft_key_name(uint64_t key, const char *name);
/* The element-th standard normal, or uniform in (0,1), of a key. No libm inside: the same bits on every machine. */
double weft_normal(uint64_t key, uint64_t element);
double weft_uniform(uint64_t key, uint64_t element);
/* A number in 0 .. n-1. */
uint64_t weft_below(uint64_t key, uint64_t element, uint64_t n);

/* ---- clock (clock.c) */

double weft_seconds(void); /* monotonic */

/* ---- memory (memory.c) */

int64_t weft_resident_bytes(void); /* of this process, now; -1 when the system does not tell */
/* Of memory that can be had without swapping, on the machine and in the control groups of this process; INT64_MAX when
 * nobody tells. */
int64_t weft_free_bytes(void);
/* The least that a control group ("/a/b") and those above it still allow, by their folders under root; INT64_MAX: they
 * have no limit. */
int64_t weft_cgroup_free_bytes(const char *root, const char *group);

/* ---- SHA-256 (sha256.c): fingerprints of weights and files */

struct weft_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
};
void weft_sha256_init(struct weft_sha256 *sha);
void weft_sha256_add(struct weft_sha256 *sha, const void *data, size_t bytes);
void weft_sha256_hex(struct weft_sha256 *sha, char hex[65]);
enum weft_status weft_sha256_file(const char *path, char hex[65]);
enum weft_status weft_program_hash(char hex[65]); /* of the program that runs */

/* ---- notices (log.c): one line each, for what belongs to no result */

/* Who receives them. Without a receiver, which is the default, they are dropped: only the program prints. */
typedef void weft_log_fn(void *context, const char *text);
void weft_log_set(weft_log_fn *fn, void *context);
/* Each distinct key is sent once. */
void weft_note_once(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The name among names[0..count) nearest to `wrong`, or NULL when nothing is close (suggest.c). */
const char *weft_suggest(const char *wrong, const char *const *names, int count);

#endif
