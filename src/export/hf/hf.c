/* SPDX-License-Identifier: MIT
 *
 * hf.c - defines the families: GPT-2, and Llama with its variants Qwen2 (biases for queries, keys and values) and Qwen3
 * (norms for queries and keys).
 */
#include "export/hf/hf.h"
#include "nn/part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct weft_hf_name gpt2_names[] = {
    {"wte", "transformer.wte.weight"},
    {"wpe", "transformer.wpe.weight"},
    {"blocks.%d.norm1.gain", "transformer.h.%d.ln_1.weight"},
    {"blocks.%d.norm1.bias", "transformer.h.%d.ln_1.bias"},
    {"blocks.%d.attn.wq", "transformer.h.%d.attn.c_attn.weight", 0, 3, .transposed = true},
    {"blocks.%d.attn.wk", "transformer.h.%d.attn.c_attn.weight", 1, 3, .transposed = true},
    {"blocks.%d.attn.wv", "transformer.h.%d.attn.c_attn.weight", 2, 3, .transposed = true},
    {"blocks.%d.attn.wq_bias", "transformer.h.%d.attn.c_attn.bias", 0, 3},
    {"blocks.%d.attn.wk_bias", "transformer.h.%d.attn.c_attn.bias", 1, 3},
    {"blocks.%d.attn.wv_bias", "transformer.h.%d.attn.c_attn.bias", 2, 3},
    {"blocks.%d.attn.wo", "transformer.h.%d.attn.c_proj.weight", .transposed = true},
    {"blocks.%d.attn.wo_bias", "transformer.h.%d.attn.c_proj.bias"},
    {"blocks.%d.norm2.gain", "transformer.h.%d.ln_2.weight"},
    {"blocks.%d.norm2.bias", "transformer.h.%d.ln_2.bias"},
    {"blocks.%d.ffn.fc", "transformer.h.%d.mlp.c_fc.weight", .transposed = true},
    {"blocks.%d.ffn.fc_bias", "transformer.h.%d.mlp.c_fc.bias"},
    {"blocks.%d.ffn.proj", "transformer.h.%d.mlp.c_proj.weight", .transposed = true},
    {"blocks.%d.ffn.proj_bias", "transformer.h.%d.mlp.c_proj.bias"},
    {"norm.gain", "transformer.ln_f.weight"},
    {"norm.bias", "transformer.ln_f.bias"},
    {"head", "lm_head.weight"},
    {0},
};
static const struct weft_hf_name llama_names[] = {
    {"wte", "model.embed_tokens.weight"},
    {"blocks.%d.norm1.gain", "model.layers.%d.input_layernorm.weight"},
    {"blocks.%d.attn.wq", "model.layers.%d.self_attn.q_proj.weight"},
    {"blocks.%d.attn.wq_bias", "model.layers.%d.self_attn.q_proj.bias"},
    {"blocks.%d.attn.wk", "model.layers.%d.self_attn.k_proj.weight"},
    {"blocks.%d.attn.wk_bias", "model.layers.%d.self_attn.k_proj.bias"},
    {"blocks.%d.attn.wv", "model.layers.%d.self_attn.v_proj.weight"},
    {"blocks.%d.attn.wv_bias", "model.layers.%d.self_attn.v_proj.bias"},
    {"blocks.%d.attn.q_gain", "model.layers.%d.self_attn.q_norm.weight"},
    {"blocks.%d.attn.k_gain", "model.layers.%d.self_attn.k_norm.weight"},
    {"blocks.%d.attn.wo", "model.layers.%d.self_attn.o_proj.weight"},
    {"blocks.%d.attn.wo_bias", "model.layers.%d.self_attn.o_proj.bias"},
    {"blocks.%d.norm2.gain", "model.layers.%d.post_attention_layernorm.weight"},
    {"blocks.%d.ffn.w1", "model.layers.%d.mlp.up_proj.weight"},
    {"blocks.%d.ffn.w1_bias", "model.layers.%d.mlp.up_proj.bias"},
    {"blocks.%d.ffn.w3", "model.layers.%d.mlp.gate_proj.weight"},
    {"blocks.%d.ffn.w3_bias", "model.layers.%d.mlp.gate_proj.bias"},
    {"blocks.%d.ffn.w2", "model.layers.%d.mlp.down_proj.weight"},
    {"blocks.%d.ffn.w2_bias", "model.layers.%d.mlp.down_proj.bias"},
    {"norm.gain", "model.norm.weight"},
    {"head", "lm_head.weight"},
    {0},
};

static const struct weft_hf_size gpt2_sizes[] = {
    {"layers", "n_layer"},
    {"width", "n_embd"},
    {"heads", "n_head"},
    {"ffn_width", "n_inner"},
    {"context", "n_positions"},
    {"vocab", "vocab_size"},
    {"norm_eps", "layer_norm_epsilon"},
    {"tie", "tie_word_embeddings"},
    {0},
};
static const struct weft_hf_size llama_sizes[] = {
    {"layers", "num_hidden_layers"},
    {"width", "hidden_size"},
    {"heads", "num_attention_heads"},
    {"kv_heads", "num_key_value_heads"},
    {"head_width", "head_dim"},
    {"ffn_width", "intermediate_size"},
    {"context", "max_position_embeddings"},
    {"vocab", "vocab_size"},
    {"norm_eps", "rms_norm_eps"},
    {"rope_base", "rope_theta"},
    {"rope_scaling", NULL},
    {"rope_factor", NULL},
    {"rope_low", NULL},
    {"rope_high", NULL},
    {"rope_original", NULL},
    {"tie", "tie_word_embeddings"},
    {0},
};

