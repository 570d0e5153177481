#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# data.sh - weft data: prepares token files from files and pipes, and reports errors.
# run-tests: 6 s, asan 41 s
set -u
source tests/tap
use_scratch

field() { sed -nE "s/.*\"$1\": \"?([^,\"}]*).*/\1/p"; }

data_fails() { fails "$1" "$2" data "${@:3}"; } # STATUS TEXT ARGUMENTS...

for i in {1..400}; do echo "{\"text\": \"document $i, with some words\"}"; done >"$scratch/a.jsonl"
sed 's/{"text": "\(.*\)"}/\1/' "$scratch/a.jsonl" >"$scratch/a.txt"
bytes=$(wc -c <"$scratch/a.txt")

json=$("$weft" data prepare "$scratch/a.txt" --out "$scratch/text" --shard-tokens 1000 --json 2>/dev/null)
[[ $(field bytes <<<"$json") == "$bytes" && $(field val_tokens <<<"$json") == $((bytes / 10)) &&
   $(field vocab <<<"$json") == 257 ]]
result $? "plain text: every byte is counted, and a tenth is for validation"

json=$("$weft" data info "$scratch/text" --length 100 --json)
train=$((bytes - bytes / 10))
[[ $(field tokens <<<"$json") == "$train" && $(field windows <<<"$json") == $(((train - 1) / 100)) &&
    $(field shards <<<"$json") == $(((train + 999) / 1000)) && $(field vocab <<<"$json") == 257 ]]
result $? "info prints tokens, shards, windows and vocabulary"

"$weft" data prepare - --out "$scratch/pipe" --shard-tokens 1000 <"$scratch/a.txt" >/dev/null && diff -r "$scratch/text" "$scratch/pipe"
result $? "a pipe gives the same files as a file"

json=$("$weft" data prepare "$scratch/a.jsonl" --field text --out "$scratch/lines" --val 0.2 --json)
val=$("$weft" data info "$scratch/lines" --split val --json | field documents)
[[ $(field documents <<<"$json") == 400 ]] && ((val > 40 && val < 130))
result $? "JSONL: each line is a document, and about a fifth is for validation"

"$weft" data prepare "$scratch/a.jsonl" --field text --out "$scratch/end-less" --tokenizer char 2>&1 >/dev/null | grep -q 'documents are not separated' &&
    ! "$weft" data prepare "$scratch/a.jsonl" --field text --out "$scratch/end" 2>&1 >/dev/null | grep -q 'documents are not separated'
result $? "warns if the tokenizer has no token to separate documents"
"$weft" data prepare "$scratch/a.txt" --out "$scratch/char" --tokenizer char >/dev/null &&
    [[ $("$weft" data info "$scratch/char" --json | field vocab) == $(($(grep -o . "$scratch/a.txt" | sort -u | wc -l) + 1)) ]]
result $? "the vocabulary is the set of characters in the text"

data_fails 2 "prepare, info or index" # nothing
data_fails 2 "did you mean prepare?" prepar x
data_fails 2 "pass --out=DIR" prepare "$scratch/a.txt"
data_fails 2 "no INPUT given" prepare --out "$scratch/no"
data_fails 2 "no PATH given" info
data_fails 2 "no PATH given" index
data_fails 2 "--out is not an option of info" info x --out "$scratch/no"
data_fails 2 "--length is not an option of prepare" prepare x --out "$scratch/no" --length 3
data_fails 2 "name the field" prepare "$scratch/a.jsonl" --out "$scratch/no"
data_fails 2 "a fraction below 1" prepare "$scratch/a.txt" --out "$scratch/no" --val 1
data_fails 2 "expected an integer from 1 to" prepare "$scratch/a.txt" --out "$scratch/no" --shard-tokens 0
data_fails 1 "a.jsonl:1: no text field \"body\"" prepare "$scratch/a.jsonl" --out "$scratch/no" --field body
data_fails 1 "a.txt:1:" prepare "$scratch/a.txt" --out "$scratch/no" --field text
data_fails 1 "exists already" prepare "$scratch/a.txt" --out "$scratch/text"
{ head -c 5000000 /dev/zero | tr '\0' 'a' && printf '\0b\n'; } >"$scratch/zero.txt"
data_fails 1 "zero.txt: byte 5000000 is zero" prepare "$scratch/zero.txt" --out "$scratch/no" --tokenizer char
printf '{"text": "a"}\n{"text": "ab\\u0000"}\n' >"$scratch/zero.jsonl"
data_fails 1 "zero.jsonl: byte 2 of document 2 is zero" prepare "$scratch/zero.jsonl" --field text --out "$scratch/no" --tokenizer char
data_fails 1 "only once" prepare - --out "$scratch/no" --tokenizer char
data_fails 1 "none" prepare "$scratch/none" --out "$scratch/no"
[[ ! -e $scratch/no && ! -e $scratch/no.partial ]]
result $? "none of these leaves a folder"
data_fails 1 "no token files for test" info "$scratch/text" --split test
truncate -s -1 "$scratch/text/train_000002.bin"
data_fails 1 "train_000002.bin, byte 8" info "$scratch/text"

