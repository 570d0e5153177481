#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make.py - golden values for every op with maths, by PyTorch's autograd in double precision.

Written from the documented definitions alone, never from Weft's kernels: a reference by an op's own author may share
the author's mistake. Where PyTorch has the function it is used as is; attention is spelled out one query at a time,
routing on the whole matrix of probabilities.

    python3 tests/golden/make.py     writes the .json files to its own folder; the same bytes every time

README.md describes the files.
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
EXACT_UNITS = (2.0**-5, 2.0**-10, 2.0**-14, 2.0**-27)
NOISE = 1e-12  # below this a tensor is rounding about a true zero: a key's bias, which the softmax cancels
CLEAR = 1e-4  # a choice (a cut, a maximum, a threshold) is decided by at least this, relatively, so that none flips


# ---- numbers


def draw(key, *shape, unit=2.0**-5, spread=1.0, shift=0.0):
    """Normal numbers rounded to multiples of unit, a power of two: exact in bf16. The key alone decides them."""
    rng = random.Random(key)
    x = [round(rng.gauss(shift, spread) / unit) * unit for _ in range(math.prod(shape))]
    x = torch.tensor(x).reshape(shape)
    assert torch.equal(x.bfloat16().double(), x)
    return x


def choose(key, below, count):
    rng = random.Random(key)
    return [rng.randrange(below) for _ in range(count)]


def store(x):
    """A tensor as whole multiples of a unit: a power of two if that is exact, else about 1e-10 of its rms."""
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


def case(family, op, name, fn, inputs, fixed=None, seeded=(0,), **attr):
    """Runs fn and stores the inputs, the outputs and the gradients of the inputs: of the sum of the seeded outputs,
    a scalar (a loss) as it is, others times a random cotangent. With nothing seeded there are no gradients."""
    fixed = fixed or {}
    leaves = {n: x.clone().requires_grad_(bool(seeded)) for n, x in inputs.items()}
    out = fn(**leaves, **fixed, **attr)
    out = out if isinstance(out, tuple) else (out,)
    entry = {"op": op, "name": name, "attr": attr}
    entry["in"] = {n: store(x) for n, x in {**fixed, **inputs}.items()}
    entry["out"] = [store(y) for y in out]
    if seeded:
        cotangents = [None] * len(out)
        for o in seeded:
            if out[o].dim():
                cotangents[o] = draw(f"{op}/{name}/cotangent{o or ''}", *out[o].shape)
        sum(out[o] if cotangents[o] is None else (out[o] * cotangents[o]).sum() for o in seeded).backward()
        if any(x is not None for x in cotangents):
            entry["cotangent"] = [x if x is None else store(x) for x in cotangents]
        entry["grad"] = {n: store(x.grad) for n, x in leaves.items() if x.grad is not None}
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
    curves = dict(
        silu=lambda x: F.silu(x),
        gelu=lambda x: F.gelu(x, approximate="tanh"),
        sigmoid=lambda x: torch.sigmoid(x),
        softplus=lambda x: torch.logaddexp(x, torch.zeros_like(x)),  # F.softplus is x itself above 20
    )
    for op, fn in curves.items():
        simple(op, "odd", fn, dict(x=(m, c)))
        case(f, op, "tails", fn, dict(x=draw(f"{op}/tails/x", m, c, unit=2.0**-2, spread=8.0)))
    simple("softplus", "offset", lambda x, offset: curves["softplus"](x) + offset, dict(x=(m, c)), offset=0.125)
    simple("swiglu", "odd", lambda gate, up: F.silu(gate) * up, dict(gate=(m, c), up=(m, c)))
    simple("slice", "middle", lambda x, first, width: x[:, first : first + width], dict(x=(m, c)), first=3, width=7)
    simple("slice", "end", lambda x, first, width: x[:, first : first + width], dict(x=(m, c)), first=16, width=3)
    simple("concat", "unequal", lambda a, b: torch.cat((a, b), 1), dict(a=(m, 7), b=(m, 12)))
    simple("mix", "odd", lambda x, y, alpha: x + alpha * y, dict(x=(m, c), y=(m, c), alpha=(1,)))


