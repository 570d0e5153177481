#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torch_parity.py WEFT LIBRARY FOLDER - models that Weft exports as plain PyTorch, trained in f64.

Models of every variant (variants() in common.py), with weights so large that every part counts. Each is exported and loaded
as a caller would, in f64, without dropout; its loss, loss terms and all gradients for one batch are compared with Weft's f64 reference, which
the program tests/export/gradients computes. Differences of a gradient are relative to its largest value, or
to 1e-6 of the largest gradient of the model, since some gradients are 0 except for rounding (biases of keys); a gradient
that is exactly 0 in Weft is 0 in PyTorch. The logits without targets give the same loss.
Prints TAP. Needs torch and safetensors.
"""
import importlib.util
import os
import shutil
import subprocess
import sys

import numpy as np
import torch
from common import FOLDER, LIBRARY, count, finish, make, result, sample, skip, small, variants, weft

LIMIT, NOISE = 1e-9, 1e-6
SEQUENCES, LENGTH = 3, 21
GRADIENTS = os.path.dirname(os.path.realpath(LIBRARY)) + "/tests/export/gradients"
worst = {"loss": 0.0, "terms": 0.0, "gradients": 0.0}
compared = [0, 0]


def reference(folder):
    """Tokens, targets, loss, terms and gradients of Weft."""
    path = folder + "-reference"
    names = subprocess.run([GRADIENTS, folder, str(SEQUENCES), str(LENGTH), path], capture_output=True, text=True, check=True).stdout
    values, at, rows = np.fromfile(path, np.float64), 0, SEQUENCES * LENGTH
    tokens, targets = (torch.from_numpy(v.astype(np.int64).reshape(SEQUENCES, LENGTH)) for v in (values[:rows], values[rows:2 * rows]))
    loss, at = values[2 * rows], 2 * rows + 1
    found = {"term": {}, "weight": {}}
    for line in names.splitlines():
        kind, name, count = line.split()
        found[kind][name] = values[at:at + int(count)]
        at += int(count)
    return tokens, targets, loss, found["term"], found["weight"]


def load(folder):
    """The exported model in f64, from its own file."""
    spec = importlib.util.spec_from_file_location("exported", folder + "/model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load(folder + "/model.safetensors")


def distance(wanted, got, least=0.0):
    """The largest difference relative to the largest value wanted, or to `least`; infinite if only the wanted one is 0."""
    most, difference = np.abs(wanted).max(), np.abs(wanted - got).max()
    if not np.isfinite(difference) or (most == 0 and difference > 0):
        return np.inf
    return difference / max(most, least) if most else 0.0


def compare(name, folder):
    out = folder + "-torch"
    answer = weft("export", folder, "--format", "torch", "--no-check", "--out", out, "--json")
    if not isinstance(answer, dict):
        return result(False, "%s: %s" % (name, answer))
    tokens, targets, loss, terms, gradients = reference(folder)
    try:
        model = load(out)
        total, parts = model(tokens, targets)
        total.backward()
        logits = model(tokens)
    except Exception as error:
        return result(False, "%s: %s: %s" % (name, type(error).__name__, error))
    least = NOISE * max(np.abs(g).max() for g in gradients.values())
    far = {n: distance(gradients[n], np.zeros_like(gradients[n]) if w.grad is None else w.grad.numpy().ravel(), least)
           for n, w in model.named_parameters()}
    plain = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1).item()
    loss_off = abs(total.item() - loss) / abs(loss)
    terms_off = max((distance(terms[n], np.array([parts[n].item()])) for n in terms), default=0.0)
    where = max(far, key=far.get)
    good = max(loss_off, terms_off, far[where]) < LIMIT and set(gradients) == set(far) and abs(plain - parts["cross_entropy"].item()) < 10
    for kind, off in (("loss", loss_off), ("terms", terms_off), ("gradients", far[where])):
        worst[kind] = max(worst[kind], off)
    compared[0] += 1
    compared[1] += sum(g.size for g in gradients.values())
    result(good, "%s: loss differs by %.1e, %d terms by %.1e, gradients by %.1e (%s)" % (name, loss_off, len(terms), terms_off, far[where], where))
    shutil.move(out + "/model.py", "%s/models/%d.py" % (FOLDER, compared[0]))
    shutil.rmtree(out)


def fused():
    """Attention without biases by distance can use PyTorch's fused kernel, and gives the same logits with it."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    for preset, settings in (("gpt2", ""), ("llama", "kv_heads=2"), ("w2", ""), ("gpt2", "geom=overlap attn=latent latent_width=12")):
        name = " ".join((preset + " " + settings).split())
        folder = "%s/fused-%d" % (FOLDER, count["tests"])
        make(preset, small(preset, settings), folder, 3)
        weft("export", folder, "--format", "torch", "--no-check", "--out", folder + "-torch", "--json")
        model, tokens = load(folder + "-torch"), torch.arange(60).reshape(2, 30)
        logits = []
        try:
            for kernel in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
                with sdpa_kernel(kernel):
                    logits.append(model(tokens).detach())
        except RuntimeError as error:
            result(False, "%s: no fused attention: %s" % (name, error))
            continue
        off = ((logits[0] - logits[1]).abs().max() / logits[0].abs().max()).item()
        result(off < LIMIT, "%s: fused attention changes logits by %.1e" % (name, off))


def formatted():
    """Whether the printed files are formatted as ruff formats them, without unused or undefined names."""
    ruff = os.path.dirname(sys.executable) + "/ruff"
    for words in (("format", "--check"), ("check",)):
        done = subprocess.run([ruff, *words, "--isolated", "--line-length", "120", FOLDER + "/models"], capture_output=True, text=True)
        result(done.returncode == 0, "ruff %s: %s" % (" ".join(words), done.stdout.strip()[:400]))


def main():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    rows = variants() + [("gpt2", "m1=yes m1_mode=sequence", "")]
    if not os.path.exists(GRADIENTS):
        skip("%s is missing: make %s" % (GRADIENTS, GRADIENTS))
        return finish()
    os.mkdir(FOLDER + "/models")
    for i, (preset, settings, special) in sample(list(enumerate(rows)), 8):
        folder = "%s/random-%d" % (FOLDER, i)
        make(preset, small(preset, settings) + " dropout=0.1", folder, i, special)
        compare(" ".join((preset + " " + settings + " " + special).split()), folder)
    fused()
    formatted()
    print("# %d models, %d gradients: the loss differs by at most %.1e, terms %.1e, gradients %.1e; torch %s"
          % (*compared, worst["loss"], worst["terms"], worst["gradients"], torch.__version__))
    finish()


main()
