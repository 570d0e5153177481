/* SPDX-License-Identifier: MIT
 *
 * cache.c - the paged cache: keys, values and states of sequences, in pages of WEFT_KEY_TILE rows.
 *
 *   per token     a sequence has the pages that its tokens need, from a shared pool; one page table for all slots
 *   window        a sequence has its own ring of pages: token tile j is in page j mod (number of pages)
 *   per sequence  one row
 *
 * An op that expands the whole store also computes the rows of unused pages. To limit this work, pages are allocated
 * from the low end, and rows above the highest one in use are skipped.
 */
#include "infer/infer.h"

#include <string.h>

enum { ALIGN = 64 };

/* ---- sizes */

/* New rows are written before old ones are read, so a ring holds the longest chunk and the window before it. Position p
 * is stored in row p mod (rows of the ring), so tile boundaries do not matter. */
static int64_t ring_tiles(const struct weft_cache_size *size)
{
    if (size->window == 0)
        return 0;
    int64_t held = weft_min(size->length, size->chunk) + size->window;
    return weft_div_up(weft_min(held, size->length), WEFT_KEY_TILE);
}

static int64_t page_count(const struct weft_cache_size *size)
{
    int64_t most = size->sequences * weft_div_up(size->length, WEFT_KEY_TILE);
    return size->pages ? weft_min(size->pages, most) : most;
}

struct weft_net_size weft_cache_net_size(const struct weft_cache_size *size, int64_t rows)
{
    return (struct weft_net_size){.sequences = size->sequences,
                                  .length = size->length,
                                  .rows = rows,
                                  .store_rows = page_count(size) * WEFT_KEY_TILE,
                                  .ring_rows = size->sequences * ring_tiles(size) * WEFT_KEY_TILE};
}

static int64_t slot_rows(const struct weft_cache *c, enum weft_lifetime lifetime)
{
    int64_t S = c->size.sequences;
    int64_t rows[] = {page_count(&c->size) * WEFT_KEY_TILE, S * c->ring_tiles * WEFT_KEY_TILE, S};
    return rows[lifetime];
}

static size_t row_bytes(const struct weft_slot *slot)
{
    return (size_t)slot->width * weft_dtype_bytes(slot->state->dtype);
}

struct weft_cache_bytes weft_cache_count(const struct weft_cache *c)
{
    size_t token = 0, bytes[] = {0, 0, 0};
    for (int i = 0; i < c->net->slot_count; i++) {
        const struct weft_slot *slot = &c->net->slots[i];
        bytes[slot->lifetime] += (size_t)slot_rows(c, slot->lifetime) * row_bytes(slot);
        token += slot->lifetime == WEFT_PER_TOKEN ? row_bytes(slot) : 0;
    }
    return (struct weft_cache_bytes){token, bytes[WEFT_PER_TOKEN], bytes[WEFT_WINDOW], bytes[WEFT_PER_SEQUENCE]};
}

/* ---- memory */

static enum weft_status alloc_slots(struct weft_cache *c)
{
    c->offsets = weft_arena_alloc(&c->arena, (size_t)c->net->slot_count * sizeof *c->offsets);
    if (!c->offsets)
        return FAIL(WEFT_NOMEM, "not enough memory for the tables of a cache");
    for (int i = 0; i < c->net->slot_count; i++) {
        const struct weft_slot *slot = &c->net->slots[i];
        size_t bytes;
        TRY(weft_size_mul((size_t)slot_rows(c, slot->lifetime), row_bytes(slot), &bytes));
        TRY(weft_size_add(bytes, ALIGN - 1, &bytes));
        c->offsets[i] = c->bytes;
        TRY(weft_size_add(c->bytes, bytes / ALIGN * ALIGN, &c->bytes));
    }
    c->memory = weft_pages_alloc(c->bytes);
    if (c->bytes && !c->memory)
        return FAIL(WEFT_NOMEM, "not enough memory for a cache of %zu bytes: use fewer or shorter sequences", c->bytes);
    return WEFT_OK;
}

