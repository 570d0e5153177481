#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# data-memory.sh - preparing a stream of MEGABYTES (64 by default) takes less than 200 MB of memory and loses no byte: as
# JSONL, plain text, and plain text compressed with Zstandard. The temporary token files take twice the size of the
# stream.
# run-tests: 8 s
set -u
source tests/tap
megabytes=${MEGABYTES:-64}
[[ $weft != *san/* ]] || { echo "skip: sanitizers need extra memory"; exit 77; }
use_scratch

feed() { # KIND: runs weft on a stream; prints its peak memory in MB, whether it counted every byte, and its speed
    python3 - "$1" "$megabytes" "$weft" "$scratch/out" <<'END'
import json, os, random, subprocess, sys
kind, megabytes, weft, out = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
random.seed(1)
words = ["".join(random.choices("etaoinshrdlu", k=random.randint(1, 9))) for _ in range(5000)]
texts = [" ".join(random.choices(words, k=random.randint(5, 800))) for _ in range(500)]
command = [weft, "data", "prepare", "-", "--out", out, "--json", "--shard-tokens", "50000000"]
command += ["--field", "text"] if "jsonl" in kind else []
run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
stream = run.stdin
if "zst" in kind:
    stream = subprocess.Popen(["zstd", "-q"], stdin=subprocess.PIPE, stdout=run.stdin).stdin
    run.stdin.close()
sent = number = 0
while sent < megabytes * 1000000:
    text = f"{number} {texts[number % len(texts)]}\n"
    stream.write((json.dumps({"text": text}) + "\n" if "jsonl" in kind else text).encode())
    sent += len(text)
    number += 1
stream.close()
result = json.loads(run.stdout.read())
_, status, usage = os.wait4(run.pid, 0)
assert status == 0
print(f"{usage.ru_maxrss / 1000:.0f} {result['bytes'] == sent} {result['mb_per_s']:.0f}")
END
}

for kind in jsonl plain plain.zst; do
    read -r peak counted speed < <(feed $kind)
    echo "# $kind: $megabytes MB, peak ${peak:-?} MB, ${speed:-?} MB/s"
    ((${peak:-999} < 200))
    result $? "$kind: $megabytes MB take less than 200 MB of memory"
    [[ $counted == True ]]
    result $? "$kind: every byte is counted"
    rm -rf "$scratch/out"
done
finish
