/* SPDX-License-Identifier: MIT
 *
 * map.c - inserts into hash tables. They are at most half full, so a lookup takes one or two steps.
 */
#include "text/tokenizer/map.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST = 256, LARGEST = 1 << 30 };

static enum weft_status no_memory(size_t slots)
{
    return FAIL(WEFT_NOMEM, "not enough memory for a hash table of %zu slots", slots);
}

/* ---- integers */

static void insert_integer(struct weft_map *map, uint64_t key, int32_t value)
{
    size_t i = weft_map_index(key, map->slots);
    while (map->slot[i].key != WEFT_NO_KEY)
        i = (i + 1) & (map->slots - 1);
    map->slot[i] = (struct weft_map_slot){key, value};
}

enum weft_status weft_map_put(struct weft_map *map, uint64_t key, int32_t value)
{
    if (map->count * 2 >= map->slots) {
        struct weft_map grown = {.slots = map->slots ? map->slots * 2 : FIRST};
        grown.slot = grown.slots > LARGEST ? NULL : malloc(grown.slots * sizeof *grown.slot);
        if (!grown.slot)
            return no_memory(grown.slots);
        for (size_t i = 0; i < grown.slots; i++)
            grown.slot[i].key = WEFT_NO_KEY;
        for (size_t i = 0; i < map->slots; i++)
            if (map->slot[i].key != WEFT_NO_KEY)
                insert_integer(&grown, map->slot[i].key, map->slot[i].value);
        free(map->slot);
        map->slot = grown.slot;
        map->slots = grown.slots;
    }
    insert_integer(map, key, value);
    map->count++;
    return WEFT_OK;
}

void weft_map_release(struct weft_map *map)
{
    free(map->slot);
    *map = (struct weft_map){0};
}

/* ---- strings */

static uint32_t hash_of(const char *bytes, size_t size)
{
    uint64_t hash = 0x9e3779b97f4a7c15u ^ size, word;
    for (; size >= 8; bytes += 8, size -= 8) {
        memcpy(&word, bytes, 8);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    word = 0;
    for (size_t i = 0; i < size; i++)
        word |= (uint64_t)(unsigned char)bytes[i] << 8 * i;
    hash = (hash ^ word) * 0xc4ceb9fe1a85ec53u;
    return (uint32_t)(hash >> 32);
}

int32_t weft_strings_get(const struct weft_strings *map, const char *bytes, size_t size)
{
    if (!map->slots)
        return -1;
    uint32_t hash = hash_of(bytes, size);
    size_t i = hash & (map->slots - 1);
    for (; map->slot[i].bytes; i = (i + 1) & (map->slots - 1)) {
        const struct weft_strings_slot *s = &map->slot[i];
        if (s->hash == hash && s->size == size && memcmp(s->bytes, bytes, size) == 0)
            return s->value;
    }
    return -1;
}

static void insert_string(struct weft_strings *map, struct weft_strings_slot entry)
{
    size_t i = entry.hash & (map->slots - 1);
    while (map->slot[i].bytes)
        i = (i + 1) & (map->slots - 1);
    map->slot[i] = entry;
}

enum weft_status weft_strings_put(struct weft_strings *map, const char *bytes, size_t size, int32_t value)
{
    if (map->count * 2 >= map->slots) {
        struct weft_strings grown = {.slots = map->slots ? map->slots * 2 : FIRST};
        grown.slot = grown.slots > LARGEST ? NULL : calloc(grown.slots, sizeof *grown.slot);
        if (!grown.slot)
            return no_memory(grown.slots);
        for (size_t i = 0; i < map->slots; i++)
            if (map->slot[i].bytes)
                insert_string(&grown, map->slot[i]);
        free(map->slot);
        map->slot = grown.slot;
        map->slots = grown.slots;
    }
    insert_string(map, (struct weft_strings_slot){bytes, (uint32_t)size, hash_of(bytes, size), value});
    map->count++;
    return WEFT_OK;
}

void weft_strings_release(struct weft_strings *map)
{
    free(map->slot);
    *map = (struct weft_strings){0};
}