/* The first rows of all pages, in ascending order or shuffled. */
static void list_pages(int32_t *list, int64_t pages, uint64_t scatter)
{
    for (int64_t i = 0; i < pages; i++) {
        int64_t j = scatter ? (int64_t)weft_below(scatter, (uint64_t)i, (uint64_t)i + 1) : i;
        list[i] = list[j];
        list[j] = (int32_t)(i * WEFT_KEY_TILE);
    }
}

static enum weft_status make_tables(struct weft_cache *c)
{
    int64_t S = c->size.sequences, pages = page_count(&c->size);
    c->lengths = weft_arena_alloc(&c->arena, (size_t)S * sizeof *c->lengths);
    c->store = weft_arena_alloc(&c->arena, (size_t)(S * c->tiles) * sizeof *c->store);
    c->users = weft_arena_alloc(&c->arena, (size_t)pages * sizeof *c->users);
    c->free = weft_arena_alloc(&c->arena, (size_t)pages * sizeof *c->free);
    c->ring = weft_arena_alloc(&c->arena, (size_t)(S * c->ring_tiles) * sizeof *c->ring);
    if (!c->lengths || !c->store || !c->users || !c->free || !c->ring)
        return FAIL(WEFT_NOMEM, "not enough memory for the tables of a cache");
    list_pages(c->ring, S * c->ring_tiles, c->size.scatter);
    list_pages(c->free, pages, c->size.scatter);
    for (int64_t i = 0; i < pages / 2; i++) { /* a stack: the first page must be on top */
        int32_t last = c->free[pages - 1 - i];
        c->free[pages - 1 - i] = c->free[i];
        c->free[i] = last;
    }
    c->free_count = pages;
    return WEFT_OK;
}

enum weft_status weft_cache_init(struct weft_cache *c, const struct weft_net *net, const struct weft_cache_size *size)
{
    *c = (struct weft_cache){
        .size = *size, .net = net, .tiles = weft_div_up(size->length, WEFT_KEY_TILE), .ring_tiles = ring_tiles(size)};
    TRY(make_tables(c));
    TRY(alloc_slots(c));
    return WEFT_OK;
}

void weft_cache_release(struct weft_cache *c)
{
    weft_pages_free(c->memory, c->bytes);
    weft_arena_release(&c->arena);
    *c = (struct weft_cache){0};
}

/* ---- nets */

static bool same_slot(const struct weft_slot *a, const struct weft_slot *b)
{
    return strcmp(a->name, b->name) == 0 && a->lifetime == b->lifetime && a->width == b->width &&
           a->state->dtype == b->state->dtype;
}

enum weft_status weft_cache_bind(const struct weft_cache *c, const struct weft_net *net, struct weft_exec *exec)
{
    int count = net->slot_count;
    if (count != c->net->slot_count)
        return FAIL(WEFT_CHECK, "the cache has %d slots, but the graph needs %d: it was built from a different model",
                    c->net->slot_count, count);
    for (int i = 0; i < count; i++) {
        if (!same_slot(&net->slots[i], &c->net->slots[i]))
            return FAIL(WEFT_CHECK, "slot %d of the cache is %s, but the graph needs %s, or the size or type differs",
                        i, c->net->slots[i].name, net->slots[i].name);
        weft_exec_bind(exec, net->slots[i].state, c->memory + c->offsets[i]);
    }
    int32_t *lanes = weft_exec_tensor(exec, net->lanes)->data;
    int32_t *ring = weft_exec_tensor(exec, net->ring_tiles)->data;
    for (int64_t s = 0; s < c->size.sequences; s++) {
        lanes[s] = (int32_t)s;
        for (int64_t j = 0; j < c->tiles; j++)
            ring[s * c->tiles + j] = weft_cache_ring_row(c, s, j * WEFT_KEY_TILE);
    }
    return WEFT_OK;
}

/* ---- sequences */

int32_t weft_cache_store_row(const struct weft_cache *c, int64_t sequence, int64_t position)
{
    return c->store[sequence * c->tiles + position / WEFT_KEY_TILE] + (int32_t)(position % WEFT_KEY_TILE);
}

