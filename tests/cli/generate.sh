#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# generate.sh - text from trained models: output formats, where answers end, and that an answer depends only on its
# prompt and seed: 1000 completions at random concurrency, with full and with latent keys and values.
# run-tests: 5 s
set -u
export WEFT_TEST_SKIP_GATES=1
source tests/tap
use_scratch

for i in {1..300}; do echo "the cat $i sat on the mat; a dog $((i % 7)) ran."; done >"$scratch/text"
"$weft" data prepare "$scratch/text" --tokenizer char --out "$scratch/data" >"$scratch/log" 2>&1 || sed 's/^/# /' "$scratch/log"

train() { # NAME PRESET SETTINGS...
    local settings=(task=text data="$scratch/data" layers=2 width=32 heads=4 context=96 batch=4 steps=60 warmup=5
        eval_samples=4 "${@:3}")
    "$weft" train "$2" "${settings[@]/#/--set=}" --out "$scratch/$1" >"$scratch/log" 2>&1 || sed 's/^/# /' "$scratch/log"
}
train full llama
train latent gpt2 attn=latent latent_width=8

make() { "$weft" generate "$scratch/full" "$@" 2>"$scratch/err"; }

[[ $(make -p 'the cat' -n 5 -T 0 | wc -m) == 13 ]]
result $? "five tokens of a character each follow the prompt"
[[ $(make -p 'the cat' -n 40 --seed 3) == "$(make -p 'the cat' -n 40 --seed 3)" ]]
result $? "the same seed gives the same answer"
[[ $(make -p 'the cat' -n 40 --seed 3) != "$(make -p 'the cat' -n 40 --seed 4)" ]]
result $? "a different seed gives a different answer"
[[ $(make -p 'the cat' -n 30) == "$(printf 'the cat' | "$weft" generate "$scratch/full" -n 30 2>/dev/null)" ]]
result $? "a prompt is read from standard input"
[[ $(make -p 'the cat' -n 30 --threads 1) == "$(WEFT_ISA=base "$weft" generate "$scratch/full" -p 'the cat' -n 30 --threads 2 2>/dev/null)" ]]
result $? "an answer does not depend on threads or instruction set"

make -p 'the cat' -n 60 -T 0 --json >"$scratch/json"
[[ $(field end <"$scratch/json") == length && $(field tokens <"$scratch/json") == 60 && $(field prompt_tokens <"$scratch/json") == 7 ]]
result $? "JSON: the answer has the requested length"
text=$(field text <"$scratch/json")
stop=${text:20:4}
make -p 'the cat' -n 60 -T 0 --stop "$stop" --stop nowhere --json >"$scratch/json"
[[ $(field end <"$scratch/json") == stop && $(field text <"$scratch/json") == "${text%%"$stop"*}" ]]
result $? "it ends before a stop text"
make -p 'the cat' -n 60 -T 0 --stop "$stop" >"$scratch/out"
[[ $(<"$scratch/out") == "the cat${text%%"$stop"*}" ]]
result $? "also if it is streamed"
make -p 'the cat' -n 1000 --json >"$scratch/json"
[[ $(field end <"$scratch/json") == context && $(field tokens <"$scratch/json") == 89 ]]
result $? "it ends where the model's context ends"
grep -q 'the context of 96 tokens: pass a longer one with --context N' "$scratch/err"
result $? "and a note reports it"
text=$(make -p 'the cat' -n 89 -T 0)
[[ $(make -p 'the cat' -n 300 -T 0 --context 400) == "$text"* && $(make -p 'the cat' -n 300 -T 0 --context 400 | wc -m) == 308 ]]
result $? "a context longer than in training continues this answer"
ids=$(make -p 'the cat' -n 8 -T 0 --json | field ids)
prompt=$("$weft" tokenizer encode --tokenizer "$scratch/data/tokenizer.json" 'the cat' 2>/dev/null | tr '\n' ' ')
[[ -z $prompt || $(make -p "$prompt" --ids -n 8 -T 0) == "$ids" ]]
result $? "token numbers instead of texts"
[[ $(make -p 'the cat' -n 8 -T 0 --logprobs | cut -f 1 | tr '\n' ' ') == "$ids " ]]
result $? "a line for each token with its log probability"
make -p 'the cat' -n 8 --stats >/dev/null && grep -q 'decoded 7, .*cache .* bytes per token' "$scratch/err"
result $? "speed and memory"

# ---- the answer is the prompt's own

printf '%s\n' 'the cat' 'a' 'a dog 3' 'the cat 12 sat on the mat; a dog 5 ran.' 't' 'mat; a' 'on' 'dog' >"$scratch/few"
for model in full latent; do
    : >"$scratch/all"
    for seed in 1 2; do
        "$weft" generate "$scratch/$model" -f "$scratch/few" --batch 1 -n 24 --seed "$seed" --json 2>/dev/null |
            sed "s/^/$seed /" >>"$scratch/all"
    done
    RANDOM=7 done=0
    while ((done < 500)); do
        n=$((1 + RANDOM % 64)) seed=$((1 + RANDOM % 2))
        shuf -r -n "$n" --random-source=<(yes $RANDOM) "$scratch/few" >"$scratch/prompts"
        "$weft" generate "$scratch/$model" -f "$scratch/prompts" -n 24 --seed "$seed" --batch "$n" --json 2>/dev/null |
            sed "s/^/$seed /" >>"$scratch/all"
        done=$((done + n))
    done
    distinct=$(sort -u "$scratch/all" | wc -l)
    [[ $distinct == 16 ]]
    result $? "$model cached keys and values: $(wc -l <"$scratch/all") completions at random concurrency 1 to 64, $distinct different of 8 prompts x 2 seeds"
done

# ---- what is rejected

refuses() { # WORDS ARGUMENTS...
    local words=$1
    shift
    "$weft" generate "$@" </dev/null >"$scratch/out" 2>"$scratch/err"
    (($? != 0)) && grep -q -- "$words" "$scratch/err"
    result $? "refused: $words"
    grep -q -- "$words" "$scratch/err" || sed 's/^/# /' "$scratch/err"
}
refuses 'not a folder with weights' gpt2 -p x
refuses "nowhere is not a folder with weights" "$scratch/nowhere" -p x
refuses 'the prompt is empty' "$scratch/full" -p ''
refuses 'there is no prompt' "$scratch/full"
refuses 'not in the tokenizer' "$scratch/full" -p 'Ω'
refuses 'mutually exclusive' "$scratch/full" -p x -f "$scratch/few"
refuses 'with --ids, pass token ids' "$scratch/full" --ids -p 'x'
refuses 'with --ids, pass token ids' "$scratch/full" --ids -p '99999'
refuses '--stop and --ids are mutually exclusive' "$scratch/full" --ids -p '1' --stop x
refuses 'in the context of 96' "$scratch/full" -p "$(printf 'a%.0s' {1..96})"
rm "$scratch"/full/step-*/tokenizer.json
refuses "is not the one that was saved" "$scratch/full" -p x
"$weft" train gpt2 --set steps=1 --set eval_samples=1 --out "$scratch/recall" >"$scratch/log" 2>&1
refuses "no tokenizer.json" "$scratch/recall" -p x
finish
