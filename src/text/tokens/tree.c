/* SPDX-License-Identifier: MIT
 *
 * tree.c - builds, writes and checks hash trees of token files (see tree.h for the format).
 */
#include "text/tokens/tree.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HASH = 32, HEADER = 64, BLOCK = 1 << 16, ROOT_AT = 24, CHUNK = 4096 };

struct weft_tree {
    const unsigned char *bytes; /* the contents of the tree's file, mapped or in memory */
    size_t size;
    bool mapped;
    size_t of;      /* size of the token file in bytes */
    int64_t blocks; /* number of blocks of the token file */
    _Atomic unsigned char *checked;
};

static size_t tree_size(int64_t blocks)
{
    int64_t nodes = blocks;
    for (; blocks > 1; nodes += blocks)
        blocks = (blocks + 1) / 2;
    return HEADER + (size_t)nodes * HASH;
}

static void hash_leaf(const unsigned char *data, size_t bytes, unsigned char to[HASH])
{
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    weft_sha256_add(&sha, "\0", 1);
    weft_sha256_add(&sha, data, bytes);
    weft_sha256_bytes(&sha, to);
}

static void hash_node(const unsigned char *left, const unsigned char *right, unsigned char to[HASH])
{
    struct weft_sha256 sha;
    weft_sha256_init(&sha);
    weft_sha256_add(&sha, "\1", 1);
    weft_sha256_add(&sha, left, HASH);
    weft_sha256_add(&sha, right, HASH);
    weft_sha256_bytes(&sha, to);
}

static size_t block_bytes(size_t bytes, int64_t block)
{
    return (size_t)weft_min(BLOCK, (int64_t)bytes - block * BLOCK);
}

/* Writes the header up to the root. */
static void put_header(unsigned char to[HEADER], size_t of)
{
    uint32_t numbers[2] = {1, BLOCK};
    uint64_t size = of;
    memset(to, 0, HEADER);
    memcpy(to, "WEFTTREE", 8);
    memcpy(to + 8, numbers, sizeof numbers);
    memcpy(to + 16, &size, sizeof size);
}

static enum weft_status start(struct weft_tree **out, const char *file, size_t of)
{
    struct weft_tree *t = calloc(1, sizeof *t);
    int64_t blocks = weft_div_up((int64_t)of, BLOCK);
    if (t) {
        *t = (struct weft_tree){.of = of, .blocks = blocks};
        t->checked = calloc((size_t)blocks / 8 + 1, 1);
    }
    *out = t;
    return t && t->checked ? WEFT_OK : FAIL(WEFT_NOMEM, "not enough memory for the hashes of %s", file);
}

void weft_tree_free(struct weft_tree *t)
{
    if (!t)
        return;
    if (t->mapped)
        munmap((void *)t->bytes, t->size);
    else
        free((void *)t->bytes);
    free(t->checked);
    free(t);
}

void weft_tree_root(const struct weft_tree *t, unsigned char root[HASH]) { memcpy(root, t->bytes + ROOT_AT, HASH); }

/* ---- checking */

static bool block_fits(const struct weft_tree *t, const unsigned char *data, int64_t block)
{
    unsigned char hash[HASH];
    const unsigned char *level = t->bytes + HEADER;
    hash_leaf(data + block * BLOCK, block_bytes(t->of, block), hash);
    for (int64_t count = t->blocks; count > 1; level += count * HASH, count = (count + 1) / 2, block /= 2) {
        const unsigned char *other = level + (block ^ 1) * HASH;
        if ((block ^ 1) < count)
            hash_node(block & 1 ? other : hash, block & 1 ? hash : other, hash);
    }
    return memcmp(hash, t->bytes + ROOT_AT, HASH) == 0;
}

enum weft_status weft_tree_check(struct weft_tree *t, const char *file, const void *data, size_t first, size_t count)
{
    for (int64_t b = (int64_t)(first / BLOCK); count > 0 && b <= (int64_t)((first + count - 1) / BLOCK); b++) {
        unsigned char bit = (unsigned char)(1 << b % 8);
        if (atomic_load(&t->checked[b / 8]) & bit)
            continue;
        if (!block_fits(t, data, b))
            return FAIL(WEFT_FORMAT,
                        "%s, byte %lld: this block of 64 KiB does not match %s.tree: the file is damaged or was "
                        "changed. If it was changed on purpose, run `weft data index` on it",
                        file, (long long)b * BLOCK, file);
        atomic_fetch_or(&t->checked[b / 8], bit);
    }
    return WEFT_OK;
}

