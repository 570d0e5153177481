#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tokenizer.sh - weft tokenizer: train, encode, decode, info, and error messages.
# run-tests: 8 s, asan 25 s
set -u
source tests/tap
use_scratch

head -c 20000 tests/golden/README.md >"$scratch/a.md"
cat ARCHITECTURE.md >"$scratch/b.md"
json=$("$weft" tokenizer train --vocab 600 --special '<|endoftext|>' --special '<pad>' --out "$scratch/t.json" --json \
    "$scratch/a.md" "$scratch/b.md")
[[ $json == '{"kind": "bpe", "vocab": 600, "merges": 342, "specials": 2, "end": 0, "longest_bytes": '* ]]
result $? "train learns from two files and prints a summary"
"$weft" tokenizer info "$scratch/t.json" --json | cmp -s - <(echo "$json")
result $? "info prints the same summary of the file"
{ cat "$scratch/a.md" && echo && cat "$scratch/b.md"; } |
    "$weft" tokenizer train --vocab 600 --special '<|endoftext|>' --special '<pad>' --out "$scratch/again.json" >/dev/null &&
    cmp -s "$scratch/t.json" "$scratch/again.json"
result $? "files are joined by a newline; without files, standard input is read"

head -c 300000 "$weft" >"$scratch/bytes"
"$weft" tokenizer encode --tokenizer "$scratch/t.json" "$scratch/bytes" >"$scratch/tokens" &&
    "$weft" tokenizer decode --tokenizer "$scratch/t.json" <"$scratch/tokens" | cmp -s - "$scratch/bytes"
result $? "any bytes round-trip"
for threads in 1 3; do
    OMP_NUM_THREADS=$threads "$weft" tokenizer encode --tokenizer "$scratch/t.json" <"$scratch/bytes" | cmp -s - "$scratch/tokens"
    result $? "the same tokens with OMP_NUM_THREADS=$threads"
done
[[ $(printf 'a<pad>' | "$weft" tokenizer encode --tokenizer "$scratch/t.json" --specials | tail -n 1) == 1 &&
    $(printf 'a<pad>' | "$weft" tokenizer encode --tokenizer "$scratch/t.json" | tail -n 1) != 1 ]]
result $? "special tokens are recognised only with --specials"
"$weft" tokenizer encode --tokenizer "$scratch/t.json" --json <"$scratch/bytes" | grep -q "\"bytes\": 300000, \"tokens\": $(wc -l <"$scratch/tokens"), "
result $? "encode --json prints the counts"

tokenizer_fails() { fails "$1" "$2" tokenizer "${@:3}"; } # STATUS TEXT ARGUMENTS...
tokenizer_fails 2 "train, encode, decode or info"
tokenizer_fails 2 "did you mean encode?" encod
tokenizer_fails 2 "needs --vocab=N" train
tokenizer_fails 2 "needs --out=FILE" train --vocab 300
tokenizer_fails 2 "pass --tokenizer=FILE" encode
tokenizer_fails 1 "expected 257" train --vocab 100 --special '<s>' --out "$scratch/x"
tokenizer_fails 1 "a.jsonl is JSONL: pass its texts" train --vocab 300 --out "$scratch/x" a.jsonl
tokenizer_fails 1 "use \`zstd -dc a.zst |" train --vocab 300 --out "$scratch/x" a.zst
tokenizer_fails 2 "expected an integer" train --vocab many --out "$scratch/x"
tokenizer_fails 1 "No such file" train --vocab 300 --out "$scratch/x" "$scratch/none"
tokenizer_fails 1 "cannot be written" train --vocab 300 --out /dev/full "$scratch/a.md"
tokenizer_fails 1 "No such file" info "$scratch/none"
tokenizer_fails 1 "it is a folder" info "$scratch"
tokenizer_fails 1 "encoder.json cannot be read" info "$scratch/a.md"
tokenizer_fails 1 "other than token ids" decode --tokenizer "$scratch/t.json" "$scratch/a.md"
echo 600 >"$scratch/large"
tokenizer_fails 1 "the vocabulary has 600 tokens" decode --tokenizer "$scratch/t.json" "$scratch/large"
echo 4294967296 >"$scratch/wraps"
tokenizer_fails 1 "other than token ids" decode --tokenizer "$scratch/t.json" "$scratch/wraps"
printf '%040d\n' 5 >"$scratch/long"
tokenizer_fails 1 "other than token ids" decode --tokenizer "$scratch/t.json" "$scratch/long"
mkdir "$scratch/gpt2"
python3 - "$scratch" <<'END'
import json, sys
model = json.load(open(sys.argv[1] + "/t.json"))["model"]
json.dump(model["vocab"], open(sys.argv[1] + "/gpt2/encoder.json", "w"))
open(sys.argv[1] + "/gpt2/vocab.bpe", "w").write("\n".join(["#version: 0.2", "#version: 0.2", *model["merges"]]) + "\n")
END
tokenizer_fails 1 'merge 1 needs the token "#version:"' info "$scratch/gpt2"
sed -i 1d "$scratch/gpt2/vocab.bpe"
"$weft" tokenizer info "$scratch/gpt2" --json | grep -q '"merges": 342'
result $? "only the first line of vocab.bpe may be a version"

