#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# trouble.sh - a run whose log is removed, whose terminal is closed, whose stack or memory is limited, or whose checkpoint
# has a folder in place of a file; and the temporary folders that a killed process leaves.
# run-tests: 8 s
set -u
export WEFT_TEST_SKIP_GATES=1
source tests/fault/tiny

tiny=(--set task=recall --set recall_length=8 --set layers=1 --set width=16 --set heads=2 --set batch=4 --set eval_samples=8
    --set log_every=5)
train() { "$weft" train gpt2 "${tiny[@]}" "$@" --json >json 2>err; }
# begins FOLDER: waits until the run in it has logged a step
begins() { for _ in {1..300}; do grep -q '"step": 5,' "$1/log.jsonl" 2>/dev/null && return; sleep 0.1; done; }
last() { tail -n 1 "$1/log.jsonl" | field weights_sha256; } # FOLDER
says() { grep -qF -- "$1" err || { sed 's/^/# /' err && return 1; }; } # TEXT

train --set steps=10000000 --out removed &
begins removed && rm removed/log.jsonl && ! wait $! && says 'removed/log.jsonl was removed or replaced while the run was writing to it'
result $? "a run whose log is removed ends with an error"
train --set steps=10000000 --out replaced &
begins replaced && cp replaced/log.jsonl copy && mv copy replaced/log.jsonl && ! wait $! && says 'was removed or replaced'
result $? "and so does one whose log is replaced"

"$weft" train gpt2 "${tiny[@]}" --set steps=10000000 --out closed --json >json 2>err &
begins closed && kill -HUP $! && { wait $!; [[ $? == 3 ]]; } && says 'stopped by SIGHUP' && [[ -d $(echo closed/step-*) ]]
result $? "SIGHUP saves and stops"
(trap '' HUP && exec "$weft" train gpt2 "${tiny[@]}" --set steps=3000 --out ignored --json >json 2>err) &
begins ignored && kill -HUP $! && wait $! && grep -q '"step": 3000, "test_loss"\|"step": 3000, "val_loss"' ignored/log.jsonl
result $? "but not below nohup"

(ulimit -s 128 && train --set steps=20 --out small) && train --set steps=20 --out usual &&
    [[ $(last small) == "$(last usual)" ]]
result $? "a stack of 128 KiB is enough"
(ulimit -s 128 && WEFT_TEST_SKIP_GATES=0 && study limited 5 RECALL_LENGTH=8 SEEDS=1) && "$weft" report limited >/dev/null
result $? "also for a study with its gates"
! (ulimit -v 60000 && unset WEFT_TEST_SKIP_GATES && train --set steps=3) && says 'ulimit -v' && ! grep -q ranks err
result $? "limited memory is reported as such"

train --set steps=30 --set checkpoint_every=10 --out whole && cp -r whole folder && rm folder/step-000000030/model.safetensors &&
    mkdir folder/step-000000030/model.safetensors && touch folder/step-000000030/model.safetensors/file &&
    "$weft" train folder --resume --json >json 2>err && says 'skipping the damaged checkpoint' &&
    [[ -f folder/step-000000030/model.safetensors && $(last folder) == "$(last whole)" ]]
result $? "a folder in place of a checkpoint's file is a damaged checkpoint, and is replaced"

mkdir temporary && TMPDIR=$PWD/temporary WEFT_TEST_SKIP_GATES=0 train --set steps=1 --out gated &
for _ in {1..300}; do [[ -n $(ls temporary 2>/dev/null) ]] && break; sleep 0.02; done
pkill -KILL -P $! 2>/dev/null
kill -KILL $! 2>/dev/null
wait $! 2>/dev/null
left=$(ls temporary) && [[ -n $left ]] && touch -d '2 minutes ago' temporary/* && mkdir temporary/weft-gates-other &&
    TMPDIR=$PWD/temporary WEFT_TEST_SKIP_GATES=0 train --set steps=1 --out again && [[ $(ls temporary) == weft-gates-other ]]
result $? "what a killed process left in its temporary folder ($left) is removed by the next, and nothing else"
finish