int32_t weft_cache_ring_row(const struct weft_cache *c, int64_t sequence, int64_t position)
{
    if (c->ring_tiles == 0)
        return 0;
    int64_t page = position / WEFT_KEY_TILE % c->ring_tiles;
    return c->ring[sequence * c->ring_tiles + page] + (int32_t)(position % WEFT_KEY_TILE);
}

static int64_t pages_of(const struct weft_cache *c, int64_t sequence)
{
    return weft_div_up(c->lengths[sequence], WEFT_KEY_TILE);
}

int64_t weft_cache_needs(const struct weft_cache *c, int64_t sequence, int64_t n)
{
    return weft_div_up(c->lengths[sequence] + n, WEFT_KEY_TILE) - pages_of(c, sequence);
}

/* Appends a free page to a sequence. */
static void add_page(struct weft_cache *c, int64_t sequence, int64_t page)
{
    int32_t row = c->free[--c->free_count];
    c->store[sequence * c->tiles + page] = row;
    c->users[row / WEFT_KEY_TILE] = 1;
    c->high = weft_max(c->high, row + WEFT_KEY_TILE);
}

void weft_cache_extend(struct weft_cache *c, int64_t sequence, int64_t n)
{
    int64_t page = pages_of(c, sequence);
    c->lengths[sequence] += n;
    for (; page < pages_of(c, sequence); page++)
        add_page(c, sequence, page);
}

/* Copies the rows of a sequence in one slot, or clears them if `from` is negative. */
static void copy_slot(struct weft_cache *c, int slot, int64_t from, int64_t to, int64_t rows)
{
    size_t row = row_bytes(&c->net->slots[slot]);
    char *memory = c->memory + c->offsets[slot];
    if (from < 0)
        memset(memory + (size_t)to * row, 0, (size_t)rows * row);
    else
        memcpy(memory + (size_t)to * row, memory + (size_t)from * row, (size_t)rows * row);
}

static void copy_slots(struct weft_cache *c, enum weft_lifetime lifetime, int64_t from, int64_t to, int64_t rows)
{
    for (int i = 0; i < c->net->slot_count; i++)
        if (c->net->slots[i].lifetime == lifetime)
            copy_slot(c, i, from, to, rows);
}

void weft_cache_shorten(struct weft_cache *c, int64_t sequence, int64_t n)
{
    int64_t pages = pages_of(c, sequence);
    c->lengths[sequence] -= n;
    while (pages-- > pages_of(c, sequence)) {
        int32_t row = c->store[sequence * c->tiles + pages];
        if (--c->users[row / WEFT_KEY_TILE] == 0)
            c->free[c->free_count++] = row;
    }
}

void weft_cache_clear(struct weft_cache *c, int64_t sequence)
{
    weft_cache_shorten(c, sequence, c->lengths[sequence]);
    c->high = 0;
    for (int64_t s = 0; s < c->size.sequences; s++)
        for (int64_t page = 0; page < pages_of(c, s); page++)
            c->high = weft_max(c->high, c->store[s * c->tiles + page] + WEFT_KEY_TILE);
    copy_slots(c, WEFT_PER_SEQUENCE, -1, sequence, 1); /* states are read before they are written */
}

void weft_cache_fork(struct weft_cache *c, int64_t from, int64_t to)
{
    int64_t full = c->lengths[from] / WEFT_KEY_TILE;
    c->lengths[to] = c->lengths[from];
    memcpy(c->store + to * c->tiles, c->store + from * c->tiles, (size_t)full * sizeof *c->store);
    for (int64_t page = 0; page < full; page++)
        c->users[c->store[to * c->tiles + page] / WEFT_KEY_TILE]++;
    if (full < pages_of(c, to)) {
        add_page(c, to, full);
        copy_slots(c, WEFT_PER_TOKEN, c->store[from * c->tiles + full], c->store[to * c->tiles + full], WEFT_KEY_TILE);
    }
    for (int64_t page = 0; page < c->ring_tiles; page++)
        copy_slots(c, WEFT_WINDOW, c->ring[from * c->ring_tiles + page], c->ring[to * c->ring_tiles + page],
                   WEFT_KEY_TILE);
    copy_slots(c, WEFT_PER_SEQUENCE, from, to, 1);
}
