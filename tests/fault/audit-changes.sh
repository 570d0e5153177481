#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# audit-changes.sh - weft audit repeats runs that were stopped, killed and resumed with different options, each part with
# its own options, and finds records of option changes that were invented, moved or removed, although all hashes were
# recomputed (forger.py).
# run-tests: 29 s
set -u
source tests/fault/tiny

options=(layers=1 width=16 heads=2 context=16 recall_length=8 batch=4 warmup=2 eval_samples=8)
options=("${options[@]/#/--set=}")
train() { "$weft" train "$@" --threads 1 >/dev/null 2>err || { (($? == 3)) || { grep -v ' step ' err | sed 's/^/# /' && return 1; }; }; }
resume() { train "$1" --resume "${@:2}"; }
new() { train gpt2 "${options[@]}" --out "$@"; }
audit() { "$weft" audit "$@" --json >json 2>err || { grep -v ' step .*left' err | sed 's/^/# /' && return 1; }; }
entry() { sed -n "s/.*\"$1\": \([^,}]*\).*/\1/p" json; }

new run --set steps=6 --set log_every=1 --set checkpoint_every=2 --set keep=1 && resume run --set steps=10 --set log_every=2 &&
    resume run --set steps=14 --set eval_every=3 --set keep=9 --set recompute=yes --set eval_samples=12 &&
    [[ $(ls -d run/step-*) == $'run/step-000000010\nrun/step-000000012\nrun/step-000000014' ]] && cp -r run before
result $? "a run is resumed twice, with different options"
WEFT_ISA=v3 audit run --threads 1 && [[ $(entry changes) == 2 && $(entry steps_repeated) == 14 ]]
result $? "it is repeated, at level v3, although the earlier configs were removed"
audit run --segments 3 && [[ $(entry segments_repeated) == 3 && $(entry steps_repeated) == 14 ]] && audit run --resume done && audit run --resume done &&
    [[ $(entry segments_passed_before) == 3 ]] && diff -r run before
result $? "and by segments, one of which begins before and ends after a change"

# ---- stopped and killed

for minutes in 0.03 0.1 0.3 1; do # until there is time for a step, even on a busy machine
    rm -rf stopped
    new stopped --set steps=1000000 --set log_every=100 --set checkpoint_every=0 --time $minutes
    ! compgen -G 'stopped/step-*[1-9]*' >/dev/null || break
done
at=$(ls -d stopped/step-* | sed 's/.*-0*//') && ((at > 0)) && grep -q '"environment": "stopped"' stopped/log.jsonl && audit stopped
result $? "a run that was stopped at step $at passes"
resume stopped --time 0.000001 && resume stopped --set steps=$((at + 3)) --time 0.000001 --set keep=3 && resume stopped --set log_every=1 --set checkpoint_every=2 &&
    [[ $(grep -c '"environment": "stopped"' stopped/log.jsonl) == 3 && $(grep -c '"environment": "change"' stopped/log.jsonl) == 2 ]] &&
    audit stopped && [[ $(entry changes) == 2 ]] && audit stopped --segments 9
result $? "and also after it was resumed, stopped immediately, and resumed with different options"

# killed RUN STEP OPTIONS...: resumes the run and kills it once the log is past a step
killed() {
    "$weft" train "$1" --resume --threads 1 "${@:3}" >/dev/null 2>&1 &
    local pid=$!
    until tail -n 1 "$1/log.jsonl" 2>/dev/null | awk -F'[ ,]' -v at="$2" '{ exit !($2 > at) }' || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    return 0
}
new killed --set steps=8 --set log_every=1 --set checkpoint_every=4 --set keep=9 && rm -r killed/step-000000008 &&
    killed killed 20 --set steps=1000000 --set checkpoint_every=0 && grep -q '"changed": "steps 8 -> 1000000' killed/log.jsonl && audit killed
result $? "a run that was killed after a change passes, up to its newest checkpoint"
cp -r killed other && resume other --set checkpoint_every=3 --set steps=12 && audit other && [[ $(entry changes) == 1 ]] &&
    grep -q '"changed": "steps 8 -> 12, checkpoint_every 4 -> 3"' other/log.jsonl
