/* SPDX-License-Identifier: MIT
 *
 * arena.c - arenas, and large allocations directly from the system.
 */
#define _GNU_SOURCE
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { ALIGN = 64, BLOCK = 64 * 1024 };

struct weft_arena_block {
    struct weft_arena_block *next;
    size_t used, size; /* in bytes, without the header */
    char pad[ALIGN - 3 * sizeof(size_t)];
};
_Static_assert(sizeof(struct weft_arena_block) == ALIGN, "the bytes after the header must be aligned");

/* If the memory of the process is limited, the limit is a likely cause of the failure, and the user can raise it. */
static const char *limit_hint(void)
{
    struct rlimit limit;
    bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return limited ? ", or raise the limit on memory (ulimit -v)" : "";
}

static struct weft_arena_block *add_block(struct weft_arena *arena, size_t bytes)
{
    size_t size = bytes > BLOCK ? bytes : BLOCK, total;
    if (weft_size_add(size, sizeof(struct weft_arena_block), &total) != WEFT_OK)
        return NULL;
    struct weft_arena_block *block = aligned_alloc(ALIGN, total);
    if (!block) {
        (void)FAIL(WEFT_NOMEM, "cannot allocate %zu bytes: make the model or batch smaller%s", total, limit_hint());
        return NULL;
    }
    memset(block, 0, total);
    block->size = size;
    block->next = arena->head;
    arena->head = block;
    return block;
}

void *weft_arena_alloc(struct weft_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) {
        (void)FAIL(WEFT_NOMEM, "%zu bytes do not fit in memory", bytes);
        return NULL;
    }
    size_t need = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    struct weft_arena_block *block = arena->head;
    if (!block || block->size - block->used < need)
        block = add_block(arena, need);
    if (!block)
        return NULL;
    void *memory = (char *)(block + 1) + block->used;
    block->used += need;
    arena->bytes += need;
    return memory;
}

char *weft_arena_print(struct weft_arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *text = n < 0 ? NULL : weft_arena_alloc(arena, (size_t)n + 1);
    if (text)
        vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

void weft_arena_release(struct weft_arena *arena)
{
    while (arena->head) {
        struct weft_arena_block *next = arena->head->next;
        free(arena->head);
        arena->head = next;
    }
    arena->bytes = 0;
}

/* Allocations of at least this size are checked against the available memory, because the system would grant more and
 * kill the process later. */
enum { LARGE = 1 << 28 };

void *weft_pages_alloc(size_t bytes)
{
    if (bytes == 0)
        bytes = 1;
    void *pages = MAP_FAILED;
    if (bytes < LARGE || bytes <= (uint64_t)weft_available_bytes())
        pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        (void)FAIL(WEFT_NOMEM, "cannot allocate %.1f MiB of memory: make the model or batch smaller%s",
                   (double)bytes / (1 << 20), limit_hint());
        return NULL;
    }
    madvise(pages, bytes, MADV_HUGEPAGE); /* best effort */
    memset(pages, 0, bytes);              /* the first access takes about a second per GiB */
    return pages;
}

void weft_pages_free(void *pages, size_t bytes)
{
    if (pages)
        munmap(pages, bytes ? bytes : 1);
}
