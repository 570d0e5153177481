#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make.py - golden values for every op with maths, by PyTorch's autograd in double precision.

Written from the documented definitions alone, never from Weft's kernels: a reference by an op's own author may share
the author's mistake. Where PyTorch has the function it is used as is; attention is spelled out one query at a time.

    /usr/bin/python3 tests/golden/make.py     writes the .json files beside itself; the same bytes every time

README.md tells what a file holds.
"""

import json
import math
import os
import random

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

KEY_TILE = 64  # a key/value store is addressed in tiles of this many rows
IGNORED = -1  # a target that is not scored
EXACT_UNITS = (2.0**-5, 2.0**-10, 2.0**-14)
NOISE = 1e-12  # below this a tensor is rounding about a true zero: a key's bias, which the softmax cancels


# ---- numbers


def draw(key, *shape, unit=2.0**-5, spread=1.0, shift=0.0):
    """Normal numbers rounded to multiples of unit, a power of two: exact in f32. The key alone decides them."""
    rng = random.Random(key)
    x = [round(rng.gauss(shift, spread) / unit) * unit for _ in range(math.prod(shape))]
    x = torch.tensor(x).reshape(shape)
    assert torch.equal(x.float().double(), x)
    return x


def choose(key, below, count):
    rng = random.Random(key)
    return [rng.randrange(below) for _ in range(count)]


def store(x):
    """A tensor as whole multiples of a unit: a power of two where that is exact, else about 1e-10 of its rms."""
    if not torch.is_tensor(x):
        x = torch.tensor(x)
    if x.dtype == torch.int64:
        return {"shape": list(x.shape), "data": x.flatten().tolist()}
    x = x.detach()
    rms = x.square().mean().sqrt().item()
    if rms < NOISE:
        x = torch.zeros_like(x)
    for unit in EXACT_UNITS:
        if torch.equal((x / unit).round() * unit, x):
            break
    else:
        unit = float(f"{rms * 1e-10:.0e}")
    return {"shape": list(x.shape), "unit": unit, "data": [round(v / unit) for v in x.flatten().tolist()]}


# ---- cases

families = {}


def case(family, op, name, fn, inputs, fixed=None, grads=True, **attr):
    """Runs fn and files what went in, what came out, and the gradients of the inputs: of a scalar as it is (a loss),
    else of its sum with a random cotangent. Of several outputs the first is differentiated."""
    fixed = fixed or {}
    leaves = {n: x.clone().requires_grad_(grads) for n, x in inputs.items()}
    out = fn(**leaves, **fixed, **attr)
    out = out if isinstance(out, tuple) else (out,)
    entry = {"op": op, "name": name, "attr": attr}
    entry["in"] = {n: store(x) for n, x in {**fixed, **inputs}.items()}
    entry["out"] = [store(y) for y in out]
    if grads:
        y = out[0]
        if y.dim():
            cotangent = draw(f"{op}/{name}/cotangent", *y.shape)
            entry["cotangent"] = store(cotangent)
            y = (y * cotangent).sum()
        y.backward()
        entry["grad"] = {n: store(x.grad) for n, x in leaves.items()}
    families.setdefault(family, []).append(entry)


def tensors(op, name, **shapes):
    return {n: draw(f"{op}/{name}/{n}", *s) for n, s in shapes.items()}


# ---- element by element, and by column


def pointwise():
    f, m, c = "pointwise", 5, 19

    def simple(op, name, fn, shapes, **attr):
        case(f, op, name, fn, tensors(op, name, **shapes), **attr)

    simple("add", "odd", lambda a, b: a + b, dict(a=(m, c), b=(m, c)))
    simple("mul", "odd", lambda a, b: a * b, dict(a=(m, c), b=(m, c)))
    simple("scale", "odd", lambda x, factor: x * factor, dict(x=(m, c)), factor=-0.375)
    simple("bias", "odd", lambda x, b: x + b, dict(x=(m, c), b=(c,)))
    simple("silu", "odd", lambda x: F.silu(x), dict(x=(m, c)))
    simple("gelu", "odd", lambda x: F.gelu(x, approximate="tanh"), dict(x=(m, c)))
    simple("swiglu", "odd", lambda gate, up: F.silu(gate) * up, dict(gate=(m, c), up=(m, c)))
    simple("slice", "middle", lambda x, first, width: x[:, first : first + width], dict(x=(m, c)), first=3, width=7)
    simple("slice", "end", lambda x, first, width: x[:, first : first + width], dict(x=(m, c)), first=16, width=3)
    simple("concat", "unequal", lambda a, b: torch.cat((a, b), 1), dict(a=(m, 7), b=(m, 12)))
    for op, fn in (("gelu", lambda x: F.gelu(x, approximate="tanh")), ("silu", lambda x: F.silu(x))):
        case(f, op, "tails", fn, dict(x=draw(f"{op}/tails/x", m, c, spread=8.0)))


# ---- rows against weights


def embed():
    for name, v, c, ids in (("repeats", 9, 17, [3, 0, 8, 3, 3, 7, 0]), ("one", 4, 5, [2])):
        inputs = tensors("embed", name, table=(v, c))
        case("embed", "embed", name, lambda table, ids: table[ids], inputs, fixed=dict(ids=ids))


def linear():
    def fn(x, w, b=None, addend=None):
        if w.dim() == 3:  # groups side by side: columns of x, matrices of w, columns of y
            y = torch.cat([F.linear(part, matrix) for part, matrix in zip(x.chunk(len(w), 1), w)], 1)
        else:
            y = F.linear(x, w)
        y = y if b is None else y + b
        return y if addend is None else y + addend

    m, k, n = 5, 21, 18
    for name, extra in (
        ("plain", {}),
        ("bias", dict(b=(n,))),
        ("addend", dict(addend=(m, n))),
        ("both", dict(b=(n,), addend=(m, n))),
    ):
        case("linear", "linear", name, fn, tensors("linear", name, x=(m, k), w=(n, k), **extra))
    grouped = tensors("linear", "grouped", x=(4, 3 * 5), w=(3, 2, 5), b=(3 * 2,))
    case("linear", "linear", "grouped", fn, grouped)
    case("linear", "linear", "column", fn, tensors("linear", "column", x=(3, 5), w=(1, 5), b=(1,)))


# ---- norms


def norm():
    def layernorm(x, gain, b, eps):
        return F.layer_norm(x, (x.shape[1],), gain, b, eps)

    def rmsnorm(x, gain, eps):
        return x * torch.rsqrt(x.square().mean(1, keepdim=True) + eps) * gain

    m, c = 5, 23
    # `offset`: a mean a hundred times the spread; `small`: a variance in which eps counts.
    for name, how in (
        ("plain", {}),
        ("offset", dict(shift=100.0)),
        ("small", dict(unit=2.0**-14, spread=2.0**-9)),
    ):
        for op, fn, eps in (("layernorm", layernorm, 1e-5), ("rmsnorm", rmsnorm, 1e-6)):
            inputs = dict(x=draw(f"{op}/{name}/x", m, c, **how))
            inputs.update(tensors(op, name, gain=(c,)))
            if op == "layernorm":
                inputs.update(tensors(op, name, b=(c,)))
            case("norm", op, name, fn, inputs, eps=eps)


# ---- rotary positions: element i of a head's first half is paired with element i of its second half


def rotate(x, pos, heads, base=10000.0):
    m, d = x.shape[0], x.shape[1] // heads
    angle = torch.outer(torch.tensor(pos, dtype=x.dtype), base ** (-torch.arange(0, d, 2, dtype=x.dtype) / d))
    turn = torch.polar(torch.ones_like(angle), angle)[:, None, :]
    first, second = x.view(m, heads, d).split(d // 2, 2)
    z = torch.complex(first, second) * turn
    return torch.cat((z.real, z.imag), 2).reshape(m, heads * d)


def rope():
    for name, heads, d, pos in (
        ("heads", 3, 8, [0, 1, 2, 3, 0, 1, 511]),
        ("pair", 2, 2, [5, 6, 7]),
        ("wide", 1, 34, [0, 3, 1000]),
    ):
        inputs = tensors("rope", name, x=(len(pos), heads * d))
        case("rope", "rope", name, rotate, inputs, fixed=dict(pos=pos), heads=heads, base=10000.0)
    inputs = tensors("rope", "base", x=(3, 12))
    case("rope", "rope", "base", rotate, inputs, fixed=dict(pos=[0, 2, 9]), heads=2, base=500.0)


# ---- attention, one query row and head at a time


def attend(q, k, v, seq, pos, tiles, heads, kv_heads, scale=None, key_bias=None, pos_bias=None):
    dk, dv = q.shape[1] // heads, v.shape[1] // kv_heads
    out = []
    for i, (s, p) in enumerate(zip(seq, pos)):
        keys = [tiles[s][j // KEY_TILE] + j % KEY_TILE for j in range(p + 1)]
        for h in range(heads):
            g = h // (heads // kv_heads)
            logit = k[keys, g * dk : (g + 1) * dk] @ q[i, h * dk : (h + 1) * dk]
            logit = logit / math.sqrt(dk) if scale is None else logit * scale[h]
            if key_bias is not None:
                logit = logit + key_bias[keys, h]
            if pos_bias is not None:
                logit = logit + pos_bias[h, [min(p - j, pos_bias.shape[1] - 1) for j in range(p + 1)]]
            out.append(torch.softmax(logit, 0) @ v[keys, g * dv : (g + 1) * dv])
    return torch.cat(out).view(len(seq), heads * dv)


def packed(*lengths):
    """Sequences one behind the other, the call's own rows being the key store."""
    tiles, first = [], 0
    width = -(-max(lengths) // KEY_TILE)
    for n in lengths:
        tiles.append([first + KEY_TILE * j if KEY_TILE * j < n else 0 for j in range(width)])
        first += n
    return dict(
        seq=[s for s, n in enumerate(lengths) for _ in range(n)],
        pos=[p for n in lengths for p in range(n)],
        tiles=tiles,
    )


def attention():
    def go(name, rows, heads, kv, dk, dv, keys=None, grads=True, **extra):
        m = len(rows["seq"])
        n = keys or m
        shapes = dict(q=(m, heads * dk), k=(n, kv * dk), v=(n, kv * dv))
        shapes.update({x: s(n) if callable(s) else s for x, s in extra.items()})
        inputs = tensors("attention", name, **shapes)
        case("attention", "attention", name, attend, inputs, fixed=rows, grads=grads, heads=heads, kv_heads=kv)

    go("causal", packed(9), 2, 2, 4, 4)
    go("single", packed(1), 1, 1, 3, 3)
    go("grouped", packed(7), 4, 2, 3, 3)
    go("one_kv_head", packed(6), 3, 1, 4, 4)
    go("widths", packed(7), 2, 2, 5, 3)
    go("wide_values", packed(5), 2, 1, 2, 6)
    go("scale", packed(7), 3, 3, 4, 4, scale=(3,))
    go("key_bias", packed(7), 2, 1, 4, 4, key_bias=lambda n: (n, 2))
    go("pos_bias", packed(8), 2, 2, 4, 4, pos_bias=(2, 8))
    go("clipped", packed(9), 2, 2, 4, 4, pos_bias=(2, 3))
    go("packed", packed(4, 1, 6), 2, 2, 4, 4)
    everything = dict(scale=(4,), key_bias=lambda n: (n, 4), pos_bias=(4, 3))
    go("everything", packed(5, 7), 4, 2, 4, 3, **everything)
    go("two_tiles", packed(67, 3), 2, 1, 3, 2, scale=(2,), key_bias=lambda n: (n, 2), pos_bias=(2, 66))
    # Rows that continue two sequences whose keys are already stored, the second in two tiles that lie out of order.
    later = dict(seq=[0, 0, 1, 1, 1], pos=[3, 4, 62, 64, 65], tiles=[[66, 0], [2, 0]])
    go("continued", later, 2, 1, 3, 2, keys=71, grads=False)


# ---- the loss


def score(x, w, targets, weight, z_lambda=0.0):
    """The loss, and of every row its negative log-likelihood, log-sum-exp and likeliest word."""
    targets = torch.tensor(targets)
    logits = x @ w.T
    nll = F.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="none")
    lse = torch.logsumexp(logits, 1)
    loss = (nll + z_lambda * lse.square())[targets != IGNORED].sum() * weight[0]
    return loss, nll, lse, logits.argmax(1)