result $? "and so it does when it is resumed with a third set of options"
resume killed --set steps=8 --set checkpoint_every=4 && ! grep -q change killed/log.jsonl && audit killed && [[ $(entry changes) == 0 ]]
result $? "and with the options of its checkpoint, so that nothing changed"
"$weft" train gpt2 "${options[@]}" --set steps=1000000 --set log_every=1 --set checkpoint_every=0 --out early --threads 1 >/dev/null 2>&1 &
pid=$!
until [[ -e early/log.jsonl && $(wc -l <early/log.jsonl) -gt 9 ]] || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
kill -9 $pid
wait $pid 2>/dev/null
resume early --set steps=4 && ! grep -q change early/log.jsonl && audit early && [[ $(entry steps) == 4 ]] &&
    python3 "$here/tests/cli/events.py" early/events.out.tfevents.weft early/log.jsonl >/dev/null
result $? "a run that was killed before its first checkpoint starts again, with different options"

# ---- forged

forge() { rm -rf forged && cp -r "${1:-run}" forged; }
# found NAME TEXT ARGUMENTS...: all hashes fit, and the audit finds it all the same
found() {
    python3 "$here/tests/cli/chain.py" forged/log.jsonl && ! "$weft" audit forged "${@:3}" >/dev/null 2>err && grep -qE -- "$2" err
    local status=$?
    result $status "$1 is found"
    ((status == 0)) || grep -v ' step .*left' err | sed 's/^/# /'
}
changed() { forger all forged "r.update(changed=r['changed'].replace('$1', '$2')) if 'changed' in r else 0"; }

forge && forger all forged pass && audit forged
result $? "a log that was written again as it was passes"
forge && changed 'steps 6' 'steps 7'
found "a wrong number of steps before a change" 'after step 0 do not match'
forger head forged steps=7 log_every=1 eval_every=0 keep=1 recompute=false eval_samples=8
found "a wrong number of steps before a change, with the right hash," 'step 3 of .* does not match its log.*"lr"'
forge && changed ', log_every 1 -> 2' '' && forger head forged steps=6 eval_every=0 keep=1 recompute=false eval_samples=8
found "a change that was left out of a record" 'step 2 of .* does not match its log'
forge && forger all forged 'r.pop("config_sha256") if "changed" in r else 0' && audit forged
result $? "changes recorded by earlier releases are understood"
changed ', log_every 1 -> 2' '' && forger head forged steps=6 eval_every=0 keep=1 recompute=false eval_samples=8
found "a change that was left out of such a record" 'step [12] of .* does not match its log'
forge && changed '10 -> 14' '10 -> 13'
found "a wrong number of steps after a change" 'does not match the options after it'
forge && changed '6 -> 10' '6 -> 9'
found "a change that does not lead to the next" 'does not match the options after it'
forge && changed 'steps 6 -> 10' 'lr 0.002 -> 0.001'
found "a change of an option that may not change" 'has a change that is impossible'
forge && changed 'steps 6 -> 10' 'numbers 1 -> 2'
found "a change of what numbers mean" 'has a change that is impossible'
forge && changed 'steps 6 -> 10' 'steps 6 -> 10, steps 8 -> 10'
found "an option that changed twice" 'has a change that is impossible'
forge && changed 'steps 6 -> 10' 'steps 6 -> 10, keep 1 -> 1'
found "a change to the same value" 'has a change that is impossible'
forge && changed 'log_every 1 -> 2' 'log_every 1 -'
found "a record of changes that was cut" 'has a change that is impossible'
forge && sed -i '/"step": 6, "environment": "change"/d' forged/log.jsonl && forger head forged steps=10 eval_every=0 keep=1 recompute=false eval_samples=8
found "a change without its record" 'step 2 of .* does not match its log'
# move STEP KEY: moves the first change to after a different record
move() {
    local line
    line=$(sed -n '/"step": 6, "environment": "change"/s/"step": 6/"step": '"$1/p" forged/log.jsonl)
    awk -v line="$line" -v after="{\"step\": $1, \"$2" '!/"step": 6, "environment": "change"/; index($0, after) == 1 { print line }' forged/log.jsonl >moved &&
        mv moved forged/log.jsonl && forger all forged pass
}
forge && move 8 weights
found "a change that was moved to a later checkpoint" 'was at step 8, but it was at step 0 of 6'
forge && move 4 weights
found "a change that was moved to an earlier checkpoint" 'step [56] of .* does not match its log'
forge && move 5 total
found "a change where there was no checkpoint" 'change at step 5, where there was no checkpoint'
forge && sed -i '/"step": 4, "weights/{p;s/.*/{"step": 4, "environment": "change", "changed": "steps 7 -> 6", "chain": "1"}/}' forged/log.jsonl &&
    forger head forged steps=7 log_every=1 eval_every=0 keep=1 recompute=false eval_samples=8
