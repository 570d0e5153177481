#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# data.sh - weft data: prepares token files from files and pipes, and reports errors.
set -u
source tests/tap
weft=${WEFT:-build/weft}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

field() { sed -nE "s/.*\"$1\": \"?([^,\"}]*).*/\1/p"; }

# fails STATUS TEXT ARGUMENTS...: `weft data` exits with STATUS, prints TEXT, and leaves no folder.
fails() {
    local expected=$1 text=$2 status
    shift 2
    "$weft" data "$@" >"$scratch/log" 2>&1
    status=$?
    ((status == expected)) && grep -qF -- "$text" "$scratch/log" && [[ ! -e $scratch/no && ! -e $scratch/no.partial ]]
    result $? "weft data ${*//$scratch\//}: exits with $expected and prints: $text"
}

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

"$weft" data prepare "$scratch/a.jsonl" --field text --out "$scratch/end-less" --tokenizer char 2>&1 >/dev/null | grep -q 'nothing stands between documents' &&
    ! "$weft" data prepare "$scratch/a.jsonl" --field text --out "$scratch/end" 2>&1 >/dev/null | grep -q 'nothing stands'
result $? "warns if the tokenizer has no token to separate documents"
"$weft" data prepare "$scratch/a.txt" --out "$scratch/char" --tokenizer char >/dev/null &&
    [[ $("$weft" data info "$scratch/char" --json | field vocab) == $(($(grep -o . "$scratch/a.txt" | sort -u | wc -l) + 1)) ]]
result $? "the vocabulary is the set of characters in the text"

fails 2 "prepare or info" # nothing
fails 2 "did you mean prepare?" prepar x
fails 2 "Give --out=DIR" prepare "$scratch/a.txt"
fails 2 "which INPUT?" prepare --out "$scratch/no"
fails 2 "which file or folder?" info
fails 2 "--out is not an option of info" info x --out "$scratch/no"
fails 2 "--length is not an option of prepare" prepare x --out "$scratch/no" --length 3
fails 2 "say which field" prepare "$scratch/a.jsonl" --out "$scratch/no"
fails 2 "less than 1" prepare "$scratch/a.txt" --out "$scratch/no" --val 1
fails 2 "give a whole number from 1 to" prepare "$scratch/a.txt" --out "$scratch/no" --shard-tokens 0
fails 1 "a.jsonl:1: no text field \"body\"" prepare "$scratch/a.jsonl" --out "$scratch/no" --field body
fails 1 "a.txt:1:" prepare "$scratch/a.txt" --out "$scratch/no" --field text
fails 1 "exists already" prepare "$scratch/a.txt" --out "$scratch/text"
{ head -c 5000000 /dev/zero | tr '\0' 'a' && printf '\0b\n'; } >"$scratch/zero.txt"
fails 1 "zero.txt: byte 5000000 is zero" prepare "$scratch/zero.txt" --out "$scratch/no" --tokenizer char
printf '{"text": "a"}\n{"text": "ab\\u0000"}\n' >"$scratch/zero.jsonl"
fails 1 "zero.jsonl: byte 2 of document 2 is zero" prepare "$scratch/zero.jsonl" --field text --out "$scratch/no" --tokenizer char
fails 1 "only once" prepare - --out "$scratch/no" --tokenizer char
fails 1 "none" prepare "$scratch/none" --out "$scratch/no"
fails 1 "no token files for test" info "$scratch/text" --split test
truncate -s -1 "$scratch/text/train_000002.bin"
fails 1 "train_000002.bin, byte 8" info "$scratch/text"

# Compares GPT-2's tokens of a long text with the hash of another encoder's.
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
finish
