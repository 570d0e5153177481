#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torch_compile.py WEFT LIBRARY FOLDER - exported PyTorch modules, compiled by torch.compile.

Small models of every preset, and eight of the models in which all pairs of choices occur, with weights so large that every
part counts. (MODELS=N takes N of the latter; all of them take more than an hour.) Each is exported, and compiled with inductor
as one graph. Its loss and all its gradients in f32, in training mode without dropout, are compared with those of the same
module without compilation. Differences of a gradient are relative to its largest value, or to 1e-3 of the largest gradient of
the model.
Prints TAP. Needs torch, safetensors and g++.
"""
import math
import os
import random
import shutil
import subprocess
import time

import torch
from common import FOLDER, VOCAB, WEFT, finish, make, pairs, result, small
from torch_modules import module

LOSS_LIMIT, LIMIT, LEAST = 1e-5, 1e-3, 1e-3
SEQUENCES, LENGTH = 3, 40
worst = {"loss": 0.0, "gradients": 0.0}


def models():
    """Presets and settings."""
    listed = subprocess.run([WEFT, "help", "models"], capture_output=True, text=True, check=True).stdout
    chosen = pairs()
    chosen = random.Random(1).sample(chosen, min(len(chosen), int(os.environ.get("MODELS", 8))))
    return [(line.split()[0], "") for line in listed.splitlines() if line.strip()] + [("gpt2", settings) for settings in chosen]


def batch(vocab, seed):
    """Tokens and targets; the first target of each sequence is not scored."""
    tokens = torch.randint(vocab, (SEQUENCES, LENGTH + 1), generator=torch.Generator().manual_seed(seed))
    targets = tokens[:, 1:].clone()
    targets[:, 0] = -1
    return tokens[:, :-1], targets


def train(call, model, tokens, targets):
    """The loss, the names of its terms and the gradients of `model`, computed by `call`: the model or its compiled form."""
    model.zero_grad(set_to_none=True)
    loss, terms = call(tokens, targets)
    loss.backward()
    gradients = {name: torch.zeros_like(w) if w.grad is None else w.grad.clone() for name, w in model.named_parameters()}
    return loss.item(), set(terms), gradients


def compare(name, folder, seed):
    started = time.perf_counter()
    try:
        model = module(folder)
        tokens, targets = batch(VOCAB, seed)
        loss, terms, gradients = train(model, model, tokens, targets)
        torch._dynamo.reset()
        compiled = torch.compile(model, fullgraph=True)
        its_loss, its_terms, its_gradients = train(compiled, model, tokens, targets)
    except Exception as error:
        return result(False, "%s: %s: %s" % (name, type(error).__name__, str(error).strip().split("\n")[0]))
    largest = {n: g.abs().max().item() for n, g in gradients.items()}
    least = LEAST * max(largest.values())
    off = {n: (gradients[n] - its_gradients[n]).abs().max().item() / max(largest[n], least) for n in gradients}
    off = {n: value if math.isfinite(value) else math.inf for n, value in off.items()}
    where = max(off, key=off.get)
    loss_off, seconds = abs(its_loss - loss) / abs(loss), time.perf_counter() - started
    worst["loss"], worst["gradients"] = max(worst["loss"], loss_off), max(worst["gradients"], off[where])
    good = loss_off <= LOSS_LIMIT and off[where] <= LIMIT and terms == its_terms
    result(good, "%s: loss differs by %.1e, gradients by %.1e (%s); %.0f s" % (name, loss_off, off[where], where, seconds))


def main():
    torch.set_num_threads(2)
    for i, (preset, settings) in enumerate(models()):
        folder = "%s/model-%d" % (FOLDER, i)
        make(preset, small(preset, settings) + " dropout=0", folder, i)
        compare(" ".join((preset + " " + settings).split()), folder, i)
        shutil.rmtree(folder + "-torch", ignore_errors=True)
    print("# the loss differs by at most %.1e, gradients by %.1e; torch %s" % (*worst.values(), torch.__version__))
    finish()


main()
