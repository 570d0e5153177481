/* SPDX-License-Identifier: MIT
 *
 * map.h - hash tables from integers or byte strings to integers >= 0. Open addressing, no removal. Initialise a table
 * with {0}.
 */
#ifndef WEFT_TEXT_MAP_H
#define WEFT_TEXT_MAP_H

#include "base/base.h"

#define WEFT_NO_KEY UINT64_MAX

struct weft_map {
    struct weft_map_slot {
        uint64_t key; /* WEFT_NO_KEY: free */
        int32_t value;
    } * slot;
    size_t slots, count; /* slots is a power of two */
};

static inline size_t weft_map_index(uint64_t key, size_t slots)
{
    uint64_t mixed = (key ^ key >> 32) * 0x9e3779b97f4a7c15u;
    return (size_t)(mixed >> 32) & (slots - 1);
}

/* Returns -1 if the key is missing. */
static inline int32_t weft_map_get(const struct weft_map *map, uint64_t key)
{
    size_t i = weft_map_index(key, map->slots);
    while (map->slots && map->slot[i].key != key && map->slot[i].key != WEFT_NO_KEY)
        i = (i + 1) & (map->slots - 1);
    return map->slots && map->slot[i].key == key ? map->slot[i].value : -1;
}

/* The key must not be in the table yet. */
enum weft_status weft_map_put(struct weft_map *map, uint64_t key, int32_t value);
void weft_map_release(struct weft_map *map);

/* The table does not copy the bytes: the caller keeps them alive. */
struct weft_strings {
    struct weft_strings_slot {
        const char *bytes; /* NULL: free */
        uint32_t size, hash;
        int32_t value;
    } * slot;
    size_t slots, count;
};

int32_t weft_strings_get(const struct weft_strings *map, const char *bytes, size_t size); /* -1 if missing */
enum weft_status weft_strings_put(struct weft_strings *map, const char *bytes, size_t size, int32_t value);
void weft_strings_release(struct weft_strings *map);

#endif
