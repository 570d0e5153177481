#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tokenizer-speed.sh - encodes prose with GPT-2's tokens by weft and by tiktoken, in turn, on one thread each, and by
# weft on all threads: the number of tokens is the same, and weft is not slower. Needs WEFT_DATA and tiktoken from PyPI.
set -u
source tests/tap
[[ -n ${WEFT_DATA:-} ]] || { echo "skip: WEFT_DATA is not set"; exit 77; }
use_scratch
python=$(tools/venv.sh tiktoken==0.12.0 2>"$scratch/why") || { echo "skip: $(cat "$scratch/why")"; exit 77; }

head -c 10000000 "$WEFT_DATA/se-prose/train.txt" >"$scratch/prose"
cat >"$scratch/rival.py" <<'END'
import json, sys, time, tiktoken

# encoder.json writes bytes that are printable in Latin-1 as themselves and the others as characters from U+0100 upwards.
plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
others = [byte for byte in range(256) if byte not in plain]
byte = {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}
tokens = json.load(open(sys.argv[1]))
special = {"<|endoftext|>": tokens.pop("<|endoftext|>")}
pieces = r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
ranks = {bytes(byte[c] for c in token): number for token, number in tokens.items()}
encoding = tiktoken.Encoding("gpt2", pat_str=pieces, mergeable_ranks=ranks, special_tokens=special)

text = open(sys.argv[2], encoding="utf-8", errors="replace", newline="").read()
encoding.encode_ordinary(text[:100000])
start = time.perf_counter()
count = len(encoding.encode_ordinary(text))
speed = len(text.encode()) / 1e6 / (time.perf_counter() - start)
print(json.dumps({"tokens": count, "megabytes_per_second": speed}))
END
own() { OMP_NUM_THREADS=$1 "$weft" tokenizer encode --tokenizer "$WEFT_DATA/gpt2-bpe" --json "$scratch/prose"; }
for turn in 1 2 3; do
    own 1 >>"$scratch/one"
    "$python" "$scratch/rival.py" "$WEFT_DATA/gpt2-bpe/encoder.json" "$scratch/prose" >>"$scratch/rival"
    own "$(nproc)" >>"$scratch/all"
done
for who in one rival all; do sed "s/^/# $who: /" "$scratch/$who"; done

best() { sed -E 's/.*"megabytes_per_second": ?([0-9.]+).*/\1/' "$scratch/$1" | sort -g | tail -n 1; }
counts() { sed -E 's/.*"tokens": ?([0-9]+).*/\1/' "$scratch/$1" | sort -u; }
[[ $(counts one) == "$(counts rival)" && $(counts all) == "$(counts one)" ]]
result $? "$(counts one) tokens on both sides"
awk "BEGIN { exit !($(best one) >= $(best rival)) }"
result $? "weft on one thread $(best one) MB/s, on $(nproc) $(best all) MB/s, tiktoken $(best rival) MB/s"
finish
