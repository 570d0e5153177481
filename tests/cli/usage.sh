#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# usage.sh - what the program says to a person: help, version, and what to do after every kind of mistake.
set -u
source tests/tap
weft=${WEFT:-build/weft}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# says STATUS STREAM TEXT ARGUMENTS...: the program exits with STATUS and prints TEXT on STREAM (out or err). Of a
# failure nothing may be on stdout, where results are read.
says() {
    local expected=$1 stream=$2 text=$3 status
    shift 3
    "$weft" "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
    ((status == expected)) && grep -qF -- "$text" "$scratch/$stream" && { ((status == 0)) || [[ ! -s $scratch/out ]]; }
    result $? "weft $*: exits with $expected and says: $text"
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
says 0 out '| `layers` | whole number, 1 to 1024 | 2 |' help options --as markdown
says 0 out "config WEFT_LAYERS" help options --as kconfig
says 1 err 'no form "markdown"' help models --as markdown
says 0 out 'y = x W^t + b + addend' help ops
says 0 out '*weft train* [_OPTION_...] MODEL' help train --as scdoc
says 0 out 'train) words="--help --out --resume' help --as bash
says 0 out "seen_subcommand_from train' -l out -s o -r" help --as fish
for command in $(sed -n 's/^CMD(\(.*\))/\1/p' src/cmd/cmds.def); do
    says 0 out "  $command " help
    says 0 out "Usage: weft $command" "$command" --help
    says 0 out "Usage: weft $command" help "$command"
    says 2 err "--help" "$command" --no-such-option
done

says 2 err "weft help"
says 2 err "did you mean \`weft train\`?" trian
says 2 err "\`weft help\` lists all" xyzzy
says 1 err "there is no help on \"modles\": did you mean models?" help modles
says 2 err "weft help models" train
says 1 err "did you mean gpt2" train gpt22
says 1 err "did you mean layers" train gpt2 --set laers=3
says 1 err "write NAME=VALUE" train gpt2 --set layers
says 1 err "give 1 to" train gpt2 --set layers=0
says 1 err "give 1 to" train gpt2 --set layers=99999999999999999999
says 1 err "layers" train gpt2 --set layers=many
says 1 err "make width a multiple of heads" show gpt2 --set heads=3
says 0 out "label=\"layer 1\"" show gpt2 --dot
says 1 err "recall" train gpt2 --set task=recal
says 1 err "no op named" check --op no-such-op
says 1 err "did you mean causal?" verify gpt2 --gate casual
says 1 err "of which MODEL?" verify --set layers=3
says 2 err "give a number from 0 to" verify --random many
says 2 err "engine" bench
says 1 err "write NAME=VALUE" bench engine --set layers
says 2 err "--length is no option of train" bench train --length 3
says 1 err "give a number from 0 to 4096" show gpt2 --threads many
WEFT_ISA=avx2 says 1 err "WEFT_ISA=avx2 is not a level: use base, v3, v4 or amx" show gpt2
WEFT_ISA=v3 says 0 out "layers" help options
WEFT_ENGINE=fast says 1 err "WEFT_ENGINE=fast: this program has no such engine" train gpt2 --set task=recall --set steps=1
finish
