/* SPDX-License-Identifier: MIT
 *
 * gguf.c - opens a GGUF file and checks its complete header (keys, strings, types and shapes), and that every
 * tensor's values are at the offsets that the format requires.
 *
 * Memory for a size given in the file is allocated only after the file is known to be large enough for that size.
 */
#include "export/gguf/gguf.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are read in memory order");

enum {
    MAX_COUNT = 1 << 20, /* maximum number of keys, and of tensors */
    MAX_KEY = 65535,
    MAX_TENSOR = 127,
    LEAST_KEY = 8 + 1 + 4 + 1, /* minimum number of bytes: name, type, value */
    LEAST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8,
};

struct tensor {
    struct weft_entry entry;
    uint64_t offset;
};

struct weft_gguf {
    char *path;
    const unsigned char *map;
    size_t bytes, at; /* at: position in the header */
    size_t alignment;
    struct weft_arena arena; /* owns the names */
    struct weft_gguf_key *keys;
    struct tensor *tensors;
    int key_count, count;
};

/* ---- bytes */

static enum weft_status take(struct weft_gguf *f, size_t bytes, const unsigned char **at)
{
    *at = f->map + f->at;
    if (bytes > f->bytes - f->at)
        return FAIL(WEFT_FORMAT,
                    "%s: at byte %zu, %zu more bytes are needed, but only %zu follow: the file is truncated or damaged",
                    f->path, f->at, bytes, f->bytes - f->at);
    f->at += bytes;
    return WEFT_OK;
}

static enum weft_status take_u32(struct weft_gguf *f, uint32_t *n)
{
    const unsigned char *at;
    TRY(take(f, sizeof *n, &at));
    memcpy(n, at, sizeof *n);
    return WEFT_OK;
}

static enum weft_status take_u64(struct weft_gguf *f, uint64_t *n)
{
    const unsigned char *at;
    TRY(take(f, sizeof *n, &at));
    memcpy(n, at, sizeof *n);
    return WEFT_OK;
}

static enum weft_status take_text(struct weft_gguf *f, const unsigned char **at, uint64_t *bytes)
{
    TRY(take_u64(f, bytes));
    TRY(take(f, *bytes, at));
    return WEFT_OK;
}

/* Reads a name. Only visible ASCII characters are allowed, so that it can be printed. */
static enum weft_status take_name(struct weft_gguf *f, uint64_t limit, const char **name)
{
    const unsigned char *at;
    uint64_t bytes;
    TRY(take_text(f, &at, &bytes));
    bool good = bytes > 0 && bytes <= limit;
    for (uint64_t i = 0; good && i < bytes; i++)
        good = at[i] > 32 && at[i] < 127;
    if (!good)
        return FAIL(WEFT_FORMAT,
                    "%s: the name before byte %zu is empty, too long, or contains characters other than visible ASCII",
                    f->path, f->at);
    char *copy = weft_arena_alloc(&f->arena, bytes + 1);
    if (!copy)
        return WEFT_NOMEM;
    memcpy(copy, at, bytes);
    *name = copy;
    return WEFT_OK;
}

/* ---- keys */

static const size_t widths[WEFT_GGUF_TYPES] = {
    [WEFT_GGUF_U8] = 1,  [WEFT_GGUF_I8] = 1,  [WEFT_GGUF_U16] = 2, [WEFT_GGUF_I16] = 2,
    [WEFT_GGUF_U32] = 4, [WEFT_GGUF_I32] = 4, [WEFT_GGUF_F32] = 4, [WEFT_GGUF_BOOL] = 1,
    [WEFT_GGUF_U64] = 8, [WEFT_GGUF_I64] = 8, [WEFT_GGUF_F64] = 8,
};

static enum weft_status take_type(struct weft_gguf *f, const char *key, enum weft_gguf_type *type)
{
    uint32_t n;
    TRY(take_u32(f, &n));
    if (n >= WEFT_GGUF_TYPES)
        return FAIL(WEFT_FORMAT, "%s: %.200s has a value of type %" PRIu32 ", which does not exist", f->path, key, n);
    *type = (enum weft_gguf_type)n;
    return WEFT_OK;
}