found "an invented change" 'step 3 of .* does not match its log'
forge && sed -i '/"step": 6, "environment": "change"/{p;s/"chain": "./"chain": "x/}' forged/log.jsonl && forger all forged pass
found "a change that was recorded twice" 'two changes in a row'
any=$(printf '1%.0s' {1..64})
forge && sed -i '/"step": 5, "total/{p;s/.*/{"step": 5, "environment": "stopped", "weights_sha256": "'"$any"'", "optimizer_sha256": "'"$any"'", "chain": "1"}/}' forged/log.jsonl && forger all forged pass
found "an invented stop" 'step 5 of .* does not match its log'
for step in 3 8 12; do
    forge && forger records forged "r.update(grad_norm=1) if r['step'] == $step and 'lr' in r else 0"
    ((step == 3)) || { found "a changed gradient norm at step $step" "step $step of .* does not match its log" && continue; }
    forger records forged 'r.update(losses_sha256="3" * 64) if r["step"] == 6 and "losses_sha256" in r else 0'
    found "a changed gradient norm and losses before the first change" 'step 3 of .* does not match its log'
done
forge && forger records forged 'r.update(test_loss=0.5) if r["step"] == 6 and "test_loss" in r else 0'
found "a better test loss at the end of the first part" 'step 6 of .* does not match its log' --segments 3
forge && forger config forged lr 0.002
found "configs with a changed learning rate" 'after step (0|6|10) do not match'

# ---- checkpoints and other files

forge && sed -i 's/"steps": 14/"steps": 15/' forged/config.json
found "a changed config of the run" 'config.json does not match the newest checkpoint'
forge && forger saved forged 10 steps 12
found "a changed config of a checkpoint" 'config_sha256 of .*step-000000010/model.safetensors does not match the result'
found "a changed config of a checkpoint where a segment begins" 'was saved with options that differ|config_sha256 of' --segments 3
forge && forger weights forged 12 1000 >/dev/null && cp run/log.jsonl forged && forger metadata forged 12 chain "$(sed -n 's/{"step": 12, "weights.*chain": "\(.*\)"}/\1/p' run/log.jsonl)" &&
    forger metadata forged 14 chain "$(tail -n 1 run/log.jsonl | sed 's/.*chain": "\(.*\)"}/\1/')"
found "a changed weight in a checkpoint that is not in the log" 'weights_sha256 of .*step-000000012/model.safetensors does not match the result'
forge && sed -i '/"step": 14, "weights/d' forged/log.jsonl
found "a log that ends before the newest checkpoint" 'does not have the record of'
forge && cp -r forged/step-000000012 forged/step-000000013
found "a checkpoint that was added" 'checkpoints up to step 14 that its log has no record of'
forge && forger metadata forged 12 isa amx-onednn && forger records forged 'r.update(total=1.5) if r["step"] == 14 and "total" in r else 0'
found "a record of an engine that may give different bits" 'cannot check them' --segments 3
forge stopped && last=$(ls -d forged/step-* | sed -n '1s/.*-0*//p') && forger weights forged "$last" 1000 >/dev/null
found "a changed weight in a checkpoint that was saved when training was stopped" "step $last of .* does not match its log"
new short --set steps=6 --set log_every=1 --set checkpoint_every=2 --set keep=1 && forge && cp short/items.safetensors forged
found "the items of an earlier test" 'items.safetensors does not match the results of this run.s model'
finish