def gates_and_buckets():
    def gate_heads(o, gate, alpha):
        heads = o.view(*gate.shape, -1)
        return (heads * (1 - alpha + alpha * gate)[:, :, None]).flatten(1)

    def weights(count, beta):  # each bucket's, from its head's
        heads = len(beta)
        sizes = [(h + 1) * count // heads - h * count // heads for h in range(heads)]
        return beta.repeat_interleave(torch.tensor(sizes))

    def bucket_mean(h, beta, count):
        bucket = torch.arange(h.shape[1]) * count // h.shape[1]
        means = [h[:, bucket == place].mean(1) for place in range(count)]
        return torch.stack(means, 1) * weights(count, beta)

    def bucket_spread(c, gamma, columns):
        bucket = torch.arange(columns) * c.shape[1] // columns
        return (c * weights(c.shape[1], gamma))[:, bucket]

    m = 5
    for name, heads, width in (("odd", 3, 7), ("one_head", 1, 18)):
        inputs = tensors("gate_heads", name, o=(m, heads * width), gate=(m, heads), alpha=(1,))
        case("pointwise", "gate_heads", name, gate_heads, inputs)
    for name, columns, count, heads in (("odd", 23, 7, 3), ("even", 24, 6, 2), ("equal", 5, 5, 5)):
        inputs = tensors("bucket_mean", name, h=(m, columns), beta=(heads,))
        case("pointwise", "bucket_mean", name, bucket_mean, inputs, count=count)
        inputs = tensors("bucket_spread", name, c=(m, count), gamma=(heads,))
        case("pointwise", "bucket_spread", name, bucket_spread, inputs, columns=columns)


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
    for name, x, w in (("tied", (m, k), (n, k)), ("tied_groups", (4, 3 * 5), (3, 2, 5))):  # there and back by one w
        tied = tensors("transpose", name, x=x, w=w)
        case("linear", "transpose", name, lambda x, w: fn(fn(x, w), w.transpose(-1, -2)), tied)


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
        ("offset", dict(unit=0.5, shift=100.0)),
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


# ---- heads: queries and keys as the distance geometries transform them, and the slopes of linear biases


def heads():
    def split(x, own, heads):
        """Returns [M, heads, width] from x in `own` heads, each repeated for the heads that share it."""
        return x.unflatten(1, (own, -1)).repeat_interleave(heads // own, 1)

    def join(a, b, a_heads, b_heads, heads):
        return torch.cat((split(a, a_heads, heads), split(b, b_heads, heads)), 2).flatten(1)

    def square_sum(x, heads):
        return torch.linalg.vector_norm(split(x, heads, heads), dim=2) ** 2

    def temperature(theta, factor, eps):
        return factor / (torch.exp(theta) + eps)

    def head_bias(n, scale):
        return n.repeat_interleave(len(scale) // n.shape[1], 1) * scale * -0.5

    def whiten(mu, sigma, heads, sigma_heads):
        s = split(sigma, sigma_heads, heads)
        return (split(mu, heads, heads) * s.rsqrt()).flatten(1), s.log().sum(2)

    f, m = "heads", 5
    for name, heads, a_heads, b_heads in (("own", 3, 3, 3), ("shared", 4, 4, 1), ("groups", 6, 1, 3)):
        inputs = tensors("join_heads", name, a=(m, a_heads * 7), b=(m, b_heads * 4))
        case(f, "join_heads", name, join, inputs, a_heads=a_heads, b_heads=b_heads, heads=heads)
    for name, heads, width in (("odd", 3, 5), ("wide", 2, 19)):
        case(f, "square_sum", name, square_sum, tensors("square_sum", name, x=(m, heads * width)), heads=heads)
    for name, factor, eps in (("w2", 2.0, 1e-6), ("eps", 1.0, 0.25)):
        inputs = tensors("temperature", name, theta=(6,))
        case(f, "temperature", name, temperature, inputs, factor=factor, eps=eps)
    for name, heads, norms in (("own", 3, 3), ("groups", 6, 2)):
        case(f, "head_bias", name, head_bias, tensors("head_bias", name, n=(m, norms), scale=(heads,)))
    for name, heads, sigma_heads, seeded in (
        ("own", 3, 3, (0, 1)),
        ("shared", 4, 1, (0, 1)),
        ("values", 4, 2, (0,)),
        ("logarithms", 2, 1, (1,)),
    ):
        inputs = tensors("whiten", name, mu=(m, heads * 7))
        inputs["sigma"] = draw(f"whiten/{name}/sigma", m, sigma_heads * 7).abs() + 2.0**-5
        assert torch.equal(inputs["sigma"].bfloat16().double(), inputs["sigma"])
        case(f, "whiten", name, whiten, inputs, None, seeded, heads=heads, sigma_heads=sigma_heads)

    def slopes(n):
        """A geometric sequence that starts at its own ratio; between powers of two, the rest from the one above."""
        if n & (n - 1) == 0:
            ratio = 2.0 ** -(8 / n)
            return [ratio * ratio**i for i in range(n)]
        lower = 1 << (n.bit_length() - 1)
        return slopes(lower) + slopes(2 * lower)[::2][: n - lower]

    def alibi(heads, offsets):
        return -torch.outer(torch.tensor(slopes(heads)), torch.arange(offsets, dtype=torch.float64))

    for heads in (1, 8, 12):
        case(f, "alibi", f"{heads}_heads", alibi, {}, seeded=(), heads=heads, offsets=9)


# ---- attention, one query row and head at a time


def attend(q, k, v, seq, pos, tiles, heads, kv_heads, q_tiles=None, **terms):
    """The values every row gathers, and the log-sum-exp of its logits, by head."""
    dv = v.shape[1] // kv_heads
    out, lse = [], []
    for i, (s, p) in enumerate(zip(seq, pos)):
        keys, queries = (places(x[s], p + 1) for x in (tiles, q_tiles or tiles))
        for h in range(heads):
            g = h // (heads // kv_heads)
            logit = score_keys(q, k, i, keys, queries, h, g, k.shape[1] // kv_heads, **terms)
            out.append(torch.softmax(logit, 0) @ v[keys, g * dv : (g + 1) * dv])
            lse.append(torch.logsumexp(logit, 0))
    return torch.cat(out).view(len(seq), heads * dv), torch.stack(lse).view(len(seq), heads)


def places(starts, count):
    """Rows of a store that contain the first positions of a sequence."""
    return [starts[j // KEY_TILE] + j % KEY_TILE for j in range(count)]


def score_keys(
    q,
    k,
    i,
    keys,
    queries,
    h,
    g,
    d,
    scale=None,
    key_bias=None,
    pos_bias=None,
    q_store=None,
    q_bias=None,
    ra_alpha=0,
    ra_window=0,
):
    """Logits of query row i for keys, its own position's the last, of query head h and key head g, d wide. `queries`
    are the rows of the keys' own queries."""
    p = len(keys) - 1
    scale = 1 / math.sqrt(d) if scale is None else scale[h]
    wide, narrow = slice(h * d, (h + 1) * d), slice(g * d, (g + 1) * d)
    logit = scale * (k[keys, narrow] @ q[i, wide])
    if key_bias is not None:
        logit = logit + key_bias[keys, h]
    if pos_bias is not None:
        logit = logit + pos_bias[h, [min(p - j, pos_bias.shape[1] - 1) for j in range(p + 1)]]
    if ra_alpha:  # the score of the key's own query and the query's own key
        back = scale * ((q if q_store is None else q_store)[queries, wide] @ k[keys[p], narrow])
        back = back if q_bias is None else back + q_bias[queries, h]
        back = back if key_bias is None else back + key_bias[keys[p], h]
        near = torch.tensor([float(0 < p - j <= ra_window) for j in range(p + 1)])
        logit = logit + ra_alpha * near * back
    return logit


def packed(*lengths):
    """Consecutive sequences; the call's own rows are the key store."""
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


# Rows that continue two sequences whose keys are already stored, the second in two tiles that are out of order.
CONTINUED = dict(seq=[0, 0, 1, 1, 1], pos=[3, 4, 62, 64, 65], tiles=[[66, 0], [2, 0]])
CONTINUED_KEYS = 71
RING = [[2, 0], [7, 0]]  # the same positions in a store of queries with an order of its own


def per_key(width):
    return lambda keys: (keys, width)


def resolve(shapes, keys):
    return {n: s(keys) if callable(s) else s for n, s in shapes.items()}


def attention():
    def go(name, rows, heads, kv, dk, dv, keys=None, seeded=(0,), ra=None, **extra):
        m = len(rows["seq"])
        n = keys or m
        inputs = tensors("attention", name, q=(m, heads * dk), k=(n, kv * dk), v=(n, kv * dv), **resolve(extra, n))
        attr = dict(heads=heads, kv_heads=kv)
        if ra:
            attr.update(ra_alpha=ra[0], ra_window=ra[1])
        case("reciprocal" if ra else "attention", "attention", name, attend, inputs, rows, seeded, **attr)

    go("causal", packed(9), 2, 2, 4, 4)
    go("single", packed(1), 1, 1, 3, 3)
    go("grouped", packed(7), 4, 2, 3, 3)
    go("one_kv_head", packed(6), 3, 1, 4, 4)
    go("widths", packed(7), 2, 2, 5, 3)
    go("wide_values", packed(5), 2, 1, 2, 6)
    go("scale", packed(7), 3, 3, 4, 4, scale=(3,))
    go("key_bias", packed(7), 2, 1, 4, 4, key_bias=per_key(2))
    go("pos_bias", packed(8), 2, 2, 4, 4, pos_bias=(2, 8))
    go("clipped", packed(9), 2, 2, 4, 4, pos_bias=(2, 3))
    go("packed", packed(4, 1, 6), 2, 2, 4, 4)
    everything = dict(scale=(4,), key_bias=per_key(4), pos_bias=(4, 3))
    go("everything", packed(5, 7), 4, 2, 4, 3, **everything)
    go("two_tiles", packed(67, 3), 2, 1, 3, 2, scale=(2,), key_bias=per_key(2), pos_bias=(2, 66))
    go("continued", CONTINUED, 2, 1, 3, 2, keys=CONTINUED_KEYS, seeded=())
    # The log-sum-exp also has a derivative: with the derivative of the values, and alone.
    go("both", packed(5, 7), 4, 2, 4, 3, seeded=(0, 1), **everything)
    go("both_tiles", packed(66), 1, 1, 2, 2, seeded=(0, 1))
    go("lse", packed(6, 4), 4, 2, 3, 2, seeded=(1,), **everything)
    # Reciprocal scores. The last case has its own queries and the queries of its whole key store.
    biases = dict(key_bias=per_key(2), q_bias=per_key(2))
    go("ra", packed(9), 2, 2, 4, 4, ra=(0.5, 3))
    go("ra_grouped", packed(5, 8), 4, 2, 3, 2, ra=(-0.75, 1), scale=(4,))
    go("ra_key_bias", packed(8), 2, 1, 4, 3, ra=(0.5, 2), key_bias=per_key(2))
    go("ra_q_bias", packed(8), 2, 1, 4, 3, ra=(0.5, 2), q_bias=per_key(2))
    go("ra_beyond", packed(6), 2, 2, 3, 3, ra=(0.5, 100), **biases)
    go("ra_everything", packed(7, 1, 6), 4, 2, 3, 2, seeded=(0, 1), ra=(0.25, 4), q_bias=per_key(4), **everything)
    go("ra_tiles", packed(67, 3), 2, 1, 3, 2, ra=(0.5, 5), scale=(2,), **biases)
    go("ra_wide", packed(68), 1, 1, 2, 2, ra=(0.5, 65))
    store_too = dict(q_store=per_key(6), scale=(2,), **biases)
    go("ra_continued", CONTINUED, 2, 1, 3, 2, keys=CONTINUED_KEYS, seeded=(), ra=(0.5, 3), **store_too)
    ring = dict(q_tiles=RING, **CONTINUED)
    go("ra_ring", ring, 2, 1, 3, 2, keys=CONTINUED_KEYS, seeded=(), ra=(0.5, 3), **store_too)
    absorbed(2, 3, 4, ra=(0.5, 3))


def absorbed(heads, d, latent, ra):
    """Keys are c A_h. The cache stores c, so queries are passed as A_h q, together with the row's own key, unchanged."""
    name, n, m = "ra_absorbed", CONTINUED_KEYS, len(CONTINUED["seq"])
    c = draw(f"{name}/c", n, latent, unit=2.0**-3)
    q = draw(f"{name}/q", m, heads, d, unit=2.0**-3)
    A = draw(f"{name}/A", heads, latent, d, unit=1.0)
    keys = torch.einsum("nl,hld->nhd", c, A).flatten(1)
    own = [places(CONTINUED["tiles"][s], p + 1)[p] for s, p in zip(CONTINUED["seq"], CONTINUED["pos"])]
    terms = tensors("attention", name, scale=(heads,), key_bias=(n, heads), q_store=(n, heads * d), q_bias=(n, heads))
    v = draw(f"{name}/v", n, 2)
    term = dict(ra_alpha=ra[0], ra_window=ra[1])
    out = attend(q.flatten(1), keys, v.repeat(1, heads), **CONTINUED, heads=heads, kv_heads=heads, **terms, **term)
    inputs = dict(q=torch.einsum("mhd,hld->mhl", q, A).flatten(1), k=c, v=v, k_own=keys[own], **terms)
    assert all(torch.equal(x.bfloat16().double(), x) for x in inputs.values())
    attr = dict(heads=heads, kv_heads=1, **term)
    case("reciprocal", "attention", name, lambda **_: out, inputs, CONTINUED, (), **attr)


# ---- routing: rows gather what other rows offer, by attention's probabilities as a whole matrix


def probabilities(
    q, k, rows, keys, last, scale=None, key_bias=None, pos_bias=None, q_store=None, q_bias=None, ra_alpha=0, ra_window=0
):
    """P [heads, rows, keys] of one sequence; q and k are [tokens, heads, width], the queries are at the positions `last`."""
    heads, d = q.shape[1:]
    behind = torch.tensor(last)[:, None] - torch.arange(len(keys))
    scale = torch.full((heads,), d**-0.5) if scale is None else scale
    zero = torch.zeros(len(k), heads)
    key_bias, q_bias = (zero if x is None else x for x in (key_bias, q_bias))
    logit = torch.einsum("h,ihd,jhd->hij", scale, q[rows], k[keys]) + key_bias[keys].T[:, None, :]
    if pos_bias is not None:
        logit = logit + pos_bias[:, behind.clamp(0, pos_bias.shape[1] - 1)]
    if ra_alpha:  # the matrix of all positions' queries and all positions' keys, read across
        stored = q if q_store is None else q_store.view(-1, heads, d)
        forth = torch.einsum("h,jhd,ihd->hji", scale, stored[keys], k[keys])
        forth = forth + q_bias[keys].T[:, :, None] + key_bias[keys].T[:, None, :]
        logit = logit + ra_alpha * (forth.mT[:, last] * ((behind > 0) & (behind <= ra_window)))
    return torch.softmax(logit.masked_fill(behind < 0, -math.inf), 2)


def relate(P, head_max):
    """R: the mean or the maximum of P over the heads."""
    if not head_max:
        return P.mean(0)
    first, second = P.detach().topk(2, 0).values
    assert ((second < (1 - CLEAR) * first) | (first == 0) | (first == 1)).all()  # 0: masked, 1: the first token
    return P.max(0).values


def select(row, mode, topk, rms_factor):
    """S_t among the entries of R that are visible: the largest, those not small against their rms, or all."""
    if mode == "topk":
        order = sorted(range(len(row)), key=lambda s: (-row[s], s))
        assert topk >= len(row) or row[order[topk]] < (1 - CLEAR) * row[order[topk - 1]]
        return order[:topk]
    if mode == "rms":
        threshold = rms_factor * math.sqrt(sum(x * x for x in row) / len(row))
        assert all(abs(x / threshold - 1) > CLEAR for x in row)
        return [s for s, x in enumerate(row) if x >= threshold]
    return list(range(len(row)))


def gather(q, k, v, u, seq, pos, tiles, heads, kv_heads, head_max, renormalise, mode, topk, rms_factor, **terms):
    """Returns the sums over u that the rows gather, and attention's sums over v."""
    q, k, v = q.view(len(q), heads, -1), *(x.view(len(x), kv_heads, -1) for x in (k, v))
    k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
    y, o = [], []
    for s, starts in enumerate(tiles):
        rows = [i for i, slot in enumerate(seq) if slot == s]
        last = [pos[i] for i in rows]
        keys = places(starts, max(last) + 1)
        P = probabilities(q, k, rows, keys, last, **terms)
        R = relate(P, head_max)
        mask = torch.zeros_like(R)
        for t, row in enumerate(R.tolist()):
            mask[t, select(row[: last[t] + 1], mode, topk, rms_factor)] = 1.0
        w = R * mask
        y.append((w / w.sum(1, keepdim=True) if renormalise else w) @ u[keys])
        o.append(torch.einsum("hij,jhd->ihd", P, v[keys]).flatten(1))
    return torch.cat(y), torch.cat(o)


def route():
    def go(name, rows, heads, kv, o=True, dk=3, r=5, keys=None, terms={}, ra=None, **rule):
        """With o, attention's own output is also used; otherwise only routing uses attention."""
        m = len(rows["seq"])
        n = keys or m
        shapes = dict(q=(m, heads * dk), k=(n, kv * dk), v=(n, kv * 2), **resolve(terms, n))
        inputs = tensors("route", name, **shapes, u=(n, r))
        sizes = dict(heads=heads, kv_heads=kv)
        if ra:
            sizes.update(ra_alpha=ra[0], ra_window=ra[1])
        attr = {**sizes, **dict(topk=0, rms_factor=0.0, head_max=False, renormalise=True), **rule}
        attended = attend(**{x: inputs[x] for x in shapes}, **rows, **sizes)[0]
        assert (gather(**inputs, **rows, **attr)[1] - attended).abs().max() < 1e-12
        fn = gather if o else lambda **given: gather(**given)[0]
        case("route", "route", name, fn, inputs, rows, () if keys else (0, 1) if o else (0,), **attr)

    terms = dict(scale=(4,), key_bias=per_key(4), pos_bias=(4, 3))
    for rule in (dict(mode="topk", topk=3), dict(mode="rms", rms_factor=0.5), dict(mode="none")):
        mode = rule["mode"]
        go(mode, packed(9), 2, 2, o=False, **rule)
        go(mode + "_raw", packed(9), 2, 2, o=False, renormalise=False, **rule)
        go(mode + "_max", packed(7, 4), 3, 3, head_max=True, **rule)
        go(mode + "_max_raw", packed(8), 4, 2, head_max=True, renormalise=False, **rule)
        go(mode + "_grouped", packed(5, 1, 8), 4, 2, terms=terms, **rule)
        go(mode + "_tiles", packed(66, 2), 2, 1, o=False, dk=2, r=2, **rule)
        go(mode + "_later", CONTINUED, 2, 1, o=False, r=2, keys=CONTINUED_KEYS, **rule)
        go(mode + "_ra", packed(4, 6), 4, 2, ra=(0.5, 3), terms=dict(q_bias=per_key(4), **terms), **rule)
        go(mode + "_ra_max_raw", packed(8), 3, 3, o=False, head_max=True, renormalise=False, ra=(-0.75, 2), **rule)
    later = dict(keys=CONTINUED_KEYS, terms=dict(scale=(2,), key_bias=per_key(2), q_store=per_key(6), q_bias=per_key(2)))
    go("topk_ra_tiles", packed(66), 2, 1, o=False, dk=2, r=2, ra=(0.5, 65), mode="topk", topk=3)
    go("rms_ra_tiles", packed(66), 2, 1, o=False, dk=2, r=2, ra=(0.5, 9), mode="rms", rms_factor=0.5)
    go("topk_ra_later", CONTINUED, 2, 1, o=False, r=2, ra=(0.5, 3), mode="topk", topk=3, **later)
    go("topk_one", packed(7), 2, 2, mode="topk", topk=1)
    go("topk_one_raw", packed(7), 2, 2, mode="topk", topk=1, renormalise=False)
    go("topk_beyond", packed(4, 6), 2, 1, o=False, mode="topk", topk=16)
    go("rms_low", packed(9), 2, 2, mode="rms", rms_factor=0.125)
    go("one_head", packed(6), 1, 1, mode="topk", topk=2)


# ---- the loss


def score(x, w, targets, weight, z_lambda=0.0):
    """The loss, and of every row its negative log-likelihood, log-sum-exp and likeliest word."""
    targets = torch.tensor(targets)
    logits = x @ w.T
    nll = F.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="none")
    scored = targets != IGNORED
    lse = torch.where(scored, torch.logsumexp(logits, 1), 0.0)
    loss = (nll + z_lambda * lse.square()).sum() * weight[0]
    return loss, nll, lse, torch.where(scored, logits.argmax(1), -1)


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
        unit = 2.0**-3 if spread > 1 else 2.0**-5
        inputs = {n: draw(f"{key}/{n}", rows, c, unit=unit, spread=spread) for n, rows in (("x", m), ("w", v))}
        fixed = dict(targets=targets, weight=torch.tensor([2.0**-3]))
        case("cross_entropy", "cross_entropy", name, score, inputs, fixed, z_lambda=z_lambda)


# ---- along a sequence: the mean so far, and the losses on heads of z


def sequences(x, seq):
    return [x[[i for i, slot in enumerate(seq) if slot == s]] for s in sorted(set(seq))]


def prefix_mean():
    def fn(x, seq, pos, tiles):
        return torch.cat([part.cumsum(0) / torch.arange(1, len(part) + 1)[:, None] for part in sequences(x, seq)])

    def whole(x, seq, pos, tiles, whole):
        return torch.cat([part.mean(0).expand_as(part) for part in sequences(x, seq)])

    for name, lengths, width in (("one", (9,), 17), ("packed", (5, 1, 8), 3), ("long", (70,), 2)):
        inputs = tensors("prefix_mean", name, x=(sum(lengths), width))
        case("sequence", "prefix_mean", name, fn, inputs, packed(*lengths))
    inputs = tensors("prefix_mean", "whole", x=(14, 3))
    case("sequence", "prefix_mean", "whole", whole, inputs, packed(5, 1, 8), whole=True)


def square_mean():
    def fn(z, heads, lambda_z):
        return lambda_z * z.view(len(z), heads, -1).square().sum(2).mean()

    sizes = (("heads", 7, 3, 5, 0.25), ("one_head", 5, 1, 19, 1e-5), ("one", 1, 1, 1, 1.0))
    for name, m, heads, width, lambda_z in sizes:
        inputs = tensors("square_mean", name, z=(m, heads * width))
        case("sequence", "square_mean", name, fn, inputs, heads=heads, lambda_z=lambda_z)


def contrast(z, seq, pos, tiles, heads, positives, tau, lambda_c):
    groups = []  # a vector that is its own positive, or two that are each other's
    for part in sequences(z.view(len(z), heads, -1), seq):
        half = len(part) // 2
        spans = [part] if positives == "self" else [part[:half], part[half:]]
        means = [x.mean(0) if len(x) else x.sum(0) for x in spans]
        groups += [[x[h] for x in means] for h in range(heads)]
    norms = [[x.detach().norm().item() for x in group] for group in groups]
    assert not any(0.5e-6 < x < 2e-6 for x in sum(norms, []))
    kept = [group for group, sizes in zip(groups, norms) if min(sizes) >= 1e-6]
    unit = [x / x.norm() for group in kept for x in group]
    if len(unit) < 2:
        return 0 * z.sum()
    s = torch.stack(unit) @ torch.stack(unit).T / tau
    which = torch.arange(len(unit))
    if positives == "self":
        return lambda_c * (torch.logsumexp(s, 1) - s[which, which]).mean()
    others = s.masked_fill(torch.eye(len(unit)).bool(), -math.inf)
    return lambda_c * (torch.logsumexp(others, 1) - s[which, which ^ 1]).mean()


def info_nce():
    def go(name, lengths, heads, width, tau=0.07, faint=(), spread=1.0, **attr):
        """Where head h of the rows in a span is faint its mean falls below the threshold, yet is not zero."""
        z = draw(f"info_nce/{name}/z", sum(lengths), heads * width, unit=spread / 32, spread=spread)
        for first, end, h in faint:
            columns = slice(h * width, (h + 1) * width)
            z[first:end, columns] = draw(f"{name}/faint", end - first, width, unit=2.0**-27, spread=2.0**-23)
        for positives in ("self", "halves"):
            how = dict(heads=heads, positives=positives, tau=tau, lambda_c=0.5)
            case("sequence", "info_nce", f"{name}_{positives}", contrast, dict(z=z), packed(*lengths), **how)

    go("even", (6, 6), 2, 5)
    go("lengths", (5, 2, 7), 3, 4, tau=0.5)
    go("dropped", (6, 3, 4), 2, 5, faint=((0, 3, 1), (6, 9, 0)))
    go("lone", (5,), 1, 7)
    go("short", (1, 4, 3), 2, 3)
    go("small", (4, 4), 2, 5, spread=2.0**-17)
    go("many", (2,) * 9, 8, 3, tau=0.25)


# ---- whole models: two sequences of unequal length, every weight random, including gains and biases


def gpt2(w, rows, tokens, layers, heads, norm_place="pre", **_):
    pre = norm_place == "pre"

    def norm(x, name):
        return F.layer_norm(x, (x.shape[1],), w[name + ".gain"], w[name + ".bias"], 1e-5)

    def linear(x, name):
        return F.linear(x, w[name], w[name + "_bias"])

    def attn(x, name):
        q, k, v = (linear(x, f"{name}.w{c}") for c in "qkv")
        return linear(attend(q, k, v, heads=heads, kv_heads=heads, **rows)[0], name + ".wo")

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
        x = x + F.linear(attend(q, k, v, heads=heads, kv_heads=kv_heads, **rows)[0], w[b + "attn.wo"])
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
    for make in (pointwise, gates_and_buckets, embed, linear, norm, rope, heads, attention, route, cross_entropy):
        make()
    for make in (prefix_mean, square_mean, info_nce, models):
        make()
    for family, cases in families.items():
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), family + ".json")
        with open(path, "w", encoding="ascii") as file:
            file.write(text(cases) + "\n")


if __name__ == "__main__":
    main()
