#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# hostile.sh - gives hostile files of every kind that Weft reads to the commands that read them (hostile.py).
set -u
source tests/fault/tiny

study study 20 RECALL_LENGTH=8 SEEDS=2 || exit 1
cp -r "$(echo study/runs/dot/*seed-1)" run
seq 3000 >input.txt && "$weft" data prepare input.txt --tokenizer bytes --out tokens >/dev/null 2>&1 || exit 1
mkdir tokenizer && head -c 1000000 /dev/zero | tr '\0' a >tokenizer/text
cat >tokenizer/tokenizer.json <<'END'
{"model": {"type": "BPE", "vocab": {}, "merges": []}, "added_tokens": [], "normalizer": null, "post_processor": null,
 "decoder": {"type": "ByteLevel"}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}}
END
python3 - <<'END'
import json
plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
name = {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in plain)}
t = json.load(open("tokenizer/tokenizer.json"))
t["model"]["vocab"] = {name[b]: b for b in range(256)}
json.dump(t, open("tokenizer/tokenizer.json", "w"))
END
"$weft" export run --format hf --out hf --no-check >/dev/null 2>err || { cat err && exit 1; }
PYTHONDONTWRITEBYTECODE=1 python3 "$here/tests/long/hostile.py" "$weft" "$scratch" "$@"
