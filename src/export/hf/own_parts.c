/* SPDX-License-Identifier: MIT
 *
 * own_parts.c - see own_parts.h.
 */
#include "export/hf/own_parts.h"
#include "nn/part.h"

#include <string.h>

/* Parts that modeling_weft.py implements. */
static const char *const parts[WEFT_KINDS][6] = {
    [WEFT_GEOM] = {"dot", "w2", "overlap"},
    [WEFT_ATTN] = {"full", "latent"},
    [WEFT_POS] = {"none", "learned", "rope", "alibi", "relative"},
    [WEFT_FFN] = {"gelu", "swiglu", "ws"},
    [WEFT_NORM] = {"layernorm", "rmsnorm"},
    [WEFT_RECIP] = {"m1", "m2", "m3"},
};

static enum weft_status check_part(const struct weft_part *part, const char *format)
{
    for (const char *const *name = parts[part->kind]; *name; name++)
        if (strcmp(*name, part->name) == 0)
            return WEFT_OK;
    return FAIL(WEFT_INVALID,
                "%s cannot be represented in %s: only models that consist of Weft's own parts can be exported",
                part->owner.name, format);
}

/* Records whether m1_mode is sequence. */
static void note_mode(void *context, const struct weft_opt *opt, const char *value)
{
    if (strcmp(opt->name, "m1_mode") == 0)
        *(bool *)context = strcmp(value, "sequence") == 0;
}

enum weft_status weft_own_parts_check(const struct weft_spec *spec, const char *format)
{
    bool reads_later = false;
    for (int kind = 0; kind < WEFT_SINGLE_KINDS; kind++)
        TRY(check_part(spec->part[kind].part, format));
    for (int i = 0; i < spec->mechanism_count; i++)
        TRY(check_part(spec->mechanism[i].part, format));
    weft_spec_each(spec, &reads_later, note_mode);
    if (reads_later && weft_spec_uses(spec, "m1"))
        return FAIL(
            WEFT_INVALID,
            "m1_mode=sequence reads later tokens, so the model cannot be decoded token by token or exported to %s",
            format);
    return WEFT_OK;
}
