#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""models.py - golden values for small models of every variant, by PyTorch's autograd in double precision.

Written from the definitions of the parts alone, never from Weft's code: dense, one T x T matrix per head, nothing fused
and nothing cancelled by hand (the scores of w2 and overlap are the whole distances).

    python3 tests/golden/models.py     writes models.json to its own folder; the same bytes every time

README.md describes the file. Letters: B sequences, T tokens, C width, H heads, D = C/H, K key heads, L latent
width, F feed-forward width, V vocabulary, N layers, R decoupled-rope width, G gate width, r cross-token rank.
"""

import math
import os
from types import SimpleNamespace

import torch
import torch.nn.functional as F

from make import IGNORED, NOISE, store, text

CLEAR = 1e-3  # a choice of M2 (a cut, a threshold, the larger head) is decided by at least this, relatively
PROBES = 4  # random vectors that a gradient is projected on


# ---- numbers by counter: 16 bits of splitmix64, keyed by a text's 64-bit FNV-1a; exact in f32

U64 = (1 << 64) - 1


def numbers(key, count):
    """Integers, uniform in -32768 .. 32767; integer i depends on the key and i alone."""
    start = 0xCBF29CE484222325
    for byte in key.encode():
        start = (start ^ byte) * 0x100000001B3 & U64
    for i in range(count):
        x = start + (i + 1) * 0x9E3779B97F4A7C15 & U64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & U64
        x = (x ^ x >> 27) * 0x94D049BB133111EB & U64
        yield ((x ^ x >> 31) >> 48) - 32768


def uniform(key, shape):
    """In -0.5 .. 0.5, a standard deviation of 0.29."""
    return torch.tensor([x / 65536 for x in numbers(key, math.prod(shape))]).view(shape)


# Centres of weights by the last part of the name: temperatures that keep attention soft, gains around 1; others around 0.
CENTRES = {"gain": 1.0, "gamma": 1.0, "beta": 1.0, "theta": 1.5, "alpha": 0.5}


def weight(key, name, shape):
    return uniform(f"{key}/{name}", shape) + CENTRES.get(name.split(".")[-1], 0.0)


# ---- options, with the defaults of the preset gpt2

DEFAULTS = dict(
    **dict(attn="full", geom="dot", ffn="gelu", norm="layernorm", pos="learned", norm_place="pre"),
    **dict(bias="yes", tie="yes", m1="no", m2="no", m3="no", learn_alpha="no", detach="no", output_gate="no"),
    **dict(ra_alpha=0.0, ra_window=64, logits_z=0.0, aux="yes", kv_heads=0),
    **dict(latent_width=32, latent_shared="no", latent_heads="own", latent_scale="head", latent_rope=0),
    **dict(spread="split", learn_tau="yes", rope_base=10000.0, relative_max=0),
    **dict(ws_heads=8, ws_form="block", ws_positives="self", ws_tau=0.07, ws_lambda_z=1e-5, ws_lambda_c=5e-3),
    **dict(ws_logits="no", ws_lambda_logits=0.1),
    **dict(m1_alpha=0.1, m1_mode="token", m1_width=64),
    **dict(m2_alpha=0.3, m2_form="low", m2_rank=64, m2_select="topk", m2_topk=8, m2_rms=0.5),
    **dict(m2_renormalise="yes", m2_head_average="yes"),
    **dict(m3_alpha=0.2, m3_tying="tied_transpose", m3_width=0),
)


def resolve(settings):
    unknown = set(settings) - set(DEFAULTS) - {"layers", "width", "heads", "ffn_width", "context", "vocab"}
    assert not unknown, unknown
    o = {n: v == "yes" if v in ("yes", "no") else v for n, v in {**DEFAULTS, **settings}.items()}
    o = SimpleNamespace(**o)
    o.N, o.C, o.H, o.F, o.V = o.layers, o.width, o.heads, o.ffn_width, o.vocab
    o.D = o.C // o.H
    o.K = o.kv_heads or o.H
    o.latent = o.attn == "latent"
    o.L = o.latent_width if o.latent else o.m3_width or 32
    o.R = (o.latent_rope or (o.D // 2 + 1) // 2 * 2) if o.latent and o.pos == "rope" else 0
    o.Ds = 0 if o.geom == "dot" else o.D // 2 if o.spread == "split" else o.D
    o.Dm = o.Ds or o.D
    o.wide = o.Dm + o.R + (o.Ds if o.geom == "w2" else 0)  # the width of k
    o.scale_width = o.L if o.latent and o.latent_scale == "latent" else o.wide
    o.offsets = o.relative_max or o.context
    return o


# ---- the weights: names and shapes


def norm_shapes(o):
    return {"gain": (o.C,), **({"bias": (o.C,)} if o.norm == "layernorm" else {})}


def linear_shapes(o, **matrices):
    """Matrices [out, in] with their biases; those without rows are left out."""
    shapes = {}
    for name, (out, into) in matrices.items():
        if out:
            shapes[name] = (out, into)
            if o.bias:
                shapes[name + "_bias"] = (out,)
    return shapes


def attn_shapes(o):
    s = linear_shapes(o, wq=(o.H * o.Dm, o.C), wq_spread=(o.H * o.Ds, o.C))
    if o.latent:
        n = 1 if o.latent_heads == "shared" else o.H
        s.update(wdk=(o.L, o.C), wa=(n * o.Dm, o.L), wb=(n * o.D, o.L))
        if not o.latent_shared:
            s.update(wdv=(o.L, o.C))
        if o.Ds:
            s.update(ws=(o.Ds, o.C))
        if o.R:
            s.update(wqr=(o.H * o.R, o.C), wkr=(o.R, o.C))
    else:
        s.update(linear_shapes(o, wk=(o.K * o.Dm, o.C), wk_spread=(o.K * o.Ds, o.C), wv=(o.K * o.D, o.C)))
    s.update(linear_shapes(o, wo=(o.C, o.H * o.D)))
    if o.geom != "dot" and o.learn_tau:
        s.update(theta=(o.H,))
    if o.output_gate:
        s.update(wg=(o.H * o.D, o.C))
    if o.pos == "relative":
        s.update(relative=(o.H, o.offsets))
    return s


def ffn_shapes(o):
    if o.ffn == "gelu":
        return linear_shapes(o, fc=(o.F, o.C), proj=(o.C, o.F))
    s = linear_shapes(o, w1=(o.F, o.C), w3=(o.F, o.C), w2=(o.C, o.F))
    if o.ffn == "ws":
        part = o.F // o.ws_heads
        s.update(wz=(o.F, o.F) if o.ws_form == "dense" else (o.ws_heads, part, part))
        s.update(dict(wl=(o.C, o.F)) if o.ws_logits else {})
    return s


def m1_shapes(o, first, last):
    return {} if last else dict(w1=(o.m1_width, o.F), w2=(o.H, o.m1_width), bias=(o.H,))


def m2_shapes(o, first, last):
    return dict(p=(o.m2_rank, o.F), q=(o.F, o.m2_rank)) if o.m2_form == "low" else dict(q=(o.F, o.F))


def m3_shapes(o, first, last):
    if o.m3_tying == "per_head_scalar":
        s = dict(gamma=(o.H,)) if last else dict(gamma=(o.H,), beta=(o.H,))
    else:
        s = dict(w=(o.F, o.L))
        if o.m3_tying == "untied" and not last:
            s.update(w_back=(o.L, o.F))
    if not o.latent:
        s.update(wc=(o.L, o.C))
        if not first:
            s.update(wu=(o.K * o.Dm, o.L))
            if o.Ds:
                s.update(wu_spread=(o.K * o.Ds, o.L))
    return s


def shapes(o):
    """Returns the shapes of all weights, by name."""
    s = dict(wte=(o.V, o.C))

    def add(scope, part):
        s.update({f"{scope}.{n}": shape for n, shape in part.items()})

    if o.pos == "learned":
        s.update(wpe=(o.context, o.C))
    for i in range(o.N):
        b = f"blocks.{i}"
        add(b + ".norm1", norm_shapes(o))
        add(b + ".norm2", norm_shapes(o))
        add(b + ".attn", attn_shapes(o))
        add(b + ".ffn", ffn_shapes(o))
        for name, part in (("m1", m1_shapes), ("m2", m2_shapes), ("m3", m3_shapes)):
            if getattr(o, name):
                own = part(o, i == 0, i == o.N - 1)
                add(f"{b}.{name}", {**own, "alpha": (1,)} if own and o.learn_alpha else own)
    if o.norm_place == "pre":
        add("norm", norm_shapes(o))
    if not o.tie:
        s.update(head=(o.V, o.C))
    return s


class Weights:
    """Weights by name under a scope; a name that is not there is None."""

    def __init__(self, all, scope=""):
        self.all, self.scope = all, scope

    def __getitem__(self, name):
        return self.all.get(self.scope + name)

    def under(self, scope):
        return Weights(self.all, f"{self.scope}{scope}.")

    def linear(self, x, name):
        return F.linear(x, self[name], self[name + "_bias"])


# ---- norms and positions


def norm(o, w, x):
    if o.norm == "layernorm":
        return F.layer_norm(x, (o.C,), w["gain"], w["bias"], 1e-5)
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w["gain"]


def rotate(o, x):
    """x [B, T, heads, D]: element i of the first half and element i of the second are turned together."""
    d = x.shape[3]
    angle = torch.outer(torch.arange(x.shape[1]).double(), o.rope_base ** (-torch.arange(0, d, 2).double() / d))
    cos, sin = angle.cos()[:, None, :], angle.sin()[:, None, :]
    a, b = x.split(d // 2, 3)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), 3)


def slopes(heads):
    """ALiBi's slopes: a geometric sequence that ends in 2^-8; if heads is not a power of two, the sequence of the next lower power,
    then every second slope of the sequence for twice that power."""
    power = 2 ** int(math.log2(heads))
    own = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return own if power == heads else own + slopes(2 * power)[0::2][: heads - power]


def position_scores(o, w, behind):
    """p [H, T, T] from i - j [T, T]."""
    if o.pos == "alibi":
        return -torch.tensor(slopes(o.H))[:, None, None] * behind
    if o.pos == "relative":
        return w["relative"][:, behind.clamp(0, o.offsets - 1)]
    return torch.zeros(o.H, *behind.shape)


# ---- attention


def split(x, heads):
    return x.view(*x.shape[:2], heads, -1)


def positive(raw):
    return torch.logaddexp(raw, torch.zeros_like(raw)) + 1e-4


def keys_full(o, w, m3, x, e):
    """Means, raw spreads and values, each [B, T, H, .], and the latent that M3 reads."""
    mean, value = w.linear(x, "wk"), w.linear(x, "wv")
    raw = w.linear(x, "wk_spread") if o.Ds else None
    c = F.linear(x, m3["wc"]) if o.m3 else None
    if e is not None:
        c = c + e
        mean = mean + F.linear(e, m3["wu"])
        raw = raw + F.linear(e, m3["wu_spread"]) if o.Ds else None
    made = (None if y is None else split(y, o.K).repeat_interleave(o.H // o.K, 2) for y in (mean, raw, value))
    return *made, c


def keys_latent(o, w, x, e):
    c = F.linear(x, w["wdk"])
    c = c if e is None else c + e
    c_v = c if o.latent_shared else F.linear(x, w["wdv"])
    own = o.H if o.latent_heads == "own" else 1
    mean, value = split(F.linear(c, w["wa"]), own), split(F.linear(c_v, w["wb"]), own)
    raw = split(F.linear(x, w["ws"]), 1) if o.Ds else None
    made = (None if y is None else y.expand(-1, -1, o.H, -1) for y in (mean, raw, value))
    return *made, c


def place(o, mean, spread, turned):
    """The part of q or k that is compared as a point: scaled, then turned or joined by what is turned."""
    if o.geom == "overlap":
        mean = mean / spread.sqrt()
    if turned is not None:
        return torch.cat((mean, turned), 3)
    return rotate(o, mean) if o.pos == "rope" else mean


def distances(a, b):
    """|a_i - b_j|^2, [B, H, T, T] from [B, T, H, .]."""
    return (a[:, :, None] - b[:, None]).square().sum(4).permute(0, 3, 1, 2)


def scores(o, w, q, k, sigma_q, sigma_k):
    """score(q_i, k_j), [B, H, T, T]."""
    if o.geom == "dot":
        return torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(o.scale_width)
    if o.learn_tau:
        tau = w["theta"].exp()
    else:
        tau = torch.full((o.H,), 2 * math.sqrt(o.scale_width) if o.geom == "w2" else 1.0)
    tau = tau[:, None, None]
    if o.geom == "w2":
        return -(distances(q, k) + distances(sigma_q, sigma_k)) / (tau + 1e-6)
    spread_q, spread_k = (s.log().sum(3).transpose(1, 2) for s in (sigma_q, sigma_k))
    return -(distances(q, k) + spread_q[:, :, :, None] + spread_k[:, :, None, :]) / (2 * tau)


def attention(o, w, m3, x, gate, e):
    """Returns attention's output, its probabilities [B, H, T, T], and the key latent. gate [B, T, H] and e [B, T, L] come from
    the layer before; None in the first."""
    mean, raw, value, c = keys_latent(o, w, x, e) if o.latent else keys_full(o, w, m3, x, e)
    mean_q = split(w.linear(x, "wq"), o.H)
    sigma_q = positive(split(w.linear(x, "wq_spread"), o.H)) if o.Ds else None
    sigma = positive(raw) if o.Ds else None
    turned_q = rotate(o, split(F.linear(x, w["wqr"]), o.H)) if o.R else None
    turned = rotate(o, split(F.linear(x, w["wkr"]), 1)).expand(-1, -1, o.H, -1) if o.R else None

    q, k = place(o, mean_q, sigma_q, turned_q), place(o, mean, sigma, turned)
    score = scores(o, w, q, k, sigma_q, sigma)
    behind = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
    near = ((behind > 0) & (behind <= o.ra_window)).double()
    logit = score + position_scores(o, w, behind) + o.ra_alpha * near * score.transpose(2, 3)
    P = torch.softmax(logit.masked_fill(behind < 0, -math.inf), 3)

    y = torch.einsum("bhij,bjhd->bihd", P, value)
    if gate is not None:
        y = y * gate[..., None]
    y = y.flatten(2)
    if o.output_gate:
        y = y * torch.sigmoid(F.linear(x, w["wg"]))
    return w.linear(y, "wo"), P, c


# ---- the feed-forward's losses on z


def z_losses(o, w, up):
    """Two losses, and what predicts the next token through the head, or None."""
    z = split(up, o.ws_heads)  # [B, T, heads, F / heads]
    if o.ws_form == "dense":
        z = split(F.linear(up, w["wz"]), o.ws_heads)
    else:
        z = torch.einsum("bthi,hoi->btho", z, w["wz"])
    guess = F.linear(z.flatten(2), w["wl"]) if o.ws_logits else None
    return o.ws_lambda_z * z.square().sum(3).mean(), o.ws_lambda_c * contrast(o, z), guess


def contrast(o, z):
    half = z.shape[1] // 2
    spans = (z,) if o.ws_positives == "self" else (z[:, :half], z[:, half:])
    means = torch.cat([x.mean(1).flatten(0, 1) for x in spans])
    assert (means.norm(dim=1) > 2e-6).all()  # none is dropped
    unit = means / means.norm(dim=1, keepdim=True)
    s, n = unit @ unit.T / o.ws_tau, len(unit)
    which = torch.arange(n)
    if o.ws_positives == "self":
        return (torch.logsumexp(s, 1) - s.diagonal()).mean()
    others = s.masked_fill(torch.eye(n).bool(), -math.inf)
    return (torch.logsumexp(others, 1) - s[which, (which + n // 2) % n]).mean()


# ---- the reciprocal mechanisms


class Unclear(Exception):
    """M2's choice is too close to call."""