def cross_entropy():
    m, c, v = 9, 11, 23
    some = [5, IGNORED, 22, 0, 0, IGNORED, 12, 17, 7]
    for name, z_lambda, targets, spread in (
        ("plain", 0.0, choose("targets", v, m), 0.5),
        ("z", 0.0625, choose("targets", v, m), 0.5),
        ("ignored", 0.0, some, 0.5),
        ("z_ignored", 0.0625, some, 0.5),
        ("peaked", 0.0, some, 4.0),
    ):
        key = f"cross_entropy/{name}"
        inputs = dict(x=draw(f"{key}/x", m, c, spread=spread), w=draw(f"{key}/w", v, c, spread=spread))
        fixed = dict(targets=targets, weight=torch.tensor([2.0**-3]))
        case("cross_entropy", "cross_entropy", name, score, inputs, fixed, z_lambda=z_lambda)


# ---- whole models: two sequences of unequal length, every weight random, gains and biases too


def gpt2(w, rows, tokens, layers, heads, norm_place="pre", **_):
    pre = norm_place == "pre"

    def norm(x, name):
        return F.layer_norm(x, (x.shape[1],), w[name + ".gain"], w[name + ".bias"], 1e-5)

    def linear(x, name):
        return F.linear(x, w[name], w[name + "_bias"])

    def attn(x, name):
        q, k, v = (linear(x, f"{name}.w{c}") for c in "qkv")
        return linear(attend(q, k, v, heads=heads, kv_heads=heads, **rows), name + ".wo")

    def ffn(x, name):
        return linear(F.gelu(linear(x, name + ".fc"), approximate="tanh"), name + ".proj")

    x = w["wte"][tokens] + w["wpe"][rows["pos"]]
    for i in range(layers):
        b = f"blocks.{i}."
        if pre:
            x = x + attn(norm(x, b + "norm1"), b + "attn")
            x = x + ffn(norm(x, b + "norm2"), b + "ffn")
        else:
            x = norm(x + attn(x, b + "attn"), b + "norm1")
            x = norm(x + ffn(x, b + "ffn"), b + "norm2")
    return norm(x, "norm") if pre else x, w["wte"]


