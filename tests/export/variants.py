#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""variants.py WEFT LIBRARY FOLDER [presets] - every variant of a model, exported for transformers with its own code.

For a sample of the models in which all pairs of choices occur, and with `presets` for every preset at its full size: weights
are drawn so large that every part matters, the model is exported, loaded by transformers with trust_remote_code, and all logits
are compared with Weft's: of one pass, and of a prefill and 64 single tokens from its cache. Some models are trained by Weft. With
m2, tokens are drawn until all choices are clear; if some are not, tokens count up to the first such choice that went otherwise.
Then: the plain PyTorch module, left padding, generate() with and without beams, the import of what was exported, and bf16.
Prints TAP.
"""
import importlib.util
import math
import shutil
import subprocess
import sys

import torch
import transformers
from common import FOLDER, WEFT, finish, result, sample, sets, weft, weft_logits, weft_model
from safetensors.torch import load_file, save_file
from torch.overrides import TorchFunctionMode
from transformers import AutoModelForCausalLM

LIMIT, CLEAR = 1e-4, 1e-5
PREFILL, LENGTH = 8, 72
SIZES = ["layers=3", "width=32", "heads=4", "ffn_width=24", "context=80", "vocab=97", "dtype=f32"]
worst, compared = {}, [0, 0]


def enlarge(folder, seed):
    """Weights that make every part count."""
    torch.manual_seed(seed)
    path = folder + "/model.safetensors"
    weights = load_file(path)
    for name, w in weights.items():
        last = name.split(".")[-1]
        if last in ("gain", "q_gain", "k_gain", "gamma", "beta"):
            w += 0.3 * torch.randn_like(w)
        elif last in ("theta", "alpha"):
            w += 0.2 * torch.randn_like(w)
        elif w.ndim == 1 or last == "relative":
            w.copy_(0.5 * torch.randn_like(w))
        else:
            w.copy_(torch.randn_like(w) / math.sqrt(1 if last in ("wte", "wpe") else w.shape[-1]))
    save_file(weights, path)


class Choices(TorchFunctionMode):
    """Records how clear every choice of m2 is for each token [B, T], from the operations that choose."""

    def __init__(self, config):
        super().__init__()
        options = getattr(config, "weft", {})
        self.select = options.get("m2_select") if options.get("m2") == "yes" else None
        self.topk, self.seen = int(options.get("m2_topk", 0)), []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if self.select == "rms" and name in ("lt", "__lt__") and torch.is_tensor(args[1]) and args[0].is_floating_point():
            self.seen.append((args[0] / args[1] - 1).abs().amin(-1))
        elif self.select == "topk" and name == "argsort" and self.topk < args[0].shape[-1]:
            order = args[0].sort(-1, descending=True).values
            last, next = order[..., self.topk - 1], order[..., self.topk]
            self.seen.append(torch.where(next > 0, 1 - next / last, math.inf))
        return function(*args, **(kwargs or {}))


def cached(model, tokens):
    """Logits of a prefill and of single tokens."""
    out = model(tokens[:, :PREFILL], use_cache=True)
    logits, cache = [out.logits], out.past_key_values
    for t in range(PREFILL, tokens.shape[1]):
        logits.append(model(tokens[:, t:t + 1], past_key_values=cache, use_cache=True).logits)
    return torch.cat(logits, 1)


def difference(kind, got, wanted, unclear):
    """The largest one, as a part of the largest logit if that is above 1, up to the first token after an unclear choice at which
    it exceeds the limit; and that token's number."""
    d = (got - wanted).abs().amax(-1) / max(1, wanted.abs().max().item())
    wrong = [t for t in range(len(d)) if not d[t] < LIMIT]
    until = wrong[0] if wrong and unclear <= wrong[0] else len(d)
    largest = d[:until].max().item() if until else 0
    worst[kind] = max(worst.get(kind, 0), largest)
    return largest if largest == largest else math.inf, until


