#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torch_parity.py WEFT LIBRARY FOLDER - models that Weft exports as plain PyTorch, trained in f64.

Models of every variant (variants() in common.py), with weights so large that every part counts. Each is exported and loaded
as a caller would, in f64, without dropout; its loss, loss terms and all gradients for one batch are compared with Weft's f64
reference, which the program tests/export/gradients computes. Differences of a gradient are relative to its largest value, or
to 1e-6 of the largest gradient of the model, since some gradients are 0 except for rounding (biases of keys); a gradient
that is exactly 0 in Weft is 0 in PyTorch. torch.compile captures each as one graph (in make check only the first). Choices of m2 are replayed. Also:
initial weights, fused attention, bf16, and the format of the printed files.
Prints TAP. Needs torch and safetensors.
"""
import importlib.util
import os
import shutil
import subprocess
import sys

import numpy as np
import torch
from common import (CONTEXT, FOLDER, LIBRARY, VOCAB, count, everything, finish, make, option, result, sample, skip, small, variants, weft,
                    weft_model)
from safetensors.torch import load_file
from torch.overrides import TorchFunctionMode

LIMIT, NOISE = 1e-9, 1e-6
SEQUENCES, LENGTH = 3, 21
GRADIENTS = os.path.dirname(os.path.realpath(LIBRARY)) + "/tests/export/gradients"
worst = {"loss": 0.0, "terms": 0.0, "gradients": 0.0}
compared, chosen = [0, 0], [0, 0]  # models and gradients; rows in which m2 chose, and those with other choices


def reference(folder):
    """Tokens, targets, loss, terms, gradients and choices of tokens of Weft."""
    path = folder + "-reference"
    names = subprocess.run([GRADIENTS, folder, str(SEQUENCES), str(LENGTH), path], capture_output=True, text=True, check=True).stdout
    values, at, rows = np.fromfile(path, np.float64), 0, SEQUENCES * LENGTH
    tokens, targets = (torch.from_numpy(v.astype(np.int64).reshape(SEQUENCES, LENGTH)) for v in (values[:rows], values[rows:2 * rows]))
    loss, at = values[2 * rows], 2 * rows + 1
    found = {"term": {}, "weight": {}, "choice": {}}
    for line in names.splitlines():
        kind, name, count = line.split()
        found[kind][name] = values[at:at + int(count)]
        at += int(count)
    return tokens, targets, loss, found["term"], found["weight"], list(found["choice"].values())


class Replay(TorchFunctionMode):
    """Makes m2 choose the tokens that it chose in Weft, and counts the rows in which it would have chosen others."""

    def __init__(self, folder, choices):
        super().__init__()
        self.select = option(folder, "m2_select") if choices else ""
        self.topk = int(option(folder, "m2_topk")) if self.select == "topk" else 0
        self.choices, self.rows, self.others = list(choices), 0, 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name, got = getattr(function, "__name__", ""), function(*args, **(kwargs or {}))
        topk = self.choices and self.select == "topk" and name == "argsort"
        rms = self.choices and self.select == "rms" and name in ("lt", "__lt__") and args[0].shape[-2:] == (LENGTH, LENGTH)
        rms = rms and torch.is_tensor(args[1]) and args[0].is_floating_point()
        if not topk and not rms:
            return got
        ours = torch.from_numpy(self.choices.pop(0)).reshape(*args[0].shape[:2], -1)
        if rms:
            return self.count(got, args[0] < ours)
        k = min(self.topk, got.shape[-1])
        positions = torch.where(ours[..., :k] < 0, got[..., :k], ours[..., :k].long())  # a row can see fewer than k tokens
        self.count(torch.zeros_like(args[0]).scatter(-1, got[..., :k], args[0]), torch.zeros_like(args[0]).scatter(-1, positions, args[0]))
        return torch.cat((positions, got[..., k:]), -1)

    def count(self, theirs, ours):
        self.rows += ours.shape[0] * ours.shape[1]
        self.others += int(((theirs != 0) != (ours != 0)).any(-1).sum())
        return ours


def in_f32():
    """Presets in f32. Gradients that are mostly rounding are relative to 1e-3 of the model's largest."""
    presets = [row for row in variants()[:7] if everything() or row[0] in ("w2", "ra-mla")]
    for i, (preset, settings, special) in enumerate(presets):
        folder = "%s/single-%d" % (FOLDER, i)
        make(preset, small(preset, settings), folder, i, special)
        compare(preset + " in f32", folder, torch.float32, 1e-4, 1e-3)


