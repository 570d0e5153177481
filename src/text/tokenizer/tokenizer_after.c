/* SPDX-License-Identifier: MIT
 *
 * tokenizer_after.c - reads the parts of a tokenizer.json that apply after merging: the post_processor, of which only
 * the tokens at the beginning and the end of a text are used, and the decoder.
 */
#include "text/tokenizer/tokenizer_read.h"

#include <string.h>

static bool is_type(const json_t *part, const char *type) { return strcmp(weft_part_type(part), type) == 0; }

/* ---- post_processor */

static enum weft_status special_id(const struct weft_reading *r, const json_t *table, const json_t *item, int32_t *to)
{
    const json_t *name = json_object_get(json_object_get(item, "SpecialToken"), "id");
    const json_t *ids =
        json_is_string(name) ? json_object_get(json_object_get(table, json_string_value(name)), "ids") : NULL;
    json_int_t id = json_integer_value(json_array_get(ids, 0));
    if (json_array_size(ids) != 1 || !json_is_integer(json_array_get(ids, 0)) || id < 0 || id >= r->t->vocab)
        return FAIL(WEFT_FORMAT,
                    "%s: the template has a special token that does not have exactly one id in the vocabulary",
                    r->path);
    if (*to >= 0)
        return FAIL(WEFT_UNSUPPORTED, "%s: the template adds several tokens on one side, which is not supported",
                    r->path);
    *to = (int32_t)id;
    return WEFT_OK;
}

static enum weft_status read_template(struct weft_reading *r, const json_t *part)
{
    const json_t *table = json_object_get(part, "special_tokens"), *single = json_object_get(part, "single");
    size_t i, texts = 0;
    json_t *item;
    json_array_foreach(single, i, item)
    {
        const char *text = json_string_value(json_object_get(json_object_get(item, "Sequence"), "id"));
        if (text && strcmp(text, "A") == 0)
            texts++;
        else
            TRY(special_id(r, table, item, texts ? &r->t->end : &r->t->begin));
    }
    if (texts != 1)
        return FAIL(WEFT_UNSUPPORTED, "%s: the template does not contain the text exactly once", r->path);
    return WEFT_OK;
}

enum weft_status weft_reading_post_processor(struct weft_reading *r, const json_t *part)
{
    const json_t *list = json_object_get(part, "processors");
    size_t i;
    json_t *one;
    if (!part || json_is_null(part) || is_type(part, "ByteLevel")) /* ByteLevel affects only offsets */
        return WEFT_OK;
    if (is_type(part, "TemplateProcessing") && r->t->begin < 0 && r->t->end < 0)
        return read_template(r, part);
    if (!is_type(part, "Sequence") || !json_is_array(list))
        return weft_part_unsupported(r->path, "post_processor", part);
    json_array_foreach(list, i, one) TRY(weft_reading_post_processor(r, one));
    return WEFT_OK;
}

/* ---- decoder
 *
 * A sequence of Replace, ByteFallback, Fuse and Strip, in this order, each at most once except Replace; or a single
 * decoder of a different type.
 */
enum stage { REPLACE, BYTES, FUSE, STRIP };

static enum weft_status read_replace(struct weft_reading *r, const json_t *part)
{
    struct weft_normal *n = &r->t->decoder.replace;
    struct weft_normal_step *s = &n->step[n->steps];
    if (n->steps == WEFT_NORMAL_STEPS)
        return FAIL(WEFT_UNSUPPORTED, "%s: the decoder has more than %d steps", r->path, WEFT_NORMAL_STEPS);
    s->kind = WEFT_NORMAL_REPLACE;
    TRY(weft_reading_text(r, json_object_get(json_object_get(part, "pattern"), "String"), &s->from));
    TRY(weft_reading_text(r, json_object_get(part, "content"), &s->to));
    n->steps += s->from.size > 0;
    return WEFT_OK;
}

static enum weft_status read_strip(struct weft_reading *r, const json_t *part)
{
    const char *content = json_string_value(json_object_get(part, "content"));
    json_int_t start = json_integer_value(json_object_get(part, "start"));
    json_int_t stop = json_integer_value(json_object_get(part, "stop"));
    if (!content || strlen(content) != 1 || start < 0 || start > 1 || stop != 0)
        return FAIL(WEFT_UNSUPPORTED, "%s: only a Strip of one ASCII character at the start is supported", r->path);
    r->t->decoder.strip = (char)(start ? content[0] : 0);
    return WEFT_OK;
}

static enum weft_status read_step(struct weft_reading *r, const json_t *part, enum stage *stage)
{
    static const char *const names[] = {"Replace", "ByteFallback", "Fuse", "Strip"};
    enum stage now = REPLACE;
    while (now <= STRIP && !is_type(part, names[now]))
        now++;
    if (now > STRIP || now < *stage || (now == STRIP && *stage != FUSE))
        return weft_part_unsupported(r->path, "decoder", part);
    *stage = now + (now == BYTES);
    if (now == REPLACE)
        TRY(read_replace(r, part));
    if (now == BYTES)
        r->t->decoder.bytes = true;
    if (now == STRIP) {
        TRY(read_strip(r, part));
        *stage = STRIP + 1;
    }
    return WEFT_OK;
}

static enum weft_status read_metaspace(struct weft_reading *r, const json_t *part)
{
    const char *scheme = json_string_value(json_object_get(part, "prepend_scheme"));
    struct weft_normal_step *s = &r->t->decoder.replace.step[0];
    *s = (struct weft_normal_step){.kind = WEFT_NORMAL_REPLACE, .to = {.bytes = " ", .size = 1}};
    TRY(weft_reading_text(r, json_object_get(part, "replacement"), &s->from));
    if (!s->from.size)
        return FAIL(WEFT_FORMAT, "%s: the replacement of Metaspace is empty", r->path);
    r->t->decoder.replace.steps = 1;
    bool never = scheme ? strcmp(scheme, "never") == 0 : json_is_false(json_object_get(part, "add_prefix_space"));
    if (!never)
        r->t->decoder.mark = s->from;
    return WEFT_OK;
}

enum weft_status weft_reading_decoder(struct weft_reading *r, const json_t *part)
{
    const json_t *list = json_object_get(part, "decoders");
    enum stage stage = REPLACE;
    size_t i;
    json_t *one;
    while (is_type(part, "Sequence") && json_array_size(list) == 1) {
        part = json_array_get(list, 0);
        list = json_object_get(part, "decoders");
    }
    if (r->t->kind == WEFT_TOKENIZER_BPE && (!part || json_is_null(part) || is_type(part, "ByteLevel")))
        return WEFT_OK;
    if (r->t->kind != WEFT_TOKENIZER_TEXT)
        return weft_part_unsupported(r->path, "decoder", part);
    if (is_type(part, "Metaspace"))
        return read_metaspace(r, part);
    if (!is_type(part, "Sequence") || !json_is_array(list))
        return read_step(r, part, &stage);
    json_array_foreach(list, i, one) TRY(read_step(r, one, &stage));
    return WEFT_OK;
}