def draw_tokens(name, model, vocab, length):
    """Tokens, their logits in one pass, and the first token with a choice of m2 that is not clear. Tokens are drawn until all
    choices are clear; none occurs twice if there are enough, because equal ones have equal weights."""
    generator, best = torch.Generator().manual_seed(5), (None, None, -1)
    for draws in range(50):
        tokens = torch.randperm(vocab, generator=generator)[None, :length]
        if vocab < length:
            tokens = torch.randint(0, vocab, (1, length), generator=generator)
        with Choices(model.config) as choices:
            whole = model(tokens, use_cache=False).logits[0]
        unclear = [t for t in range(length) if min([s[0, t].item() for s in choices.seen] or [1]) < CLEAR]
        best = max(best, (tokens, whole, unclear[0] if unclear else length), key=lambda drawn: drawn[2])
        if not unclear:
            break
    result(bool(choices.seen) == (choices.select in ("topk", "rms")), "%s: choices of m2 are watched" % name)
    return best


@torch.no_grad()
def compare(name, folder, out):
    answer = weft("export", folder, "--format", "hf", "--out", out, "--json")
    result(isinstance(answer, dict), "%s: exported%s" % (name, "" if isinstance(answer, dict) else ": " + answer))
    if not isinstance(answer, dict):
        return
    model = AutoModelForCausalLM.from_pretrained(out, trust_remote_code=True).eval()
    vocab, length = model.config.vocab_size, min(LENGTH, model.config.max_position_embeddings)
    tokens, whole, first = draw_tokens(name, model, vocab, length)
    wanted = weft_logits(folder, tokens[0].tolist(), vocab)
    steps = cached(model, tokens)[0]
    (a, n), (b, m) = difference("whole", whole, wanted, first), difference("cached", steps, wanted, first)
    compared[0] += length
    compared[1] += min(n, m)
    result(a < LIMIT and b < LIMIT, "%s: logits of %d of %d tokens differ by at most %.1e, from the cache %.1e"
           % (name, min(n, m), length, a, b))
    as_module(name, folder, out, model, tokens, min(n, m))
    padded(name, model, tokens, min(n, m))
    generated(name, model, folder, tokens)
    back = weft("import", out, "--set", "dtype=f32", "--out", out + "-back", "--json")  # a standard config.json does not record it
    result(isinstance(back, dict) and back["weights_sha256"] == answer["weights_sha256"],
           "%s: import(export(model)) = model%s" % (name, "" if isinstance(back, dict) else ": " + back))
    if isinstance(back, dict):
        again = weft_logits(out + "-back", tokens[0].tolist(), vocab)
        result(torch.equal(again, wanted), "%s: and it gives the same logits, bit for bit" % name)
    rounded = model.bfloat16()(tokens).logits
    result(bool(torch.isfinite(rounded).all()), "%s: it computes in bf16" % name)


