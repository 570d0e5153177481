#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tokenizer-speed.sh - encodes prose with GPT-2's tokens by weft and by npm's tiktoken, turn by turn, on one thread each
# and weft on all: the tokens agree in number and weft is not slower. Needs WEFT_DATA, node and the registry.
set -u
source tests/tap
weft=${WEFT:-build/weft}
[[ -n ${WEFT_DATA:-} ]] || { echo "skip: WEFT_DATA is not set"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(cd "$scratch" && npm i --ignore-scripts tiktoken) >"$scratch/log" 2>&1 || { echo "skip: no npm, or no tiktoken"; exit 77; }

head -c 10000000 "$WEFT_DATA/se-prose/train.txt" >"$scratch/prose"
cat >"$scratch/rival.js" <<'END'
const text = require('fs').readFileSync('prose', 'utf8');
const encoding = require('tiktoken').get_encoding('gpt2');
encoding.encode(text.slice(0, 100000));
const start = process.hrtime.bigint();
const tokens = encoding.encode(text).length;
const seconds = Number(process.hrtime.bigint() - start) / 1e9;
console.log(JSON.stringify({ tokens, megabytes_per_second: Buffer.byteLength(text) / 1e6 / seconds }));
END
own() { OMP_NUM_THREADS=$1 "$weft" tokenizer encode --tokenizer "$WEFT_DATA/gpt2-bpe" --json "$scratch/prose"; }
for turn in 1 2 3; do
    own 1 >>"$scratch/one"
    (cd "$scratch" && node rival.js) >>"$scratch/rival"
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