/* Reads `count` values of a type that is not a list. */
static enum weft_status take_values(struct weft_gguf *f, const char *key, enum weft_gguf_type type, uint64_t count)
{
    const unsigned char *at;
    uint64_t bytes;
    size_t total;
    for (uint64_t i = 0; type == WEFT_GGUF_TEXT && i < count; i++)
        TRY(take_text(f, &at, &bytes));
    if (type == WEFT_GGUF_TEXT)
        return WEFT_OK;
    if (weft_size_mul(count, widths[type], &total) != WEFT_OK)
        return FAIL(WEFT_FORMAT, "%s: %.200s has more values than a file can hold", f->path, key);
    TRY(take(f, total, &at));
    for (uint64_t i = 0; type == WEFT_GGUF_BOOL && i < count; i++)
        if (at[i] > 1)
            return FAIL(WEFT_FORMAT, "%s: %.200s is neither true nor false", f->path, key);
    return WEFT_OK;
}

static enum weft_status take_key(struct weft_gguf *f, struct weft_gguf_key *key)
{
    TRY(take_name(f, MAX_KEY, &key->name));
    TRY(take_type(f, key->name, &key->type));
    key->of = key->type;
    key->count = 1;
    if (key->type == WEFT_GGUF_LIST) {
        TRY(take_type(f, key->name, &key->of));
        TRY(take_u64(f, &key->count));
        if (key->of == WEFT_GGUF_LIST)
            return FAIL(WEFT_FORMAT, "%s: %.200s is a list of lists", f->path, key->name);
    }
    key->at = f->map + f->at;
    TRY(take_values(f, key->name, key->of, key->count));
    return WEFT_OK;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct weft_gguf_key *)a)->name, ((const struct weft_gguf_key *)b)->name);
}

static enum weft_status read_keys(struct weft_gguf *f, uint64_t count)
{
    if (count > MAX_COUNT || count > (f->bytes - f->at) / LEAST_KEY)
        return FAIL(WEFT_FORMAT, "%s claims to have %" PRIu64 " keys, so it is damaged", f->path, count);
    f->keys = calloc(count + 1, sizeof *f->keys);
    if (!f->keys)
        return FAIL(WEFT_NOMEM, "not enough memory for the keys of %s", f->path);
    for (; f->key_count < (int)count; f->key_count++)
        TRY(take_key(f, &f->keys[f->key_count]));
    qsort(f->keys, count, sizeof *f->keys, by_key);
    for (int i = 1; i < f->key_count; i++)
        if (by_key(&f->keys[i - 1], &f->keys[i]) == 0)
            return FAIL(WEFT_FORMAT, "%s has the key %.200s twice", f->path, f->keys[i].name);
    return WEFT_OK;
}

static enum weft_status read_alignment(struct weft_gguf *f)
{
    const struct weft_gguf_key *key = weft_gguf_key_find(f, "general.alignment");
    int64_t n = WEFT_GGUF_ALIGNMENT;
    if (key && (!weft_gguf_whole(key, &n) || n < 1 || n > INT32_MAX || (n & (n - 1))))
        return FAIL(WEFT_FORMAT, "%s: general.alignment is not a power of two", f->path);
    f->alignment = (size_t)n;
    return WEFT_OK;
}

/* ---- tensors */