def demand(good):
    if not good:
        raise Unclear


def relate(o, P):
    """R [B, T, T]: the mean or the maximum over heads."""
    if o.m2_head_average:
        return P.mean(1)
    first, second = P.detach().topk(2, 1).values.unbind(1)
    demand(((second < (1 - CLEAR) * first) | (first == 0) | (first == 1)).all())  # 0: masked, 1: the first token
    return P.max(1).values


def chosen(o, row):
    """S_t of the visible entries of a row of R."""
    if o.m2_select == "topk":
        order = sorted(range(len(row)), key=lambda s: (-row[s], s))
        demand(o.m2_topk >= len(row) or row[order[o.m2_topk]] < (1 - CLEAR) * row[order[o.m2_topk - 1]])
        return order[: o.m2_topk]
    if o.m2_select == "rms":
        threshold = o.m2_rms * math.sqrt(sum(x * x for x in row) / len(row))
        demand(all(abs(x / threshold - 1) > CLEAR for x in row))
        return [s for s, x in enumerate(row) if x >= threshold]
    return list(range(len(row)))


def cross_token(o, w, h, P):
    R = relate(o, P)
    R = R.detach() if o.detach else R
    member = torch.zeros_like(R)
    for b, matrix in enumerate(R.tolist()):
        for t, row in enumerate(matrix):
            member[b, t, chosen(o, row[: t + 1])] = 1.0
    weights = R * member
    if o.m2_renormalise:
        weights = weights / weights.sum(2, keepdim=True)
    u = h if o.m2_form == "full" else F.linear(h, w["p"])
    return F.linear(weights @ u, w["q"])


