/* SPDX-License-Identifier: MIT
 *
 * gguf_family.c - defines the families of hf.c with GGUF's names of weights and sizes.
 *
 * In GPT-2, the weights of the queries, keys and values are concatenated. All weights are [out, in].
 */
#include "export/gguf/gguf.h"

#include <string.h>

#define COMMON                                                                                                         \
    {"wte", "token_embd.weight"}, {"blocks.%d.norm1.gain", "blk.%d.attn_norm.weight"},                                 \
        {"blocks.%d.attn.wo", "blk.%d.attn_output.weight"}, {"blocks.%d.attn.wo_bias", "blk.%d.attn_output.bias"},     \
        {"blocks.%d.norm2.gain", "blk.%d.ffn_norm.weight"}, {"norm.gain", "output_norm.weight"},                       \
    {                                                                                                                  \
        "head", "output.weight"                                                                                        \
    }

static const struct weft_hf_name gpt2_names[] = {
    COMMON,
    {"wpe", "position_embd.weight"},
    {"blocks.%d.norm1.bias", "blk.%d.attn_norm.bias"},
    {"blocks.%d.attn.wq", "blk.%d.attn_qkv.weight", 0, 3},
    {"blocks.%d.attn.wk", "blk.%d.attn_qkv.weight", 1, 3},
    {"blocks.%d.attn.wv", "blk.%d.attn_qkv.weight", 2, 3},
    {"blocks.%d.attn.wq_bias", "blk.%d.attn_qkv.bias", 0, 3},
    {"blocks.%d.attn.wk_bias", "blk.%d.attn_qkv.bias", 1, 3},
    {"blocks.%d.attn.wv_bias", "blk.%d.attn_qkv.bias", 2, 3},
    {"blocks.%d.norm2.bias", "blk.%d.ffn_norm.bias"},
    {"blocks.%d.ffn.fc", "blk.%d.ffn_up.weight"},
    {"blocks.%d.ffn.fc_bias", "blk.%d.ffn_up.bias"},
    {"blocks.%d.ffn.proj", "blk.%d.ffn_down.weight"},
    {"blocks.%d.ffn.proj_bias", "blk.%d.ffn_down.bias"},
    {"norm.bias", "output_norm.bias"},
    {0},
};
static const struct weft_hf_name llama_names[] = {
    COMMON,
    {"blocks.%d.attn.wq", "blk.%d.attn_q.weight"},
    {"blocks.%d.attn.wk", "blk.%d.attn_k.weight"},
    {"blocks.%d.attn.wv", "blk.%d.attn_v.weight"},
    {"blocks.%d.attn.wq_bias", "blk.%d.attn_q.bias"},
    {"blocks.%d.attn.wk_bias", "blk.%d.attn_k.bias"},
    {"blocks.%d.attn.wv_bias", "blk.%d.attn_v.bias"},
    {"blocks.%d.attn.q_gain", "blk.%d.attn_q_norm.weight"},
    {"blocks.%d.attn.k_gain", "blk.%d.attn_k_norm.weight"},
    {"blocks.%d.ffn.w1", "blk.%d.ffn_up.weight"},
    {"blocks.%d.ffn.w1_bias", "blk.%d.ffn_up.bias"},
    {"blocks.%d.ffn.w3", "blk.%d.ffn_gate.weight"},
    {"blocks.%d.ffn.w3_bias", "blk.%d.ffn_gate.bias"},
    {"blocks.%d.ffn.w2", "blk.%d.ffn_down.weight"},
    {"blocks.%d.ffn.w2_bias", "blk.%d.ffn_down.bias"},
    {0},
};

#define SIZES                                                                                                          \
    {"layers", "block_count"}, {"width", "embedding_length"}, {"heads", "attention.head_count"},                       \
        {"ffn_width", "feed_forward_length"}, {"context", "context_length"},                                           \
    {                                                                                                                  \
        "vocab", "vocab_size"                                                                                          \
    }

static const struct weft_hf_size gpt2_sizes[] = {SIZES, {"norm_eps", "attention.layer_norm_epsilon"}, {0}};
static const struct weft_hf_size llama_sizes[] = {
    SIZES,
    {"kv_heads", "attention.head_count_kv"},
    {"head_width", "attention.key_length"},
    {"norm_eps", "attention.layer_norm_rms_epsilon"},
    {"rope_base", "rope.freq_base"},
    {0},
};

static const struct weft_gguf_family families[] = {
    {{.type = "gpt2", .architecture = "gpt2", .names = gpt2_names, .sizes = gpt2_sizes}, false},
    {{.type = "llama", .architecture = "llama", .names = llama_names, .sizes = llama_sizes}, true},
    {{.type = "qwen2", .architecture = "qwen2", .names = llama_names, .sizes = llama_sizes}, false},
    {{.type = "qwen3", .architecture = "qwen3", .names = llama_names, .sizes = llama_sizes}, false},
};

const struct weft_gguf_family *weft_gguf_family(const char *architecture)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].names.type, architecture) == 0)
            return &families[i];
    return NULL;
}

const struct weft_gguf_family *weft_gguf_family_of(const struct weft_spec *spec, const struct weft_hf_family *family)
{
    bool wide = strcmp(family->type, "qwen2") == 0 && spec->head * spec->heads != spec->width;
    return weft_gguf_family(wide ? "llama" : family->type);
}

int64_t weft_gguf_row(const struct weft_gguf_family *family, const struct weft_spec *spec, const char *ours, int64_t i)
{
    static const char *const rotated[] = {".attn.wq", ".attn.wk", ".attn.wq_bias", ".attn.wk_bias"};
    int64_t at = i % spec->head;
    for (size_t k = 0; family->paired && k < sizeof rotated / sizeof *rotated; k++)
        if (weft_ends_in(ours, rotated[k]))
            return i - at + at % 2 * (spec->head / 2) + at / 2;
    return i;
}
