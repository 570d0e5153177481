#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""optim.py - golden weights of optimisers after given gradients, in double precision.

AdamW is PyTorch's own, given the learning rate and the clipped gradient of every step. AdamWSPAM is written here from
its definition alone, and never from Weft's code.

    python3 tests/golden/optim.py     writes optim.json to its own folder; the same bytes every time

README.md describes the file.
"""

import math
import os

import torch

from make import store, text
from models import resolve, shapes, uniform, weight

MODEL = dict(layers=1, width=4, heads=2, ffn_width=6, context=4, vocab=5, pos="relative")
STEPS, SEEN = 100, (1, 45, 100)
DEFAULTS = dict(
    **dict(optim="adamw", lr=1e-2, warmup=10, steps=STEPS, schedule="cosine", clip=1.0),
    **dict(beta1=0.9, beta2=0.95, eps=1e-8, decay=0.1, spam_theta=5000.0, spam_interval=500, spam_warmup=150),
)


def gradient(key, name, n, shape):
    """Step n's; two in five have spikes."""
    g = uniform(f"{key}/{name}/{n}", shape) / 16
    if (n + 1) % 5 < 2:
        g.view(-1)[(torch.arange(g.numel()) + n) % 13 == 0] *= 1024
    return g


def learning_rate(o, n):
    if n <= o["warmup"]:
        return o["lr"] * n / o["warmup"]
    done = (n - o["warmup"]) / (o["steps"] - o["warmup"])
    left = {"cosine": (1 + math.cos(math.pi * done)) / 2, "linear": 1 - done, "constant": 1}[o["schedule"]]
    return o["lr"] * (0.1 + 0.9 * left)


def clip(o, grads):
    norm = math.sqrt(sum(g.square().sum().item() for g in grads.values()))
    return {name: g * min(1, o["clip"] / norm) for name, g in grads.items()}


def decays(name, shape):
    return len(shape) >= 2 and not name.endswith("relative")


class AdamW:
    def __init__(self, o, weights):
        self.o, self.weights = o, weights
        groups = [
            dict(params=[w for n, w in weights.items() if decays(n, w.shape) == yes], weight_decay=o["decay"] * yes)
            for yes in (True, False)
        ]
        self.torch = torch.optim.AdamW(groups, betas=(o["beta1"], o["beta2"]), eps=o["eps"])

    def step(self, n, grads):
        for name, g in clip(self.o, grads).items():
            self.weights[name].grad = g
        for group in self.torch.param_groups:
            group["lr"] = learning_rate(self.o, n)
        self.torch.step()


class AdamWSPAM:
    def __init__(self, o, weights):
        self.o, self.weights = o, weights
        self.m = {name: torch.zeros_like(w) for name, w in weights.items()}
        self.v = {name: torch.zeros_like(w) for name, w in weights.items()}
        self.count = 0  # steps of the bias correction
        self.since = None  # steps since the moments were last reset

    def step(self, n, grads):
        o, lr, interval = self.o, learning_rate(self.o, n), self.o["spam_interval"]
        self.count += 1
        self.since = None if self.since is None else self.since + 1
        if n % interval == 0:
            for x in (*self.m.values(), *self.v.values()):
                x.zero_()
            self.count, self.since = 1, 0
        if n >= 20 and n % interval >= 20:
            most = {name: (o["spam_theta"] * (v + 1e-12)).sqrt() for name, v in self.v.items()}
            grads = {name: torch.where(g.abs() > most[name], g.sign() * most[name], g) for name, g in grads.items()}
        scale = 1.0
        if self.since is not None and self.since < o["spam_warmup"]:
            scale = 1 - 0.99 * (1 + math.cos(math.pi * self.since / (o["spam_warmup"] + 1))) / 2
        for name, g in clip(o, grads).items():
            w, m, v = self.weights[name], self.m[name], self.v[name]
            m.mul_(o["beta1"]).add_((1 - o["beta1"]) * g)
            v.mul_(o["beta2"]).add_((1 - o["beta2"]) * g * g)
            mhat, vhat = m / (1 - o["beta1"] ** self.count), v / (1 - o["beta2"] ** self.count)
            if decays(name, w.shape):
                w.mul_(1 - lr * o["decay"])
            w.sub_(scale * lr * mhat / (vhat.sqrt() + o["eps"]))


@torch.no_grad()
def case(name, **settings):
    o = {**DEFAULTS, **settings}
    weights = {n: weight(name, n, s) for n, s in shapes(resolve(MODEL)).items()}
    optimiser = (AdamW if o["optim"] == "adamw" else AdamWSPAM)(o, weights)
    entry = {"name": name, "attr": {**MODEL, **settings}, "weights": {}}
    entry["attr"].update({n: DEFAULTS[n] for n in ("lr", "warmup", "steps")})
    for n in range(1, STEPS + 1):
        optimiser.step(n, {m: gradient(name, m, n, w.shape) for m, w in weights.items()})
        if n in SEEN:
            entry["weights"][str(n)] = {m: store(w.clone()) for m, w in weights.items()}
    return entry


def main():
    spam = dict(optim="adamwspam")
    cases = [
        case("adamw"),
        case("adamw, other options", beta1=0.8, beta2=0.99, eps=1e-3, decay=1.0, clip=0.25, schedule="linear"),
        case("adamwspam", **spam),
        case("adamwspam, short intervals", **spam, spam_theta=50.0, spam_interval=40, spam_warmup=15, schedule="constant"),
        case("adamwspam, long warm-up", **spam, spam_interval=30, spam_warmup=1000, decay=2.0),
    ]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "optim.json")
    with open(path, "w", encoding="ascii") as file:
        file.write(text(cases) + "\n")


if __name__ == "__main__":
    main()
