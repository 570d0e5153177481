#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gguf_files.py WEFT LIBRARY FOLDER - GGUF files that cross between PyPI's gguf and Weft, both ways.

Makes small random models of every architecture with gguf, imports them, and compares all weights with an
independent conversion; exports them, and compares every key and tensor with what gguf reads; compares f16, bf16 and q8_0
with what gguf's own encoder gives; does the same with tokenizers; and gives Weft damaged files.
Prints TAP. Needs gguf and numpy.
"""
import json
import os
import shutil
import struct
import subprocess

import gguf
import numpy as np
from common import FOLDER, WEFT, finish, result, skip

DATA = os.environ.get("WEFT_DATA")
TYPES = gguf.GGMLQuantizationType
def weft(*words):
    """The answer of a command, or its status and error."""
    done = subprocess.run([WEFT, *words, "--json"], capture_output=True, text=True)
    if done.returncode == 0 and done.stdout:
        return json.loads(done.stdout)
    return "status %d: %s" % (done.returncode, done.stderr.strip().split("\n")[-1])


# ---- models, as Hugging Face has them: rows of queries and keys with pairs half a head apart

def sizes(arch, **more):
    return {"arch": arch, "layers": 2, "width": 32, "heads": 4, "kv": 4, "head": 8, "ffn": 64, "context": 16, "vocab": 50,
            "tie": False, "eps": 1e-5, "base": 10000.0, **more}


def weights(m):
    """A model's weights under their names in GGUF, in the order of Weft."""
    random = np.random.default_rng(5)
    make = lambda *shape: random.standard_normal(shape, dtype=np.float32)
    c, f, q, k = m["width"], m["ffn"], m["heads"] * m["head"], m["kv"] * m["head"]
    w = {"token_embd.weight": make(m["vocab"], c), "output_norm.weight": make(c)}
    if m["arch"] == "gpt2":
        w |= {"position_embd.weight": make(m["context"], c), "output_norm.bias": make(c)}
    if not m["tie"]:
        w["output.weight"] = make(m["vocab"], c)
    if m.get("llama3"):
        w["rope_freqs.weight"] = llama3(m)
    for i in range(m["layers"]):
        b = "blk.%d." % i
        w |= {b + "attn_norm.weight": make(c), b + "ffn_norm.weight": make(c), b + "attn_output.weight": make(c, q),
              b + "ffn_up.weight": make(f, c), b + "ffn_down.weight": make(c, f)}
        if m["arch"] == "gpt2":
            w |= {b + "attn_qkv.weight": make(3 * c, c), b + "attn_qkv.bias": make(3 * c), b + "attn_output.bias": make(c),
                  b + "attn_norm.bias": make(c), b + "ffn_norm.bias": make(c), b + "ffn_up.bias": make(f), b + "ffn_down.bias": make(c)}
        else:
            w |= {b + "attn_q.weight": make(q, c), b + "attn_k.weight": make(k, c), b + "attn_v.weight": make(k, c),
                  b + "ffn_gate.weight": make(f, c)}
        if m["arch"] == "qwen2" or m.get("biases"):
            w |= {b + "attn_q.bias": make(q), b + "attn_k.bias": make(k), b + "attn_v.bias": make(k)}
        if m.get("biases") == "all":
            w |= {b + "attn_output.bias": make(c), b + "ffn_up.bias": make(f), b + "ffn_gate.bias": make(f), b + "ffn_down.bias": make(c)}
        if m["arch"] == "qwen3":
            w |= {b + "attn_q_norm.weight": make(m["head"]), b + "attn_k_norm.weight": make(m["head"])}
    return w


def llama3(m):
    """Factors of Llama 3.1 by their wavelengths, as its authors write them."""
    factor, low, high, original = 8.0, 1.0, 4.0, m["llama3"]
    length = 2 * np.pi * m["base"] ** (np.arange(0, m["head"], 2) / m["head"])
    smooth = (original / length - low) / (high - low)
    between = 1 / ((1 - smooth) / factor + smooth)
    return np.where(length < original / high, 1.0, np.where(length > original / low, factor, between)).astype(np.float32)


