/* SPDX-License-Identifier: MIT
 *
 * gguf_write.c - writes keys and their values in GGUF's format.
 */
#include "export/gguf/gguf.h"

#include <string.h>

/* An error stays in the stream until it is closed. */
void weft_gguf_put(struct weft_gguf_out *o, const void *data, size_t bytes) { fwrite(data, 1, bytes, o->to); }

void weft_gguf_put_text(struct weft_gguf_out *o, const char *text)
{
    uint64_t bytes = strlen(text);
    weft_gguf_put(o, &bytes, sizeof bytes);
    weft_gguf_put(o, text, bytes);
}

void weft_gguf_put_key(struct weft_gguf_out *o, const char *name, enum weft_gguf_type type)
{
    uint32_t number = type;
    weft_gguf_put_text(o, name);
    weft_gguf_put(o, &number, sizeof number);
    o->count++;
}

void weft_gguf_put_list(struct weft_gguf_out *o, const char *name, enum weft_gguf_type of, uint64_t count)
{
    uint32_t number = of;
    weft_gguf_put_key(o, name, WEFT_GGUF_LIST);
    weft_gguf_put(o, &number, sizeof number);
    weft_gguf_put(o, &count, sizeof count);
}

void weft_gguf_add_u32(struct weft_gguf_out *o, const char *name, uint32_t value)
{
    weft_gguf_put_key(o, name, WEFT_GGUF_U32);
    weft_gguf_put(o, &value, sizeof value);
}

void weft_gguf_add_f32(struct weft_gguf_out *o, const char *name, float value)
{
    weft_gguf_put_key(o, name, WEFT_GGUF_F32);
    weft_gguf_put(o, &value, sizeof value);
}

void weft_gguf_add_bool(struct weft_gguf_out *o, const char *name, bool value)
{
    uint8_t byte = value;
    weft_gguf_put_key(o, name, WEFT_GGUF_BOOL);
    weft_gguf_put(o, &byte, sizeof byte);
}

void weft_gguf_add_text(struct weft_gguf_out *o, const char *name, const char *value)
{
    weft_gguf_put_key(o, name, WEFT_GGUF_TEXT);
    weft_gguf_put_text(o, value);
}
