#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# usage.sh - the program's help and version, and the remedy it prints for every kind of mistake.
# run-tests: 3 s, asan 9 s
set -u
source tests/tap
use_scratch

# says STATUS STREAM TEXT ARGUMENTS...: the program exits with STATUS and prints TEXT on STREAM (out or err). A
# failure must print nothing on stdout, where results are read.
says() {
    local expected=$1 stream=$2 text=$3 status
    shift 3
    "$weft" "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
    ((status == expected)) && grep -qF -- "$text" "$scratch/$stream" && { ((status == 0)) || [[ ! -s $scratch/out ]]; }
    result $? "weft $*: exits with $expected and prints: $text"
    ((status == expected)) || sed 's/^/# /' "$scratch/err"
}

version=$(sed -n 's/^#define WEFT_VERSION "\(.*\)"/\1/p' include/weft.h)
says 0 out "$version" version
says 0 out "$version" --version
says 0 out "\"version\": \"$version\"" version --json
says 0 out "usage: weft COMMAND" help
says 0 out "usage: weft COMMAND" --help
says 0 out "gpt2-124m" help models
says 0 out "layers" help options
says 0 out '| `layers` | integer, 1 to 1024 | 2 |' help options --as markdown
says 0 out "config WEFT_LAYERS" help options --as kconfig
says 1 err 'cannot be printed as markdown' help models --as markdown
says 0 out 'y = x W^t + b + addend' help ops
says 0 out '*weft* train \[OPTION...] MODEL' help train --as scdoc
for command in $(sed -n 's/^CMD(\(.*\))/\1/p' src/cmd/cmds.def); do
    says 0 out "  $command " help
    says 0 out "Usage: weft $command" "$command" --help
    says 0 out "Usage: weft $command" help "$command"
    says 2 err "--help" "$command" --no-such-option
    letters=$("$weft" "$command" --help | grep -o '^  -[A-Za-z],' | sort | uniq -d)
    [[ -z $letters ]]
    result $? "weft $command: a letter stands for one option $letters"
done

says 2 err "weft help"
says 2 err "did you mean \`weft train\`?" trian
says 2 err "\`weft help\` lists all" xyzzy
says 2 err "did you mean models?" help modles
says 0 out "  causal " help gates
says 0 out "  recall " help tasks
says 0 out "  adamw " help optimisers
says 0 out "  swiglu " help ffn
says 0 out "  ws_tau " help ffn
for topic in geom attn pos norm mechanisms; do
    says 0 out "$topic: --set " help "$topic"
done
says 0 out "C, width of the residual stream" help width
says 1 err "cannot be printed as markdown" help width --as markdown
says 2 err "did you mean ffn?" help activation
for name in activation=relu2 act=gelu mlp=swiglu; do
    says 1 err "did you mean ffn (gelu, swiglu, ws)?" show gpt2 --set $name
done
says 1 err "did you mean width?" show gpt2 --set n_embd=64
says 1 err "did you mean lr?" train gpt2 --set learning_rate=1
says 2 err "there is no option -s: did you mean --seed or --stop or --stats?" generate x -s 3
! grep -h -- '^  -s,' <(for command in $(sed -n 's/^CMD(\(.*\))/\1/p' src/cmd/cmds.def); do "$weft" "$command" --help; done) | grep -qv -- '-s, --set='
result $? "-s is --set in every command"
says 2 err "no MODEL given: pass a run" eval
says 2 err "no MODEL given: pass a run" generate
says 2 err "--tokens abc is invalid" generate x --tokens abc
says 1 err 'there is no preset "nope", and no file or folder of that name. ' train nope
says 1 err "there is no folder nope" audit nope
says 1 err "is neither a study folder nor a run folder" audit "$scratch"
for command in "show gpt2" "help" "generate nope"; do
    # shellcheck disable=SC2086 # words
    ! WEFT_ISA=base "$weft" $command 2>&1 >/dev/null </dev/null | grep -q 'has no AMX'
    result $? "weft $command has no note on AMX"
