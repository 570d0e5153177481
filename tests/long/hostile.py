#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hostile.py WEFT FOLDER [WORD...] - gives hostile files to the commands that read them, all or those with the words. No command may crash, take more than 10 s or
more than 2 GB. FOLDER has a run, a study, token files and a tokenizer, see hostile.sh. Prints a line of JSON for each."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import time

WEFT, ROOT = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
SECONDS, BYTES = 10, 2 << 30
cases = []


def case(name, base, file, *commands):
    """Registers a function that writes the file of a copy of `base`; {} in the commands is the copy."""
    return lambda write: cases.append((name, base, file, commands, write)) or write


def sparse(path, size=3 << 30):
    with open(path, "wb") as f:
        f.truncate(size)


def pieces(value):
    """The bytes of a text, or of all texts of a generator: a process that we start seems to take what we took."""
    for piece in [value] if isinstance(value, (str, bytes)) else value():
        yield piece if isinstance(piece, bytes) else piece.encode()


def text(value, mode="wb"):
    def write(path):
        with open(path, mode) as f:
            f.writelines(pieces(value))
    return write


def appended(value):
    return text(value, "ab")


def replaced(old, new):
    return lambda path: path.write_text(path.read_text().replace(old, new, 1))


def fields(**values):
    def write(path):
        content = json.loads(path.read_text())
        content.update(values)
        path.write_text(json.dumps(content))
    return write


def repeat(path, count, change):
    """The first line of a ledger many times, changed."""
    line = json.loads(path.read_text().splitlines()[0])
    with open(path, "w") as f:
        for i in range(count):
            change(line, i)
            f.write(json.dumps(line) + "\n")


DEEP = "[" * 1000000
RUN = "runs/dot/lr-0.001-seed-1"
STUDY = (("report", "{}"), ("audit", "{}"), ("publish", "{}", "--out", "out.tar.zst"), ("compare", "{}/runs/dot", "{}/runs/w2"))
ALONE = (("report", "{}"), ("audit", "{}"), ("train", "{}", "--resume"), ("eval", "{}"))

# ---- records
for name, write in {
    "3 GB of zeros": sparse,
    "a line of 100 MB": appended(lambda: ["x" * 1000000] * 100),
    "2 million records of one step": appended(lambda: ('{"step": 20, "lr": 1}\n' for _ in range(2000000))),
    "a list of a million lists": appended(DEEP + "\n"),
    "a list of a million lists on the first line": text(DEEP + "\n"),
    "bytes that are zero": appended(b"\0" * 1000 + b"\n"),
    "bytes that are no text": text(b"\xff\xfe\x80" * 1000 + b"\n"),
    "a step of 10^30": text('{"step": 1' + "0" * 30 + "}\n"),
    "a loss of 1e999": text('{"step": 1, "main": 1e999}\n'),
    "steps that go back": text('{"step": 5, "main": 1.0}\n{"step": 4, "main": 1.0}\n'),
    "a million curves": text(lambda: ('{"step": %d, "main": 1.0, "val_loss": 1.0}\n' % i for i in range(1000000))),
}.items():
    case("log.jsonl: " + name, "run", "log.jsonl", *ALONE)(write)
    case("log.jsonl of a study: " + name, "study", RUN + "/log.jsonl", *STUDY)(write)
for name, write in {
    "3 GB of zeros": sparse,
    "a list of a million lists": text(DEEP),
    "no JSON": text(b"\0\xff{"),
    "10^9 layers": fields(layers=10 ** 9),
    "a width of 2^31": fields(width=2 ** 31),
    "a vocabulary of 2^40": fields(vocab=2 ** 40),
    "a context of 2^40": fields(context=2 ** 40),
    "a batch of 2^40": fields(batch=2 ** 40),
    "heads of 0": fields(heads=0),
    "a key a hundred thousand times": text("{" + ",".join(['"layers": 1'] * 100000) + "}"),
}.items():
    case("config.json: " + name, "run", "config.json", ("show", "{}"), *ALONE)(write)
