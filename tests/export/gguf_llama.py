#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gguf_llama.py WEFT LIBRARY FOLDER - models that Weft trains on Shakespeare, run by llama.cpp.

For every architecture and type of weights: llama.cpp encodes a text to the same tokens, its perplexity of a held-out text is
within 0.1 % of `weft eval`, and 64 greedy tokens are the same; in bf16, tokens that are nearly as likely may differ. Weft reads
the same file; q8_0, which it does not read, is compared with the model before, within 1 %. Prints TAP. Needs llama-cpp-python and numpy.
"""
import json
import math
import os
import subprocess
import sys

import llama_cpp
import numpy as np
from common import FOLDER, WEFT, finish, result

TEXT = os.environ["WEFT_DATA"] + "/tinyshakespeare/input.txt"
CONTEXT, HELD_OUT = 128, 20000
TIE = 0.01  # difference of logits: llama.cpp rounds the factors of bf16 weights to bf16, and Weft does not


def weft(*words):
    done = subprocess.run([WEFT, *words, "--json"], capture_output=True, text=True)
    if done.returncode or not done.stdout:
        sys.exit("weft %s: %s" % (" ".join(words), done.stderr))
    return json.loads(done.stdout.strip().split("\n")[-1])


def encode(tokenizer, path):
    done = subprocess.run([WEFT, "tokenizer", "encode", "--tokenizer", tokenizer, path], capture_output=True, text=True, check=True)
    return [int(i) for i in done.stdout.split()]


class Rival:
    """A file in llama.cpp, with keys and values in f32."""

    def __init__(self, path):
        self.llama = llama_cpp.Llama(path, n_ctx=CONTEXT, n_batch=CONTEXT, n_ubatch=CONTEXT, n_threads=1, logits_all=True, type_k=0, type_v=0,
                                     flash_attn=False, verbose=False)

    def encode(self, text):
        return self.llama.tokenize(text, add_bos=False, special=False)

    def logits(self, tokens):
        self.llama.reset()
        self.llama.eval(tokens)
        return np.array(self.llama.scores[:len(tokens)], dtype=np.float64)

    def loss(self, tokens):
        """Returns the loss in consecutive windows, as in `weft eval`."""
        total = 0
        for at in range(0, len(tokens) - 1, CONTEXT):
            window = tokens[at:at + CONTEXT + 1]
            logits = self.logits(window[:-1])
            logits -= logits.max(axis=1, keepdims=True)
            total -= (logits[np.arange(len(window) - 1), window[1:]] - np.log(np.exp(logits).sum(axis=1))).sum()
        return total / (len(tokens) - 1)

    def greedy(self, tokens, count):
        self.llama.reset()
        made, now = [], tokens
        for _ in range(count):
            self.llama.eval(now)
            now = [int(self.llama.scores[self.llama.n_tokens - 1].argmax())]
            made += now
        return made


    def behind(self, tokens, made):
        """Returns the maximum difference between the best logit and the logit of one of these tokens, given the text before it."""
        logits = self.logits(tokens + made[:-1])[len(tokens) - 1:]
        return float((logits.max(axis=1) - logits[np.arange(len(made)), made]).max())


def greedy(folder, prompt, count, *more):
    answer = weft("generate", folder, "--ids", "--prompt", " ".join(map(str, prompt)), "-n", str(count), "--temperature", "0", *more)
    return [int(i) for i in answer["ids"].split()]


def compare(name, run, kind, tokens, text):
    path = "%s-%s.gguf" % (run, kind)
    answer = weft("export", run, "--format", "gguf", "--type", kind, "--out", path, *(["--check"] if kind == "f32" else []))
    if kind == "f32":
        result(answer["checked_by"].startswith("llama") and answer["tokens_agree"] == answer["tokens"],
               "%s: --check: logits differ by %.2g of the largest" % (name, answer["difference"]))
    rival = Rival(path)
    result(rival.encode(text) == tokens, "%s, %s: %d tokens are the same" % (name, kind, len(tokens)))
    folder = run
    if kind != "q8_0":
        folder = "%s-%s" % (run, kind)
        weft("import", path, "--out", folder, "--set", "dtype=f32")
    ours, theirs = weft("eval", folder, "--data", FOLDER + "/held-out.txt")["loss"], rival.loss(tokens)
    difference = math.expm1(theirs - ours)
    limit = 0.01 if kind == "q8_0" else 0.001
    result(abs(difference) < limit, "%s, %s: perplexity %.5f, of llama.cpp %.5f, %+.4f %%" % (name, kind, math.exp(ours), math.exp(theirs), 100 * difference))
    if kind in ("f32", "bf16"):
        wanted, got = greedy(folder, tokens[:32], 64), rival.greedy(tokens[:32], 64)
        alike = next((i for i, (a, b) in enumerate(zip(wanted, got)) if a != b), 64)
        behind = rival.behind(tokens[:32], wanted)
        result(wanted == got if kind == "f32" else behind <= TIE,
               "%s, %s: %d of 64 greedy tokens are the same; after the same text, ours are at most %.4f below the best logit" % (name, kind, alike, behind))


def main():
    text = open(TEXT, "rb").read()
    open(FOLDER + "/train.txt", "wb").write(text[:-HELD_OUT])
    open(FOLDER + "/held-out.txt", "wb").write(text[-HELD_OUT:])
    weft("tokenizer", "train", FOLDER + "/train.txt", "--vocab", "512", "--special", "<|endoftext|>", "--out", FOLDER + "/bpe.json")
    for name, tokenizer in (("bpe", FOLDER + "/bpe.json"), ("char", "char"), ("bytes", "bytes")):
        weft("data", "prepare", FOLDER + "/train.txt", "--tokenizer", tokenizer, "--out", FOLDER + "/" + name)
    rows = [("gpt2", [], "bpe", ("f32", "f16", "bf16", "q8_0")), ("llama", ["kv_heads=2"], "bpe", ("f32", "f16", "bf16", "q8_0")),
            ("llama", ["head_width=48", "bias=yes", "tie=yes", "vocab=600"], "bpe", ("f32", "bf16")),
            ("llama", ["qkv_bias=yes", "rope_base=5e4"], "bpe", ("f32", "bf16")), ("llama", ["qkv_bias=yes", "head_width=48"], "bpe", ("f32",)),
             ("llama", ["qk_norm=yes", "norm_eps=1e-5"], "bpe", ("f32", "bf16")),
            ("llama", ["rope_scaling=linear", "rope_factor=4"], "bpe", ("f32",)), ("llama", ["rope_scaling=llama3", "rope_original=64"], "bpe", ("f32",)),
            ("gpt2", [], "char", ("f32",)), ("gpt2", [], "bytes", ("f32",))]
    for i, (preset, settings, data, kinds) in enumerate(rows):
        run = "%s/run-%d" % (FOLDER, i)
        common = ["task=text", "data=%s/%s" % (FOLDER, data), "context=%d" % CONTEXT, "steps=%s" % os.environ.get("STEPS", "300"), "batch=8", "dtype=f32", *settings]
        weft("train", preset, *(w for s in common for w in ("--set", s)), "--out", run)
        tokens = encode("%s/%s/tokenizer.json" % (FOLDER, data), FOLDER + "/held-out.txt")
        for kind in kinds:
            compare(" ".join([preset, *settings, data]), run, kind, tokens, text[-HELD_OUT:])


def stories():
    """A tokenizer of SentencePiece: the same tokens of English, and of characters that have none."""
    source, folder = os.environ["WEFT_DATA"] + "/stories260k/stories260K.gguf", FOLDER + "/stories"
    weft("import", source, "--out", folder)
    rival = llama_cpp.Llama(source, vocab_only=True, verbose=False)
    random = np.random.default_rng(1)
    odd = "".join(chr(c) for c in random.choice([*range(32, 127), *range(0xa0, 0x600), *range(0x4e00, 0x5000), 0x20, 0x2581, 0x1f600], 5000))
    for name, text in (("English", open(TEXT, "rb").read()[:200000]), ("odd characters", odd.encode()), ("spaces", b"  a  b   c \n\n d")):
        open(FOLDER + "/some.txt", "wb").write(text)
        ours, theirs = encode(folder + "/tokenizer.json", FOLDER + "/some.txt"), rival.tokenize(text, add_bos=False, special=False)
        result(ours == theirs, "stories260K: %d tokens of %s are the same" % (len(theirs), name))


os.environ["WEFT_PYTHON"] = sys.executable
print("# llama-cpp-python %s" % llama_cpp.__version__)
stories()
main()
finish()
