/* SPDX-License-Identifier: MIT
 *
 * spec.c - from a preset's name and settings to a config in which nothing is left open.
 */
#include "nn/nn.h"

#include <stddef.h>
#include <string.h>

/* ---- what there is: choices and descriptors from variants.def, in the same order */

#define ROW(name) #name,
static const char *const attn_names[] = {
#define ATTN ROW
#include "nn/variants.def"
    NULL};
static const char *const ffn_names[] = {
#define FFN ROW
#include "nn/variants.def"
    NULL};
static const char *const norm_names[] = {
#define NORM ROW
#include "nn/variants.def"
    NULL};
static const char *const pos_names[] = {
#define POS ROW
#include "nn/variants.def"
    NULL};

/* All of them, kind after kind. */
static const struct weft_variant *const variants[] = {
#define ATTN(name) &weft_attn_##name,
#include "nn/variants.def"
#define FFN(name) &weft_ffn_##name,
#include "nn/variants.def"
#define NORM(name) &weft_norm_##name,
#include "nn/variants.def"
#define POS(name) &weft_pos_##name,
#include "nn/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

static const char *const *const part_names[WEFT_PART_COUNT] = {attn_names, ffn_names, norm_names, pos_names};
static const char *const dtype_names[] = {"bf16", "f32", NULL};
static const char *const place_names[] = {"pre", "post", NULL};

/* ---- options of the model */

#define AT(field) offsetof(struct weft_spec, field)
static const struct weft_opt options[] = {
    {"attn", WEFT_OPT_CHOICE, AT(choice.part[WEFT_ATTN]), "full", .choices = attn_names, .help = "attention"},
    {"ffn", WEFT_OPT_CHOICE, AT(choice.part[WEFT_FFN]), "gelu", .choices = ffn_names, .help = "feed-forward"},
    {"norm", WEFT_OPT_CHOICE, AT(choice.part[WEFT_NORM]), "layernorm", .choices = norm_names, .help = "normalisation"},
    {"pos", WEFT_OPT_CHOICE, AT(choice.part[WEFT_POS]), "learned", .choices = pos_names, .help = "positions"},
    {"norm_place", WEFT_OPT_CHOICE, AT(choice.norm_place), "pre", .choices = place_names,
     .help = "norms before the parts, or behind the sums (and none at the end)"},
    {"dtype", WEFT_OPT_CHOICE, AT(choice.dtype), "bf16", .choices = dtype_names,
     .help = "of products and saved activations; sums and weights are f32"},
    {"layers", WEFT_OPT_INT, AT(layers), "2", 1, 1024, .help = "N, blocks"},
    {"width", WEFT_OPT_INT, AT(width), "128", 1, 1 << 20, .help = "C, of the residual stream"},
    {"heads", WEFT_OPT_INT, AT(heads), "4", 1, 4096, .help = "H, query heads; each is C/H wide"},
    {"ffn_width", WEFT_OPT_INT, AT(ffn_width), "0", 0, 1 << 22,
     .help = "F, of the feed-forward; 0: 4C, or 8C/3 rounded up to a multiple of 64 when it is gated"},
    {"context", WEFT_OPT_INT, AT(context), "128", 1, 1 << 24, .help = "T, tokens of the longest sequence"},
    {"vocab", WEFT_OPT_INT, AT(vocab), "64", 2, 1 << 24, .help = "V, tokens in the vocabulary"},
    {"batch", WEFT_OPT_INT, AT(batch), "32", 1, 1 << 20, .help = "B, sequences in a micro-batch"},
    {"dropout", WEFT_OPT_REAL, AT(dropout), "0", 0, 0.99,
     .help = "probability, at the embedding, the attention's scores and output, and the feed-forward's output"},
    {"bias", WEFT_OPT_BOOL, AT(bias), "yes", .help = "linear layers have biases"},
    {"tie", WEFT_OPT_BOOL, AT(tie), "yes", .help = "logits read the embedding's matrix"},
    {"recompute", WEFT_OPT_BOOL, AT(recompute), "no", 0, 0,
     .help = "make each layer's values again in the backward pass: less memory, one more forward pass, same bits"},
    {"seed", WEFT_OPT_INT, AT(seed), "1", 0, 9.2e18, .help = "of weights, data and dropout"},
};
static const struct weft_owner owner = WEFT_OWNER("model", options);

/* ---- presets: settings under a name */

static const struct preset {
    const char *name, *summary;
    const char *const *settings; /* the options' own defaults are the small gpt2 */
} presets[] = {
    {"gpt2", "layernorm, biases, learned positions, gelu, tied; 2 x 128", NULL},
    {"gpt2-124m", "gpt2, 12 x 768",
     (const char *const[]){"layers=12", "width=768", "heads=12", "ffn_width=3072", "context=1024", "vocab=50304",
                           "batch=2", NULL}},
    {"gpt2-mini", "gpt2, 6 x 384",
     (const char *const[]){"layers=6", "width=384", "heads=6", "ffn_width=1536", "context=256", "vocab=4096",
                           "batch=16", NULL}},
    {"llama", "rmsnorm, rope, swiglu, no biases, untied; 2 x 128",
     (const char *const[]){"norm=rmsnorm", "pos=rope", "ffn=swiglu", "bias=no", "tie=no", NULL}},
};
enum { PRESETS = sizeof presets / sizeof presets[0] };

const char *weft_preset_at(int i, const char **summary)
{
    if (i >= PRESETS)
        return NULL;
    *summary = presets[i].summary;
    return presets[i].name;
}

const struct weft_owner *weft_nn_owner_at(int i)
{
    return i == 0 ? &owner : i <= VARIANTS ? &variants[i - 1]->owner : NULL;
}

/* ---- resolving */

static enum weft_status find_preset(const char *name, const struct preset **found)
{
    const char *names[PRESETS];
    for (int i = 0; i < PRESETS; i++) {
        names[i] = presets[i].name;
        if (strcmp(name, names[i]) == 0) {
            *found = &presets[i];
            return WEFT_OK;
        }
    }
    const char *near = weft_suggest(name, names, PRESETS);
    return FAIL(WEFT_INVALID, "there is no model \"%s\"%s%s%s `weft help models` lists all", name,
                near ? ": did you mean " : "", near ? near : "", near ? "?" : ".");
}

static enum weft_status check_sizes(const struct weft_spec *s)
{
    if (s->width % s->heads)
        return FAIL(WEFT_INVALID,
                    "width=%lld does not divide into heads=%lld heads of equal width: make width a multiple of heads",
                    (long long)s->width, (long long)s->heads);
    return WEFT_OK;
}

/* Every part takes its options; what was not chosen is made known, so that its options are refused with the reason. */
static enum weft_status take_parts(struct weft_spec *s, struct weft_settings *settings)
{
    int v = 0;
    for (int part = 0; part < WEFT_PART_COUNT; part++)
        for (int i = 0; part_names[part][i]; i++, v++) {
            void *target = NULL;
            if (i == s->choice.part[part]) {
                target = weft_arena_alloc(&s->arena, variants[v]->options_bytes + 1);
                if (!target)
                    return FAIL(WEFT_NOMEM, "no memory for options");
                s->part[part] = variants[v];
                s->options[part] = target;
            }
            TRY(weft_settings_take(settings, &variants[v]->owner, target));
        }
    return WEFT_OK;
}

enum weft_status weft_spec_init(struct weft_spec *s, const char *name, struct weft_settings *settings)
{
    *s = (struct weft_spec){0};
    const struct preset *preset = NULL;
    TRY(find_preset(name, &preset));
    s->preset = preset->name;
    settings->preset = preset->settings;
    TRY(weft_settings_take(settings, &owner, s));
    s->compute = s->choice.dtype == 0 ? WEFT_BF16 : WEFT_F32;
    s->post = s->choice.norm_place == 1;
    TRY(check_sizes(s));
    TRY(take_parts(s, settings));
    if (s->ffn_width == 0)
        s->ffn_width = s->part[WEFT_FFN]->gated ? weft_round_up(weft_div_up(8 * s->width, 3), 64) : 4 * s->width;
    for (int part = 0; part < WEFT_PART_COUNT; part++)
        if (s->part[part]->resolve)
            TRY(s->part[part]->resolve(s, s->options[part]));
    return WEFT_OK;
}

void weft_spec_release(struct weft_spec *s)
{
    weft_arena_release(&s->arena);
    *s = (struct weft_spec){0};
}
