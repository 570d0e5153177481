"""weights_hash.py MODEL... - the weights_sha256 of model.safetensors files, by its definition in docs/runs.md."""
import hashlib
import json
import struct
import sys

BLOCK = 4 << 18  # bytes


def weights_hash(path):
    file = open(path, "rb").read()
    size = struct.unpack("<Q", file[:8])[0]
    tensors = json.loads(file[8 : 8 + size])
    tensors.pop("__metadata__", None)
    total = hashlib.sha256()
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = (8 + size + at for at in tensor["data_offsets"])
        total.update(name.encode() + b"\0" + struct.pack(f"<{len(tensor['shape'])}q", *tensor["shape"]))
        for at in range(first, last, BLOCK):
            total.update(hashlib.sha256(file[at : min(at + BLOCK, last)]).hexdigest().encode())
    return total.hexdigest()


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(weights_hash(path))