def as_module(name, folder, out, model, tokens, until):
    """The plain PyTorch module has the same state_dict as the class for transformers, and gives the same logits."""
    answer = weft("export", folder, "--format", "torch", "--out", out + "-torch", "--no-check", "--json")
    spec = importlib.util.spec_from_file_location("exported", out + "-torch/model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    plain = module.load(out + "-torch/model.safetensors")
    state, theirs, same = plain.state_dict(), model.state_dict(), True
    if model.config.model_type == "weft":
        same = state.keys() == theirs.keys() and all(torch.equal(state[k], theirs[k]) for k in state)
    off = difference("module", plain(tokens)[0], model(tokens, use_cache=False).logits[0], until)[0]
    back = weft("import", out + "-torch", "--set", "dtype=f32", "--out", out + "-torch-back", "--json")
    result(same and off < LIMIT and back["weights_sha256"] == answer["weights_sha256"],
           "%s: the same state_dict and logits as a PyTorch module (%.1e), which can be imported" % (name, off))


def padded(name, model, tokens, until):
    """Two sequences, the shorter one after tokens that the mask hides; then one more token of each from the cache. The GPT-2 of
    transformers takes no positions from the mask: they are passed, as generate() does."""
    n, m = min(20, until), min(13, until)
    both = torch.full((2, n), 3)
    both[0], both[1, n - m:] = tokens[0, :n], tokens[0, :m]
    mask = torch.ones(2, n, dtype=torch.long)
    mask[1, :n - m] = 0
    at = (mask.cumsum(-1) - 1).clamp(min=0)
    places = [{}, {}] if model.config.model_type == "weft" else [{"position_ids": at[:, :-1]}, {"position_ids": at[:, -1:]}]
    out = model(both[:, :-1], attention_mask=mask[:, :-1], use_cache=True, **places[0])
    more = model(both[:, -1:], attention_mask=mask, past_key_values=out.past_key_values, use_cache=True, **places[1]).logits
    got, alone = torch.cat((out.logits, more), 1), model(tokens[:, :n], use_cache=False).logits[0]
    a, b = difference("padded", got[0], alone, n)[0], difference("padded", got[1, n - m:], alone[:m], m)[0]
    how = dict(max_new_tokens=4, do_sample=False, pad_token_id=0, eos_token_id=None)
    same = torch.equal(model.generate(both, attention_mask=mask, **how)[1, n:], model.generate(tokens[:, :m], attention_mask=mask[1:, n - m:], **how)[0, m:])
    result(max(a, b) < LIMIT and same, "%s: left padding changes nothing (%.1e)" % (name, max(a, b)))


def generated(name, model, folder, tokens):
    prompt, n = tokens[:, :5], 12
    how = dict(max_new_tokens=n, do_sample=False, pad_token_id=0, eos_token_id=None, attention_mask=torch.ones_like(prompt))
    theirs = model.generate(prompt, **how)[0, 5:].tolist()
    ours = weft("generate", folder, "--ids", "--prompt", " ".join(map(str, prompt[0].tolist())), "-n", str(n), "--temperature", "0", "--json")
    ids = [int(i) for i in ours["ids"].split()] if isinstance(ours, dict) else ours
    beams = [model.generate(prompt, num_beams=3, use_cache=use, **how).tolist() for use in (True, False)]
    result(ids == theirs and beams[0] == beams[1], "%s: generate() gives Weft's tokens, beams are the same without a cache" % name)


def pairs():
    """Models in which all pairs of choices occur."""
    rows = subprocess.run([WEFT, "help", "pairs"], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    for i, row in sample(list(enumerate(rows)), 13):
        folder = "%s/pair-%d" % (FOLDER, i)
        weft_model("gpt2", SIZES + row.split(), folder)
        enlarge(folder, i)
        compare("model %d of %d" % (i + 1, len(rows)), folder, "%s/out-%d" % (FOLDER, i))
        print("#", row)


def trained():
    small = SIZES[:4]
    for i, (preset, settings) in sample(list(enumerate((
            ("w2", []), ("ra-mla", small + ["latent_width=12"]), ("ws", small), ("gpt2", ["geom=overlap", "attn=latent", "pos=rope"]),
            ("llama", ["ra_alpha=0.5", "ra_window=8", "output_gate=yes", "m1=yes", "m1_mode=prefix"]),
            ("gpt2", ["scaling=mup", "mup_width=32", "m3=yes", "lr=0.02"]),
            ("gpt2", ["norm_place=post", "pos=relative", "m2=yes", "m2_select=rms", "lr=0.004"])))), 4):
        run, name = "%s/run-%d" % (FOLDER, i), " ".join([preset, *settings])
        common = ["context=80", "vocab=50", "dtype=f32", "task=recall", "recall_length=32", "steps=300", "eval_samples=8", "batch=8"]
        done = weft("train", preset, *sets(common + settings), "--out", run, "--json")
        if not isinstance(done, dict):
            result(False, "%s: trained: %s" % (name, done))
            continue
        compare("%s, trained to a loss of %.2f" % (name, done["loss"]), run, "%s/trained-%d" % (FOLDER, i))


def presets():
    """At their full sizes."""
    names = [line.split()[0] for line in subprocess.run([WEFT, "help", "models"], capture_output=True, text=True).stdout.split("\n")[:-1]]
    for name in names:
        folder, out = FOLDER + "/preset-" + name, FOLDER + "/preset-out-" + name
        weft_model(name, ["dtype=f32"], folder)
        enlarge(folder, 1)
        compare(name, folder, out)
        for f in (folder, out, out + "-back"):
            shutil.rmtree(f)


transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()
print("# torch %s, transformers %s" % (torch.__version__, transformers.__version__))
torch.set_num_threads(1)
pairs()
trained()
if sys.argv[4:] == ["presets"]:
    presets()
print("# largest differences, as a part of the largest logit if that is above 1:", ", ".join("%s %.1e" % x for x in worst.items()))
result(compared[1] > 0.97 * compared[0], "%d of %d tokens were compared; the others follow a choice of m2 that was not clear" % (compared[1], compared[0]))
finish()