/* Names of types by code, used in messages. */
static const char *const types[] = {
    [0] = "F32",     [1] = "F16",    [2] = "Q4_0",     [3] = "Q4_1",    [6] = "Q5_0",     [7] = "Q5_1",
    [8] = "Q8_0",    [9] = "Q8_1",   [10] = "Q2_K",    [11] = "Q3_K",   [12] = "Q4_K",    [13] = "Q5_K",
    [14] = "Q6_K",   [15] = "Q8_K",  [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S",
    [20] = "IQ4_NL", [21] = "IQ3_S", [22] = "IQ2_S",   [23] = "IQ4_XS", [24] = "I8",      [25] = "I16",
    [26] = "I32",    [27] = "I64",   [28] = "F64",     [29] = "IQ1_M",  [30] = "BF16",    [34] = "TQ1_0",
    [35] = "TQ2_0",  [39] = "MXFP4", [40] = "NVFP4",
};
enum { TYPES = sizeof types / sizeof *types, F32 = 0, F16 = 1, BF16 = 30 };

static enum weft_status set_type(const struct weft_gguf *f, uint32_t type, struct weft_entry *e)
{
    const char *name = type < TYPES && types[type] ? types[type] : "unknown";
    if (type != F32 && type != F16 && type != BF16)
        return FAIL(WEFT_UNSUPPORTED,
                    "%s: %s is of type %s (%" PRIu32 "): only F32, F16 and BF16 can be read, so dequantise the file "
                    "first (llama-quantize --allow-requantize IN OUT f32)",
                    f->path, e->name, name, type);
    e->dtype = type == F32 ? WEFT_F32 : WEFT_BF16;
    e->foreign = type == F16 ? name : NULL;
    e->bytes = type == F32 ? 4 : 2;
    return WEFT_OK;
}

static enum weft_status take_tensor(struct weft_gguf *f, struct tensor *t)
{
    struct weft_entry *e = &t->entry;
    uint32_t ndim, type;
    uint64_t dim;
    TRY(take_name(f, MAX_TENSOR, &e->name));
    TRY(take_u32(f, &ndim));
    if (ndim < 1 || ndim > WEFT_MAX_DIMS)
        return FAIL(WEFT_FORMAT, "%s: %s has %" PRIu32 " dimensions, but expected 1 to %d", f->path, e->name, ndim,
                    WEFT_MAX_DIMS);
    e->ndim = (int)ndim;
    for (int i = e->ndim - 1; i >= 0; i--) {
        TRY(take_u64(f, &dim));
        if (dim < 1 || dim > INT64_MAX)
            return FAIL(WEFT_FORMAT, "%s: a dimension of %s is invalid", f->path, e->name);
        e->dim[i] = (int64_t)dim;
    }
    TRY(take_u32(f, &type));
    TRY(take_u64(f, &t->offset));
    TRY(set_type(f, type, e));
    for (int i = 0; i < e->ndim; i++)
        if (weft_size_mul(e->bytes, (size_t)e->dim[i], &e->bytes) != WEFT_OK)
            return FAIL(WEFT_FORMAT, "%s: %s is too large to fit into memory", f->path, e->name);
    return WEFT_OK;
}

static int by_offset(const void *a, const void *b)
{
    const struct tensor *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->entry.name, ((const struct tensor *)b)->entry.name);
}

/* Checks that each tensor begins where the previous one ends, rounded up to the alignment. */
static enum weft_status place(struct weft_gguf *f)
{
    size_t data = (f->at + f->alignment - 1) / f->alignment * f->alignment, next = 0, end = 0;
    size_t room = f->bytes > data ? f->bytes - data : 0;
    qsort(f->tensors, (size_t)f->count, sizeof *f->tensors, by_offset);
    for (int i = 0; i < f->count; i++) {
        struct weft_entry *e = &f->tensors[i].entry;
        if (f->tensors[i].offset != next)
            return FAIL(WEFT_FORMAT, "%s: %s begins at %" PRIu64 ", but the values before it end at %zu", f->path,
                        e->name, f->tensors[i].offset, next);
        if (next > room || e->bytes > room - next)
            return FAIL(WEFT_FORMAT, "%s does not contain the %zu bytes of %s: the file is truncated or damaged",
                        f->path, e->bytes, e->name);
        e->data = f->map + data + next;
        end = next + e->bytes;
        next = (end + f->alignment - 1) / f->alignment * f->alignment;
    }
    if (room >= end + f->alignment)
        return FAIL(WEFT_FORMAT, "%s has %zu bytes after its last tensor", f->path, room - end);
    return WEFT_OK;
}

