"""A model written by weft export. Usage:

    model = load("model.safetensors")
    logits = model(tokens)  # tokens: int64 [batch, length]
    loss, terms = model(tokens, targets)  # targets: int64 [batch, length], -1 where nothing is scored

Model() has random weights from the same distributions as in Weft. In training mode, dropout is applied; load() returns
the model in evaluation mode.
"""

import math

import torch
import torch.nn.functional as F
from safetensors.torch import load_model
from torch import nn


def angles(positions, half, base, factor=1.0, low=None, high=None, original=None):
    """Angles of rotary positions in f64 [positions, half]."""
    frequency = base ** (-torch.arange(half, dtype=torch.float64) / half)
    if original is None:
        frequency = frequency / factor
    else:  # as in Llama 3.1: pairs that rotate slowly are slowed down
        share = ((original * frequency / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
        frequency = frequency * (share + (1 - share) / factor)
    return torch.arange(positions, dtype=torch.float64)[:, None] * frequency


def rotate(x, cos, sin):
    """Rotates column i with column i + half of each head."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def widen(x, width):
    """Adds columns of zeros."""
    return F.pad(x, (0, width - x.size(-1))) if x.size(-1) < width else x


def for_fused(q, k, v, bias):
    """Queries, keys and values in the form that PyTorch's fused kernels need: with equal heads, padded to one width.

    The bias of each key [batch, heads, 1, columns] becomes two more columns of keys, its value in bf16 and the rest.
    """
    if k.size(1) < q.size(1):
        k, v = (x.repeat_interleave(q.size(1) // x.size(1), 1) for x in (k, v))
    width = (max(q.size(-1) + 2 * (bias is not None), v.size(-1)) + 7) // 8 * 8
    if bias is not None:
        high = bias.detach().bfloat16().to(bias.dtype)
        q = torch.cat((q, widen(torch.ones_like(q[..., :2]), width - q.size(-1))), -1)
        k = torch.cat((k, widen(torch.cat((high, bias - high), -2).mT, width - k.size(-1))), -1)
    return widen(q, width), widen(k, width), widen(v, width)


def attend(q, k, v, bias=None, dropout_p=0.0):
    """Causal attention for scaled queries."""
    q, k, wide = for_fused(q, k, v, bias)
    return F.scaled_dot_product_attention(q, k, wide, dropout_p=dropout_p, is_causal=True, scale=1.0)[..., : v.size(-1)]


def alibi(heads, offsets):
    """ALiBi's biases by distance in f64 [heads, offsets]."""
    power = 2 ** (heads.bit_length() - 1)
    steps = [h + 1 if h < power else h - power + 0.5 for h in range(heads)]
    slopes = 2 ** (-8 / power * torch.tensor(steps, dtype=torch.float64))
    return -slopes[:, None] * torch.arange(offsets)


def bucket_columns(columns, count):
    """The columns of each bucket [count, most]; the index `columns` fills up."""
    first = -(-torch.arange(count + 1) * columns // count)
    index = first[:-1, None] + torch.arange(-(-columns // count))
    return torch.where(index < first[1:, None], index, columns)


def distances(tokens):
    """The position of each row minus that of each column [batch, length, length]."""
    position = torch.arange(tokens.size(1), device=tokens.device)
    return (position[:, None] - position).expand(len(tokens), -1, -1)


#: blocks


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        #: modules
        self.draw_weights()

    #: tables
    @torch.no_grad()
    def draw_weights(self):
        """Initial weights from the same distributions as in Weft."""
        for name, w in self.named_parameters():
            #: draws

    def forward(self, tokens, targets=None):
        #: body
        if targets is None:
            return logits
        #: loss


def load(path):
    """The model with the weights of this file."""
    model = Model()
    load_model(model, path)
    return model.eval()
