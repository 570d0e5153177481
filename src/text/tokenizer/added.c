/* SPDX-License-Identifier: MIT
 *
 * added.c - finds added tokens in a text: the leftmost, and if several start there, the longest.
 */
#include "text/tokenizer/bpe.h"

#include <string.h>

enum weft_status weft_added_create(struct weft_tokenizer *t, struct weft_added *a, int room)
{
    a->text = weft_arena_alloc(&t->arena, (size_t)room * sizeof *a->text);
    a->id = weft_arena_alloc(&t->arena, (size_t)room * sizeof *a->id);
    a->room = room;
    return a->text && a->id ? WEFT_OK : WEFT_NOMEM;
}

void weft_added_put(struct weft_added *a, struct weft_token text, int32_t id)
{
    a->id[a->count] = id;
    a->ordinary += !text.special;
    a->text[a->count++] = text;
    a->first[(unsigned char)text.bytes[0]] = true;
}

static size_t added_at(const struct weft_added *a, const char *text, size_t bytes, int *which)
{
    size_t size = 0;
    for (int i = 0; i < a->count; i++) {
        const struct weft_token *t = &a->text[i];
        if (t->size > size && t->size <= bytes && memcmp(t->bytes, text, t->size) == 0) {
            size = t->size;
            *which = i;
        }
    }
    return size;
}

size_t weft_added_find(const struct weft_added *a, const char *text, size_t from, size_t bytes, bool specials,
                       int *which)
{
    if (!a->count || (!specials && !a->ordinary))
        return bytes;
    while (from < bytes) {
        size_t size = a->first[(unsigned char)text[from]] ? added_at(a, text + from, bytes - from, which) : 0;
        if (size && (specials || !a->text[*which].special))
            return from;
        from += size ? size : 1;
    }
    return bytes;
}