# A tokenizer of Llama 2's kind: a mark before every word, <s> (1) before every text, bytes for what has no token.
llama=tests/fuzz/corpus/tokenizer_json/llama2
mkdir "$scratch/llama"
cp "$llama" "$scratch/llama/tokenizer.json"
tokens() { "$weft" tokenizer encode --tokenizer "$scratch/llama" | paste -sd ' '; }
[[ $(printf 'ab a' | tokens) == '266 261 266' && $(printf 'a\xc3\xa9\n' | tokens) == '266 270 13' && $(printf '\xff' | tokens) == '259 258' ]]
result $? "words get a mark before them; what has no token becomes bytes"
[[ $(echo 268 266 259 | "$weft" tokenizer decode --tokenizer "$scratch/llama") == 'ab a ' ]]
result $? "the mark before a text is dropped when it is decoded"
printf '{"text": "ab"}\n{"text": "a"}\n' >"$scratch/two.jsonl"
"$weft" data prepare "$scratch/two.jsonl" --field text --val 0 --tokenizer "$scratch/llama" --out "$scratch/data" >/dev/null 2>&1 &&
    [[ $(od -An -tu2 -j1024 "$scratch/data/train_000000.bin" | xargs) == '1 266 261 2 1 266' ]] &&
    cmp -s "$llama" "$scratch/data/tokenizer.json"
result $? "documents begin with the token that the template adds; the tokenizer.json stays as it is"
yes 'ab a' | head -c 9000000 >"$scratch/long"
"$weft" data prepare "$scratch/long" --val 0 --tokenizer "$scratch/llama" --out "$scratch/long-data" >/dev/null 2>&1 &&
    cmp -s <(od -An -v -w2 -tu2 -j1026 "$scratch/long-data/train_000000.bin" | tr -d ' ') \
        <("$weft" tokenizer encode --tokenizer "$scratch/llama" "$scratch/long")
result $? "a text of several pieces has the tokens of the whole"
head -c 9000 "$scratch/long" >"$scratch/short"
"$weft" data prepare "$scratch/short" --val 0.1 --tokenizer "$scratch/llama" --out "$scratch/short-data" >/dev/null 2>&1
"$weft" train llama --set task=text --set data="$scratch/short-data" --set layers=1 --set width=32 --set heads=2 --set context=32 \
    --set steps=1 --set warmup=0 --set batch=1 --set eval_samples=1 --out "$scratch/run" >"$scratch/log" 2>&1 || sed 's/^/# /' "$scratch/log"
counts() { "$weft" generate "$scratch/run" -p "$1" -n 1 --json 2>/dev/null | grep -q "\"prompt_tokens\": $2,"; }
counts 'ab a' 4 && counts '<s>ab a' 4
result $? "a prompt begins with that token, once"
finish
