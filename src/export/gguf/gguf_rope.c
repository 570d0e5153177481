/* SPDX-License-Identifier: MIT
 *
 * gguf_rope.c - converts rotary positions for extended contexts in GGUF files. Linear scaling is stored in two keys,
 * llama3 scaling in a tensor with the factor by which the rotation of each pair is slowed down.
 *
 * The file does not contain the llama3 parameters themselves. They are taken to be Llama's own low and high factors,
 * the largest factor in the tensor and, if a key gives it, the original context; these values must reproduce all
 * factors.
 */
#include "export/gguf/gguf.h"
#include "nn/part.h"
#include "ops/types.h"

#include <math.h>
#include <string.h>

static const struct weft_rope_turns *turns_of(const struct weft_spec *spec)
{
    return strcmp(weft_spec_pos(spec)->part.name, "rope") == 0 ? spec->part[WEFT_POS].options : NULL;
}

bool weft_gguf_rope_listed(const struct weft_spec *spec)
{
    const struct weft_rope_turns *t = turns_of(spec);
    return t && t->scaling == WEFT_ROPE_LLAMA3;
}

static double factor(const struct weft_rope_turns *t, int64_t i, int64_t head)
{
    double frequency = weft_pow(t->base, -2 * (double)i / (double)head);
    return frequency / weft_rope_slowed(t, frequency);
}

float weft_gguf_rope_factor(const struct weft_spec *spec, int64_t i)
{
    return (float)factor(turns_of(spec), i, spec->rotated);
}

/* ---- export */

enum weft_status weft_gguf_rope_write(struct weft_gguf_out *o, const char *type, const struct weft_spec *spec)
{
    char name[128];
    const struct weft_rope_turns *t = turns_of(spec);
    if (t && t->scaling == WEFT_ROPE_LINEAR) {
        snprintf(name, sizeof name, "%s.rope.scaling.type", type);
        weft_gguf_add_text(o, name, "linear");
        snprintf(name, sizeof name, "%s.rope.scaling.factor", type);
        weft_gguf_add_f32(o, name, (float)t->factor);
    }
    if (t && t->scaling == WEFT_ROPE_LLAMA3) {
        if (strcmp(type, "llama") != 0)
            return FAIL(WEFT_INVALID, "GGUF's %s cannot represent rope_scaling=llama3: export the model for hf", type);
        snprintf(name, sizeof name, "%s.rope.scaling.original_context_length", type);
        weft_gguf_add_u32(o, name, (uint32_t)t->original);
    }
    return WEFT_OK;
}

/* ---- import */

static enum weft_status read_listed(const struct weft_gguf *f, const struct weft_entry *e, int64_t head, double base,
                                    json_t *config)
{
    const struct weft_gguf_key *key = weft_gguf_key_find(f, "llama.rope.scaling.original_context_length");
    struct weft_rope_turns t = {.base = base, .scaling = WEFT_ROPE_LLAMA3, .low = 1, .high = 4, .original = 8192};
    bool good = e->ndim == 1 && e->dim[0] == head / 2 && !e->foreign && e->dtype == WEFT_F32 &&
                (!key || (weft_gguf_whole(key, &t.original) && t.original > 0));
    float largest = 0;
    for (int64_t i = 0; good && i < head / 2; i++)
        largest = weft_hf_value(e, i) > largest ? weft_hf_value(e, i) : largest;
    t.factor = isfinite(largest) ? weft_gguf_shortest(largest) : 0;
    good = good && t.factor > 0;
    for (int64_t i = 0; good && i < head / 2; i++)
        good = fabs(weft_hf_value(e, i) - factor(&t, i, head)) <= 1e-5 * factor(&t, i, head);
    if (!good)
        return FAIL(WEFT_INVALID,
                    "%s: the factors in rope_freqs.weight do not match Llama 3.1 with low_freq_factor 1, "
                    "high_freq_factor 4 and an original context of %lld; no other factors are supported",
                    weft_gguf_path(f), (long long)t.original);
    json_object_set_new(config, "rope_parameters",
                        json_pack("{s:s, s:f, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "rope_theta", base, "factor",
                                  t.factor, "low_freq_factor", t.low, "high_freq_factor", t.high,
                                  "original_max_position_embeddings", (json_int_t)t.original));
    return WEFT_OK;
}

enum weft_status weft_gguf_rope_read(const struct weft_gguf *f, const char *type, int64_t head, double linear,
                                     json_t *config)
{
    const json_t *theta = json_object_get(config, "rope_theta");
    double base = theta ? json_number_value(theta) : 10000;
    int at = strcmp(type, "llama") == 0 ? weft_gguf_find(f, "rope_freqs.weight") : -1;
    if (at >= 0 && linear != 1)
        return FAIL(WEFT_INVALID, "%s has both rope_freqs.weight and rope.scaling.factor", weft_gguf_path(f));
    if (at >= 0)
        return read_listed(f, weft_gguf_at(f, at), head, base, config);
    if (linear != 1)
        json_object_set_new(config, "rope_parameters",
                            json_pack("{s:s, s:f, s:f}", "rope_type", "linear", "rope_theta", base, "factor", linear));
    return WEFT_OK;
}