#define LLAMA "pos=rope", "ffn=swiglu", "norm=rmsnorm"
static const struct weft_hf_family families[] = {
    {"gpt2", "GPT2LMHeadModel", "gpt2", (const char *const[]){"bias=yes", NULL}, gpt2_names, gpt2_sizes},
    {"llama", "LlamaForCausalLM", "llama", (const char *const[]){LLAMA, "bias=no", NULL}, llama_names, llama_sizes},
    {"llama", "LlamaForCausalLM", "llama", (const char *const[]){LLAMA, "bias=yes", NULL}, llama_names, llama_sizes},
    {"qwen2", "Qwen2ForCausalLM", "llama", (const char *const[]){LLAMA, "bias=no", "qkv_bias=yes", NULL}, llama_names,
     llama_sizes},
    {"qwen3", "Qwen3ForCausalLM", "llama", (const char *const[]){LLAMA, "bias=no", "qk_norm=yes", NULL}, llama_names,
     llama_sizes},
};
enum { FAMILIES = sizeof families / sizeof *families };

/* Options that do not change results of a trained model. */
static const char *const harmless[] = {"dtype",     "batch",     "dropout",  "logits_z", "aux",
                                       "recompute", "seed",      "init_key", "detach",   "learn_alpha",
                                       "ra_window", "mup_width", "mup_head", NULL};

/* ---- choosing the family */

struct comparing {
    const struct weft_hf_family *family;
    int differ;
    char first[160]; /* the first difference */
};

static bool is_size(const struct weft_hf_family *f, const char *name)
{
    for (const struct weft_hf_size *s = f->sizes; s->ours; s++)
        if (strcmp(s->ours, name) == 0)
            return true;
    return false;
}

static bool is_among(const char *const *list, const char *name)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list;
}

/* Every option must have the family's value or, if the family sets none, its default, so that options added later are
 * not overlooked here. */
static void compare(void *context, const struct weft_opt *opt, const char *value)
{
    struct comparing *c = context;
    const char *needed = opt->initial;
    size_t n = strlen(opt->name);
    for (const char *const *need = c->family->needs; *need; need++)
        if (strncmp(*need, opt->name, n) == 0 && (*need)[n] == '=')
            needed = *need + n + 1;
    if (is_among(harmless, opt->name) || is_size(c->family, opt->name) || weft_opt_same(opt, value, needed))
        return;
    if (!c->differ++)
        snprintf(c->first, sizeof c->first, "%s=%s, because it requires %s=%s", opt->name, value, opt->name, needed);
}

enum weft_status weft_hf_family_of(const struct weft_spec *spec, const struct weft_hf_family **family)
{
    struct comparing nearest = {.differ = -1};
    for (int i = 0; i < FAMILIES; i++) {
        struct comparing c = {.family = &families[i]};
        weft_spec_each(spec, &c, compare);
        if (nearest.differ < 0 || c.differ < nearest.differ)
            nearest = c;
    }
    *family = nearest.family;
    if (nearest.differ)
        return FAIL(WEFT_INVALID,
                    "no architecture of transformers matches this model: the closest, %s, does not have %s",
                    nearest.family->architecture, nearest.first);
    if (nearest.family->names == gpt2_names && spec->head * spec->heads != spec->width)
        return FAIL(WEFT_INVALID, "%s requires heads of width / heads columns", nearest.family->architecture);
    return WEFT_OK;
}

enum weft_status weft_hf_family_find(const char *type, const char *where, const struct weft_hf_family **family)
{
    *family = &weft_hf_own;
    if (strcmp(type, weft_hf_own.type) == 0)
        return WEFT_OK;
    for (int i = 0; i < FAMILIES; i++)
        if (strcmp(families[i].type, type) == 0) {
            *family = &families[i];
            return WEFT_OK;
        }
    return FAIL(WEFT_INVALID, "%s: model_type \"%s\" cannot be imported: expected gpt2, llama, qwen2, qwen3 or weft",
                where, type);
}

/* ---- names */

/* Replaces %d in the pattern with the layer index. */
static void fill(const char *pattern, int layer, char name[128])
{
    const char *at = strstr(pattern, "%d");
    if (at)
        snprintf(name, 128, "%.*s%d%s", (int)(at - pattern), pattern, layer, at + 2);
    else
        snprintf(name, 128, "%s", pattern);
}

const struct weft_hf_name *weft_hf_name(const struct weft_hf_family *family, const struct weft_param *w,
                                        char theirs[128])
{
    char name[128];
    int layer = (int)weft_max(0, w->layer);
    if (family == &weft_hf_own)
        return weft_hf_own_name(w, theirs);
    for (const struct weft_hf_name *rule = family->names; rule->ours; rule++) {
        fill(rule->ours, layer, name);
        fill(rule->theirs, layer, theirs);
        if (strcmp(name, w->name) == 0)
            return rule;
    }
    return NULL;
}

/* Pieces are contiguous in the outputs: rows of a matrix, or columns if it is transposed. */
struct weft_hf_place weft_hf_place(const struct weft_hf_name *rule, const struct weft_param *w)
{
    int64_t pieces = rule->pieces ? rule->pieces : 1, out = w->dim[0], in = w->count / out;
    struct weft_hf_place p = {.rows = out, .columns = in, .ndim = w->ndim};
    p.row = rule->transposed ? pieces * out : in;
    p.at = rule->transposed ? rule->piece * out : rule->piece * out * in;
    memcpy(p.dim, w->dim, sizeof p.dim);
    p.dim[0] = rule->transposed ? in : pieces * out;
    if (rule->transposed)
        p.dim[1] = pieces * out;
    return p;
}
