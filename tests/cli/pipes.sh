#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# pipes.sh - a named pipe, or any other file that is not regular, is rejected immediately wherever a file is expected.
# run-tests: 2 s, asan 12 s
set -u
source tests/tap
use_scratch

pipe=$scratch/pipe
mkfifo "$pipe"
printf 'The quick brown fox jumps over the lazy dog.\n%.0s' {1..400} >"$scratch/text"
"$weft" data prepare "$scratch/text" --out "$scratch/data" >"$scratch/log" 2>&1 || sed 's/^/# /' "$scratch/log"
"$weft" train gpt2 --set steps=1 --set task=text --set data="$scratch/data" --set vocab=257 --set context=16 \
    --set layers=1 --set width=16 --set heads=2 --out "$scratch/run" \
    >"$scratch/log" 2>&1 || sed 's/^/# /' "$scratch/log"
step=$(echo "$scratch"/run/step-*)

# refuses NAME ARGUMENTS...: the program ends by itself, with status 1 and words about the file
refuses() {
    local name=$1 status
    shift
    timeout 30 "$weft" "$@" </dev/null >"$scratch/out" 2>"$scratch/err"
    status=$?
    ((status == 1)) && grep -q "not a regular file" "$scratch/err"
    result $? "a pipe $name is rejected"
    ((status == 1)) || { echo "# status $status" && sed 's/^/# /' "$scratch/err"; }
}

# with FILE: a pipe takes its place
with() {
    [[ ! -e $1 ]] || mv "$1" "$scratch/kept"
    mkfifo "$1"
}
without() {
    rm "$1"
    [[ ! -e $scratch/kept ]] || mv "$scratch/kept" "$1"
}

refuses "as a config" show "$pipe"
refuses "as the config of a study" config "$pipe"
refuses "as token file" data info "$pipe"
refuses "as input of data prepare" data prepare "$pipe" --out "$scratch/none"
refuses "as tokenizer" data prepare "$scratch/text" --out "$scratch/none" --tokenizer "$pipe"
refuses "as input of tokenizer train" tokenizer train "$pipe" --vocab 300 --out "$scratch/t.json"
refuses "as tokenizer to look at" tokenizer info "$pipe"
refuses "as text to score" eval "$scratch/run" --data "$pipe"

with "$step/model.safetensors"
refuses "as the weights" eval "$step" --data "$scratch/data"
without "$step/model.safetensors"
with "$scratch/run/config.json"
refuses "as config.json" show "$scratch/run"
without "$scratch/run/config.json"
with "$scratch/data/tokenizer.json"
refuses "as tokenizer.json of the data" train gpt2 --set task=text --set data="$scratch/data" --set vocab=257 --set context=16
without "$scratch/data/tokenizer.json"
mv "$scratch/data/train_000000.bin" "$scratch/kept" && mkfifo "$scratch/data/train_000000.bin"
refuses "as token file of the data" train gpt2 --set task=text --set data="$scratch/data" --set vocab=257 --set context=16
without "$scratch/data/train_000000.bin"

"$weft" data prepare - --out "$scratch/piped" <"$scratch/text" >"$scratch/out" 2>&1 &&
    cat "$scratch/text" | "$weft" data prepare - --out "$scratch/piped2" >"$scratch/out" 2>&1 &&
    cmp -s "$scratch/piped/train_000000.bin" "$scratch/piped2/train_000000.bin"
result $? "standard input may be a pipe"
finish