def head_gate(o, w, h):
    m = F.linear(h.detach() if o.detach else h, w["w1"])
    if o.m1_mode == "prefix":
        m = m.cumsum(1) / torch.arange(1, m.shape[1] + 1)[:, None]
    elif o.m1_mode == "sequence":
        m = m.mean(1, keepdim=True).expand_as(m)
    return torch.sigmoid(F.linear(m, w["w2"]) + w["bias"])


def buckets(o):
    """Returns the latent of each hidden element, as a matrix [F, L], and the head of each latent, [L]."""
    bucket = torch.tensor([f * o.L // o.F for f in range(o.F)])
    head = [next(h for h in range(o.H) if h * o.L // o.H <= l < (h + 1) * o.L // o.H) for l in range(o.L)]
    return F.one_hot(bucket, o.L).double(), torch.tensor(head)


def enrich(o, w, c):
    if o.m3_tying != "per_head_scalar":
        return F.linear(c, w["w"])
    belongs, head = buckets(o)
    return (w["gamma"][head] * c) @ belongs.T


def context(o, w, h):
    if o.m3_tying == "untied":
        return F.linear(h, w["w_back"])
    if o.m3_tying == "tied_transpose":
        return h @ w["w"]
    belongs, head = buckets(o)
    return w["beta"][head] * (h @ (belongs / belongs.sum(0)))


# ---- blocks and the model


def hidden(o, w, x):
    """h [B, T, F] and the up branch."""
    if o.ffn == "gelu":
        return F.gelu(w.linear(x, "fc"), approximate="tanh"), None
    up = w.linear(x, "w1")
    return F.silu(w.linear(x, "w3")) * up, up


def feed_forward(o, w, x, P, c, last):
    """Returns the feed-forward's output, the next layer's gate and context, and the losses on z."""

    def alpha(name, fixed):
        return w.under(name)["alpha"] if o.learn_alpha else fixed

    ffn, gate, e, aux = w.under("ffn"), None, None, (0.0, 0.0, None)
    h, up = hidden(o, ffn, x)
    if o.ffn == "ws" and o.aux:
        aux = z_losses(o, ffn, up)
    plain = h
    if o.m3:
        h = h + alpha("m3", o.m3_alpha) * enrich(o, w.under("m3"), c.detach() if o.detach else c)
    if o.m2:
        h = h + alpha("m2", o.m2_alpha) * cross_token(o, w.under("m2"), h, P)
    if o.m1 and not last:
        a = alpha("m1", o.m1_alpha)
        gate = 1 - a + a * head_gate(o, w.under("m1"), h)
    if o.m3 and not last:
        e = alpha("m3", o.m3_alpha) * context(o, w.under("m3"), plain)
    return ffn.linear(h, "proj" if o.ffn == "gelu" else "w2"), gate, e, aux


def model(o, weights, tokens):
    """Logits [B, T, V], the losses on z summed over layers, and the logits that each layer's z predicts."""
    w = Weights(weights)
    pre = o.norm_place == "pre"
    x = w["wte"][tokens]
    if o.pos == "learned":
        x = x + w["wpe"][: tokens.shape[1]]
    gate = e = None
    ws_z, ws_c, guesses, head = 0.0, 0.0, [], w["wte" if o.tie else "head"]
    for i in range(o.N):
        b = w.under(f"blocks.{i}")
        norm1, norm2 = b.under("norm1"), b.under("norm2")
        y, P, c = attention(o, b.under("attn"), b.under("m3"), norm(o, norm1, x) if pre else x, gate, e)
        x = x + y if pre else norm(o, norm1, x + y)
        y, gate, e, aux = feed_forward(o, b, norm(o, norm2, x) if pre else x, P, c, i == o.N - 1)
        x = x + y if pre else norm(o, norm2, x + y)
        ws_z, ws_c = ws_z + aux[0], ws_c + aux[1]
        guesses += [] if aux[2] is None else [F.linear(aux[2], head)]
    if pre:
        x = norm(o, w.under("norm"), x)
    return F.linear(x, head), ws_z, ws_c, guesses


def losses(o, weights, tokens, targets):
    """Logits and the named terms, main and logits_z as means over the valid tokens."""
    logits, ws_z, ws_c, guesses = model(o, weights, tokens)
    valid = targets != IGNORED
    terms = dict(
        main=F.cross_entropy(logits[valid], targets[valid]),
        logits_z=o.logits_z * torch.logsumexp(logits[valid], 1).square().mean(),
        ws_z=torch.as_tensor(ws_z),
        ws_c=torch.as_tensor(ws_c),
    )
    if guesses:
        each = [F.cross_entropy(x[valid], targets[valid]) for x in guesses]
        terms["ws_logits"] = o.ws_lambda_logits * sum(each)
    return logits, dict(terms, total=sum(terms.values()))


# ---- the list


def gallery():
    small = dict(layers=2, width=16, heads=2, ffn_width=24, context=7, vocab=11)
    odd = dict(layers=3, width=24, heads=3, ffn_width=26, context=9, vocab=13)
    four = dict(layers=2, width=16, heads=4, ffn_width=24, context=10, vocab=17)
    llama = dict(norm="rmsnorm", pos="rope", ffn="swiglu", bias="no", tie="no")
    latent = dict(attn="latent", latent_width=6)
    w2, overlap = dict(geom="w2"), dict(geom="overlap")
    ra = dict(ra_alpha=0.5, ra_window=3)
    m1 = dict(m1="yes", m1_alpha=0.6, m1_width=5)
    mixed = dict(m2="yes", m2_alpha=0.7, m2_rank=6)
    m2 = dict(mixed, m2_topk=3)
    rms, none = dict(mixed, m2_select="rms"), dict(mixed, m2_select="none")
    m3 = dict(m3="yes", m3_alpha=0.4)
    m123 = {**m1, **m2, **m3}
    ws = dict(ffn="ws", ws_heads=3, ws_lambda_z=0.03, ws_lambda_c=0.3)

    models = {}

    def add(name, *parts, **settings):
        models[name] = {n: v for part in (*parts, settings) for n, v in part.items()}

    # Frames: norms, places, biases, ties, positions.
    add("plain", small)
    add("post", odd, norm_place="post", pos="none", tie="no")
    add("post_rms", small, norm="rmsnorm", norm_place="post", bias="no")
    add("llama", four, llama, kv_heads=2, logits_z=0.05)
    add("rope_base", odd, pos="rope", rope_base=50.0, kv_heads=1, bias="no")
    add("alibi", four, pos="alibi")
    add("alibi_odd", odd, pos="alibi", kv_heads=1)
    add("relative", four, pos="relative", kv_heads=2)
    add("relative_clipped", odd, pos="relative", relative_max=4, bias="no")
    add("output_gate", four, pos="none", output_gate="yes", kv_heads=2)

    # Geometries over full keys.
    add("w2", four, llama, w2)
    add("w2_full", odd, w2, spread="full", kv_heads=1)
    add("w2_fixed", small, w2, learn_tau="no", pos="alibi")
    add("overlap", four, llama, overlap, kv_heads=2)
    add("overlap_full", odd, overlap, spread="full", pos="relative")
    add("overlap_fixed", small, overlap, learn_tau="no")

    # Latent keys and values, and geometries over them.
    add("latent", four, latent)
    add("latent_shared", small, latent, latent_shared="yes", pos="none")
    add("latent_heads", odd, latent, latent_heads="shared", latent_scale="latent", bias="no")
    add("latent_rope", four, llama, latent)
    add("latent_rope_wide", odd, latent, pos="rope", latent_rope=6, latent_shared="yes", latent_heads="shared")
    add("latent_w2", small, latent, w2, pos="none")
    add("latent_w2_rope", four, llama, latent, w2)
    add("latent_w2_fixed", odd, latent, w2, spread="full", learn_tau="no", latent_scale="latent", pos="alibi")
    add("latent_overlap", small, latent, overlap)
    add("latent_overlap_rope", four, llama, latent, overlap, spread="full", latent_heads="shared")

    # Reciprocal attention under each geometry.
    add("ra", four, ra, kv_heads=2)
    add("ra_rope", small, llama, ra, ra_window=64)
    add("ra_w2", odd, w2, ra, pos="rope", kv_heads=1)
    add("ra_overlap", four, overlap, ra, pos="relative")
    add("ra_latent_w2_rope", four, llama, latent, w2, ra, output_gate="yes")
    add("ra_latent_overlap", small, latent, overlap, ra)

    # Feed-forwards and their losses.
    add("swiglu", small, ffn="swiglu")
    add("ws", small, ws, logits_z=0.05)
    add("ws_halves", odd, ws, ws_heads=2, ws_positives="halves", bias="no", norm_place="post")
    add("ws_dense", four, ws, ws_form="dense", ws_tau=0.3)
    add("ws_dense_halves", small, llama, ws, ws_form="dense", ws_positives="halves")
    add("ws_logits", small, ws, ws_logits="yes", ws_lambda_logits=0.4)
    add("ws_logits_untied", odd, llama, ws, ws_heads=2, ws_form="dense", ws_logits="yes", ws_positives="halves")
    add("ws_silent", small, ffn="ws", ws_heads=3, aux="no")

    # M1.
    add("m1", odd, m1)
    add("m1_prefix", four, m1, m1_mode="prefix", kv_heads=2)
    add("m1_sequence", small, m1, m1_mode="sequence")
    add("m1_alpha", odd, m1, learn_alpha="yes", output_gate="yes", pos="rope")
    add("m1_detach", small, m1, detach="yes", norm_place="post")
    add("m1_prefix_latent", odd, latent, m1, m1_mode="prefix", learn_alpha="yes")

    # M2.
    add("m2", four, m2)
    add("m2_rms", odd, rms, m2_rms=0.9)
    add("m2_none", small, none, learn_alpha="yes")
    add("m2_raw", four, m2, m2_renormalise="no", kv_heads=2)
    add("m2_max", odd, m2, m2_head_average="no", pos="alibi")
    add("m2_max_raw", four, rms, m2_head_average="no", m2_renormalise="no")
    add("m2_full", small, m2="yes", m2_alpha=0.7, m2_form="full", m2_topk=3, m2_renormalise="no")
    add("m2_detach", small, m2, detach="yes")
    add("m2_ra", four, m2, ra, kv_heads=2)
    add("m2_ra_w2", small, llama, none, ra, w2, m2_renormalise="no", m2_head_average="no")
    add("m2_latent_overlap", four, latent, overlap, rms, pos="rope")

    # M3.
    add("m3_latent", odd, latent, m3)
    add("m3_latent_untied", small, latent, m3, m3_tying="untied", latent_shared="yes", learn_alpha="yes")
    add("m3_latent_scalar", odd, latent, m3, m3_tying="per_head_scalar", latent_width=7, learn_alpha="yes")
    add("m3_latent_w2", four, llama, latent, w2, m3, latent_heads="shared")
    add("m3_full", odd, m3, m3_width=5, kv_heads=1)
    add("m3_full_untied", four, llama, m3, m3_width=5, m3_tying="untied", kv_heads=2, learn_alpha="yes")
    add("m3_full_scalar", small, m3, m3_width=7, m3_tying="per_head_scalar")
    add("m3_full_w2", odd, w2, m3, m3_width=5, pos="rope")
    add("m3_full_overlap", four, overlap, m3, m3_width=5, spread="full", kv_heads=2)
    add("m3_detach", odd, latent, m3, detach="yes")

    # All three, as they are used.
    add("ra_mla", odd, latent, m123)
    add("all_swiglu", odd, llama, latent, m123, m1_mode="prefix", learn_alpha="yes")
    add("all_full", four, m123, m3_width=5, kv_heads=2, norm_place="post", m3_tying="untied")
    add("all_ws", odd, llama, ws, m123, ws_heads=2, m3_width=5, logits_z=0.05, pos="relative")
    add("all_detach", odd, latent, m123, detach="yes", learn_alpha="yes", m3_tying="untied")
    everything = dict(output_gate="yes", learn_alpha="yes", m1_mode="prefix", logits_z=0.05)
    add("everything", odd, llama, latent, w2, ra, ws, m1, rms, m3, everything, ws_heads=2, ws_positives="halves")
    return models


# ---- what is stored


def digits(x):
    return float(f"{x.item():.12g}")


def store_gradient(key, name, g):
    """The norm, and projections on random vectors in units of 1e-10 norms."""
    of, g = list(g.shape), torch.where(g.abs().max() < NOISE, 0.0, g).flatten()
    norm = digits(g.norm())
    probes = [uniform(f"{key}/{name}/probe{i}", g.shape) @ g for i in range(PROBES)]
    return {"of": of, "norm": norm, "probe": [round(x.item() / norm * 1e10) if norm else 0 for x in probes]}


def case(name, settings):
    """The first seed at which all that M2 chooses is clear."""
    seed, o = 0, resolve(settings)
    while True:
        try:
            return run(name, f"{name}/{seed}", settings, o)
        except Unclear:
            seed += 1


def run(name, key, settings, o, batch=2):
    length = o.context - (o.context > 9)  # the longer ones leave positions unused
    tokens, targets = (
        torch.tensor([x % o.V for x in numbers(f"{key}/{n}", batch * length)]).view(batch, length)
        for n in ("tokens", "targets")
    )
    targets[0, 1] = targets[-1, -2] = IGNORED
    weights = {n: weight(key, n, s).requires_grad_() for n, s in shapes(o).items()}
    logits, terms = losses(o, weights, tokens, targets)
    terms["total"].backward()
    entry = {"name": name, "key": key, "attr": settings, "tokens": store(tokens), "targets": store(targets)}
    entry["loss"] = {n: digits(x) for n, x in terms.items()}
    entry["logits"] = store(logits.flatten(0, 1))
    entry["grad"] = {}
    for n, x in weights.items():  # a weight that no loss reads (the matrix of z without its losses) has none
        entry["grad"][n] = store_gradient(key, n, torch.zeros_like(x) if x.grad is None else x.grad)
    return entry


def main():
    cases = [case(name, settings) for name, settings in gallery().items()]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models.json")
    with open(path, "w", encoding="ascii") as file:
        file.write(text(cases) + "\n")


if __name__ == "__main__":
    main()