/* ---- opening */

static enum weft_status tree_path(const char *file, const char *end, char path[4096])
{
    if (snprintf(path, 4096, "%s.tree%s", file, end) >= 4096)
        return FAIL(WEFT_INVALID, "the path %.64s... is too long", file);
    return WEFT_OK;
}

static bool has_header(const struct weft_tree *t)
{
    unsigned char wanted[HEADER];
    put_header(wanted, t->of);
    memcpy(wanted + ROOT_AT, t->bytes + ROOT_AT, HASH);
    return memcmp(t->bytes, wanted, HEADER) == 0;
}

enum weft_status weft_tree_open(struct weft_tree **out, const char *file, size_t bytes)
{
    char path[4096];
    void *map;
    *out = NULL;
    TRY(tree_path(file, "", path));
    if (access(path, F_OK))
        return WEFT_OK;
    TRY(start(out, file, bytes));
    struct weft_tree *t = *out;
    TRY(weft_input_map(path, &map, &t->size));
    t->bytes = map;
    t->mapped = map;
    if (t->size != tree_size(t->blocks) || !has_header(t))
        return FAIL(WEFT_FORMAT,
                    "%s is damaged, or belongs to a file that does not have %zu bytes. If the token file was changed "
                    "on purpose, run `weft data index` on it",
                    path, bytes);
    return WEFT_OK;
}

/* ---- building */

struct leaves {
    const unsigned char *data;
    size_t bytes;
    int64_t first;
    unsigned char *to;
};

static void hash_block(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct leaves *l = context;
    int64_t block = l->first + i;
    hash_leaf(l->data + block * BLOCK, block_bytes(l->bytes, block), l->to + block * HASH);
}

static void hash_levels(unsigned char *level, int64_t blocks, unsigned char root[HASH])
{
    while (blocks > 1) {
        unsigned char *next = level + blocks * HASH;
        for (int64_t i = 0; i < blocks / 2; i++)
            hash_node(level + 2 * i * HASH, level + (2 * i + 1) * HASH, next + i * HASH);
        if (blocks % 2)
            memcpy(next + blocks / 2 * HASH, level + (blocks - 1) * HASH, HASH);
        level = next;
        blocks = (blocks + 1) / 2;
    }
    memcpy(root, level, HASH);
}

/* Uses a unique temporary name, because several runs may start on the same data. */
static enum weft_status write_tree(const struct weft_tree *t, const char *file, bool *written)
{
    char path[4096], writing[4096], end[32];
    snprintf(end, sizeof end, ".%ld", (long)getpid());
    TRY(tree_path(file, "", path));
    TRY(tree_path(file, end, writing));
    FILE *to = fopen(writing, "wb");
    *written = to && fwrite(t->bytes, 1, t->size, to) == t->size;
    *written = *written && fflush(to) == 0 && fsync(fileno(to)) == 0;
    *written = to && weft_output_close(to) && *written && rename(writing, path) == 0;
    if (to && !*written)
        unlink(writing);
    return WEFT_OK;
}

enum weft_status weft_tree_make(struct weft_tree **out, const char *file, void *data, size_t bytes,
                                weft_tree_fn *progress, void *context, bool *written)
{
    TRY(start(out, file, bytes));
    struct weft_tree *t = *out;
    t->size = tree_size(t->blocks);
    unsigned char *all = malloc(t->size);
    if (!all)
        return FAIL(WEFT_NOMEM, "not enough memory for the hashes of %s", file);
    t->bytes = all;
    put_header(all, bytes);
    struct leaves leaves = {data, bytes, 0, all + HEADER};
    for (; leaves.first < t->blocks; leaves.first += CHUNK) {
        int64_t first = leaves.first * BLOCK, end = weft_min(first + (int64_t)CHUNK * BLOCK, (int64_t)bytes);
        weft_parallel(weft_div_up(end - first, BLOCK), hash_block, &leaves);
        madvise((char *)data + first, (size_t)(end - first), MADV_DONTNEED); /* hashed files do not stay in memory */
        if (progress)
            progress(context, end, (int64_t)bytes);
    }
    hash_levels(all + HEADER, t->blocks, all + ROOT_AT);
    return write_tree(t, file, written);
}
