/* SPDX-License-Identifier: MIT
 *
 * base.h - the lowest layer: errors, checked sizes, arenas, threads, randomness, clock, memory, messages.
 *
 * Invariants:
 *  - A function that can fail returns enum weft_status; FAIL records the message, TRY adds its source line to the
 *    trace.
 *  - Sizes are size_t or int64_t. Products and sums of sizes go through weft_size_mul and weft_size_add.
 *  - All parallel work goes through weft_parallel, which splits outputs into tiles but never splits a reduction, so
 *    results have the same bits for any number of threads.
 *  - Every random number is a pure function of a key and a counter.
 */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include "weft.h"

#include <fenv.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- errors (status.c) */

/* Records a message and the source line, and returns the status: return FAIL(WEFT_INVALID, "heads = %d ..."). */
#define FAIL(status, ...) weft_fail((status), __FILE__, __LINE__, __VA_ARGS__)
#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        enum weft_status try_status_ = (expr);                                                                         \
        if (try_status_ != WEFT_OK) {                                                                                  \
            weft_trace(__FILE__, __LINE__);                                                                            \
            return try_status_;                                                                                        \
        }                                                                                                              \
    } while (0)

/* For functions of weft.h: fails if an argument is NULL. */
#define GIVEN(pointer)                                                                                                 \
    do {                                                                                                               \
        if (!(pointer))                                                                                                \
            return FAIL(WEFT_INVALID, "%s: %s is NULL", __func__, #pointer);                                           \
    } while (0)

enum weft_status weft_fail(enum weft_status status, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));
void weft_trace(const char *file, int line) __attribute__((cold));
void weft_error_clear(void);
/* Exit codes of the program: after WEFT_STOPPED, and for a rank that has lost another rank. */
enum { WEFT_EXIT_STOPPED = 3, WEFT_EXIT_STALLED = 4 };
/* For functions that return no status, such as kernels: weft_defer stores the calling thread's first error, and
 * weft_deferred returns and clears it. */
void weft_defer(enum weft_status status);
enum weft_status weft_deferred(void);

/* ---- checked sizes (status.c) */

enum weft_status weft_size_mul(size_t a, size_t b, size_t *product);
enum weft_status weft_size_add(size_t a, size_t b, size_t *sum);

/* Returns the smallest multiple of `unit` that is >= n. */
static inline int64_t weft_round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
static inline int64_t weft_div_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }
static inline int64_t weft_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t weft_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- element types, which vmath_inl.h loads and stores; their properties are in tensor.h */

enum weft_dtype { WEFT_F32, WEFT_BF16, WEFT_F64, WEFT_I32 };
/* The bits of 2^-56 as f32. Conversion to bf16 flushes smaller values to 0. Products of two bf16 values are then
 * multiples of 2^-126, so no sum of them is denormal; processors treat denormals differently. */
#define WEFT_BF16_FLOOR 0x23800000

/* ---- arena (arena.c): many small allocations with one lifetime. Zeroed, 64-byte aligned. */

struct weft_arena {
    struct weft_arena_block *head;
    size_t bytes; /* number of bytes allocated so far */
};