# Compares GPT-2's tokens of a long text with the hash of an independent encoder's tokens.
text=se-prose/train.txt
[[ $weft != *san/* ]] || text=se-prose/val.txt
name="the tokens of $text are GPT-2's"
if [[ -n ${WEFT_DATA:-} ]]; then
    "$weft" data prepare "$WEFT_DATA/$text" --out "$scratch/gpt2" --val 0 --tokenizer "$WEFT_DATA/gpt2-bpe/vocab.bpe" >/dev/null
    hash=$(tail -c +1025 "$scratch/gpt2/train_000000.bin" | sha256sum | cut -d' ' -f1)
    [[ $(grep -F "\"$text\"" "$WEFT_DATA/gpt2-bpe/golden_token_counts.jsonl" | tr -d ' ' | sed -nE 's/.*"sha256_u16le":"([^"]*).*/\1/p') == "$hash" ]]
    result $? "$name"
else
    echo "ok $((++tap_number)) - $name # SKIP WEFT_DATA is not set"
fi
# ---- hash trees: the root follows RFC 6962 and is recomputed by Python; a changed block is found when it is read
root() { # FILE: prints the root recorded in the tree and the root computed from the file
    python3 - "$1" <<'END'
import hashlib, sys
data = open(sys.argv[1], "rb").read()
tree = open(sys.argv[1] + ".tree", "rb").read()
level = [hashlib.sha256(b"\0" + data[i : i + 65536]).digest() for i in range(0, len(data), 65536)]
nodes = list(level)
while len(level) > 1:
    pairs = [hashlib.sha256(b"\1" + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)]
    level = pairs + level[2 * len(pairs) :]
    nodes += level
sys.exit(tree != b"WEFTTREE" + (1).to_bytes(4, "little") + (65536).to_bytes(4, "little") + len(data).to_bytes(8, "little")
         + level[0] + bytes(8) + b"".join(nodes))
END
}
seq 100000 >"$scratch/numbers.txt"
"$weft" data prepare "$scratch/numbers.txt" --out "$scratch/tree" >/dev/null 2>&1
root "$scratch/tree/train_000000.bin" && root "$scratch/tree/val_000000.bin" && [[ $(stat -c %s "$scratch/tree/train_000000.bin") -gt 655360 ]]
result $? "prepare writes the hash trees of its files, as RFC 6962 has them"
before=$("$weft" data info "$scratch/tree" --json | field sha256)
cp -r "$scratch/tree" "$scratch/again" && rm "$scratch"/again/*.tree && [[ -z $("$weft" data info "$scratch/again" --json | field sha256) ]] &&
    json=$("$weft" data index "$scratch/again" --json 2>/dev/null) && [[ ${#before} == 64 && $(field train_sha256 <<<"$json") == "$before" ]] &&
    diff -r "$scratch/tree" "$scratch/again"
result $? "index writes the same ones: $json"
train() { "$weft" train gpt2 --set task=text --set data="$scratch/again" --set steps=2 --set layers=1 --set width=16 --set heads=2 \
    --set context=16 --set batch=2 --set eval_samples=100000 --set eval_every=0 --unsafe --out "$scratch/$1" >"$scratch/log" 2>&1; }
rm "$scratch"/again/*.tree && train run-1 && diff -r "$scratch/tree" "$scratch/again"
result $? "so does the first run on them"
score() { "$weft" eval "$scratch/run-1" --data "$scratch/again" >"$scratch/log" 2>&1; } # reads every block of val
score
result $? "weft eval also reads them"
bytes=$(stat -c %s "$scratch/again/val_000000.bin")
for at in 2000 $((bytes / 2)) $((bytes - 1)); do
    cp "$scratch/tree/val_000000.bin" "$scratch/again" && printf '\x00' | dd of="$scratch/again/val_000000.bin" bs=1 seek=$at conv=notrunc 2>/dev/null
    cmp -s "$scratch/tree/val_000000.bin" "$scratch/again/val_000000.bin" && printf '\x01' | dd of="$scratch/again/val_000000.bin" bs=1 seek=$at conv=notrunc 2>/dev/null
    ! score && grep -q 'val_000000.bin, byte .*: this block .* `weft data index`' "$scratch/log"
    result $? "byte $at of $bytes changed: refused when it is read"
done
cp "$scratch/tree/val_000000.bin" "$scratch/again"
for at in 0 8 12 16 30 60 70 $(($(stat -c %s "$scratch/tree/val_000000.bin.tree") - 40)); do
    cp "$scratch/tree/val_000000.bin.tree" "$scratch/again" && printf '\x99' | dd of="$scratch/again/val_000000.bin.tree" bs=1 seek=$at conv=notrunc 2>/dev/null
    ! score && grep -q 'weft data index' "$scratch/log"
    result $? "byte $at of the tree changed: refused"
done
head -c 100 "$scratch/tree/val_000000.bin.tree" >"$scratch/again/val_000000.bin.tree" && ! score && grep -q 'is damaged' "$scratch/log"
result $? "a tree that was cut is rejected"
"$weft" data index "$scratch/again" >/dev/null 2>&1 && score && diff -r "$scratch/tree" "$scratch/again"
result $? "index replaces it"
data_fails 1 "has no token files" index "$scratch/run-1"
finish
