/* SPDX-License-Identifier: MIT
 *
 * hf_rope.c - converts rotary positions in Hugging Face's config.json.
 *
 * transformers 5 has everything in rope_parameters; earlier versions had the base in rope_theta and the rest in
 * rope_scaling, whose kind was once called type. The new form is written, with rope_theta in addition; both are read.
 */
#include "export/hf/hf.h"
#include "nn/part.h"
#include "ops/types.h"

#include <stdio.h>
#include <string.h>

/* transformers' names of Weft's options, for each kind that Weft supports. */
static const struct kind {
    const char *name; /* rope_scaling is "none" for the first */
    struct {
        const char *ours, *theirs;
    } key[4];
} kinds[] = {
    [WEFT_ROPE_PLAIN] = {"default", {{0}}},
    [WEFT_ROPE_LINEAR] = {"linear", {{"rope_factor", "factor"}}},
    [WEFT_ROPE_LLAMA3] = {"llama3",
                          {{"rope_factor", "factor"},
                           {"rope_low", "low_freq_factor"},
                           {"rope_high", "high_freq_factor"},
                           {"rope_original", "original_max_position_embeddings"}}},
};
enum { KINDS = sizeof kinds / sizeof *kinds, KEYS = 4 };

json_t *weft_hf_rope_make(const struct weft_spec *spec)
{
    const struct weft_rope_turns *t = spec->part[WEFT_POS].options;
    const struct kind *kind = &kinds[t->scaling];
    const double value[] = {t->factor, t->low, t->high};
    json_t *rope = json_pack("{s:s, s:f}", "rope_type", kind->name, "rope_theta", t->base);
    for (int i = 0; i < KEYS && kind->key[i].ours; i++)
        json_object_set_new(rope, kind->key[i].theirs, i < 3 ? json_real(value[i]) : json_integer(t->original));
    return rope;
}

static enum weft_status add(struct weft_settings *s, const char *name, const json_t *value, const char *where)
{
    if (!json_is_number(value))
        return FAIL(WEFT_FORMAT, "%s: rotary positions require a number as the value of %s", where, name);
    return weft_hf_setting(s, name, value, where);
}

static bool is_known(const struct kind *kind, const char *key)
{
    bool known = strcmp(key, "rope_type") == 0 || strcmp(key, "type") == 0 || strcmp(key, "rope_theta") == 0;
    for (int i = 0; !known && i < KEYS && kind->key[i].ours; i++)
        known = strcmp(key, kind->key[i].theirs) == 0;
    return known;
}

/* Reads rope_parameters or rope_scaling. */
static enum weft_status read_object(const json_t *rope, const char *where, struct weft_settings *s)
{
    const json_t *type = json_object_get(rope, "rope_type"), *once = json_object_get(rope, "type");
    const char *name = type || once ? json_string_value(type ? type : once) : "default", *key;
    json_t *value;
    const struct kind *kind = kinds;
    if (type && once && !json_equal(type, once))
        return FAIL(WEFT_INVALID, "%s: rotary positions have two types, rope_type and type", where);
    while (name && kind < kinds + KINDS && strcmp(kind->name, name) != 0)
        kind++;
    if (!name || kind == kinds + KINDS)
        return FAIL(WEFT_INVALID,
                    "%s: the type of rotary positions (rope_type) is \"%.40s\": expected default, linear or llama3",
                    where, name ? name : "?");
    json_object_foreach((json_t *)rope, key, value)
    {
        if (!is_known(kind, key) && !json_is_null(value))
            return FAIL(WEFT_INVALID,
                        "%s: unknown key \"%.60s\" of rotary positions, which may change what the model computes",
                        where, key);
    }
    char scaling[64];
    snprintf(scaling, sizeof scaling, "rope_scaling=%s", kind == kinds ? "none" : kind->name);
    TRY(weft_settings_add(s, scaling));
    for (int i = 0; i < KEYS && kind->key[i].ours; i++)
        TRY(add(s, kind->key[i].ours, json_object_get(rope, kind->key[i].theirs), where));
    return WEFT_OK;
}

enum weft_status weft_hf_rope_read(const json_t *config, const char *where, struct weft_settings *s)
{
    const json_t *now = json_object_get(config, "rope_parameters"), *once = json_object_get(config, "rope_scaling");
    const json_t *theta = json_object_get(now, "rope_theta");
    const json_t *rope = json_is_object(now) ? now : once;
    theta = theta ? theta : json_object_get(config, "rope_theta");
    if ((now && !json_is_null(now) && !json_is_object(now)) || (once && !json_is_null(once) && !json_is_object(once)))
        return FAIL(WEFT_FORMAT, "%s: rope_parameters or rope_scaling is not an object", where);
    if (theta)
        TRY(add(s, "rope_base", theta, where));
    if (json_is_object(now) && json_is_object(once) && !json_equal(now, once))
        return FAIL(WEFT_INVALID, "%s has both rope_parameters and rope_scaling, and they differ", where);
    return json_is_object(rope) ? read_object(rope, where, s) : WEFT_OK;
}
