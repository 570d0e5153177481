"""Tiny configs of the decoder classes of transformers: widths of 32, two layers if the class can have so few, 96 tokens."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

WINDOW = 24

# The value of each field that has one of these names.
SMALL: dict[str, Any] = {
    "vocab_size": 96, "max_position_embeddings": 263, "n_positions": 263, "n_ctx": 263, "max_seq_len": 263,
    "context_length": 263, "max_target_positions": 263,
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "emb_dim": 32, "embedding_size": 32, "num_hidden_layers": 2,
    "n_layer": 2, "n_layers": 2, "num_layers": 2, "decoder_layers": 2, "encoder_layers": 2, "num_decoder_layers": 2,
    "num_encoder_layers": 2,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_attention_heads": 4, "num_decoder_attention_heads": 4,
    "num_encoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "kv_channels": 8, "dim_head": 8,
    "attention_head_size": 8, "rotary_dim": 4, "query_pre_attn_scalar": 8,
    "intermediate_size": 48, "ffn_dim": 48, "decoder_ffn_dim": 48, "encoder_ffn_dim": 48, "dim_ff": 48, "dff": 48,
    "d_inner": 48, "feed_forward_size": 48, "ffn_hidden_size": 48, "expert_ffn_hidden_size": 16,
    "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "shared_intermediate_size": 16,
    "shared_experts_intermediate_size": 16, "moe_shared_expert_intermediate_size": 16, "intermediate_size_mlp": 48,
    "dense_intermediate_size": 48,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4, "num_experts_per_tok": 2,
    "moe_topk": 2, "moe_k": 2, "n_group": 1, "topk_group": 1, "zero_expert_num": 2, "first_k_dense_replace": 1,
    "num_dense_layers": 1,
    "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8,
    "qk_head_dim": 16, "o_groups": 2, "o_lora_rank": 8, "index_head_dim": 8, "index_n_heads": 16, "index_topk": 16,
    "sliding_window": WINDOW, "attention_chunk_size": WINDOW, "window_size": WINDOW, "attention_window_size": WINDOW,
    "local_attention": WINDOW, "sliding_window_size": WINDOW, "keep_window_size": WINDOW, "block_size": 8,
    "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 16, "chunk_size": 16,
    "mamba_d_ssm": 64, "mamba_num_heads": 8, "mamba_head_dim": 8, "ssm_state_size": 8, "state_size": 8, "n_groups": 2,
    "mamba_dt_rank": 4, "time_step_rank": 4, "n_mamba_heads": 2,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_head_dim": 8, "linear_num_heads": 4, "lru_width": 32, "block_multiple_of": 8,
    "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 96, "laurel_rank": 8, "num_kv_shared_layers": 0,
    "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_head_dim": 8, "d_rel": 4, "rel_extent": 64,
    "unpadded_vocab_size": 96, "gated_norm_rank": 4, "router_hidden_size": 16, "adapter_rank": 8,
    "hc_lowrank": 8, "ngram_vocab_size_base": 500, "split_ngram_parts": 4, "input_embedding_size": 16,
    "output_embedding_size": 16, "pronunciation_embed_dim": 8, "shape_embed_dim": 8, "pronunciation_vocab_size": 20,
    "shape_vocab_size": 20, "prompt_length": 4,
}  # fmt: skip

# Fields of one class: by model type.
_HEADS = {"num_key_value_heads": 4}  # latent attention has as many of them as of queries
_LINEAR, _FULL = "linear_attention", "full_attention"
_HYBRID = {"layer_types": [_LINEAR, _FULL]}
OWN: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        ("axk1", "axk2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa",
         "longcat_flash", "minicpm3", "youtu"), _HEADS),
    "dots3_note_text": _HEADS | {"swa_num_attention_heads": 4, "swa_num_key_value_heads": 4, "swa_q_lora_rank": 16,
        "swa_kv_lora_rank": 16, "swa_qk_nope_head_dim": 8, "swa_qk_rope_head_dim": 8, "swa_v_head_dim": 8,
        "swa_head_dim": 16},
    "dots1": {"n_shared_experts": 1},
    "bailing_hybrid": _HYBRID | _HEADS,
    "kimi_linear": _HYBRID | _HEADS,
    "granitemoehybrid": _HYBRID,
    **dict.fromkeys(("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"), _HYBRID),
    "lfm3": {"layer_types": ["conv", _FULL]},
    "recurrent_gemma": {"num_hidden_layers": 3},
    "bamba": {"attn_layer_indices": [1]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "zamba": {"num_hidden_layers": 6, "attn_layer_period": 2, "attn_layer_offset": 1},
    "zamba2": {"num_hidden_layers": 4, "layers_block_type": [_LINEAR, "hybrid", _LINEAR, "hybrid"]},
    "cohere_compass_text": {"layer_types": ["sliding_attention", _FULL], "rope_parameters": {
        kind: {"rope_type": "default", "rope_theta": 1e4} for kind in ("sliding_attention", _FULL)}},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "lfm2_moe": {"layer_types": ["conv", _FULL]},
    "mamba2": {"num_heads": 8, "head_dim": 8, "expand": 2},
    "qwen4_exp_text": _HYBRID | {"indexer_n_heads": 16, "indexer_kv_heads": 1, "indexer_head_dim": 8, "indexer_budget": 16,
        "indexer_compress_ratio": 4},
    "reformer": {"attn_layers": ["local", "local"], "axial_pos_embds": False, "local_attn_chunk_length": 16,
        "attention_head_size": 8},
    "xlstm": {"hidden_size": 128, "num_heads": 4},
    "xmod": {"languages": ["en"], "default_language": "en"},
    "zaya": {"num_experts_per_tok": 1},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2}},
}  # fmt: skip

# Classes that are not tried, and why.
LEFT_OUT = {
    "blt": "reads bytes through an encoder of patches",
    "dots3_note": "multimodal: the decoder is dots3_note_text",
    "fuyu": "multimodal: the decoder is persimmon",
    "gemma3": "multimodal: the decoder is gemma3_text",
    "gemma3n": "multimodal: the decoder is gemma3n_text",
    "gemma4": "multimodal: the decoder is gemma4_text",
    "gemma4_assistant": "drafts for another model, whose states it reads",
    "gemma4_unified": "multimodal: the decoder is gemma4_unified_text",
    "gemma4_unified_assistant": "drafts for another model, whose states it reads",
    "got_ocr2": "multimodal: the decoder is qwen2",
    "moss_transcribe_diarize": "multimodal: the decoder is qwen3",
    "musicgen": "reads several codebooks of sound",
    "musicgen_melody": "reads several codebooks of sound",
    "phi4_multimodal": "multimodal: adapters for images and sound are part of it",
}


def types() -> dict[str, str]:
    """Return the causal classes of transformers by model type."""
    text = Path(transformers.__file__).with_name("models").joinpath("auto", "modeling_auto.py").read_text()
    begin = text.index("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict(")
    return dict(re.findall(r'\("([\w-]+)", "(\w+)"\)', text[begin : text.index("\n)\n", begin)]))


def _values(kind: Any, own: dict[str, Any]) -> dict[str, Any]:
    """Return the small values of a config class."""
    found = {}
    for field in dataclasses.fields(kind):
        if field.name in SMALL:
            found[field.name] = SMALL[field.name]
        elif field.name.endswith("_token_id") or field.name in ("image_token_index",):
            found[field.name] = {"pad": 0, "bos": 1, "eos": 2}.get(field.name.partition("_")[0], 3)
    if hasattr(kind, "attribute_map"):  # another name of a field may be there, too
        found = {k: v for k, v in found.items() if kind.attribute_map.get(k, k) == k or kind.attribute_map[k] not in found}
    for name, sub in getattr(kind, "sub_configs", {}).items():
        if dataclasses.is_dataclass(sub):
            found[name] = sub(**_values(sub, OWN.get(sub.model_type, {})))
    return found | own


def tiny(model_type: str) -> Any:
    """Return a tiny config."""
    kind = CONFIG_MAPPING[model_type]
    config = kind(**_values(kind, OWN.get(model_type, {})))
    if "text_config" in kind.sub_configs and not types()[model_type].endswith("ConditionalGeneration"):
        config = config.text_config
    config.is_decoder = True
    return config