def gpt2_shapes(layers, width, ffn_width, context, vocab, norm_place="pre", **_):
    c, f = width, ffn_width
    shapes = dict(wte=(vocab, c), wpe=(context, c))
    for i in range(layers):
        b = f"blocks.{i}."
        for n in (b + "norm1", b + "norm2"):
            shapes.update({n + ".gain": (c,), n + ".bias": (c,)})
        for n in (b + "attn.wq", b + "attn.wk", b + "attn.wv", b + "attn.wo"):
            shapes.update({n: (c, c), n + "_bias": (c,)})
        shapes.update({b + "ffn.fc": (f, c), b + "ffn.fc_bias": (f,)})
        shapes.update({b + "ffn.proj": (c, f), b + "ffn.proj_bias": (c,)})
    if norm_place == "pre":
        shapes.update({"norm.gain": (c,), "norm.bias": (c,)})
    return shapes


def llama(w, rows, tokens, layers, heads, kv_heads, **_):
    def norm(x, name):
        return x / torch.sqrt(x.square().mean(1, keepdim=True) + 1e-6) * w[name + ".gain"]

    x = w["wte"][tokens]
    for i in range(layers):
        b = f"blocks.{i}."
        y = norm(x, b + "norm1")
        q, k, v = (F.linear(y, w[f"{b}attn.w{c}"]) for c in "qkv")
        q, k = rotate(q, rows["pos"], heads), rotate(k, rows["pos"], kv_heads)
        x = x + F.linear(attend(q, k, v, heads=heads, kv_heads=kv_heads, **rows), w[b + "attn.wo"])
        y = norm(x, b + "norm2")
        h = F.silu(F.linear(y, w[b + "ffn.w3"])) * F.linear(y, w[b + "ffn.w1"])
        x = x + F.linear(h, w[b + "ffn.w2"])
    return norm(x, "norm"), w["head"]


