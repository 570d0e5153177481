/* SPDX-License-Identifier: MIT
 *
 * spec.c - from a preset's name and settings to a config in which nothing is left open.
 */
#include "nn/nn.h"

#include <stddef.h>
#include <string.h>

/* ---- what there is: choices and descriptors from variants.def, in the same order */

#define ROW(name) #name,
static const char *const geom_names[] = {
#define GEOM ROW
#include "nn/variants.def"
    NULL};
static const char *const attn_names[] = {
#define ATTN ROW
#include "nn/variants.def"
    NULL};
static const char *const pos_names[] = {
#define POS ROW
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

/* All of them, part after part, then the mechanisms; and what stands in their place. */
static const struct weft_variant *const variants[] = {
#define GEOM(name) &weft_geom_##name,
#include "nn/variants.def"
#define ATTN(name) &weft_attn_##name,
#include "nn/variants.def"
#define POS(name) &weft_pos_##name,
#include "nn/variants.def"
#define FFN(name) &weft_ffn_##name,
#include "nn/variants.def"
#define NORM(name) &weft_norm_##name,
#include "nn/variants.def"
#define RECIP(name, symbol, help) &weft_recip_##name,
#include "nn/variants.def"
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };
static const struct weft_variant *replacements[VARIANTS];

void weft_variant_replace(const struct weft_variant *variant, const struct weft_variant *by)
{
    for (int i = 0; i < VARIANTS; i++)
        if (variants[i] == variant)
            replacements[i] = by;
}

static const struct weft_variant *variant_at(int i) { return replacements[i] ? replacements[i] : variants[i]; }

static const char *const *const part_names[WEFT_PART_COUNT] = {geom_names, attn_names, pos_names, ffn_names,
                                                               norm_names};
static const char *const dtype_names[] = {"bf16", "f32", NULL};
static const char *const place_names[] = {"pre", "post", NULL};

/* ---- options of the model */

#define AT(field) offsetof(struct weft_spec, field)
static const struct weft_opt options[] = {
    {"geom", WEFT_OPT_CHOICE, AT(choice.part[WEFT_GEOM]), "dot", .choices = geom_names,
     .help = "geometry: what makes a query and a key close"},
    {"attn", WEFT_OPT_CHOICE, AT(choice.part[WEFT_ATTN]), "full", .choices = attn_names,
     .help = "attention: how keys and values are kept"},
    {"pos", WEFT_OPT_CHOICE, AT(choice.part[WEFT_POS]), "learned", .choices = pos_names, .off = "none",
     .help = "positions"},
    {"ffn", WEFT_OPT_CHOICE, AT(choice.part[WEFT_FFN]), "gelu", .choices = ffn_names, .help = "feed-forward"},
    {"norm", WEFT_OPT_CHOICE, AT(choice.part[WEFT_NORM]), "layernorm", .choices = norm_names, .help = "normalisation"},
    {"norm_place", WEFT_OPT_CHOICE, AT(choice.norm_place), "pre", .choices = place_names,
     .help = "norms before the parts, or behind the sums (and none at the end)"},
#define RECIP(name, kconfig, text)                                                                                     \
    {#name, WEFT_OPT_BOOL, AT(choice.recip[WEFT_RECIP_##name]), "no", .symbol = kconfig, .off = "no", .help = text},
#include "nn/variants.def"
    {"learn_alpha", WEFT_OPT_BOOL, AT(learn_alpha), "no", .help = "mixing weights of M1, M2, M3 are learned"},
    {"detach", WEFT_OPT_BOOL, AT(detach), "no", .help = "no gradient flows into what M1, M2, M3 read"},
    {"output_gate", WEFT_OPT_BOOL, AT(output_gate), "no", .off = "no",
     .help = "attention's output times sigmoid(x Wg), per head and channel"},
    {"ra_alpha", WEFT_OPT_REAL, AT(ra_alpha), "0", -1e3, 1e3, .symbol = "RA_MLA_RA_ALPHA", .off = "0",
     .help = "reciprocal attention: factor of the score from j to i in the score from i to j; 0: none"},
    {"ra_window", WEFT_OPT_INT, AT(ra_window), "64", 1, 1 << 20, .symbol = "RA_MLA_RA_WINDOW", .needs = "ra_alpha!=0",
     .help = "how far back reciprocal attention reaches"},
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
    {"logits_z", WEFT_OPT_REAL, AT(logits_z), "0", 0, 1e6, .off = "0",
     .help = "factor of the squared log-sum-exp of the logits in the loss"},
    {"aux", WEFT_OPT_BOOL, AT(aux), "yes", .help = "auxiliary losses of parts are trained"},
    {"recompute", WEFT_OPT_BOOL, AT(recompute), "no",
     .help = "make each layer's values again in the backward pass: less memory, one more forward pass, same bits"},
    {"seed", WEFT_OPT_INT, AT(seed), "1", 0, 9.2e18, .help = "of weights, data and dropout"},
    {"init_key", WEFT_OPT_INT, AT(init_key), "0", 0, 9.2e18,
     .help = "another draw of the first weights alone: what differs between two of them is noise"},
};
static const struct weft_owner owner = WEFT_OWNER("model", options);

/* ---- presets: settings under a name */

#define GPT2_124M "layers=12", "width=768", "heads=12", "ffn_width=3072", "context=1024", "vocab=50304", "batch=2"
#define LLAMA "norm=rmsnorm", "pos=rope", "bias=no", "tie=no"

/* The options' own defaults are the small gpt2. */
const struct weft_preset weft_presets[] = {
    {"gpt2", "layernorm, biases, learned positions, gelu, tied; 2 x 128", NULL},
    {"gpt2-124m", "gpt2, 12 x 768", (const char *const[]){GPT2_124M, NULL}},
    {"gpt2-mini", "gpt2, 6 x 384",
     (const char *const[]){"layers=6", "width=384", "heads=6", "ffn_width=1536", "context=256", "vocab=4096",
                           "batch=16", NULL}},
    {"llama", "rmsnorm, rope, swiglu, no biases, untied; 2 x 128", (const char *const[]){LLAMA, "ffn=swiglu", NULL}},
    {"w2", "llama with Wasserstein-2 attention; 2 x 128", (const char *const[]){LLAMA, "ffn=swiglu", "geom=w2", NULL}},
    {"ra-mla", "gpt2-124m with latent key-values and M1, M2, M3",
     (const char *const[]){GPT2_124M, "attn=latent", "latent_width=128", "m1=yes", "m2=yes", "m3=yes", NULL}},
    {"ws", "llama with WsFFN (8 heads, F = 4C); 4 x 256",
     (const char *const[]){LLAMA, "ffn=ws", "layers=4", "width=256", "ffn_width=1024", "logits_z=1e-4", NULL}},
    {0},
};
enum { PRESETS = sizeof weft_presets / sizeof weft_presets[0] - 1 };

const char *weft_preset_at(int i, const char **summary)
{
    if (i >= PRESETS)
        return NULL;
    *summary = weft_presets[i].summary;
    return weft_presets[i].name;
}

const struct weft_owner *weft_nn_owner_at(int i)
{
    return i == 0 ? &owner : i <= VARIANTS ? &variants[i - 1]->owner : NULL;
}

/* ---- resolving */

/* A variant takes its options into new memory, if it was chosen; if not it is made known, so that its options are
 * refused with the reason. */
static enum weft_status take(struct weft_spec *s, struct weft_settings *settings, int v, bool chosen,
                             const struct weft_variant **variant, void **target)
{
    if (chosen) {
        *variant = variant_at(v);
        *target = weft_arena_alloc(&s->arena, (*variant)->options_bytes + 1);
        if (!*target)
            return FAIL(WEFT_NOMEM, "no memory for options");
    }
    TRY(weft_settings_take(settings, &variants[v]->owner, chosen ? *target : NULL));
    return WEFT_OK;
}

static enum weft_status take_all(struct weft_spec *s, struct weft_settings *settings)
{
    int v = 0;
    for (int part = 0; part < WEFT_PART_COUNT; part++)
        for (int i = 0; part_names[part][i]; i++, v++)
            TRY(take(s, settings, v, i == s->choice.part[part], &s->part[part], &s->options[part]));
    for (int i = 0; i < WEFT_RECIP_COUNT; i++, v++)
        TRY(take(s, settings, v, s->choice.recip[i], &s->recip[i], &s->recip_options[i]));
    return WEFT_OK;
}

static enum weft_status resolve_one(struct weft_spec *s, const struct weft_variant *variant, void *opts)
{
    if (variant && variant->resolve)
        TRY(variant->resolve(s, opts));
    return WEFT_OK;
}

static enum weft_status resolve(struct weft_spec *s)
{
    if (s->width % s->heads)
        return FAIL(WEFT_INVALID,
                    "width=%lld does not divide into heads=%lld heads of equal width: make width a multiple of heads",
                    (long long)s->width, (long long)s->heads);
    s->head = s->width / s->heads;
    s->mean = s->spread = s->vector = s->latent = s->turned = 0;
    if (s->ffn_width == 0)
        s->ffn_width = s->part[WEFT_FFN]->gated ? weft_round_up(weft_div_up(8 * s->width, 3), 64) : 4 * s->width;
    for (int part = 0; part < WEFT_PART_COUNT; part++)
        TRY(resolve_one(s, s->part[part], s->options[part]));
    for (int i = 0; i < WEFT_RECIP_COUNT; i++)
        TRY(resolve_one(s, s->recip[i], s->recip_options[i]));
    return WEFT_OK;
}

enum weft_status weft_spec_init(struct weft_spec *s, const char *model, struct weft_settings *settings)
{
    *s = (struct weft_spec){0};
    TRY(weft_model_find(model, settings, &s->preset));
    for (int i = 0; i < PRESETS; i++)
        if (strcmp(weft_presets[i].name, s->preset) == 0)
            settings->preset = weft_presets[i].settings;
    TRY(weft_settings_take(settings, &owner, s));
    s->compute = s->choice.dtype == 0 ? WEFT_BF16 : WEFT_F32;
    s->post = s->choice.norm_place == 1;
    TRY(take_all(s, settings));
    TRY(resolve(s));
    return WEFT_OK;
}

/* ---- a tiny twin */

static enum weft_status shrink_one(struct weft_spec *twin, const struct weft_spec *spec,
                                   const struct weft_variant *variant, void **opts)
{
    if (!variant)
        return WEFT_OK;
    void *copy = weft_arena_alloc(&twin->arena, variant->options_bytes + 1);
    if (!copy)
        return FAIL(WEFT_NOMEM, "no memory for options");
    memcpy(copy, *opts, variant->options_bytes);
    if (variant->shrink)
        variant->shrink(spec, copy);
    *opts = copy;
    return WEFT_OK;
}

/* Sizes at which nothing divides by accident, two key tiles are needed, and a block stands between first and last where
 * one did. */
enum { TINY_HEAD = 8, TINY_HEADS = 4, TINY_FFN = 24, TINY_CONTEXT = 70, TINY_VOCAB = 17, TINY_LAYERS = 3 };

enum weft_status weft_spec_shrink(struct weft_spec *twin, const struct weft_spec *spec)
{
    *twin = *spec;
    twin->arena = (struct weft_arena){0};
    twin->layers = weft_min(spec->layers, TINY_LAYERS);
    twin->heads = weft_min(spec->heads, TINY_HEADS);
    twin->width = twin->heads * TINY_HEAD;
    twin->ffn_width = TINY_FFN;
    twin->context = weft_min(spec->context, TINY_CONTEXT);
    twin->vocab = weft_min(spec->vocab, TINY_VOCAB);
    twin->batch = 2;
    twin->ra_window = weft_min(spec->ra_window, 5);
    for (int part = 0; part < WEFT_PART_COUNT; part++)
        TRY(shrink_one(twin, spec, twin->part[part], &twin->options[part]));
    for (int i = 0; i < WEFT_RECIP_COUNT; i++)
        TRY(shrink_one(twin, spec, twin->recip[i], &twin->recip_options[i]));
    TRY(resolve(twin));
    return WEFT_OK;
}

void weft_spec_release(struct weft_spec *s)
{
    weft_arena_release(&s->arena);
    *s = (struct weft_spec){0};
}