static enum weft_status read_tensors(struct weft_gguf *f, uint64_t count)
{
    if (count > MAX_COUNT || count > (f->bytes - f->at) / LEAST_TENSOR)
        return FAIL(WEFT_FORMAT, "%s claims to have %" PRIu64 " tensors, so it is damaged", f->path, count);
    f->tensors = calloc(count + 1, sizeof *f->tensors);
    if (!f->tensors)
        return FAIL(WEFT_NOMEM, "not enough memory for the tensors of %s", f->path);
    for (; f->count < (int)count; f->count++)
        TRY(take_tensor(f, &f->tensors[f->count]));
    TRY(place(f));
    qsort(f->tensors, count, sizeof *f->tensors, by_name);
    for (int i = 1; i < f->count; i++)
        if (by_name(&f->tensors[i - 1], &f->tensors[i]) == 0)
            return FAIL(WEFT_FORMAT, "%s has the tensor %s twice", f->path, f->tensors[i].entry.name);
    return WEFT_OK;
}

/* ---- opening */

static enum weft_status read_header(struct weft_gguf *f)
{
    const unsigned char *magic;
    uint32_t version;
    uint64_t tensors, keys;
    if (f->bytes < 4 || memcmp(f->map, WEFT_GGUF_MAGIC, 4) != 0)
        return FAIL(WEFT_FORMAT, "%s is not a GGUF file", f->path);
    TRY(take(f, 4, &magic));
    TRY(take_u32(f, &version));
    if (version != 2 && version != WEFT_GGUF_VERSION)
        return FAIL(WEFT_UNSUPPORTED, "%s is of version %" PRIu32 "%s: only versions 2 and 3 can be read", f->path,
                    version, version && version % 65536 == 0 ? " (or big-endian)" : "");
    TRY(take_u64(f, &tensors));
    TRY(take_u64(f, &keys));
    TRY(read_keys(f, keys));
    TRY(read_alignment(f));
    TRY(read_tensors(f, tensors));
    return WEFT_OK;
}

enum weft_status weft_gguf_open(struct weft_gguf **f, const char *path)
{
    void *map = NULL;
    *f = calloc(1, sizeof **f);
    if (!*f || !((*f)->path = strdup(path))) {
        free(*f);
        *f = NULL;
        return FAIL(WEFT_NOMEM, "not enough memory to open %s", path);
    }
    enum weft_status status = weft_input_map(path, &map, &(*f)->bytes);
    (*f)->map = map;
    if (status == WEFT_OK)
        status = read_header(*f);
    if (status != WEFT_OK) {
        weft_gguf_close(*f);
        *f = NULL;
    }
    return status;
}

void weft_gguf_close(struct weft_gguf *f)
{
    if (!f)
        return;
    if (f->map)
        munmap((void *)(uintptr_t)f->map, f->bytes);
    weft_arena_release(&f->arena);
    free(f->keys);
    free(f->tensors);
    free(f->path);
    free(f);
}

/* ---- access */

const char *weft_gguf_path(const struct weft_gguf *f) { return f->path; }

int weft_gguf_key_count(const struct weft_gguf *f) { return f->key_count; }

const struct weft_gguf_key *weft_gguf_key_at(const struct weft_gguf *f, int i) { return &f->keys[i]; }

const struct weft_gguf_key *weft_gguf_key_find(const struct weft_gguf *f, const char *name)
{
    struct weft_gguf_key key = {.name = name};
    return bsearch(&key, f->keys, (size_t)f->key_count, sizeof key, by_key);
}

int weft_gguf_count(const struct weft_gguf *f) { return f->count; }

const struct weft_entry *weft_gguf_at(const struct weft_gguf *f, int i) { return &f->tensors[i].entry; }

int weft_gguf_find(const struct weft_gguf *f, const char *name)
{
    struct tensor key = {.entry = {.name = name}};
    const struct tensor *found = bsearch(&key, f->tensors, (size_t)f->count, sizeof key, by_name);
    return found ? (int)(found - f->tensors) : -1;
}