/* Returns NULL and records an error if there is not enough memory. Initialise an arena with {0}. */
void *weft_arena_alloc(struct weft_arena *arena, size_t bytes);
char *weft_arena_print(struct weft_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
void weft_arena_release(struct weft_arena *arena);

/* Allocates a large block of zeroed memory directly from the system and touches every page, so that it is resident from
 * the start. */
void *weft_pages_alloc(size_t bytes);
void weft_pages_free(void *pages, size_t bytes);

/* ---- files (file.c). Only regular files are opened for reading: a pipe or device might block or never end. */

enum weft_status weft_input_open(const char *path, FILE **file);
/* Maps a file; the caller unmaps it. The map of an empty file is NULL. */
enum weft_status weft_input_map(const char *path, void **map, size_t *bytes);
/* Reads a whole file as a NUL-terminated string. The caller frees it, even after an error. */
enum weft_status weft_slurp(const char *path, size_t limit, char **text, size_t *bytes);
enum { WEFT_MAX_CONFIG_BYTES = 1 << 20 }; /* limit for config files */
/* Reads a file line by line. A line longer than WEFT_MAX_LINE bytes or a failed read is an error, not the end of the
 * file. */
enum { WEFT_MAX_LINE = 4 << 20 };
struct weft_lines {
    FILE *file;
    const char *path; /* for messages */
    char *text;       /* the line, NUL-terminated, with its newline if it has one; freed by weft_lines_release */
    size_t bytes;     /* length of the line; 0: end of file */
    int64_t number;   /* line number, from 1 */
    size_t room;      /* capacity of `text` */
};
enum weft_status weft_lines_next(struct weft_lines *l);
void weft_lines_release(struct weft_lines *l);
/* Closes a file after writing; returns false if any write failed. */
bool weft_output_close(FILE *file);

/* ---- folders (folder.c). Creating a folder that exists is not an error; a new one survives a power failure. */

/* Syncs a file, or a folder's list of names, to disk. */
enum weft_status weft_path_sync(const char *path);
/* Creates a folder and its parents. */
enum weft_status weft_folder_make(const char *path);
/* Fails if a folder contains, at any depth, anything but regular files and folders, because a link in a folder received
 * from others could point to any file on this machine. */
enum weft_status weft_folder_is_plain(const char *folder);
/* Removes a folder and its contents, if it exists. Links are removed, not followed. */
enum weft_status weft_folder_remove(const char *folder);
/* Creates only the parents of a path. */
enum weft_status weft_folder_make_parents(const char *path);

/* ---- threads (threads.c) */

/* Like pthread_create, but with a stack of WEFT_STACK bytes, regardless of `ulimit -s`. */
enum { WEFT_STACK = 8 << 20 };
int weft_thread_create(pthread_t *id, void *(*fn)(void *), void *context);

/* Computes one tile. `thread`, in 0 .. weft_threads()-1, selects the thread's private scratch memory. */
typedef void weft_tile_fn(void *context, int64_t tile, int thread);

/* Runs fn for every tile in 0 .. tiles-1, in any order, on weft_threads() threads. A call from inside a tile runs only
 * on that tile's thread. */
void weft_parallel(int64_t tiles, weft_tile_fn *fn, void *context);

/* Returns the number of threads that a computation of the calling thread uses: the number set by the scope, or the
 * default (weft_threads_set). */
int weft_threads(void);

/* Between enter and leave, the calling thread computes with `threads` threads (0: the same number as before) and the
 * default floating-point modes. Scopes nest. Other threads of the program are not affected. */
struct weft_threads {
    int count, index;
    bool in_tile, even;
    struct weft_team *team; /* borrowed on first use */
    struct weft_counter *counter;
    struct weft_observer *observer;
    int levels_below; /* see weft_isa_lower */
};
struct weft_threads_scope {
    struct weft_threads outside;
    fenv_t floats;
};
void weft_threads_enter(struct weft_threads_scope *scope, int threads);
void weft_threads_leave(const struct weft_threads_scope *scope);
/* Until the scope is left, counts the multiply-adds in kernels called by this thread, including tiles that other
 * threads compute for it. Checks compare the counts with predictions. NULL: no counting. */
struct weft_counter {
    _Atomic int64_t products, attention;
};
void weft_counter_set(struct weft_counter *counter);
struct weft_counter *weft_counter(void);
/* Until the scope is left, notifies the observer of every op, call of weft_parallel and tile that this thread runs on
 * its own. Work is divided as for `threads` threads, because the observer predicts how long they would take. NULL: no
 * observer. */
struct weft_observer {
    int threads; /* number of threads for which work is divided */
    void (*step)(struct weft_observer *observer, const char *name, bool backward); /* an op begins */
    void (*call)(struct weft_observer *observer, int64_t tiles);                   /* a call begins */
    void (*tile)(struct weft_observer *observer);                                  /* a tile has ended */
};
void weft_observer_set(struct weft_observer *observer);
struct weft_observer *weft_observer(void);
/* Returns the number of threads for which the calling thread's work is divided: its own number, or the observer's. The
 * division of an output never changes a sum. */
int weft_threads_cut(void);
/* For checks that results do not depend on threads: until the scope is left, each thread computes exactly its own share
 * of a call's tiles, and the call waits for all threads. */
void weft_threads_even(void);

/* ---- the processor (cpu.c) */

/* The instruction-set level of the kernels in use. Each level includes those before it. WEFT_ISA=base|v3|v4|amx lowers
 * it. */
enum weft_isa { WEFT_ISA_BASE, WEFT_ISA_V3, WEFT_ISA_V4, WEFT_ISA_AMX };
enum weft_isa weft_isa(void);
const char *weft_isa_name(enum weft_isa isa);
/* For checks that results do not depend on the level: until the scope of threads is left, this thread builds and runs
 * kernels `levels` levels lower. */
void weft_isa_lower(int levels);
int weft_isa_lowered(void);
/* Fails if WEFT_ISA is not one of these names; weft_isa ignores other values. */
enum weft_status weft_isa_check(void);

/* ---- elementary functions (elementary.c), in double and without libm: the same bits on every machine */

double weft_exp(double x);
double weft_exp2(double x);
double weft_expm1(double x);
double weft_log(double x);
double weft_pow(double x, double y); /* x > 0, or y an integer */
double weft_cos_pi(double x);        /* cos(pi x) */

/* ---- randomness (rng.c): Random123's Philox 4x32-10, a function of a key and a counter */

struct weft_rand4 {
    uint32_t u[4];
};
struct weft_rand4 weft_rand(uint64_t key, uint64_t counter_high, uint64_t counter_low);
/* Mixes a word into a key. Repeated calls build the key of (seed, step, sample, ...). */
uint64_t weft_key(uint64_t key, uint64_t word);
uint64_t weft_key_name(uint64_t key, const char *name);
/* Returns element `element` of a key's stream of standard normal numbers, or of uniform numbers in (0, 1). Uses no
 * libm, so the bits are the same on every machine. */
double weft_normal(uint64_t key, uint64_t element);
double weft_uniform(uint64_t key, uint64_t element);
/* Returns a number in 0 .. n-1. */
uint64_t weft_below(uint64_t key, uint64_t element, uint64_t n);

/* ---- clock (clock.c) */

double weft_seconds(void); /* monotonic */

/* ---- memory (memory.c) */

int64_t weft_resident_bytes(void); /* current resident memory of this process; -1 if unknown */
/* Returns the memory available without swapping, on the machine and in this process's control groups; INT64_MAX if
 * unknown. */
int64_t weft_available_bytes(void);
/* Returns the smallest amount still allowed by a control group ("/a/b") and its parents, read from their folders under
 * root; INT64_MAX if there is no limit. */
int64_t weft_cgroup_available_bytes(const char *root, const char *group);

/* ---- SHA-256 (sha256.c): fingerprints of weights and files */

struct weft_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
};
void weft_sha256_init(struct weft_sha256 *sha);
void weft_sha256_add(struct weft_sha256 *sha, const void *data, size_t bytes);
void weft_sha256_bytes(struct weft_sha256 *sha, unsigned char hash[32]);
void weft_sha256_hex(struct weft_sha256 *sha, char hex[65]);
enum weft_status weft_sha256_file(const char *path, char hex[65]);
/* Like weft_sha256_file, but a file larger than the limit is an error and is not read. */
enum weft_status weft_sha256_within(const char *path, size_t limit, char hex[65]);
/* The program that trains the runs of studies, and its hash (program.c). The default is the running program, but
 * weft_program_check fails unless weft_program_set was called. */
enum weft_status weft_program_check(void);
const char *weft_program(void);
/* Writes the program's absolute path, which other processes can use. */
enum weft_status weft_program_path(char path[4096]);
enum weft_status weft_program_hash(char hex[65]);

/* ---- text for a terminal (escape.c): control characters except newlines, and invalid UTF-8, are shown as \xNN */

bool weft_text_printable(const char *text); /* whether the text contains neither these characters nor a newline */
void weft_text_escape(const char *text, char *to, size_t size);
void weft_text_print(FILE *to, const char *text);
/* Like printf, with escaping: for messages that quote files or arguments. */
void weft_say(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- notices (log.c): one line each, for messages that are not part of a result */

/* Sends a notice to the receiver (weft_log_set), once per key. */
void weft_note_once(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns whether a name ends with `end`, such as ".jsonl" (file.c). */
bool weft_ends_in(const char *text, const char *end);

/* Returns the name in names[0..count) that is closest to `wrong`, or NULL if none is close (suggest.c). */
const char *weft_suggest(const char *wrong, const char *const *names, int count);

#endif