def interleave(m, name, w):
    """As llama's files have it: what rotates together side by side."""
    if m["arch"] != "llama" or not any(part in name for part in ("attn_q.", "attn_k.")):
        return w
    return w.reshape(-1, 2, m["head"] // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def write(path, m, w, dtype=np.float32, keys=(), tokens=None, alignment=None):
    """With gguf's own writer. `keys` change or add (name, method, value); None leaves a key out."""
    out = gguf.GGUFWriter(path, m["arch"])
    if alignment:
        out.add_custom_alignment(alignment)
    a = m["arch"] + "."
    norm = "attention.layer_norm_epsilon" if m["arch"] == "gpt2" else "attention.layer_norm_rms_epsilon"
    all_keys = {a + "block_count": ("uint32", m["layers"]), a + "embedding_length": ("uint32", m["width"]),
                a + "attention.head_count": ("uint32", m["heads"]), a + "feed_forward_length": ("uint32", m["ffn"]),
                a + "context_length": ("uint32", m["context"]), a + norm: ("float32", m["eps"])}
    if m["arch"] != "gpt2":
        all_keys |= {a + "attention.head_count_kv": ("uint32", m["kv"]), a + "rope.freq_base": ("float32", m["base"]),
                     a + "attention.key_length": ("uint32", m["head"]), a + "attention.value_length": ("uint32", m["head"]),
                     a + "rope.dimension_count": ("uint32", m["head"])}
    if m.get("linear"):
        all_keys |= {a + "rope.scaling.type": ("string", "linear"), a + "rope.scaling.factor": ("float32", m["linear"])}
    if m.get("llama3"):
        all_keys[a + "rope.scaling.original_context_length"] = ("uint32", m["llama3"])
    for name, kind, value in keys:
        all_keys[name] = (kind, value)
    for name, (kind, value) in all_keys.items():
        if value is not None:
            getattr(out, "add_" + kind)(name, value)
    for add, value in tokens or (("tokenizer_model", "none"),):
        getattr(out, "add_" + add)(value)
    for name, values in w.items():
        values = np.ascontiguousarray(interleave(m, name, values))
        if values.ndim > 1 and dtype == "bf16":
            out.add_tensor(name, gguf.quants.quantize(values, TYPES.BF16), raw_shape=None, raw_dtype=TYPES.BF16)
        else:
            out.add_tensor(name, values.astype(dtype if values.ndim > 1 and dtype != "bf16" else np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def read(path):
    """Keys and tensors, as gguf reads them."""
    file = gguf.GGUFReader(path)
    return ({name: field.contents() for name, field in file.fields.items() if not name.startswith("GGUF.")},
            {t.name: (t.tensor_type, np.array(t.data)) for t in file.tensors})


def safetensors(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + n])
    return {name: np.frombuffer(raw[8 + n + e["data_offsets"][0]:8 + n + e["data_offsets"][1]], np.float32).reshape(e["shape"])
            for name, e in header.items() if name != "__metadata__"}


def ours(m, w):
    """The same weights under Weft's names."""
    w = {name: values for name, values in w.items() if name != "rope_freqs.weight"}
    made = {"wte": w["token_embd.weight"], "norm.gain": w["output_norm.weight"]}
    for theirs, name in (("position_embd.weight", "wpe"), ("output_norm.bias", "norm.bias"), ("output.weight", "head")):
        if theirs in w:
            made[name] = w[theirs]
    up, down = ("fc", "proj") if m["arch"] == "gpt2" else ("w1", "w2")
    pairs = {"attn_norm.weight": "norm1.gain", "attn_norm.bias": "norm1.bias", "ffn_norm.weight": "norm2.gain", "ffn_norm.bias": "norm2.bias",
             "attn_output.weight": "attn.wo", "attn_output.bias": "attn.wo_bias", "attn_q.weight": "attn.wq", "attn_k.weight": "attn.wk",
             "attn_v.weight": "attn.wv", "attn_q.bias": "attn.wq_bias", "attn_k.bias": "attn.wk_bias", "attn_v.bias": "attn.wv_bias",
             "attn_q_norm.weight": "attn.q_gain", "attn_k_norm.weight": "attn.k_gain", "ffn_gate.weight": "ffn.w3", "ffn_gate.bias": "ffn.w3_bias",
             "ffn_up.weight": "ffn." + up, "ffn_up.bias": "ffn." + up + "_bias", "ffn_down.weight": "ffn." + down,
             "ffn_down.bias": "ffn." + down + "_bias"}
    for name, values in w.items():
        if not name.startswith("blk."):
            continue
        _, layer, rest = name.split(".", 2)
        block = "blocks." + layer + "."
        if rest.startswith("attn_qkv"):
            for part, piece in zip("qkv", np.split(values, 3)):
                made[block + "attn.w" + part + ("_bias" if rest.endswith("bias") else "")] = piece
        else:
            made[block + pairs[rest]] = values
    return made


def same(one, other):
    return set(one) == set(other) and all(np.array_equal(one[k], other[k]) for k in one)


def models():
    rows = [
        ("gpt2, tied", sizes("gpt2", tie=True), np.float32),
        ("gpt2, f16", sizes("gpt2", eps=1e-3), np.float16),
        ("llama", sizes("llama", base=500000.0), np.float32),
        ("llama, grouped wide heads, tied, f16", sizes("llama", kv=2, head=12, tie=True, eps=1e-6), np.float16),
        ("llama, all biases, bf16", sizes("llama", biases="all"), "bf16"),
        ("llama, biases of queries, keys and values", sizes("llama", biases="qkv", kv=1), np.float32),
        ("llama, the same with wide heads", sizes("llama", biases="qkv", kv=2, head=12), np.float32),
        ("llama, linear scaling", sizes("llama", linear=4.0), np.float32),
        ("llama, scaling of Llama 3.1", sizes("llama", llama3=1024), np.float32),
        ("qwen2", sizes("qwen2", kv=2, base=1e6), np.float32),
        ("qwen2, linear scaling", sizes("qwen2", linear=2.5), np.float32),
        ("qwen3, bf16", sizes("qwen3", kv=2, head=16, tie=True), "bf16"),
    ]
    for i, (name, m, dtype) in enumerate(rows):
        theirs, folder, back = ("%s/%d%s" % (FOLDER, i, end) for end in (".gguf", "-ours", "-back.gguf"))
        w = weights(m)
        write(theirs, m, w, dtype)
        narrow = {np.float32: lambda x: x, np.float16: lambda x: x.astype(np.float16).astype(np.float32),
                  "bf16": lambda x: gguf.quants.dequantize(gguf.quants.quantize(x, TYPES.BF16), TYPES.BF16)}[dtype]
        wanted = {k: narrow(v) if v.ndim > 1 else v for k, v in w.items()}
        answer = weft("import", theirs, "--out", folder)
        result(isinstance(answer, dict) and same(safetensors(folder + "/model.safetensors"), ours(m, wanted)),
               "%s: imported with its weights%s" % (name, "" if isinstance(answer, dict) else ": " + answer))
        if not isinstance(answer, dict):
            continue
        config = json.load(open(folder + "/config.json"))
        wanted_rope = ("linear", m["linear"]) if m.get("linear") else ("llama3", 8.0) if m.get("llama3") else None
        if wanted_rope:
            result((config["rope_scaling"], config["rope_factor"]) == wanted_rope and config.get("rope_original", 0) == m.get("llama3", config.get("rope_original", 0)),
                   "%s: %s, %g, %s" % (name, config["rope_scaling"], config["rope_factor"], config.get("rope_original")))
        exported = weft("export", folder, "--format", "gguf", "--out", back)
        again = weft("import", back, "--out", folder + "-again")
        result(isinstance(again, dict) and again["weights_sha256"] == answer["weights_sha256"],
               "%s: import(export(model)) = model%s" % (name, "" if isinstance(again, dict) else ": %s, %s" % (exported, again)))
        if m.get("biases") == "qkv" and m["head"] * m["heads"] == m["width"]:
            result(exported["architecture"] == "qwen2", "%s: such a model is exported as qwen2" % name)
            continue
        keys, tensors = read(back)
        first, _ = read(theirs)
        known = [k for k in first if k.startswith(m["arch"])]
        result(all(keys[k] == first[k] for k in known) and keys[m["arch"] + ".vocab_size"] == m["vocab"], "%s: %d keys are the same" % (name, len(known)))
        result(all(kind == TYPES.F32 for kind, _ in tensors.values()) and
               same({k: v for k, (_, v) in tensors.items()}, {k: interleave(m, k, v) for k, v in wanted.items()}),
               "%s: gguf reads the same %d tensors" % (name, len(tensors)))
    types(FOLDER + "/2-ours", sizes("llama"), weights(sizes("llama")))
    odd()


def types(folder, m, w):
    """Matrices have the bits that gguf's own encoder gives; vectors stay f32."""
    for i, kind in enumerate(("f16", "bf16", "q8_0")):
        path = "%s/type-%s.gguf" % (FOLDER, kind)
        answer = weft("export", folder, "--format", "gguf", "--type", kind, "--out", path)
        _, tensors = read(path) if isinstance(answer, dict) else ({}, {})
        number = TYPES[kind.upper()]
        good = set(tensors) == set(w)
        for name, (has, data) in tensors.items():
            values = np.ascontiguousarray(interleave(m, name, w[name]))
            wanted = values if values.ndim == 1 else values.astype(np.float16) if kind == "f16" else gguf.quants.quantize(values, number)
            good = good and has == (TYPES.F32 if values.ndim == 1 else number) and np.array_equal(data, wanted)
        result(good, "--type %s has the bits of gguf's encoder%s" % (kind, "" if isinstance(answer, dict) else ": " + answer))


def odd():
    """Rows that are no multiple of a block, values beyond f16, and a file of version 2."""
    m = sizes("llama", width=40, head=10, ffn=64)
    w = weights(m)
    write(FOLDER + "/odd.gguf", m, w)
    raw = bytearray(open(FOLDER + "/odd.gguf", "rb").read())
    raw[4] = 2
    open(FOLDER + "/odd-2.gguf", "wb").write(raw)
    write(FOLDER + "/odd-8.gguf", m, w, alignment=8)
    write(FOLDER + "/odd-4096.gguf", m, w, alignment=4096)
    one, *more = (weft("import", FOLDER + "/odd%s.gguf" % end, "--out", FOLDER + "/odd%s" % end) for end in ("", "-2", "-8", "-4096"))
    for name, answer in zip(("version 2", "alignment 8", "alignment 4096"), more):
        result(isinstance(answer, dict) and one["weights_sha256"] == answer["weights_sha256"], "a file of %s is read" % name)
    answer = weft("export", FOLDER + "/odd", "--format", "gguf", "--type", "q8_0", "--out", FOLDER + "/odd-q8.gguf")
    _, tensors = read(FOLDER + "/odd-q8.gguf")
    result(tensors["blk.0.attn_q.weight"][0] == TYPES.F16 and tensors["blk.0.ffn_down.weight"][0] == TYPES.Q8_0,
           "rows that are not a multiple of 32 are f16 in q8_0: %s" % answer)
    w["blk.0.ffn_up.weight"][0, 0] = 1e5
    write(FOLDER + "/big.gguf", m, w)
    weft("import", FOLDER + "/big.gguf", "--out", FOLDER + "/big")
    answer = weft("export", FOLDER + "/big", "--format", "gguf", "--type", "f16", "--out", FOLDER + "/big-16.gguf")
    result(isinstance(answer, str) and "cannot represent" in answer and not os.path.exists(FOLDER + "/big-16.gguf"), "a value beyond f16 is rejected: %s" % answer)
    for words in (("--out", FOLDER + "/odd.gguf"), ("--out", FOLDER + "/new.gguf", "--type", "f64")):
        before = os.path.getsize(FOLDER + "/odd.gguf")
        answer = weft("export", FOLDER + "/odd", "--format", "gguf", *words)
        result(isinstance(answer, str) and os.path.getsize(FOLDER + "/odd.gguf") == before, "rejected: %s" % answer)
    answer = weft("export", FOLDER + "/odd", "--format", "hf", "--type", "f16", "--out", FOLDER + "/odd-hf")
    result(isinstance(answer, str) and "--type" in answer, "--type is not for hf: %s" % answer)


# ---- tokenizers

def small(vocab, **how):
    m = sizes("gpt2", vocab=vocab, tie=True, **how)
    return m, weights(m)


def gpt2_tokenizer():
    """The vocabulary that llama.cpp has for GPT-2, in a model with a few tokens more."""
    source, _ = read(DATA + "/gpt2-bpe/ggml-vocab-gpt-2.gguf")
    name = "tokenizer.ggml."
    tokens, kinds, merges = (source[name + key] for key in ("tokens", "token_type", "merges"))
    m, w = small(50304)
    spare = 50304 - len(tokens)
    write(FOLDER + "/bpe.gguf", m, w, tokens=(
        ("tokenizer_model", "gpt2"), ("tokenizer_pre", "gpt-2"), ("token_list", tokens + ["[PAD%d]" % (50257 + i) for i in range(spare)]),
        ("token_types", kinds + [5] * spare), ("token_merges", merges)))
    answer = weft("import", FOLDER + "/bpe.gguf", "--out", FOLDER + "/bpe")
    result(isinstance(answer, dict), "GPT-2's tokenizer: imported%s" % ("" if isinstance(answer, dict) else ": " + answer))
    if not isinstance(answer, dict):
        return
    made = json.load(open(FOLDER + "/bpe/tokenizer.json"))
    lines = open(DATA + "/gpt2-bpe/vocab.bpe", encoding="utf-8").read().strip().split("\n")[1:]
    result(made["model"]["vocab"] == json.load(open(DATA + "/gpt2-bpe/encoder.json")) and made["model"]["merges"] == lines,
           "it has the %d tokens and %d merges of encoder.json and vocab.bpe" % (len(made["model"]["vocab"]), len(lines)))
    text = open(DATA + "/tinyshakespeare/input.txt", "rb").read(20000) + "<|endoftext|> caf\u00e9 \u4f60\u597d \U0001f600\n\t x".encode()
    ids = [subprocess.run([WEFT, "tokenizer", "encode", "--tokenizer", t], input=text, capture_output=True).stdout
           for t in (FOLDER + "/bpe/tokenizer.json", DATA + "/gpt2-bpe")]
    result(len(ids[0]) > 1000 and ids[0] == ids[1], "and encodes a text to the same ids")
    weft("export", FOLDER + "/bpe", "--format", "gguf", "--out", FOLDER + "/bpe-back.gguf")
    keys, _ = read(FOLDER + "/bpe-back.gguf")
    first, _ = read(FOLDER + "/bpe.gguf")
    wanted = {k: first[k] for k in first if k.startswith(name)} | {name + "bos_token_id": 50256, name + "eos_token_id": 50256,
                                                                  name + "add_bos_token": False}
    result({k: v for k, v in keys.items() if k.startswith(name)} == wanted, "and has the same tokens, types and merges when it is exported")


def byte_names():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


def small_tokenizers():
    """Bytes, ASCII characters, and other characters, which GGUF cannot have."""
    names = byte_names()
    for kind, text, vocab, tokens in (("bytes", "x", 300, [names[b] for b in range(256)] + ["<|endoftext|>"]),
                                      ("char", "a Z~\n!", 8, [names[ord(c)] for c in "\n !Zaz~" if c != "z"]), ("char", "\u00e9", 8, None)):
        path = "%s/%s-%s" % (FOLDER, kind, "ascii" if tokens else "other")
        open(path + ".txt", "w", encoding="utf-8").write(text)
        weft("data", "prepare", path + ".txt", "--tokenizer", kind, "--out", path + "-data")
        m, w = small(vocab)
        write(path + "-none.gguf", m, w)
        weft("import", path + "-none.gguf", "--out", path)
        os.rename(path + "-data/tokenizer.json", path + "/tokenizer.json")
        answer = weft("export", path, "--format", "gguf", "--out", path + ".gguf")
        keys, _ = read(path + ".gguf")
        if not tokens:
            result(keys["tokenizer.ggml.model"] == "none" and "tokenizer.ggml.tokens" not in keys, "characters beyond ASCII are left out")
            continue
        spare = vocab - len(tokens)
        result(keys["tokenizer.ggml.tokens"] == tokens + ["[PAD%d]" % (len(tokens) + i) for i in range(spare)] and
               keys["tokenizer.ggml.token_type"] == [3 if t == "<|endoftext|>" else 1 for t in tokens] + [5] * spare and
               keys["tokenizer.ggml.eos_token_id"] == (256 if kind == "bytes" else len(tokens)), "a tokenizer of kind %s is exported: %s" % (kind, answer))
        answer = weft("import", path + ".gguf", "--out", path + "-back")
        result(isinstance(answer, dict) and open(path + "-back/tokenizer.json").read() == open(path + "/tokenizer.json").read(),
               "and is the same when it is imported%s" % ("" if isinstance(answer, dict) else ": " + answer))


def refusals():
    m, w = small(300)
    names = byte_names()
    good = [("tokenizer_model", "gpt2"), ("tokenizer_pre", "gpt-2"), ("token_list", [names[b] for b in range(256)] + ["ab"]),
            ("token_types", [1] * 257), ("token_merges", ["a b"])]
    change = lambda **how: [(k, how.get(k, v)) for k, v in good]
    for name, tokens, text in (
            ("a different pre-tokenizer", change(tokenizer_pre="llama-bpe"), "tokenizer.ggml.pre"),
            ("sentences without scores", change(tokenizer_model="llama"), "scores"),
            ("a start of text that is added", good + [("add_bos_token", True)], "add_bos_token"),
            ("a token twice", change(token_list=["a"] * 257), "a duplicate"),
            ("a merge of nothing", change(token_merges=["a c"]), "ac"),
            ("a token of the user", change(token_types=[1] * 256 + [4]), "type 4"),
            ("types of other tokens", change(token_types=[1] * 100), "matching types and lengths"),
            ("more tokens than the model has", change(token_list=[names[b] for b in range(256)] + ["ab"] + ["a" * n for n in range(3, 103)], token_types=[1] * 357),
             "300"),
            ("a missing byte", change(token_list=[names[b] for b in range(256) if b != 66] + ["ab"], token_types=[1] * 256), "byte 66")):
        path = FOLDER + "/tokens"
        write(path + ".gguf", m, w, tokens=tokens)
        answer = weft("import", path + ".gguf", "--out", path)
        result(isinstance(answer, str) and text in answer and not os.path.exists(path), "%s: rejected: %s" % (name, answer))


def sentences():
    """SentencePiece: with few keys, with switches, and models that are rejected."""
    m, w = small(300)
    good = [("tokenizer_model", "llama"), ("token_list", ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)] + ["\u2581", "a", "b", "ab", "\u2581ab"]),
            ("token_scores", [0.0] * 259 + [-9.0, -8.0, -7.0, -1.0, -2.0]), ("token_types", [2, 3, 3] + [6] * 256 + [1] * 5)]
    change = lambda **how: [(k, how.get(k, v)) for k, v in good]

    def read_in(tokens):
        path = FOLDER + "/sentences"
        shutil.rmtree(path, ignore_errors=True)
        write(path + ".gguf", m, w, tokens=tokens)
        answer = weft("import", path + ".gguf", "--out", path)
        if isinstance(answer, str):
            return answer
        done = subprocess.run([WEFT, "tokenizer", "encode", "--tokenizer", path], input=b"ab \xc3\xa9", capture_output=True, check=True)
        return [int(i) for i in done.stdout.split()], weft("tokenizer", "info", path)["begin"]

    text = [263, 259, 3 + 0xc3, 3 + 0xa9]
    for name, tokens, wanted in (
            ("its begin is token 1 if the file does not set it", good, (text, 1)),
            ("a different start token", good + [("bos_token_id", 2)], (text, 2)),
            ("no begin", good + [("add_bos_token", False)], (text, -1)),
            ("no space before a text", good + [("add_space_prefix", False)], ([262] + text[1:], 1)),
            ("an end that is added", good + [("add_eos_token", True)], "add_eos_token"),
            ("other spaces", good + [("remove_extra_whitespaces", True)], "remove_extra_whitespaces"),
            ("a non-finite score", change(token_scores=[0.0] * 263 + [float("nan")]), "not finite"),
            ("a token of the user", change(token_types=[2, 3, 3] + [6] * 256 + [1] * 4 + [4]), "type 4"),
            ("a long token", change(token_list=good[1][1][:263] + ["a" * 600]), "512")):
        got = read_in(tokens)
        result(wanted in got if isinstance(wanted, str) and isinstance(got, str) else got == wanted, "sentences: %s: %s" % (name, got))


