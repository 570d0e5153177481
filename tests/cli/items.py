#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# items.py - files of test items, read and written without Weft.
#
#   items.py fill STUDY ITEMS NOISE [own]   gives every run of a study such a file, with its test loss as the mean. Items
#                                           are the same for all seeds, or `own` ones for each. NOISE: how much items
#                                           differ in what an arm gains
#   items.py expect STUDY BASE ARM          prints the mean difference and its standard error, by leaving out items
#   items.py set FILE STATEMENT             changes one: nll, tokens (lists), metadata (a dictionary)
import glob
import hashlib
import json
import math
import random
import struct
import sys


def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    column = lambda name, kind: [x[0] for x in struct.iter_unpack(kind, data[8 + size :][slice(*header[name]["data_offsets"])])]
    return column("nll", "<d"), column("tokens", "<i"), header.get("__metadata__", {})


def write(path, nll, tokens, metadata):
    metadata = {name: text for name, text in metadata.items() if not name.startswith("weft.checksum")}
    body = struct.pack(f"<{len(nll)}d", *nll) + struct.pack(f"<{len(tokens)}i", *tokens)
    header = {"__metadata__": metadata,
              "nll": {"dtype": "F64", "shape": [len(nll)], "data_offsets": [0, 8 * len(nll)]},
              "tokens": {"dtype": "I32", "shape": [len(tokens)], "data_offsets": [8 * len(nll), len(body)]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)


def fill(study, items, noise, own):
    for run in map(json.loads, open(f"{study}/runs.jsonl")):
        of = str(run["seed"] if own else "all")
        draw, arm = random.Random(of), random.Random(f"{run['arm']} {of}")
        tokens = [draw.randrange(20, 400) for _ in range(items)]
        nll = [t * (draw.gauss(0, 0.5) + arm.gauss(0, noise)) for t in tokens]
        off = run["test_loss"] - sum(nll) / sum(tokens)
        nll = [cost + off * t for cost, t in zip(nll, tokens)]
        folder = f"{study}/runs/{run['arm']}/lr-{run['lr']:.6g}-seed-{run['seed']}"
        write(f"{folder}/items.safetensors", nll, tokens,
              {"weft.items": "1", "kind": "documents", "items_sha256": hashlib.sha256(of.encode()).hexdigest()})


def expect(study, base, arm):
    seeds = [read(path) for path in sorted(glob.glob(f"{study}/runs/{arm}/*/items.safetensors"))]
    bases = [read(path) for path in sorted(glob.glob(f"{study}/runs/{base}/*/items.safetensors"))]
    tokens = seeds[0][1]
    assert all(run[1] == tokens for run in seeds + bases)
    cost = [sum(a - b for a, b in zip(mine, theirs)) / len(seeds)
            for mine, theirs in zip(zip(*[run[0] for run in seeds]), zip(*[run[0] for run in bases]))]
    n, mean = len(tokens), sum(cost) / sum(tokens)
    without = [(sum(cost) - c) / (sum(tokens) - t) for c, t in zip(cost, tokens)]
    return n, mean, math.sqrt((n - 1) / n * sum((x - mean) ** 2 for x in without))


if __name__ == "__main__" and sys.argv[1] == "fill":
    fill(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), "own" in sys.argv[5:])
elif __name__ == "__main__" and sys.argv[1] == "expect":
    print(json.dumps(expect(*sys.argv[2:5])))
elif __name__ == "__main__":
    nll, tokens, metadata = read(sys.argv[2])
    exec(sys.argv[3])
    write(sys.argv[2], nll, tokens, metadata)