def code(folder):
    """The exported file as a module."""
    spec = importlib.util.spec_from_file_location("exported", folder + "/model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(folder):
    """The exported model in f64."""
    return code(folder).load(folder + "/model.safetensors")


def distance(wanted, got, least=0.0):
    """The largest difference relative to the largest value wanted, or to `least`; infinite if only the wanted one is 0."""
    most, difference = np.abs(wanted).max(), np.abs(wanted - got).max()
    if not np.isfinite(difference) or (most == 0 and difference > 0):
        return np.inf
    return difference / max(most, least) if most else 0.0


def compare(name, folder, dtype=torch.float64, limit=LIMIT, noise=NOISE):
    out = folder + "-torch"
    torch.set_default_dtype(dtype)
    answer = weft("export", folder, "--format", "torch", "--no-check", "--out", out, "--json")
    if not isinstance(answer, dict):
        return result(False, "%s: %s" % (name, answer))
    tokens, targets, loss, terms, gradients, choices = reference(folder)
    try:
        model, replay = load(out), Replay(folder, choices)
        with replay:
            total, parts = model(tokens, targets)
        total.backward()
        logits = model(tokens)
    except Exception as error:
        torch.set_default_dtype(torch.float64)
        return result(False, "%s: %s: %s" % (name, type(error).__name__, error))
    torch.set_default_dtype(torch.float64)
    least = noise * max(np.abs(g).max() for g in gradients.values())
    far = {n: distance(gradients[n], np.zeros_like(gradients[n]) if w.grad is None else w.grad.double().numpy().ravel(), least)
           for n, w in model.named_parameters()}
    plain = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1).item()
    loss_off = abs(total.item() - loss) / abs(loss)
    terms_off = max((distance(terms[n], np.array([parts[n].item()])) for n in terms), default=0.0)
    where = max(far, key=far.get)
    chosen[0] += replay.rows
    chosen[1] += replay.others
    good = max(loss_off, terms_off, far[where]) < limit and not replay.choices and set(gradients) == set(far) and abs(plain - parts["cross_entropy"].item()) < 10
    for kind, off in (("loss", loss_off), ("terms", terms_off), ("gradients", far[where])) if dtype == torch.float64 else ():
        worst[kind] = max(worst[kind], off)
    compared[0] += 1
    compared[1] += sum(g.size for g in gradients.values())
    result(good, "%s: loss differs by %.1e, %d terms by %.1e, gradients by %.1e (%s); %d of %d rows with other choices of m2"
           % (name, loss_off, len(terms), terms_off, far[where], where, replay.others, replay.rows))
    shutil.move(out + "/model.py", "%s/models/%d.py" % (FOLDER, compared[0]))
    shutil.rmtree(out)
    if compared[0] == 1 or everything():
        captured(name, model, tokens, targets)


def captured(name, model, tokens, targets):
    """torch.compile captures the whole training step as one graph."""
    torch._dynamo.reset()
    try:
        total = torch.compile(model.train(), backend="eager", fullgraph=True)(tokens, targets)[0]
        total.backward()
        result(bool(torch.isfinite(total)), "%s: captured as one graph" % name)
    except Exception as error:
        result(False, "%s: not captured as one graph: %s" % (name, str(error).split("\n")[0]))


def exported(preset, settings, name):
    """The folder of an exported model with the initial weights of Weft."""
    folder = "%s/%s" % (FOLDER, name)
    weft_model(preset, small(preset, settings).split(), folder)
    weft("export", folder, "--format", "torch", "--no-check", "--out", folder + "-torch", "--json")
    return folder + "-torch"