for name, write in {
    "3 GB of zeros": sparse,
    "a list of a million lists": text(DEEP),
    "a million arms": text(lambda: ['{"arms": [{}', *[", {}"] * 1000000, "]}"]),
    "a million seeds": text(lambda: ['{"seeds": [1', *[", 1"] * 1000000, "]}"]),
    "2^62 steps": fields(steps=2 ** 62),
    "arms that are no objects": fields(arms=[1, "a", None]),
}.items():
    case("study.json: " + name, "study", "study.json", *STUDY)(write)
for name, write in {
    "3 GB of zeros": sparse,
    "a line of 100 MB": appended(lambda: ["x" * 1000000] * 100),
    "a line 300000 times": lambda path: repeat(path, 300000, lambda r, i: None),
    "a line 80000 times": lambda path: repeat(path, 80000, lambda r, i: None),
    "80000 seeds": lambda path: repeat(path, 80000, lambda r, i: r.update(seed=i, weights_sha256="%064x" % i)),
    "80000 times": lambda path: repeat(path, 80000, lambda r, i: r.update(seconds=float(i))),
}.items():
    case("runs.jsonl: " + name, "study", "runs.jsonl", *STUDY)(write)
for file in ("gates.json", "initial.json", "config.json"):
    case(file + " of a study: 3 GB of zeros", "study", RUN + "/" + file, *STUDY)(sparse)
    case(file + " of a study: a list of a million lists", "study", RUN + "/" + file, *STUDY)(text(DEEP))


# ---- tensors
def header(size, content=b"{}"):
    return text(struct.pack("<Q", size) + content)


def tensor(dtype="F32", shape=(1,), offsets=(0, 4)):
    content = json.dumps({"wte": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}).encode()
    return header(len(content), content + b"\0" * 64)


for name, write in {
    "a header of 2^63 bytes": header(2 ** 63),
    "a header of 1 GB": header(1 << 30, b"{" + b" " * 1000),
    "3 GB of zeros": sparse,
    "a shape whose product overflows": tensor(shape=[2 ** 33, 2 ** 33], offsets=[0, 64]),
    "offsets past the end": tensor(shape=[2 ** 40], offsets=[0, 2 ** 42]),
    "a list of a million lists": header(len(DEEP), DEEP.encode()),
    "20000 dimensions": tensor(shape=[1] * 20000),
}.items():
    case("model.safetensors: " + name, "run", "step-000000020/model.safetensors", *ALONE)(write)
for name, write in {"a header of 2^63 bytes": header(2 ** 63), "3 GB of zeros": sparse}.items():
    case("items.safetensors: " + name, "study", RUN + "/items.safetensors", *STUDY)(write)
    case("optimizer.safetensors: " + name, "run", "step-000000020/optimizer.safetensors", *ALONE)(write)

# ---- tokenizers, token files, models of other programs
TOKENIZER = json.dumps({"model": {"type": "BPE", "vocab": {chr(33 + i): i for i in range(90)}, "merges": []}, "added_tokens": [],
                        "normalizer": None, "post_processor": None, "decoder": {"type": "ByteLevel"}, "pre_tokenizer": None})
ENCODE = (("tokenizer", "encode", "--tokenizer", "{}/tokenizer.json", "{}/text"),)
for name, write in {
    "a million added tokens": text(lambda: ('%s{"id": %d, "content": "%d"}' % ("," if i else '{"added_tokens": [', i, i) for i in range(1000000))),
    "a list of a million lists": text(DEEP),
    "an empty file": text(""),
    "a vocabulary of 3 million": text(
        lambda: ('%s"%d": %d%s' % ("," if i else '{"model": {"type": "BPE", "merges": [], "vocab": {', i, i, "" if i < 2999999 else "}}}")
                 for i in range(3000000))),
    "3 GB of zeros": sparse,
    "merges of nothing": fields(model={"type": "BPE", "vocab": {}, "merges": ["a b"] * 1000}),
}.items():
    case("tokenizer.json: " + name, "tokenizer", "tokenizer.json", *ENCODE)(write)
