# SPDX-License-Identifier: MIT
#
# eval_gpt2.py DATA OUT - for eval.sh: the tiny GPT-2 of DATA/tiny-gpt2-hf, in Hugging Face's names and layout, becomes
# OUT/model.safetensors in this project's; OUT/tokens.bin is its prompt as token file. Prints what the prompt costs by
# the logits that PyTorch gave.
import json
import math
import struct
import sys

data, out = sys.argv[1:]
golden = json.load(open(f"{data}/tiny-gpt2-hf/gpt2_tiny_golden.json"))
raw = open(f"{data}/tiny-gpt2-hf/model.safetensors", "rb").read()
start = 8 + struct.unpack("<Q", raw[:8])[0]
header = json.loads(raw[8:start])


def tensor(name):
    e = header["transformer." + name]
    first, last = e["data_offsets"]
    return e["shape"], list(struct.unpack(f"<{(last - first) // 4}f", raw[start + first : start + last]))


def turned(name, first, count):
    """Columns of a matrix [in, out] as rows of one [out, in]."""
    (rows, columns), x = tensor(name)
    return [count, rows], [x[i * columns + j] for j in range(first, first + count) for i in range(rows)]


width = golden["config"]["n_embd"]
weights = {"wte": tensor("wte.weight"), "wpe": tensor("wpe.weight")}


def norm(to, name):
    weights[to + ".gain"], weights[to + ".bias"] = tensor(name + ".weight"), tensor(name + ".bias")


def linear(to, name, part=0, parts=1):
    _, bias = tensor(name + ".bias")
    count = len(bias) // parts
    weights[to] = turned(name + ".weight", part * count, count)
    weights[to + "_bias"] = [count], bias[part * count : (part + 1) * count]


norm("norm", "ln_f")
for n in range(golden["config"]["n_layer"]):
    to, name = f"blocks.{n}.", f"h.{n}."
    norm(to + "norm1", name + "ln_1")
    norm(to + "norm2", name + "ln_2")
    for part, letter in enumerate("qkv"):
        linear(to + "attn.w" + letter, name + "attn.c_attn", part, 3)
    linear(to + "attn.wo", name + "attn.c_proj")
    linear(to + "ffn.fc", name + "mlp.c_fc")
    linear(to + "ffn.proj", name + "mlp.c_proj")

entries, body = {}, b""
for name, (shape, x) in weights.items():
    more = struct.pack(f"<{len(x)}f", *x)
    entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(more)]}
    body += more
text = json.dumps(entries).encode()
open(f"{out}/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)

ids, vocab = golden["input_ids"], golden["config"]["vocab_size"]
open(f"{out}/tokens.bin", "wb").write(struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + struct.pack(f"<{len(ids)}H", *ids))
loss = 0
for t in range(len(ids) - 1):
    row = golden["logits"][t * vocab : (t + 1) * vocab]
    loss += math.log(sum(map(math.exp, row))) - row[ids[t + 1]]
print(loss / (len(ids) - 1))