def initial():
    """Model() draws its weights from Weft's distributions: constants are equal, and zeros in the same places; the root mean
    squares of the others agree within six standard errors, as do their largest values if they are uniform."""
    rows = (("gpt2", "bias=yes"), ("llama", "scaling=mup mup_width=16"), ("ra-mla", "learn_alpha=yes"), ("ws", ""),
            ("ws", "ws_form=dense"), ("w2", "m3=yes m3_tying=per_head_scalar m3_width=12 pos=relative ffn=ws ws_logits=yes"))
    for i, (preset, settings) in enumerate(rows):
        folder = exported(preset, settings, "initial-%d" % i)
        torch.manual_seed(i)
        theirs, wrong = code(folder).Model().state_dict(), []
        for name, ours in load_file(folder + "/model.safetensors").items():
            got = theirs[name].to(ours.dtype)
            constant = ours.min() == ours.max()
            n = max(1, int((ours != 0).sum()))
            rms, same = (got.square().mean() / ours.square().mean()).sqrt().item(), torch.equal(got == 0, ours == 0)
            bounded = abs((got.abs().max() / ours.abs().max()).item() - 1) < 12 / n if "wz" in name else True
            if not (torch.equal(got, ours) if constant else same and bounded and abs(rms - 1) < 6 / n**0.5):
                wrong.append(name)
        result(not wrong, "%s %s: initial weights have Weft's distributions %s" % (preset, settings, " ".join(wrong)))


def two_columns():
    """Under autocast to bf16, a large bias of keys keeps its precision, because it is two columns; one column is not enough.
    Gradients of a whole model agree with those in f64 as well as bf16 permits."""
    folder = exported("w2", "", "columns")
    module = code(folder)
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(1, 2, 40, 16, generator=generator) for _ in range(3))
    bias = 300 + 2 * torch.randn(1, 2, 1, 40, generator=generator)
    visible = torch.ones(40, 40, dtype=torch.bool).tril()
    wanted = (q @ k.mT + bias).masked_fill(~visible, -torch.inf).softmax(-1) @ v
    off = []
    for columns in (bias, bias.bfloat16().to(bias.dtype)):
        with torch.autocast("cpu", torch.bfloat16):
            off.append((module.attend(*(x.float() for x in (q, k, v)), columns.float()).double() - wanted).abs().max().item())
    result(off[0] < 0.05 < 0.3 < off[1], "a bias of 300 in bf16: attention differs by %.2g, with one column by %.2g" % tuple(off))
    for preset, settings in (("w2", ""), ("gpt2", "geom=overlap attn=latent latent_width=12"), ("gpt2", "")):
        make(preset, small(preset, settings), "%s/cast-%s%d" % (FOLDER, preset, len(settings)), 3)
        folder = "%s/cast-%s%d" % (FOLDER, preset, len(settings))
        weft("export", folder, "--format", "torch", "--no-check", "--out", folder + "-torch", "--json")
        tokens, gradients = torch.arange(CONTEXT).reshape(1, -1) % VOCAB, []
        for cast in (False, True):
            model = load(folder + "-torch")
            model = model.float() if cast else model
            with torch.autocast("cpu", torch.bfloat16, enabled=cast):
                loss = model(tokens, (7 * tokens + 3) % VOCAB)[0]
            loss.backward()
            gradients.append(torch.cat([w.grad.double().flatten() for w in model.parameters()]))
        off = ((gradients[1] - gradients[0]).norm() / gradients[0].norm()).item()
        result(off < 0.1, "%s %s: gradients under autocast to bf16 differ by %.2g" % (preset, settings, off))


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
    in_f32()
    fused()
    initial()
    two_columns()
    formatted()
    print("# %d models, %d gradients: the loss differs by at most %.1e, terms %.1e, gradients %.1e; torch %s"
          % (*compared, worst["loss"], worst["terms"], worst["gradients"], torch.__version__))
    print("# m2 chose the tokens of %d rows, in %d of them others than in Weft; Weft's choices were replayed" % tuple(chosen))
    finish()


main()
