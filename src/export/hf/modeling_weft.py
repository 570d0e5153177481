# SPDX-License-Identifier: MIT
"""A causal language model that was made with Weft, in plain PyTorch.

This file was written for exactly this model: what it does not use is not in it. The config says its sizes.
Letters: B sequences, T new tokens, S tokens in all, C width, H heads, K key heads, D width of a head, F of the
feed-forward network.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn
from transformers import DynamicCache, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from .configuration_weft import WeftConfig


def remember(cache, slot, *parts):
    """Appends what later tokens need of the new ones, [B, T, n] each; returns that of all tokens, [B, S, n]."""
    if cache is None:
        return parts
    new = torch.cat(parts, -1)[:, None]
    everything, _ = cache.update(new, new[..., :0], slot)
    return everything[:, 0].split([part.shape[-1] for part in parts], -1)


def heads_of(x, heads):
    """[B, T, heads * n] as [B, heads, T, n]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def flat(x):
    """[B, heads, T, n] as [B, T, heads * n]."""
    return x.transpose(1, 2).flatten(2)


#: if norm=rmsnorm or qk_norm=yes
class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)).to(x.dtype) * self.weight


#: end
def norm_of(config):
    #: if norm=rmsnorm
    return RMSNorm(config.hidden_size, config.norm_eps)
    #: else
    return nn.LayerNorm(config.hidden_size, config.norm_eps)
    #: end


#: if pos=rope
def rotate(x, positions, frequencies):
    """x [B, heads, T, n]: number i of the first half turns together with number i of the second, by an angle per token."""
    angle = positions[:, None, :, None] * torch.tensor(frequencies, device=x.device, dtype=torch.float32)
    cos, sin = angle.cos(), angle.sin()
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1).to(x.dtype)


#: end
#: if pos=alibi
def alibi_slopes(heads):
    """A geometric sequence that ends in 2^-8; if heads is not a power of two, that of the power below, and then every other
    one of twice as many (Press et al., 2022)."""
    power = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return slopes if power == heads else slopes + alibi_slopes(2 * power)[0::2][: heads - power]


#: end
class View:
    """Which tokens a new token sees, and how far back they are. Tokens that the mask hides have no position."""

    def __init__(self, mask, length):
        total = mask.shape[1]
        place = torch.arange(total, device=mask.device)
        positions = (mask.long().cumsum(-1) - 1).clamp(min=0)
        self.mask = mask.bool()
        self.positions = positions[:, total - length :]
        self.behind = self.positions[:, :, None] - positions[:, None, :]  # [B, T, S]
        new = place[total - length :, None]
        self.visible = (place <= new) & self.mask[:, None, :] | (place == new)  # a hidden one sees itself, for want of others


