/* SPDX-License-Identifier: MIT
 *
 * presets.c - defines the presets: named settings of a model.
 */
#include "nn/spec.h"

#include <string.h>

#define GPT2_124M "layers=12", "width=768", "heads=12", "ffn_width=3072", "context=1024", "vocab=50304", "batch=2"
#define LLAMA "norm=rmsnorm", "pos=rope", "bias=no", "tie=no"

/* The defaults of the options define the small gpt2. */
const struct weft_preset weft_presets[] = {
    {"gpt2", "layernorm, biases, learned positions, gelu, tied; 2 x 128", NULL},
    {"gpt2-124m", "gpt2, 12 x 768", (const char *const[]){GPT2_124M, NULL}},
    {"gpt2-mini", "gpt2, 6 x 384",
     (const char *const[]){"layers=6", "width=384", "heads=6", "ffn_width=1536", "context=256", "vocab=4096",
                           "batch=16", NULL}},
    {"llama", "rmsnorm, rope, swiglu, no biases, untied; 2 x 128", (const char *const[]){LLAMA, "ffn=swiglu", NULL}},
    {"w2", "llama with Wasserstein-2 attention; 2 x 128", (const char *const[]){LLAMA, "ffn=swiglu", "geom=w2", NULL}},
    {"ra-mla", "gpt2-124m with latent keys and values, M1, M2 and M3",
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

const struct weft_preset *weft_preset_find(const char *name, const char **near)
{
    const char *names[PRESETS];
    for (int i = 0; i < PRESETS; i++) {
        if (strcmp(name, weft_presets[i].name) == 0)
            return &weft_presets[i];
        names[i] = weft_presets[i].name;
    }
    *near = weft_suggest(name, names, PRESETS);
    return NULL;
}