# ---- damaged files

def damage():
    m = sizes("llama")
    w = weights(m)
    a = "llama."
    path = FOLDER + "/damaged"

    def rewritten(**how):
        write(path + ".gguf", {**m, **how.pop("m", {})}, how.pop("w", w), **how)
        return bytearray(open(path + ".gguf", "rb").read())

    def patched(*pairs):
        raw = rewritten()
        for at, data in pairs:
            raw[at:at + len(data)] = data
        return raw

    def info(name, skip, data):
        raw = rewritten()
        at = raw.index(struct.pack("<Q", len(name)) + name.encode()) + 8 + len(name) + skip
        raw[at:at + len(data)] = data
        return raw

    key = lambda name, kind, value: rewritten(keys=((a + name, kind, value),))
    u32, u64 = (lambda n: struct.pack("<I", n)), (lambda n: struct.pack("<Q", n))
    whole = rewritten()
    for name, raw, text in (
            ("an empty file", b"", "GGUF"), ("a file of a different format", b"GGML" + whole[4:], "not a GGUF file"), ("only its name", b"GGUF", "truncated"),
            ("half of it", whole[:len(whole) // 2], "truncated"), ("all but the last values", whole[:-128], "truncated"),
            ("more than all of it", whole + bytes(64), "after its last tensor"), ("version 1", patched((4, u32(1))), "version 1"),
            ("big-endian", patched((4, b"\0\0\0\3")), "big-endian"), ("2^60 tensors", patched((8, u64(2**60))), "tensors"),
            ("2^60 keys", patched((16, u64(2**60))), "keys"), ("a key of 2^63 bytes", patched((24, u64(2**63))), "truncated"),
            ("a type of value that there is not", info(a + "block_count", 0, u32(77)), "type 77"),
            ("a tensor of type Q4_K", info("blk.0.attn_q.weight", 20, u32(12)), "Q4_K"), ("a tensor of five dimensions", info("blk.0.attn_q.weight", 0, u32(5)), "dimensions"),
            ("a tensor of 2^62 x 2^62", info("blk.0.attn_q.weight", 4, u64(2**62) * 2), "too large"),
            ("tensors that overlap", info("blk.0.attn_q.weight", 24, u64(0)), "begins at"),
            ("a tensor of a different shape", info("blk.0.attn_q.weight", 4, u64(16) + u64(64)), "shape"),
            ("a tensor twice", info("blk.0.attn_k.weight", -len("blk.0.attn_k.weight"), b"blk.0.attn_v.weight"), "twice"),
            ("a control character in a name", info("blk.0.attn_k.weight", -1, b"\x1b"), "visible"),
            ("an alignment of 24", rewritten(keys=(("general.alignment", "uint32", 24),)), "alignment"),
            ("a different architecture", rewritten(m={"arch": "mamba"}), "mamba"), ("an adapter", rewritten(keys=(("general.type", "string", "adapter"),)), "general.type"),
            ("one of several files", rewritten(keys=(("split.count", "uint16", 3),)), "several files"), ("no number of heads", key("attention.head_count", "uint32", None), "head_count"),
            ("three layers", key("block_count", "uint32", 3), "blk.2."), ("one layer", key("block_count", "uint32", 1), "blk.1."),
            ("2^30 layers", key("block_count", "uint32", 2**30), "tensors"), ("a text as width", key("embedding_length", "string", "32"), "integer"),
            ("an eps of 0", key("attention.layer_norm_rms_epsilon", "float32", 0.0), "above 0"), ("an eps of 64 bits", key("attention.layer_norm_rms_epsilon", "float64", 1e-5), "f32"), ("an eps that is not a number", key("attention.layer_norm_rms_epsilon", "float32", float("nan")), "above 0"),
            ("heads by layer", key("attention.head_count_kv", "array", [4, 2]), "integer"), ("a key that is not known", key("attention.sinks", "bool", True), "attention.sinks"),
            ("scaled rotation", key("rope.scaling.type", "string", "yarn"), "rope.scaling.type"), ("a factor below 1", key("rope.scaling.factor", "float32", 0.5), "rope_factor"), ("a factor of 64 bits", key("rope.scaling.factor", "float64", 2.0), "rope.scaling.factor"),
            ("factors that Llama does not have", rewritten(w=w | {"rope_freqs.weight": np.array([1, 2, 3, 4], np.float32)}), "rope_freqs"),
            ("factors that are not numbers", rewritten(w=w | {"rope_freqs.weight": np.full(4, np.nan, np.float32)}), "rope_freqs"),
            ("too many factors", rewritten(w=w | {"rope_freqs.weight": np.ones(5, np.float32)}), "rope_freqs"),
            ("both kinds of scaling", rewritten(w=w | {"rope_freqs.weight": np.ones(4, np.float32)}, keys=((a + "rope.scaling.factor", "float32", 2.0),)), "both"),
            ("half of a head rotated", key("rope.dimension_count", "uint32", 4), "rope.dimension_count"), ("values of a different width", key("attention.value_length", "uint32", 16), "value_length"),
            ("experts", key("expert_count", "uint32", 8), "expert_count"), ("a window", key("attention.sliding_window", "uint32", 8), "sliding_window"),
            ("a different vocabulary", key("vocab_size", "uint32", 51), "vocab_size"), ("a tensor without a place", rewritten(w=w | {"blk.0.attn_sinks.weight": np.ones(4, np.float32)}), "attn_sinks"),
            ("a tensor that is missing", rewritten(w={k: v for k, v in w.items() if k != "blk.1.ffn_up.weight"}), "blk.1.ffn_up"),
            ("no embedding", rewritten(w={k: v for k, v in w.items() if k != "token_embd.weight"}), "the model is incomplete")):
        open(path + ".gguf", "wb").write(raw)
        answer = weft("import", path + ".gguf", "--out", path)
        result(isinstance(answer, str) and answer.startswith("status 1:") and text in answer and not os.path.exists(path), "%s: rejected: %s" % (name, answer))
    for name, keys in (("rotation that is not scaled", ((a + "rope.scaling.type", "string", "none"), (a + "rope.scaling.factor", "float32", 4.0))),
                       ("keys that change nothing", (("general.name", "string", "x"), ("general.tags", "array", ["a", "b"]), (a + "attention.causal", "bool", True)))):
        open(path + ".gguf", "wb").write(rewritten(keys=keys))
        answer = weft("import", path + ".gguf", "--out", path + name)
        result(isinstance(answer, dict), "%s: %s" % (name, answer))


def stories():
    """The trained Llama of llama2.c; its greedy tokens are known."""
    source, folder = DATA + "/stories260k/stories260K.gguf", FOLDER + "/stories"
    answer = weft("import", source, "--out", folder, "--set", "dtype=f32")
    wanted = open(DATA + "/stories260k/greedy_256_ids.txt").read().replace(",", " ").split()
    text = weft("generate", folder, "--ids", "--prompt", "1", "-n", str(len(wanted)), "--temperature", "0")
    result(isinstance(text, dict) and text["ids"].split() == wanted, "stories260K: its %d greedy tokens" % len(wanted))
    wanted = open(DATA + "/stories260k/greedy_256.txt").read()
    text = weft("generate", folder, "--prompt", "Once upon a time", "-n", "250", "--temperature", "0")
    result(isinstance(text, dict) and len(text["text"]) > 400 and wanted.startswith("Once upon a time" + text["text"].rstrip()), "stories260K: its text, from its own tokenizer")
    weft("export", folder, "--format", "gguf", "--out", folder + ".gguf")
    result(same(*({k: v for k, (_, v) in read(p)[1].items()} for p in (source, folder + ".gguf"))), "stories260K: exported with the same tensors")


models()
small_tokenizers()
refusals()
sentences()
damage()
if DATA:
    gpt2_tokenizer()
    stories()
else:
    skip("GPT-2's tokenizer and stories260K: no WEFT_DATA")
finish()
