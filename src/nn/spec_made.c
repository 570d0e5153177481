/* SPDX-License-Identifier: MIT
 *
 * spec_made.c - derives specs from a spec: converts it back to settings and changes some of them, or shrinks it.
 */
#include "nn/part.h"

#include <string.h>

static void add_owner(struct weft_settings *s, const struct weft_owner *owner, const void *target)
{
    s->owner[s->owner_count++] = (struct weft_taken){owner, target};
}

void weft_spec_each(const struct weft_spec *spec, void *context,
                    void (*visit)(void *context, const struct weft_opt *opt, const char *value))
{
    struct weft_settings s = {0};
    add_owner(&s, weft_nn_owner_at(0), spec);
    for (int kind = 0; kind < WEFT_SINGLE_KINDS; kind++)
        add_owner(&s, &spec->part[kind].part->owner, spec->part[kind].options);
    for (int i = 0; i < spec->mechanism_count; i++)
        add_owner(&s, &spec->mechanism[i].part->owner, spec->mechanism[i].options);
    weft_settings_each(&s, context, visit);
}

struct rewriting {
    struct weft_settings settings;
    enum weft_status status;
};

static void rewrite(void *context, const struct weft_opt *opt, const char *value)
{
    struct rewriting *r = context;
    char text[128];
    snprintf(text, sizeof text, "%s=%s", opt->name, value);
    if (r->status == WEFT_OK)
        r->status = weft_settings_add(&r->settings, text);
}

enum weft_status weft_spec_vary(struct weft_spec *other, const struct weft_spec *spec, const char *settings)
{
    struct rewriting r = {.status = WEFT_OK};
    *other = (struct weft_spec){0};
    weft_spec_each(spec, &r, rewrite);
    if (r.status == WEFT_OK)
        r.status = weft_settings_add_words(&r.settings, settings);
    if (r.status == WEFT_OK)
        r.status = weft_spec_init(other, spec->preset, &r.settings);
    weft_settings_release(&r.settings);
    return r.status;
}

/* ---- a tiny twin */

static enum weft_status shrink_one(struct weft_spec *twin, const struct weft_spec *spec, struct weft_chosen *c)
{
    void *copy = weft_arena_alloc(&twin->arena, c->part->options_bytes + 1);
    if (!copy)
        return FAIL(WEFT_NOMEM, "not enough memory for options");
    memcpy(copy, c->options, c->part->options_bytes);
    if (c->part->shrink)
        c->part->shrink(spec, copy);
    c->options = copy;
    return WEFT_OK;
}

/* Sizes that have no accidental common divisors, need two key tiles, and keep a block between the first and the last if
 * the model has one. */
enum { TINY_HEAD = 8, TINY_HEADS = 4, TINY_FFN = 24, TINY_CONTEXT = 70, TINY_VOCAB = 17, TINY_LAYERS = 3 };

enum weft_status weft_spec_shrink(struct weft_spec *twin, const struct weft_spec *spec)
{
    *twin = *spec;
    twin->arena = (struct weft_arena){0};
    twin->layers = weft_min(spec->layers, TINY_LAYERS);
    twin->heads = weft_min(spec->heads, TINY_HEADS);
    twin->width = twin->heads * TINY_HEAD;
    twin->head_width = spec->head_width ? 2 * TINY_HEAD : 0;
    twin->ffn_width = TINY_FFN;
    twin->context = weft_min(spec->context, TINY_CONTEXT);
    twin->vocab = weft_min(spec->vocab, TINY_VOCAB);
    twin->batch = 2;
    twin->ra_window = weft_min(spec->ra_window, 5);
    for (int kind = 0; kind < WEFT_SINGLE_KINDS; kind++)
        TRY(shrink_one(twin, spec, &twin->part[kind]));
    twin->mechanism = weft_arena_alloc(&twin->arena, (size_t)spec->mechanism_count * sizeof *twin->mechanism + 1);
    if (!twin->mechanism)
        return FAIL(WEFT_NOMEM, "not enough memory for mechanisms");
    memcpy(twin->mechanism, spec->mechanism, (size_t)spec->mechanism_count * sizeof *twin->mechanism);
    for (int i = 0; i < twin->mechanism_count; i++)
        TRY(shrink_one(twin, spec, &twin->mechanism[i]));
    TRY(weft_spec_resolve(twin));
    return WEFT_OK;
}
