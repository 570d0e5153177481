#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""onnx_parity.py WEFT LIBRARY FOLDER [large] - models that Weft exports as ONNX, run by ONNX Runtime.

Models of every variant (the presets made small, combinations in which all pairs of choices occur, and what those leave
out), with weights so large that every part counts, and some that Weft trained. Each is exported, passes the checker of
the onnx package, and runs as a caller would: a prompt in two pieces, then one token after the other with the cache, and
a batch of three with padding on the left. All logits are within 1e-4 of Weft's own forward pass in f32.

M2 chooses tokens by a cut that rounding can move where two weights are almost equal. So no token occurs twice, which would
make equal weights, and tokens are drawn until every choice is clear, by a relative gap of 1e-5; for how many models that
took more than one draw is printed.

With `large`, instead, models at their full size, one of more than 2 GB among them. Prints TAP. Needs onnx, onnxruntime, onnxruntime-genai and
numpy.
"""
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import onnxruntime_genai
from common import (CONTEXT, FOLDER, SMALL, VOCAB, call, count, finish, library, make, option, result, sample, sets,
                    small, variants, weft)

LIMIT, CLEAR = 1e-4, 1e-5
LENGTHS, MORE = (20, 7, 13), 12  # lengths in a padded batch, and further tokens


# ---- Weft's own models, through its library


class Weft:
    """The forward pass of a model folder."""

    def __init__(self, folder):
        self.model, self.forward = ctypes.c_void_p(), ctypes.c_void_p()
        self.vocab = int(option(folder, "vocab"))
        call("weft_model_open", ctypes.byref(self.model), folder.encode(), 0)
        call("weft_forward_create", ctypes.byref(self.forward), self.model, ctypes.c_int64(1), ctypes.c_int64(CONTEXT))

    def logits(self, tokens):
        n = len(tokens)
        logits = np.zeros((n, self.vocab), np.float32)
        call("weft_forward_tokens", self.forward, ctypes.c_int64(1), ctypes.c_int64(n), (ctypes.c_int32 * n)(*tokens),
             logits.ctypes.data_as(ctypes.POINTER(ctypes.c_float)))
        return logits

    def close(self):
        library.weft_forward_free(self.forward)
        library.weft_model_free(self.model)


# ---- the exported file


class Exported:
    """A caller with a cache: a batch of sequences, padded on the left."""

    def __init__(self, path):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.states = [i for i in self.session.get_inputs() if i.name.startswith("past_key_values.")]
        self.names = [o.name for o in self.session.get_outputs()]

    def begin(self, batch):
        sizes = {"batch": batch, "past": 0, "past_window": 0}
        self.mask = np.zeros((batch, 0), np.int64)
        self.past = {i.name: np.zeros([sizes.get(d, d) for d in i.shape], np.float32) for i in self.states}

    def feed(self, tokens, mask=None):
        """Logits of the new tokens [batch, length]."""
        tokens = np.asarray(tokens, np.int64)
        mask = np.ones_like(tokens) if mask is None else np.asarray(mask, np.int64)
        self.mask = np.concatenate((self.mask, mask), 1)
        positions = np.maximum(self.mask.cumsum(1) - 1, 0)[:, -tokens.shape[1]:]
        answers = dict(zip(self.names, self.session.run(None, dict(
            self.past, input_ids=tokens, attention_mask=self.mask, position_ids=positions))))
        self.past = {i.name: answers[i.name.replace("past_key_values", "present")] for i in self.states}
        return answers["logits"]


# ---- what M2 chooses


class Choices:
    """The weights that M2 cuts, as the file itself computes them."""

    def __init__(self, path, folder):
        self.topk = int(option(folder, "m2_topk")) if option(folder, "m2_select") == "topk" else None
        self.rms = None if self.topk else float(option(folder, "m2_rms"))
        model = onnx.load(path)
        pattern = re.compile(r"blocks\.\d+/route/Reduce(Sum|Max)_\d+$")
        self.outputs = [o for n in model.graph.node for o in n.output if pattern.match(o)]
        model.graph.output.extend(onnx.helper.make_tensor_value_info(o, onnx.TensorProto.FLOAT, None) for o in self.outputs)
        probe = os.path.dirname(path) + "/probe.onnx"
        onnx.save(model, probe)
        self.exported = Exported(probe)

    def gap(self, tokens):
        """The smallest relative distance of a weight from the cut."""
        self.exported.begin(1)
        e = self.exported
        feeds = dict(e.past, input_ids=tokens[None], attention_mask=np.ones((1, len(tokens)), np.int64),
                     position_ids=np.arange(len(tokens))[None])
        least = 1.0
        for R in e.session.run(self.outputs, feeds):
            if R.shape[-1] != len(tokens):  # a sum over columns
                continue
            for t, row in enumerate(R.reshape(len(tokens), -1)):
                row = np.sort(row[:t + 1].astype(np.float64))[::-1]
                if self.rms is None:  # which of several zeros is chosen changes nothing
                    gap = 1 - row[self.topk] / row[self.topk - 1] if self.topk <= t and row[self.topk - 1] > 0 else 1.0
                else:
                    gap = np.abs(row / (self.rms * np.sqrt(np.square(row).mean())) - 1).min()
                least = min(least, gap)
        return least


def draw_tokens(folder, path, seed):
    """Tokens for which every choice is clear, and how often they were drawn."""
    choices = None
    if option(folder, "m2") == "yes" and option(folder, "m2_select") != "none":
        choices = Choices(path, folder)
    for draws in range(1, 100):
        tokens = np.random.default_rng(1000 * seed + draws).permutation(VOCAB)[:CONTEXT]
        if not choices or min(map(choices.gap, [tokens, *(tokens[n:2 * n + MORE] for n in LENGTHS)])) > CLEAR:
            return tokens, draws
    raise RuntimeError("no tokens for which M2's choices are clear")


# ---- comparing


def decode(e, tokens):
    """The logits of all tokens: a prompt in two pieces, then one after the other."""
    e.begin(1)
    parts = [e.feed(tokens[None, :9]), e.feed(tokens[None, 9:16])]
    parts += [e.feed(tokens[None, t:t + 1]) for t in range(16, len(tokens))]
    return np.concatenate(parts, 1)[0]


def padded(e, tokens):
    """Sequences and their logits in a batch that is padded on the left: sequences of LENGTHS, then MORE tokens one by one."""
    most = max(LENGTHS)
    rows = [np.concatenate((np.full(most - n, 3), tokens[n:2 * n])) for n in LENGTHS]
    mask = [[0] * (most - n) + [1] * n for n in LENGTHS]
    e.begin(len(LENGTHS))
    parts = [e.feed(np.stack(rows), mask)]
    parts += [e.feed(np.stack([tokens[2 * n + i:2 * n + i + 1] for n in LENGTHS])) for i in range(MORE)]
    together = np.concatenate(parts, 1)
    if not np.isfinite(together).all():
        return [(tokens[:1], np.full((1, 1), np.inf, np.float32))]
    return [(tokens[n:2 * n + MORE], together[b, most - n:]) for b, n in enumerate(LENGTHS)]


def unused(path):
    """Nodes and tensors whose values nothing reads."""
    graph = onnx.load(path, load_external_data=False).graph
    read = {i for n in graph.node for i in n.input} | {o.name for o in graph.output}
    return [n.name for n in graph.node if not read & set(n.output)] + [t.name for t in graph.initializer if t.name not in read]


drawn_again = 0
worst = [0.0, 0.0]
compared = 0


def compare(name, folder, seed):
    global drawn_again, compared
    out = folder + "-onnx"
    answer = weft("export", folder, "--format", "onnx", "--out", out, "--no-check", "--json")
    if not isinstance(answer, dict):
        return result(False, "%s: %s" % (name, answer))
    path = out + "/model.onnx"
    onnx.checker.check_model(path, full_check=True)
    tokens, draws = draw_tokens(folder, path, seed)
    drawn_again += draws > 1
    ours, e = Weft(folder), Exported(path)
    wanted, got = ours.logits(tokens), decode(e, tokens)
    difference = np.abs(wanted - got).max()
    pads = max((np.abs(ours.logits(t) - y).max() for t, y in padded(e, tokens)), default=0.0)
    ours.close()
    worst[:] = max(worst[0], difference), max(worst[1], pads)
    compared += got.size
    idle = unused(path)
    result(difference < LIMIT and pads < LIMIT and not idle, "%s: %d logits differ by at most %.1e, in a padded batch %.1e (they reach to %.2g)%s"
           % (name, got.size, difference, pads, np.abs(wanted).max(), "; unused: %s" % idle if idle else ""))
    shutil.rmtree(out)


def random_models():
    for i, (preset, settings, special) in sample(list(enumerate(variants())), 8):
        folder = "%s/random-%d" % (FOLDER, i)
        try:
            make(preset, small(preset, settings), folder, i, special)
        except RuntimeError as error:
            result(False, "%s %s: %s" % (preset, settings, error))
            continue
        compare(" ".join((preset + " " + settings + " " + special).split()), folder, i)


def trained_models():
    common = ("context=%d vocab=%d task=recall recall_length=10 steps=500 lr=3e-3 dtype=f32 eval_samples=8 batch=8 layers=2 width=64 "
              "heads=4" % (CONTEXT, VOCAB))
    rows = [("gpt2", ""), ("llama", "kv_heads=2"), ("w2", ""), ("ws", "ffn_width=128"), ("ra-mla", "latent_width=24 ffn_width=128"),
            ("llama", "attn=latent latent_width=24 m1=yes m1_mode=prefix ra_alpha=0.5"), ("llama", "geom=overlap m2=yes m2_select=rms")]
    for i, (preset, settings) in sample(list(enumerate(rows)), 4):
        folder = "%s/run-%d" % (FOLDER, i)
        answer = weft("train", preset, *sets((common + " " + settings).split()), "--out", folder, "--json")
        if not isinstance(answer, dict):
            result(False, "%s %s: %s" % (preset, settings, answer))
            continue
        compare(" ".join((preset + " " + settings).split()) + ", trained (loss %.2g)" % answer["eval_loss"], folder, 500 + i)


# ---- the folder


def export(preset, settings, name):
    """A model with random weights, and the folder of its ONNX file; or the error."""
    folder, out = FOLDER + "/" + name, FOLDER + "/" + name + "-onnx"
    make(preset, SMALL + " " + settings, folder, 7)
    answer = weft("export", folder, "--format", "onnx", "--out", out, "--json")
    return folder, out if isinstance(answer, dict) else answer


def bytes_of(path):
    """Tensors of a safetensors file."""
    raw = open(path, "rb").read()
    end = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:end])
    return {n: raw[end + e["data_offsets"][0]:end + e["data_offsets"][1]] for n, e in header.items() if n != "__metadata__"}


def contents():
    folder, out = export("ra-mla", "latent_width=12 m1_width=6 m2_rank=6", "contents")
    model = onnx.load(out + "/model.onnx")
    weights = bytes_of(folder + "/model.safetensors")
    stored = {t.name: onnx.numpy_helper.to_array(t).tobytes() for t in model.graph.initializer}
    result(all(stored.get(n) == b for n, b in weights.items()), "all %d weights under their names, with their bytes" % len(weights))
    result([(o.domain, o.version) for o in model.opset_import] == [("", 17)] and all(n.domain == "" for n in model.graph.node),
           "standard operators of opset 17 alone")
    result(set(os.listdir(out)) == {"config.json", "model.onnx", "model.onnx.data"}, "no other files: %s" % sorted(os.listdir(out)))
    shapes = {i.name: [d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    result(shapes["past_key_values.0.c_k"] == shapes["past_key_values.0.c_v"] == ["batch", 1, "past", 12]
           and shapes["past_key_values.0.u"] == ["batch", 1, "past", 6], "latents are kept, not keys: %s" % shapes["past_key_values.0.c_k"])


def checks():
    """weft export --check."""
    os.environ["WEFT_PYTHON"] = sys.executable
    folder = FOLDER + "/checked"
    make("ra-mla", SMALL + " latent_width=12 m1_width=6 m2_rank=6 ra_alpha=0.5 m1_mode=prefix", folder, 7)
    answer = weft("export", folder, "--format", "onnx", "--out", folder + "-onnx", "--check", "--json")
    good = isinstance(answer, dict) and answer["checked_by"].startswith("onnxruntime ") and answer["tokens"] == 64
    good = good and answer["tokens_unclear"] <= 8 and answer["tokens_agree"] == 64 - answer["tokens_unclear"]
    result(good, "--check: %s" % answer)
    trap = FOLDER + "/trap"
    os.mkdir(trap)
    for name in ("json", "numpy", "onnxruntime", "sys", "weft"):
        with open("%s/%s.py" % (trap, name), "w") as file:
            file.write("raise SystemExit('the current folder was imported')\n")
    answer = weft("export", os.path.abspath(folder), "--format", "onnx", "--out", os.path.abspath(folder) + "-trap", "--check", "--json", cwd=trap)
    result(isinstance(answer, dict) and answer["checked_by"].startswith("onnxruntime "), "the check imports nothing from the current folder: %s" % answer)


def refusals():
    for settings, text in (("m1=yes m1_mode=sequence", "reads later tokens"),):
        _, answer = export("gpt2", settings, "refused")
        result(text in answer and not os.path.exists(FOLDER + "/refused-onnx"), "refused: %s" % answer)
    folder, out = export("gpt2", "", "twice")
    before = open(out + "/model.onnx", "rb").read()
    answer = weft("export", folder, "--format", "onnx", "--out", out)
    result("already has a config.json" in answer and open(out + "/model.onnx", "rb").read() == before, "refused: %s" % answer)
    twin = weft("export", folder, "--format", "onnx", "--out", out + "-2", "--json")
    same = all(open(out + n, "rb").read() == open(out + "-2" + n, "rb").read() for n in ("/model.onnx", "/model.onnx.data"))
    result(isinstance(twin, dict) and same, "the same model gives the same bytes")
    with open(out + "-file", "w"):
        answer = weft("export", folder, "--format", "onnx", "--out", out + "-file")
        result(isinstance(answer, str), "refused: %s" % answer)


# ---- onnxruntime-genai


def library_end(path):
    """The token that ends a text."""
    tokenizer = ctypes.c_void_p()
    call("weft_tokenizer_load", ctypes.byref(tokenizer), path.encode())
    end = library.weft_tokenizer_end(tokenizer)
    library.weft_tokenizer_free(tokenizer)
    return end


def tokenizer():
    """The folder of an exported model that has one: of bytes."""
    folder, out, bytes_ = FOLDER + "/words", FOLDER + "/words-onnx", ctypes.c_void_p()
    make("gpt2", SMALL + " vocab=300", folder, 7)
    call("weft_tokenizer_bytes", ctypes.byref(bytes_))
    call("weft_tokenizer_save", bytes_, (folder + "/tokenizer.json").encode())
    library.weft_tokenizer_free(bytes_)
    weft("export", folder, "--format", "onnx", "--out", out, "--json")
    return out


def genai():
    for name, preset, settings in (("gpt2", "gpt2", ""), ("grouped heads", "llama", "kv_heads=2"), ("latents", "gpt2", "attn=latent latent_width=12")):
        folder, out = export(preset, settings, "genai-" + name.replace(" ", "-"))
        model = onnxruntime_genai.Model(out)
        params = onnxruntime_genai.GeneratorParams(model)
        params.set_search_options(max_length=CONTEXT, do_sample=False, batch_size=1)
        generator = onnxruntime_genai.Generator(model, params)
        prompt = [5, 9, 11, 2]
        generator.append_tokens(np.array([prompt], np.int32))
        while not generator.is_done():
            generator.generate_next_token()
        theirs = [int(t) for t in generator.get_sequence(0)][len(prompt):]
        ours = weft("generate", folder, "--ids", "--prompt", " ".join(map(str, prompt)), "-n", str(CONTEXT - len(prompt)), "--temperature",
                    "0", "--json")
        ids = [int(i) for i in ours["ids"].split()] if isinstance(ours, dict) else ours
        result(ids == theirs and len(set(theirs)) > 3, "onnxruntime-genai, %s: %d greedy tokens, %d of them different" %
               (name, len(theirs), len(set(theirs))))
    out = tokenizer()
    ends = onnxruntime_genai.Model(out) and json.load(open(out + "/genai_config.json"))["model"].get("eos_token_id")
    result(ends == library_end(out + "/tokenizer.json"), "onnxruntime-genai: the tokenizer's end of text, %s, ends a text" % ends)
    for preset, settings in (("w2", ""), ("gpt2", "ra_alpha=0.5"), ("gpt2", "m2=yes"), ("gpt2", "m1=yes m1_mode=prefix"), ("gpt2", "attn=latent pos=rope"),
                             ("gpt2", "attn=latent latent_shared=yes")):
        _, out = export(preset, settings, "no-genai-%d" % count["tests"])
        result(os.path.exists(out + "/model.onnx") and not os.path.exists(out + "/genai_config.json"),
               "%s %s keeps more than onnxruntime-genai does: no genai_config.json" % (preset, settings))


# ---- full sizes


def large_models():
    """With the weights as Weft draws them, twice as large in the embedding and in what attention compares."""
    rows = [("gpt2-124m", "dtype=f32"), ("ra-mla", "dtype=f32"), ("gpt2", "dtype=f32 layers=2 width=2048 heads=16 vocab=270000 context=128")]
    for i, (preset, settings) in enumerate(rows):
        folder = "%s/large-%d" % (FOLDER, i)
        make(preset, settings, folder, i, "large")
        size = os.path.getsize(folder + "/model.safetensors")
        result(i < 2 or size > 2**31, "%s %s: %.2f GB" % (preset, settings, size / 1e9))
        compare(preset + " " + settings, folder, i)
        shutil.rmtree(folder)


def main():
    if sys.argv[4:] == ["large"]:
        large_models()
    else:
        contents()
        checks()
        refusals()
        genai()
        random_models()
        trained_models()
    print("# %d logits; largest difference %.1e, in padded batches %.1e; tokens of %d models were drawn again for M2"
          % (compared, *worst, drawn_again))
    print("# onnx %s, onnxruntime %s, onnxruntime-genai %s, numpy %s"
          % (onnx.__version__, onnxruntime.__version__, onnxruntime_genai.__version__, np.__version__))
    finish()


main()