def llama_shapes(layers, width, ffn_width, vocab, heads, kv_heads, **_):
    c, f, narrow = width, ffn_width, kv_heads * width // heads
    shapes = dict(wte=(vocab, c))
    for i in range(layers):
        b = f"blocks.{i}."
        shapes.update({b + "norm1.gain": (c,), b + "norm2.gain": (c,)})
        shapes.update({b + "attn.wq": (c, c), b + "attn.wk": (narrow, c), b + "attn.wv": (narrow, c)})
        shapes.update({b + "attn.wo": (c, c), b + "ffn.w1": (f, c), b + "ffn.w3": (f, c), b + "ffn.w2": (c, f)})
    shapes.update({"norm.gain": (c,), "head": (vocab, c)})
    return shapes


def models():
    def go(preset, name, hidden, shapes, lengths, **settings):
        rows = packed(*lengths)

        def fn(tokens, targets, weight, **rest):
            x, head = hidden({n: rest[n] for n in shapes}, rows, tokens, **settings)
            return score(x, head, targets, weight)[0]

        weights = {}
        for n, s in shapes.items():
            weights[n] = draw(f"{name}/{n}", *s, spread=0.2, shift=1.0 if n.endswith("gain") else 0.0)
        tokens, targets = (choose(f"{name}/{n}", settings["vocab"], sum(lengths)) for n in ("tokens", "targets"))
        targets[1] = targets[-2] = IGNORED
        fixed = dict(tokens=tokens, targets=targets, weight=torch.tensor([2.0**-5]), **rows)
        case(preset, "model", name, fn, weights, fixed, preset=preset, **settings)

    sizes = dict(layers=2, width=32, heads=4, ffn_width=20, context=20, vocab=50)
    go("gpt2", "gpt2", gpt2, gpt2_shapes(**sizes), (20, 13), **sizes)
    llama_sizes = dict(sizes, kv_heads=2)
    go("llama", "llama", llama, llama_shapes(**llama_sizes), (20, 13), **llama_sizes)
    small = dict(layers=2, width=8, heads=2, ffn_width=12, context=7, vocab=11, norm_place="post")
    go("gpt2", "post", gpt2, gpt2_shapes(**small), (4, 7), **small)


# ---- files: one line per row of a tensor, so that a difference shows where it is


def text(value, depth=0):
    pad = " " * depth
    if isinstance(value, dict) and "data" in value:
        width = value["shape"][-1] if value["shape"] else 1
        lines = [value["data"][i : i + width] for i in range(0, len(value["data"]), width)]
        body = ",\n".join(pad + "  " + ",".join(map(str, line)) for line in lines)
        head = {n: x for n, x in value.items() if n != "data"}
        return json.dumps(head)[:-1] + ', "data": [\n' + body + "]}"
    if isinstance(value, dict) and any(isinstance(x, dict) for x in value.values()):
        body = ",\n".join(f"{pad} {json.dumps(n)}: {text(x, depth + 1)}" for n, x in value.items())
        return "{\n" + body + "}"
    if isinstance(value, list):
        return "[\n" + ",\n".join(pad + " " + text(x, depth + 1) for x in value) + "]"
    return json.dumps(value)


def main():
    for make in (pointwise, embed, linear, norm, rope, attention, cross_entropy, models):
        make()
    for family, cases in families.items():
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), family + ".json")
        with open(path, "w", encoding="ascii") as file:
            file.write(text(cases) + "\n")


if __name__ == "__main__":
    main()