for pattern in (r"[\s\S]+Z|[\s\S]", r"a+b|[\s\S]", r"(?:a+)+b|.", r"(?=[\s\S]*Z)a|[\s\S]", r"(?:a|aa)+$|[\s\S]"):
    case("tokenizer.json: the pattern " + pattern, "tokenizer", "tokenizer.json", *ENCODE)(lambda path, p=pattern: fields(
        pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]})(path))


def gguf(tensors, pairs, rest=b""):
    return text(b"GGUF" + struct.pack("<IQQ", 3, tensors, pairs) + rest)


KEY = struct.pack("<Q", 1) + b"a"
for name, write in {
    "2^60 tensors": gguf(2 ** 60, 0),
    "2^60 pairs": gguf(0, 2 ** 60),
    "a string of 2^63 bytes": gguf(0, 1, KEY + struct.pack("<IQ", 8, 2 ** 63)),
    "a list of 2^61 numbers": gguf(0, 1, KEY + struct.pack("<IIQ", 9, 4, 2 ** 61)),
    "lists in lists": gguf(0, 1, KEY + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 100000),
    "3 GB of zeros": sparse,
}.items():
    case("model.gguf: " + name, "tokenizer", "model.gguf", ("import", "{}/model.gguf", "--out", "{}/imported"))(write)
for name, values in {"10^9 layers": {"num_hidden_layers": 10 ** 9}, "a width of 2^40": {"hidden_size": 2 ** 40}, "0 heads": {"num_attention_heads": 0}}.items():
    case("config.json of transformers: " + name, "hf", "config.json", ("import", "{}", "--out", "{}/imported"))(fields(**values))
TRAIN = ("train", "gpt2", "--set", "task=text", "--set", "data={}", "--set", "vocab=300", "--set", "steps=1", "--set", "layers=1",
         "--set", "width=16", "--set", "heads=2", "--set", "context=16", "--set", "eval_samples=4")
for name, file, write in (
    ("train_000000.bin: 3 GB of zeros", "train_000000.bin", sparse),
    ("train_000000.bin: half of it", "train_000000.bin", lambda path: path.write_bytes(path.read_bytes()[:1333])),
    ("train_000000.bin: a wrong header", "train_000000.bin", lambda path: path.write_bytes(b"\xff" * 1024 + path.read_bytes()[1024:])),
    ("train_000000.bin.tree: a wrong size", "train_000000.bin.tree", lambda path: path.write_bytes(b"WEFTTREE" + b"\xff" * 1000)),
    ("data.json: a million files", "data.json", fields(train_files=1000000)),
    ("data.json: 3 GB of zeros", "data.json", sparse),
):
    case(name, "tokens", file, TRAIN, ("data", "info", "{}"))(write)


# ---- asking
def ask(words):
    start = time.monotonic()
    child = subprocess.Popen([WEFT, *words], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             text=True, errors="replace", env={**os.environ, "WEFT_TEST_SKIP_GATES": "1" if words[0] == "train" else "0"})
    error = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, time.monotonic() - start, usage.ru_maxrss * 1024, error


failed = 0
cases = [c for c in cases if all(word in c[0] for word in sys.argv[3:])]
for number, (name, base, file, commands, write) in enumerate(cases, 1):
    copy = ROOT / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(ROOT / base, copy)
    write(copy / file)
    worst = {"seconds": 0, "bytes": 0, "codes": []}
    why = ""
    for command in commands:
        code, seconds, size, error = ask([w.replace("{}", "copy") for w in command])
        worst = {"seconds": max(worst["seconds"], round(seconds, 2)), "bytes": max(worst["bytes"], size), "codes": worst["codes"] + [code]}
        lines = [l for l in error.splitlines() if l.startswith("weft: ") and "note:" not in l]
        why = why or (lines[-1][:140] if lines else "")
    good = worst["seconds"] < SECONDS and worst["bytes"] < BYTES and all(0 <= c < 4 for c in worst["codes"])
    failed += not good
    print(json.dumps({"file": name, **worst, "why": why}), flush=True)
    print(f"{'ok' if good else 'not ok'} {number} - {name}", flush=True)
print(f"1..{len(cases)}")
sys.exit(failed > 0)