done
says 2 err "weft help models" train
says 1 err "did you mean gpt2" train gpt22
says 1 err "did you mean layers" train gpt2 --set laers=3
says 2 err "write NAME=VALUE" train gpt2 --set layers
says 2 err "--set needs a value: --set=NAME=VALUE" train gpt2 --set
says 2 err "there is no option --rseume: did you mean --resume?" train gpt2 --rseume
says 2 err "there is no option -q" train gpt2 -q
says 2 err "--json takes no value" train gpt2 --json=yes
says 2 err "unexpected argument" train gpt2 llama
says 2 err "expected a number from 1e-06 to" train gpt2 --time 0
says 1 err "expected 1 to" train gpt2 --set layers=0
says 1 err "expected 1 to" train gpt2 --set layers=99999999999999999999
says 1 err "layers" train gpt2 --set layers=many
says 1 err "width=128 is not a multiple of heads=3" show gpt2 --set heads=3
says 0 out "label=\"layer 1\"" show gpt2 --dot
says 1 err "recall" train gpt2 --set task=recal
says 1 err "no op named" check --op no-such-op
says 2 err "did you mean causal?" verify gpt2 --gate casual
says 2 err "needs a MODEL" verify --set layers=3
says 2 err "expected an integer from 0 to" verify --random many
says 2 err "engine" bench
says 2 err "did you mean engine?" bench engin
says 2 err "write NAME=VALUE" bench engine --set layers
says 2 err "--length is not an option of train" bench train --length 3
says 2 err "did you mean topk?" bench attention --route topkk
for lengths in 0 64, 64,,128 64,x 99999999999999999999 "" 1048577; do
    says 2 err "expected integers from 1 to" bench attention --length "$lengths"
done
says 2 err "pass only one of them" bench attention --set geom=w2 --route topk
says 2 err "expected GB/s and microseconds" plan gpt2 --network 12.5
says 1 err "grad_groups and micro_batches to 2" plan gpt2 --ranks 2
says 2 err "expected an integer from 0 to 4096" show gpt2 --threads many
says 2 err "expected an integer from 0 up" ablate --config x --run -1
WEFT_ISA=avx2 says 1 err "WEFT_ISA=avx2 is not a level: use base, v3, v4 or amx" show gpt2
WEFT_ISA=v3 says 0 out "layers" help options
WEFT_ENGINE=fast says 1 err "WEFT_ENGINE=fast: this program has no such engine" train gpt2 --set task=recall --set steps=1

# Every option and argument of a table is in --help and in the man page.
for command in $(sed -n 's/^CMD(\(.*\))/\1/p' src/cmd/cmds.def); do
    "$weft" help "$command" --as scdoc >"$scratch/man"
    "$weft" "$command" --help >"$scratch/help"
    missing=$("$weft" --complete "$command" -- | cut -f 1 | while read -r option; do
        { grep -q -- "$option" "$scratch/help" && grep -q -- "$option" "$scratch/man"; } || echo "$option"
    done)
    [[ -z $missing && $(wc -L <"$scratch/help") -le 79 ]]
    result $? "weft $command --help and its man page name all options, in lines that fit $missing"
done

# Source lines are for those who ask.
says 1 err "attn=x is invalid" show gpt2 --set attn=x
! grep -q '\.c:[0-9]' "$scratch/err"
result $? "an error has no source lines"
says 1 err ".c:" show gpt2 --set attn=x --verbose
says 1 err ".c:" --verbose show gpt2 --set attn=x
WEFT_VERBOSE=1 says 1 err ".c:" show gpt2 --set attn=x

# shows_nothing_raw ARGUMENTS...: no control character reaches the terminal but newlines
shows_nothing_raw() {
    "$weft" "$@" >"$scratch/out" 2>"$scratch/err"
    [[ -s $scratch/err && -z $(tr -d '\n -~' <"$scratch/err") ]]
    result $? "$(printf '%q ' weft "$@"): shows no control character"
}
escape=$'\e[31mred\x9b\x7f\r\t'
shows_nothing_raw train gpt2 --set "attn=$escape"
shows_nothing_raw train gpt2 --set "$escape=1"
shows_nothing_raw train "$escape"
shows_nothing_raw "$escape"
shows_nothing_raw train gpt2 "--$escape"
shows_nothing_raw eval gpt2 --data "$escape" --tokenizer bytes
shows_nothing_raw config "$escape"
shows_nothing_raw report "$escape"
shows_nothing_raw tokenizer info "$escape"
shows_nothing_raw bench "$escape"
printf '{"preset": "gpt2", "\\u001b[31m": 1}' >"$scratch/config.json"
shows_nothing_raw show "$scratch/config.json"

# fills_up ARGUMENTS...: a result that cannot be written is a failure
fills_up() {
    local status
    "$weft" "$@" >/dev/full 2>"$scratch/err"
    status=$?
    ((status == 1)) && grep -qi "full" "$scratch/err"
    result $? "weft $*: notices a full disk"
}
fills_up help
fills_up help options
fills_up train --help
fills_up version
fills_up version --json
for form in --options --config --walk --graph --dot --json ""; do
    # shellcheck disable=SC2086 # no form is no word
    fills_up show gpt2 $form
done
fills_up config configs/recall-quick
finish
