#!/usr/bin/python3
# SPDX-License-Identifier: MIT
#
# safetensors_bytes.py FILE - the values of every tensor, in order of names, as bytes on stdout; read by the safetensors
# package or else by torch from the header, written from the format's description. Exits 77 when there is neither.
import json
import sys

try:
    import torch
except ImportError:
    sys.exit(77)
try:
    from safetensors.torch import load_file as load
except ImportError:
    def load(path):
        data = open(path, "rb").read()
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:start])
        header.pop("__metadata__", None)
        types = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16, "I32": torch.int32}
        tensors = {}
        for name, t in header.items():
            begin, end = t["data_offsets"]
            raw = bytearray(data[start + begin:start + end])
            flat = torch.frombuffer(raw, dtype=types[t["dtype"]]) if raw else torch.empty(0, dtype=types[t["dtype"]])
            tensors[name] = flat.reshape(t["shape"])
        return tensors

for name, tensor in sorted(load(sys.argv[1]).items()):
    values = tensor.contiguous()
    if values.dtype == torch.bfloat16:
        values = values.view(torch.int16)
    sys.stdout.buffer.write(values.numpy().tobytes())
