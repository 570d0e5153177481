#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torch_speed.py WEFT LIBRARY FOLDER - how long a training step of exported PyTorch modules takes.

A step is a forward pass with the loss, and a backward pass; there is no optimiser and no dropout. Measured are

- the preset gpt2-mini relative to a GPT-2 written below as is usual in PyTorch, with the same weights, whose logits and loss
  are compared first: at most 1.1 in f32, eager and compiled. The ratios in bf16 are only printed;
- attention by the Wasserstein-2 distance relative to dot products, both exported: at most 1.25 for gpt2-mini in f32, eager.
  The ratios of compiled modules and of the small preset w2 are only printed.

The sizes are those of the presets, but gpt2-mini has a smaller batch. A round is four steps: one of each model, and then again
in the opposite order, so that other load affects both. A ratio is the median of the ratios of the rounds; its quartiles are
printed also. ROUNDS sets the number of rounds, at least 2; in bf16 there are a third as many, because processors without bf16
are slow there. Prints TAP. Needs torch, safetensors and g++.
"""
import contextlib
import os
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import FOLDER, finish, option, result, weft_model
from safetensors.torch import load_file
from torch_modules import module

BATCH = 4  # of gpt2-mini: a step takes about a second on two cores
ROUNDS, WARM_UP = max(2, int(os.environ.get("ROUNDS", 21))), 3
SAME = 1e-5


# ---- the rival

class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (y.view(batch, length, self.heads, -1).transpose(1, 2) for y in self.c_attn(x).split(width, dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, ffn_width):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, ffn_width), nn.GELU(approximate="tanh"), nn.Linear(ffn_width, width))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    def __init__(self, vocab, context, layers, width, heads, ffn_width):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads, ffn_width) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens, targets=None):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return logits if targets is None else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def rival(folder):
    """The GPT-2 above with the sizes and weights of a model folder of Weft."""
    given = load_file(folder + "/model.safetensors")
    model = GPT2(*(int(option(folder, name)) for name in ("vocab", "context", "layers", "width", "heads", "ffn_width")))

    def norm(layer, name):
        layer.load_state_dict({"weight": given[name + ".gain"], "bias": given[name + ".bias"]})

    def linear(layer, *names):
        weight, bias = (torch.cat([given[name + end] for name in names]) for end in ("", "_bias"))
        layer.load_state_dict({"weight": weight, "bias": bias})

    model.wte.load_state_dict({"weight": given["wte"]})
    model.wpe.load_state_dict({"weight": given["wpe"]})
    for i, block in enumerate(model.blocks):
        name = "blocks.%d." % i
        norm(block.ln_1, name + "norm1")
        linear(block.attn.c_attn, *(name + "attn." + n for n in ("wq", "wk", "wv")))
        linear(block.attn.c_proj, name + "attn.wo")
        norm(block.ln_2, name + "norm2")
        linear(block.mlp[0], name + "ffn.fc")
        linear(block.mlp[2], name + "ffn.proj")
    norm(model.ln_f, "norm")
    return model.train()


# ---- measuring

def batch(folder):
    """Tokens and targets of the model's own batch and context."""
    sequences, context, vocab = (int(option(folder, name)) for name in ("batch", "context", "vocab"))
    tokens = torch.randint(vocab, (sequences, context + 1), generator=torch.Generator().manual_seed(1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def loss_of(model, tokens, targets):
    """The loss; exported models return its terms as well."""
    answer = model(tokens, targets)
    return answer[0] if isinstance(answer, tuple) else answer


def step(model, tokens, targets, bf16):
    """Seconds of a step."""
    model.zero_grad(set_to_none=True)
    start = time.perf_counter()
    with torch.autocast("cpu", dtype=torch.bfloat16) if bf16 else contextlib.nullcontext():
        loss = loss_of(model, tokens, targets)
    loss.backward()
    return time.perf_counter() - start


def measure(models, tokens, targets, bf16, compiled):
    """Milliseconds per step of two models, and the first quartile, median and third quartile of the ratios of the rounds."""
    torch._dynamo.reset()
    first, second = (torch.compile(model) if compiled else model for model in models)
    for _ in range(WARM_UP):
        step(first, tokens, targets, bf16)
        step(second, tokens, targets, bf16)
    times = []
    for _ in range(max(2, ROUNDS // 3) if bf16 else ROUNDS):
        a, b, c, d = (step(model, tokens, targets, bf16) for model in (first, second, second, first))
        times.append((a + d, b + c))
    milliseconds = [statistics.median(column) / 2 * 1000 for column in zip(*times)]
    return milliseconds, statistics.quantiles((a / b for a, b in times), n=4, method="inclusive")


def judge(name, models, inputs, bf16=False, compiled=False, limit=None):
    """Prints a row of the table; its result is printed after the table."""
    (ours, other), (low, ratio, high) = measure(models, *inputs, bf16, compiled)
    name = "%s, %s %s" % (name, "bf16" if bf16 else "f32", "compiled" if compiled else "eager")
    print("# %-44s %8.1f ms %8.1f ms %7.3f %7.3f - %.3f %6s" % (name, ours, other, ratio, low, high, limit or "none"), flush=True)
    return limit and (ratio <= limit, "%s: ratio %.3f, at most %s" % (name, ratio, limit))


def same(model, other, tokens, targets):
    """Whether both compute the same logits and loss."""
    with torch.no_grad():
        logits, its_logits = model(tokens), other(tokens)
        loss, its_loss = loss_of(model, tokens, targets).item(), loss_of(other, tokens, targets).item()
    loss_off, logits_off = abs(its_loss / loss - 1), ((its_logits - logits).abs().max() / logits.abs().max()).item()
    result(max(loss_off, logits_off) <= SAME, "the same model: the loss differs by %.1e, logits by %.1e" % (loss_off, logits_off))


def created(preset, *settings):
    """A new model folder, and the module it is exported as."""
    folder = "%s/%s" % (FOLDER, "-".join((preset, *settings)).replace("=", "-"))
    weft_model(preset, [*settings, "dropout=0"], folder)
    return folder, module(folder)


def main():
    load = os.getloadavg()[0]
    torch.set_num_threads(2)
    folder, printed = created("gpt2-mini", "geom=dot", "batch=%d" % BATCH)
    by_hand, inputs = rival(folder), batch(folder)
    same(printed, by_hand, *inputs)
    print("# %d rounds, load average before them %.1f, torch %s" % (ROUNDS, load, torch.__version__))
    print("# %-44s %11s %11s %7s %15s %6s" % ("", "first", "second", "ratio", "quartiles", "limit"))
    judged = []
    for bf16, compiled, limit in ((False, False, 1.1), (False, True, 1.1), (True, False, None), (True, True, None)):
        judged.append(judge("gpt2-mini, exported / by hand", (printed, by_hand), inputs, bf16, compiled, limit))
    by_distance = created("gpt2-mini", "geom=w2", "batch=%d" % BATCH)[1]
    judged.append(judge("gpt2-mini, geom=w2 / dot", (by_distance, printed), inputs, limit=1.25))
    judge("gpt2-mini, geom=w2 / dot", (by_distance, printed), inputs, compiled=True)
    (folder, printed), (_, by_distance) = created("w2", "geom=dot"), created("w2", "geom=w2")
    for compiled in False, True:
        judge("w2, geom=w2 / dot", (by_distance, printed), batch(folder), compiled=compiled)
    for good, text in filter(None, judged):
        result(good, text)
    finish()


main()
