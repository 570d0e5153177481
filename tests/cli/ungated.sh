#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# ungated.sh - with WEFT_TEST_SKIP_GATES=1 runs and studies skip the gates and record that; reports, comparisons, audits
# and publishing reject them by name, and commands without the variable run the gates.
# run-tests: 7 s
set -u
source tests/fault/tiny

small=(layers=1 width=16 heads=2 context=16 batch=4 steps=6 warmup=1 eval_samples=8 checkpoint_every=3 recall_length=8)
train() { # FOLDER ARGUMENTS...
    "$weft" train gpt2 "${small[@]/#/--set=}" --out "$@" --json >json 2>err
}
refuses() { # COMMAND ARGUMENTS...
    ! "$weft" "$@" >out 2>err && grep -q 'the gates of the run in .* were not run (WEFT_TEST_SKIP_GATES was set)' err
    result $? "weft $* is rejected: $(tail -n 1 err)"
}

train gated && [[ $(field gates_failed <json) == 0 ]] && ! grep -q 'not run' err gated/log.jsonl
result $? "without the variable the gates are run"
for value in 0 '' yes; do
    WEFT_TEST_SKIP_GATES=$value train "gated$value-again" && [[ $(field gates_failed <json) == 0 ]]
    result $? "and with WEFT_TEST_SKIP_GATES=$value"
done
export WEFT_TEST_SKIP_GATES=1
train run && [[ $(field gates <json) == "not run" ]] && grep -q 'gates: not run' err && ! grep -q gates_failed json
result $? "a run without gates: $(grep gates err)"
[[ $(sed -n 2p run/log.jsonl | field gates) == "not run" && $(field gates <run/gates.json) == "not run" ]]
result $? "its log and its record of gates record it"
study study 6 SEEDS=2 RECALL_LENGTH=8 && [[ ! -e study/report.html ]] && [[ $(cat study/runs/*/*/log.jsonl | grep -c '"gates": "not run"') == 4 ]]
result $? "a study without gates: four logs record it, and there is no report"
unset WEFT_TEST_SKIP_GATES
refuses report run
refuses compare gated run
refuses audit run
refuses report study
refuses audit study
refuses publish study --out study.tar.zst
[[ ! -e study.tar.zst && ! -e run/report.html && ! -e study/report.html ]]
result $? "nothing was written"
# The gates run when a run is resumed, but they did not run before its first steps.
train run --set steps=9 --resume && [[ $(field gates_failed <json) == 0 ]] && ! grep -q 'not run' run/gates.json
result $? "a run that is resumed without the variable runs its gates: $(grep gates err)"
refuses audit run
train gated --set steps=9 --resume && "$weft" report gated >out 2>err && "$weft" audit gated >out 2>err
result $? "a gated run is reported and audited"
finish
