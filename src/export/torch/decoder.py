"""A model written by weft export, for transformers. Its config contains the options of Weft."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from transformers import DynamicCache, DynamicLayer, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from .configuration_weft import WeftConfig


def remember(cache, slot, new):
    """Appends the rows of new tokens [batch, length, width] to a slot of the cache; returns the rows of all tokens."""
    if cache is None:
        return new
    while len(cache.layers) <= slot:  # a caller's cache may have an entry per layer
        cache.layers.append(DynamicLayer())
    return cache.update(new[:, None], new[:, None, :, :0], slot)[0][:, 0]


class State(DynamicLayer):
    """A row per sequence, which every call replaces, so that tokens cannot be removed from it."""

    is_croppable = False

    def crop(self, tokens_to_remove):
        raise ValueError("the cache of this model cannot be cropped")


def recall(cache, slot, x, width):
    """The row of each sequence [batch, width] in a slot of the cache; 0 before the first call."""
    if cache is None or slot >= len(cache.layers) or not isinstance(cache.layers[slot], State):
        return x.new_zeros(len(x), width)
    return cache.layers[slot].keys[:, 0, 0]


def replace(cache, slot, new):
    """Replaces the row of each sequence in a slot of the cache."""
    if cache is None:
        return
    while len(cache.layers) <= slot:
        cache.layers.append(DynamicLayer())
    cache.layers[slot] = State()
    cache.layers[slot].lazy_initialization(new, new)
    cache.layers[slot].keys = cache.layers[slot].values = new[:, None, None]


def rotate(x, cos, sin):
    """Rotates column i with column i + half of each head."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


def attend(q, k, v, visible, bias=None, scale=1.0):
    """Attention to all visible tokens, or causal attention if `visible` is None."""
    q, k, wide = for_fused(q, k, v, bias)
    causal = visible is None and q.size(2) > 1
    out = F.scaled_dot_product_attention(q, k, wide, attn_mask=visible, is_causal=causal, scale=scale)
    return out[..., : v.size(-1)]


def sees(attention_mask, length):
    """Whether each new token sees each token [batch, length, total]; a hidden token sees only itself."""
    column = torch.arange(attention_mask.size(1), device=attention_mask.device)
    row = column[-length:, None]
    return (column <= row) & attention_mask.bool()[:, None] | (column == row)


def mask_for_attention(attention_mask, length):
    """What each new token sees [batch, 1, length, total]; None if these are all tokens up to itself."""
    if attention_mask.all() and length in (1, attention_mask.size(1)):
        return None
    return sees(attention_mask, length)[:, None]


#: blocks


class WeftForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = WeftConfig
    #: class

    def __init__(self, config):
        super().__init__(config)
        #: sizes
        #: modules
        self.post_init()

    #: tables
    @torch.no_grad()
    def _init_weights(self, module):
        """Weights that are missing in the file, from the same distributions as in Weft, and tables."""
        own = {id(w) for w in module.parameters(recurse=False) if not getattr(w, "_is_hf_initialized", False)}
        for name, w in self.named_parameters():
            if id(w) not in own:
                continue
            #: draws
        #: fill

    @classmethod
    def _supports_default_dynamic_cache(cls):
        return False  # forward() creates the cache, which has more slots than layers

    def get_input_embeddings(self):
        return self.wte

    def set_input_embeddings(self, value):
        self.wte = value

    def get_output_embeddings(self):
        return self.lm_head

    def set_output_embeddings(self, value):
        self.lm_head = value

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        inputs_embeds=None,
        labels=None,
        use_cache=None,
        logits_to_keep=0,
        **kwargs,
    ):
        #: embeds
        batch, length = inputs_embeds.shape[:2]
        cache = past_key_values
        if cache is None and (getattr(self.config, "use_cache", True) if use_cache is None else use_cache):
            cache = DynamicCache()
        past = 0 if cache is None else cache.get_seq_length()
        if attention_mask is None:
            attention_mask = torch.ones(batch, past + length, dtype=torch.long, device=inputs_embeds.device)
        if attention_mask.shape != (batch, past + length):
            raise ValueError(f"attention_mask must be [{batch}, {past + length}]: sequences, and tokens so far")
        shown = attention_mask[:, past:].bool()
        columns = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)  # positions of all tokens
        position = columns[:, past:]
        if position_ids is not None and not torch.equal(position_ids.expand(batch, length)[shown], position[shown]):
            raise ValueError("position_ids must count the tokens that attention_mask shows, from 0")

        #: body

        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache)