class Attention(nn.Module):
    #: if geom=dot
    """Scores are dot products, divided by score_divisor."""
    #: elif geom=w2
    """Each token is a Gaussian with a diagonal covariance; scores fall with the squared Wasserstein-2 distance of two.

    -|q - k|^2 / tau with q, k = [mean; spread] is a (<q, k> - |k|^2 / 2), a = 2 / tau, but for a number of the query alone,
    which cancels in the softmax."""
    #: else
    """Each token is a Gaussian with a diagonal covariance; scores are the logarithm of the overlap of two.

    With q, k = mean / sqrt(spread) that is a (<q, k> - (|k|^2 + sum log spread) / 2), a = 1 / tau, but for a number of the
    query alone, which cancels in the softmax."""
    #: end

    def __init__(self, config, layer):
        super().__init__()
        C, H, K, D = config.hidden_size, config.num_attention_heads, config.num_key_value_heads, config.head_dim
        mean = config.mean_width
        self.config, self.slot = config, 2 * layer
        #: if bias=yes or qkv_bias=yes
        bias = True
        #: else
        bias = False
        #: end
        self.wq = nn.Linear(C, H * mean, bias=bias)
        #: if attn=full
        self.wk = nn.Linear(C, K * mean, bias=bias)
        self.wv = nn.Linear(C, K * D, bias=bias)
        #: if qk_norm=yes
        self.q_norm = RMSNorm(mean, config.qk_norm_eps)
        self.k_norm = RMSNorm(mean, config.qk_norm_eps)
        #: end
        #: if geom!=dot
        self.wq_spread = nn.Linear(C, H * config.spread_width, bias=bias)
        self.wk_spread = nn.Linear(C, K * config.spread_width, bias=bias)
        #: end
        #: else
        self.wdk = nn.Linear(C, config.latent_width, bias=False)
        self.wa = nn.Linear(config.latent_width, K * mean, bias=False)
        self.wb = nn.Linear(config.latent_width, K * D, bias=False)
        #: if latent_shared=no
        self.wdv = nn.Linear(C, config.latent_width, bias=False)
        #: end
        #: if geom!=dot
        self.wq_spread = nn.Linear(C, H * config.spread_width, bias=bias)
        self.ws = nn.Linear(C, config.spread_width, bias=False)
        #: end
        #: if pos=rope
        self.wqr = nn.Linear(C, H * config.rotated_width, bias=False)
        self.wkr = nn.Linear(C, config.rotated_width, bias=False)
        #: end
        #: end
        #: if bias=yes
        self.wo = nn.Linear(H * D, C, bias=True)
        #: else
        self.wo = nn.Linear(H * D, C, bias=False)
        #: end
        #: if learn_tau=yes
        self.theta = nn.Parameter(torch.zeros(H))
        #: end
        #: if output_gate=yes
        self.wg = nn.Linear(C, H * D, bias=False)
        #: end
        #: if pos=relative
        self.relative = nn.Parameter(torch.zeros(H, config.relative_max))
        #: end

    #: if geom!=dot
    @staticmethod
    def positive(raw):
        return F.softplus(raw) + 1e-4

    #: end
    def join(self, mean, spread, rotated, view):
        """Queries or keys [B, heads, T, n] as they are multiplied, and what scores subtract for them, [B, heads, T, 1]."""
        #: if geom=overlap
        mean = mean / spread.sqrt()
        #: end
        #: if pos=rope and attn=full
        mean = rotate(mean, view.positions, self.config.frequencies)
        #: elif pos=rope
        mean = torch.cat((mean, rotated.expand(-1, mean.shape[1], -1, -1)), -1)
        #: end
        #: if geom=dot
        return mean, None
        #: elif geom=w2
        both = torch.cat((mean, spread.expand(-1, mean.shape[1], -1, -1)), -1)
        return both, both.square().sum(-1, keepdim=True)
        #: else
        return mean, mean.square().sum(-1, keepdim=True) + spread.log().sum(-1, keepdim=True)
        #: end

    def queries(self, x, view):
        H = self.config.num_attention_heads
        mean, spread, rotated = heads_of(self.wq(x), H), None, None
        #: if qk_norm=yes
        mean = self.q_norm(mean)
        #: end
        #: if geom!=dot
        spread = self.positive(heads_of(self.wq_spread(x), H))
        #: end
        #: if pos=rope and attn=latent
        rotated = rotate(heads_of(self.wqr(x), H), view.positions, self.config.frequencies)
        #: end
        return self.join(mean, spread, rotated, view)

    #: if attn=full
    def keys(self, x, view, cache, extra, link):
        """Of all tokens: keys, what scores subtract for them, and values."""
        K = self.config.num_key_value_heads
        mean, spread = self.wk(x), None
        #: if m3=yes
        if extra is not None:
            mean = mean + link.wu(extra)
        #: end
        mean = heads_of(mean, K)
        #: if qk_norm=yes
        mean = self.k_norm(mean)
        #: end
        #: if geom!=dot
        spread = self.wk_spread(x)
        #: if m3=yes
        if extra is not None:
            spread = spread + link.wu_spread(extra)
        #: end
        spread = self.positive(heads_of(spread, K))
        #: end
        k, less = self.join(mean, spread, None, view)
        #: if geom=dot
        k, v = remember(cache, self.slot, flat(k), self.wv(x))
        return heads_of(k, K), None, heads_of(v, K)
        #: else
        k, less, v = remember(cache, self.slot, flat(k), flat(less), self.wv(x))
        return heads_of(k, K), heads_of(less, K), heads_of(v, K)
        #: end

    #: else
    def keys(self, x, c, view, cache):
        """Of all tokens: keys, what scores subtract for them, and values. Only the latents are remembered, and what positions
        rotate or scores need beside them."""
        K = self.config.num_key_value_heads
        new = {"c": c}
        #: if latent_shared=no
        new["c_v"] = self.wdv(x)
        #: end
        #: if pos=rope
        new["rotated"] = rotate(self.wkr(x)[:, None], view.positions, self.config.frequencies)[:, 0]
        #: end
        #: if geom!=dot
        new["spread"] = self.positive(self.ws(x))
        #: end
        of = dict(zip(new, remember(cache, self.slot, *new.values())))
        values = heads_of(self.wb(of.get("c_v", of["c"])), K)
        spread, rotated = (of[n][:, None] if n in of else None for n in ("spread", "rotated"))
        return *self.join(heads_of(self.wa(of["c"]), K), spread, rotated, view), values

    #: end
    def scale(self):
        """a, for each head: [H, 1, 1]."""
        #: if geom=dot
        return 1 / self.config.score_divisor
        #: else
        #: if learn_tau=yes
        tau = self.theta.float().exp()[:, None, None]
        #: else
        tau = self.config.tau
        #: end
        #: if geom=w2
        return 2 / (tau + 1e-6)
        #: else
        return 1 / tau
        #: end
        #: end

    def probabilities(self, q, q_less, k, k_less, view, cache):
        """Softmax over the tokens that each new one sees, [B, H, T, S]."""
        a = self.scale()
        score = a * (q @ k.transpose(-1, -2)).float()
        #: if geom!=dot
        score = score - a / 2 * k_less.transpose(-1, -2)
        #: end
        #: if pos=alibi
        slopes = torch.tensor(alibi_slopes(self.config.num_attention_heads), device=q.device)
        score = score - slopes[:, None, None] * view.behind[:, None]
        #: elif pos=relative
        score = score + self.relative[:, view.behind.clamp(0, self.config.relative_max - 1)].transpose(0, 1)
        #: end
        #: if ra_alpha!=0
        score = score + self.backwards(a, q, q_less, k, k_less, view, cache)
        #: end
        return torch.softmax(score.masked_fill(~view.visible[:, None], -math.inf), -1)

    #: if ra_alpha!=0
    def backwards(self, a, q, q_less, k, k_less, view, cache):
        """Reciprocal attention: the score of the earlier token's query and the later one's key, for near tokens."""
        H, T = self.config.num_attention_heads, q.shape[2]
        #: if geom=dot
        (q,) = remember(cache, self.slot + 2 * self.config.num_hidden_layers, flat(q))
        score = a * (k[:, :, -T:] @ heads_of(q, H).transpose(-1, -2)).float()
        #: else
        q, q_less = remember(cache, self.slot + 2 * self.config.num_hidden_layers, flat(q), flat(q_less))
        score = a * (k[:, :, -T:] @ heads_of(q, H).transpose(-1, -2)).float()
        score = score - a / 2 * (heads_of(q_less, H).transpose(-1, -2) + k_less[:, :, -T:])
        #: end
        near = (view.behind > 0) & (view.behind <= self.config.ra_window)
        return self.config.ra_alpha * score.masked_fill(~near[:, None], 0)

    #: end
    #: if m3=yes
    def forward(self, x, view, cache, gate, extra, link):
        """What attention adds, its probabilities, and the latent that M3 reads. `gate` and `extra` come from the layer before."""
    #: else
    def forward(self, x, view, cache, gate):
        """What attention adds, and its probabilities. `gate` comes from the layer before."""
    #: end
        H = self.config.num_attention_heads
        q, q_less = self.queries(x, view)
        #: if attn=latent
        c = self.wdk(x)
        #: if m3=yes
        c = c if extra is None else c + extra
        #: end
        k, k_less, v = self.keys(x, c, view, cache)
        #: elif m3=yes
        c = link.wc(x) if extra is None else link.wc(x) + extra
        k, k_less, v = self.keys(x, view, cache, extra, link)
        #: else
        k, k_less, v = self.keys(x, view, cache, None, None)
        #: end
        k, k_less, v = (None if y is None else y.repeat_interleave(H // y.shape[1], 1) for y in (k, k_less, v))
        p = self.probabilities(q, q_less, k, k_less, view, cache)
        y = p.to(v.dtype) @ v
        #: if m1=yes
        if gate is not None:
            y = y * gate.transpose(1, 2)[..., None]
        #: end
        y = flat(y)
        #: if output_gate=yes
        y = y * torch.sigmoid(self.wg(x))
        #: end
        #: if m3=yes
        return self.wo(y), p, c
        #: else
        return self.wo(y), p
        #: end


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        #: if bias=yes
        bias = True
        #: else
        bias = False
        #: end
        C, F = config.hidden_size, config.intermediate_size
        #: if ffn=gelu
        self.fc = nn.Linear(C, F, bias=bias)
        self.proj = nn.Linear(F, C, bias=bias)
        #: else
        self.w1 = nn.Linear(C, F, bias=bias)
        self.w3 = nn.Linear(C, F, bias=bias)
        self.w2 = nn.Linear(F, C, bias=bias)
        #: end
        #: if ws_form=block
        self.wz = nn.Parameter(torch.zeros(config.ws_heads, F // config.ws_heads, F // config.ws_heads))  # Weft's losses need it
        #: elif ws_form=dense
        self.wz = nn.Parameter(torch.zeros(F, F))  # only Weft's losses need it
        #: end
        #: if ws_logits=yes
        self.wl = nn.Linear(F, C, bias=False)  # only Weft's losses need it
        #: end

    def hidden(self, x):
        #: if ffn=gelu
        return F.gelu(self.fc(x), approximate="tanh")
        #: else
        return F.silu(self.w3(x)) * self.w1(x)
        #: end

    def out(self, h):
        #: if ffn=gelu
        return self.proj(h)
        #: else
        return self.w2(h)
        #: end


#: if m1=yes
class HeadGate(nn.Module):
    """M1: the feed-forward network gates the heads of the next layer's attention."""

    def __init__(self, config, layer):
        super().__init__()
        self.config, self.slot = config, 2 * layer + 1
        self.w1 = nn.Linear(config.intermediate_size, config.m1_width, bias=False)
        self.w2 = nn.Linear(config.m1_width, config.num_attention_heads, bias=False)
        self.bias = nn.Parameter(torch.full((config.num_attention_heads,), 2.0))
        #: if learn_alpha=yes
        self.alpha = nn.Parameter(torch.tensor([config.m1_alpha]))
        #: end

    def forward(self, h, view, cache):
        """Factors of the heads, [B, T, H]."""
        m = self.w1(h)
        #: if m1_mode=prefix
        T = m.shape[1]
        seen = view.mask[:, -T:, None]
        (sums,) = remember(cache, self.slot + 2 * self.config.num_hidden_layers, m * seen)
        m = sums.float().cumsum(1)[:, -T:].to(m.dtype) / (view.positions[:, :, None] + 1)
        #: end
        gate = torch.sigmoid(self.w2(m) + self.bias)
        #: if learn_alpha=yes
        return 1 - self.alpha + self.alpha * gate
        #: else
        return 1 - self.config.m1_alpha + self.config.m1_alpha * gate
        #: end


#: end
#: if m2=yes
class CrossToken(nn.Module):
    """M2: the feed-forward network gathers from the tokens that attention attends to."""

    def __init__(self, config, layer):
        super().__init__()
        self.config, self.slot = config, 2 * layer + 1
        #: if m2_form=low
        self.p = nn.Linear(config.intermediate_size, config.m2_rank, bias=False)
        self.q = nn.Linear(config.m2_rank, config.intermediate_size, bias=False)
        #: else
        self.q = nn.Linear(config.intermediate_size, config.intermediate_size, bias=False)
        #: end
        #: if learn_alpha=yes
        self.alpha = nn.Parameter(torch.tensor([config.m2_alpha]))
        #: end

    def chosen(self, r, view):
        """Which tokens count, of those that are seen."""
        #: if m2_select=topk
        order = r.masked_fill(~view.visible, -1).sort(stable=True, dim=-1, descending=True).indices  # equal ones: the earlier first
        best = torch.zeros_like(view.visible).scatter(-1, order[..., : self.config.m2_topk], True)
        return best & view.visible
        #: elif m2_select=rms
        count = view.visible.sum(-1, keepdim=True)
        return (r >= self.config.m2_rms * (r.square().sum(-1, keepdim=True) / count).sqrt()) & view.visible
        #: else
        return view.visible
        #: end

    def forward(self, h, probabilities, view, cache):
        """What is added to h."""
        #: if m2_form=low
        u = self.p(h)
        #: else
        u = h
        #: end
        (u,) = remember(cache, self.slot, u)
        #: if m2_head_average=yes
        r = probabilities.mean(1)
        #: else
        r = probabilities.amax(1)
        #: end
        weights = r * self.chosen(r, view)
        #: if m2_renormalise=yes
        weights = weights / weights.sum(-1, keepdim=True)
        #: end
        y = self.q(weights.to(u.dtype) @ u)
        #: if learn_alpha=yes
        return self.alpha * y
        #: else
        return self.config.m2_alpha * y
        #: end


#: end
#: if m3=yes
class LatentLink(nn.Module):
    """M3: the key latent of attention enriches the feed-forward network, which adds to the next layer's key latent."""

    def __init__(self, config, layer):
        super().__init__()
        self.config = config
        last = layer + 1 == config.num_hidden_layers
        H, L, F = config.num_attention_heads, config.latent_width, config.intermediate_size
        #: if m3_tying=per_head_scalar
        self.gamma = nn.Parameter(torch.ones(H))
        if not last:
            self.beta = nn.Parameter(torch.ones(H))
        #: else
        self.w = nn.Linear(L, F, bias=False)
        #: if m3_tying=untied
        if not last:
            self.w_back = nn.Linear(F, L, bias=False)
        #: end
        #: end
        #: if attn=full
        self.wc = nn.Linear(config.hidden_size, L, bias=False)
        if layer:
            self.wu = nn.Linear(L, config.num_key_value_heads * config.mean_width, bias=False)
            #: if geom!=dot
            self.wu_spread = nn.Linear(L, config.num_key_value_heads * config.spread_width, bias=False)
            #: end
        #: end
        #: if learn_alpha=yes
        self.alpha = nn.Parameter(torch.tensor([config.m3_alpha]))
        #: end

    #: if learn_alpha=yes
    def factor(self):
        return self.alpha

    #: else
    def factor(self):
        return self.config.m3_alpha

    #: end
    #: if m3_tying=per_head_scalar
    def owners(self, device):
        """The latent of each hidden number [F], and the head of each latent [L]."""
        H, L, F = self.config.num_attention_heads, self.config.latent_width, self.config.intermediate_size
        latent = torch.arange(F, device=device) * L // F
        first = torch.arange(1, H, device=device) * L // H
        return latent, torch.searchsorted(first, torch.arange(L, device=device), right=True)

    #: end
    def enrich(self, c):
        """What is added to the hidden activation."""
        #: if m3_tying=per_head_scalar
        latent, head = self.owners(c.device)
        return self.factor() * (self.gamma[head] * c)[..., latent]
        #: else
        return self.factor() * self.w(c)
        #: end

    def context(self, h):
        """What is added to the next layer's latent."""
        #: if m3_tying=untied
        return self.factor() * self.w_back(h)
        #: elif m3_tying=tied_transpose
        return self.factor() * self.config.narrow * (h @ self.w.weight)
        #: else
        latent, head = self.owners(h.device)
        count = torch.bincount(latent, minlength=len(head))
        mean = torch.zeros(*h.shape[:-1], len(head), device=h.device, dtype=h.dtype).index_add(-1, latent, h) / count
        return self.factor() * self.beta[head] * mean
        #: end


#: end
class Block(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.last = layer + 1 == config.num_hidden_layers
        self.norm1 = norm_of(config)
        self.norm2 = norm_of(config)
        self.attn = Attention(config, layer)
        self.ffn = FeedForward(config)
        #: if m1=yes
        if not self.last:
            self.m1 = HeadGate(config, layer)
        #: end
        #: if m2=yes
        self.m2 = CrossToken(config, layer)
        #: end
        #: if m3=yes
        self.m3 = LatentLink(config, layer)
        #: end

    def feed_forward(self, x, attended, view, cache):
        """What the network adds, and what it passes to the next layer: the factors of heads (M1), and context (M3)."""
        gate = extra = None
        h = self.ffn.hidden(x)
        #: if m3=yes
        plain = h
        h = h + self.m3.enrich(attended[1])
        #: end
        #: if m2=yes
        h = h + self.m2(h, attended[0], view, cache)
        #: end
        #: if m1=yes
        if not self.last:
            gate = self.m1(h, view, cache)
        #: end
        #: if m3=yes
        if not self.last:
            extra = self.m3.context(plain)
        #: end
        return self.ffn.out(h), gate, extra

    def forward(self, x, view, cache, gate, extra):
        #: if m3=yes
        more = (gate, extra, self.m3)
        #: else
        more = (gate,)
        #: end
        #: if norm_place=pre
        y, *attended = self.attn(self.norm1(x), view, cache, *more)
        x = x + y
        y, gate, extra = self.feed_forward(self.norm2(x), attended, view, cache)
        return x + y, gate, extra
        #: else
        y, *attended = self.attn(x, view, cache, *more)
        x = self.norm1(x + y)
        y, gate, extra = self.feed_forward(x, attended, view, cache)
        return self.norm2(x + y), gate, extra
        #: end


class WeftForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = WeftConfig
    _no_split_modules = ["Block"]
    #: if tie=yes
    _tied_weights_keys = {"lm_head.weight": "wte.weight"}
    #: end

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        #: if pos=learned
        self.wpe = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        #: end
        self.blocks = nn.ModuleList(Block(config, i) for i in range(config.num_hidden_layers))
        #: if norm_place=pre
        self.norm = norm_of(config)
        #: end
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def _init_weights(self, module):
        """Weights that a file has need no start; new ones are small."""
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)

    @classmethod
    def _supports_default_dynamic_cache(cls):
        return False  # the cache has more slots than layers: it is made below

    def get_input_embeddings(self):
        return self.wte

    def set_input_embeddings(self, value):
        self.wte = value

    def get_output_embeddings(self):
        return self.lm_head

    def set_output_embeddings(self, value):
        self.lm_head = value

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None,
                labels=None, use_cache=None, logits_to_keep=0, **kwargs):
        x = self.wte(input_ids) if inputs_embeds is None else inputs_embeds
        B, T = x.shape[:2]
        cache = past_key_values
        if cache is None and (self.config.use_cache if use_cache is None else use_cache):
            cache = DynamicCache()
        past = cache.get_seq_length() if cache is not None else 0
        if attention_mask is None:
            attention_mask = torch.ones(B, past + T, dtype=torch.long, device=x.device)
        if attention_mask.shape != (B, past + T):
            raise ValueError("attention_mask must be [sequences, tokens so far], here %s" % [B, past + T])
        view = View(attention_mask, T)
        seen = attention_mask[:, past:].bool()
        if position_ids is not None and not torch.equal(position_ids.expand(B, T)[seen], view.positions[seen]):
            raise ValueError("position_ids must count the tokens that attention_mask shows, from 0")
        #: if pos=learned
        x = x + self.wpe(view.positions)
        #: end

        gate = extra = None
        for block in self.blocks:
            x, gate, extra = block(x, view, cache, gate, extra)
        #: if norm_place=pre
        x = self.norm(x)
        #: end
        #: if scaling=mup
        x = x * self.config.narrow
        #: end
        logits = self.lm_head(x[:, -logits_to_keep:] if isinstance(logits_to_keep, int) else x[:, logits_to_keep])

        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache)
