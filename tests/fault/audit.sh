#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# audit.sh - weft audit repeats the runs of a study bit by bit at a different instruction-set level and with a different
# number of threads, and finds forgeries whose hashes were all recomputed (forger.py).
# run-tests: 14 s
set -u
source tests/fault/tiny

study study 40 RECALL_LENGTH=8 SEEDS=3 DROPOUT='"0.1"' LOG_EVERY=5 EVAL_EVERY=20 CHECKPOINT_EVERY=10 KEEP=10 || exit 1
sums() { (cd study && find . -type f -exec sha256sum {} + | sort); }
sums >before
field() { sed -n "s/.*\"$1\": \([^,}]*\).*/\1/p"; }

WEFT_ISA=v3 "$weft" audit study --threads 1 --json >json 2>err && [[ $(field runs <json) == 6 && $(field failed <json) == 0 &&
    $(field steps_repeated <json) == 240 && $(field forged_segment_passes <json) == 0.0 ]]
result $? "a study of 6 runs is repeated at level v3 with one thread"
"$weft" audit study --segments 1 --seed 3 --json >json 2>err && [[ $(field segments <json) == 24 && $(field segments_repeated <json) == 6 &&
    $(field steps_repeated <json) == 60 && $(field forged_segment_passes <json) == 0.75 ]]
result $? "one segment of each run is repeated"
"$weft" audit study --segments 1 --seed 3 --resume done --json >json 2>err && "$weft" audit study --resume done --json >json 2>err &&
    [[ $(field segments_repeated <json) == 18 && $(field segments_passed_before <json) == 6 && $(field steps_repeated <json) == 180 &&
    $(field forged_segment_passes <json) == 0.0 ]]
result $? "an audit leaves out what passed before"
"$weft" audit study --resume stopped >out 2>&1 &
pid=$!
until [[ -s stopped ]] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
had=$(wc -l <stopped) && "$weft" audit study --resume stopped --json >json 2>err && [[ $(field segments_passed_before <json) == "$had" &&
    $had -gt 0 && $(field segments_repeated <json) == $((24 - had)) && $(wc -l <stopped) == 24 ]]
result $? "an audit that was killed after $had of 24 segments continues"
sums | cmp -s - before
result $? "the folder stays as it is"

run=$(cd study && echo runs/w2/*seed-1) twin=$(cd study && echo runs/w2/*seed-2)
# found NAME TEXT: all hashes fit, and the audit finds it all the same
found() {
    python3 "$here/tests/cli/chain.py" "forged/$run/log.jsonl" && ! "$weft" audit "forged/$run" >/dev/null 2>err && grep -qE -- "$2" err
    local status=$?
    result $status "$1 is found"
    ((status == 0)) || grep -v ' step ' err | sed 's/^/# /'
}
forge() { rm -rf forged && cp -r study forged; }
records() { forger records "forged/$run" "$1"; }

forge && records 'pass'
"$weft" audit "forged/$run" >/dev/null 2>err
result $? "a log that was written again as it was passes"
forge && records 'r.update(val_loss=0.5) if r["step"] == 40 and "val_loss" in r else 0'
found "a better validation loss" 'step 40 of .* does not match its log.*"val_loss": 0.5'
forge && records 'r.update(test_loss=0.5) if "test_loss" in r else 0'
found "a better test loss" 'step 40 of .* does not match its log'
forge && records 'r.update(test_accuracy=1) if "test_accuracy" in r else 0'
found "a better accuracy" 'step 40 of .* does not match its log'
forge && records 'r.update(total=1.5, main=1.5) if r["step"] == 15 and "total" in r else 0'
found "a changed training loss" 'step 15 of .* does not match its log'
forge && records 'r.update(lr=0.0005) if r["step"] == 25 and "lr" in r else 0'
found "a changed learning rate in a record" 'step 25 of .* does not match its log'
forge && records 'r.update(grad_norm=1) if r["step"] == 10 and "lr" in r else 0'
found "a changed gradient norm" 'step 10 of .* does not match its log'
forge && records 'r.update(losses_sha256="3" * 64) if r["step"] == 20 and "losses_sha256" in r else 0'
found "different losses between records" '.'
forge && records 'r.update(stream_sha256="3" * 64) if r["step"] == 20 and "stream_sha256" in r else 0'
found "different samples" '.'
forge && records 'r.update(params=1) if "params" in r else 0'
found "a wrong number of weights" 'step 0 of .* does not match its log'
forge && records 'r.update(numbers="3") if "numbers" in r else 0'
found "a different definition of numbers" 'step 0 of .* does not match its log'
for step in 20 40; do
    forge && forger weights "forged/$run" $step 1000
    found "a changed weight in the checkpoint of step $step" "step $step of .* does not match its log"
done
forge && forger config "forged/$run" lr 0.002
found "a config with a changed learning rate" 'has lr=0.002 and seed=1'
forge && forger config "forged/$run" dropout 0.0
found "a config without dropout" 'step 5 of .* does not match its log'
forge && rm -r "forged/$run" && cp -r "forged/$twin" "forged/$run" && forger config "forged/$run" seed 1
found "the run of a different seed" 'initial.json does not match the initial weights'
cp "study/$run/initial.json" "forged/$run"
found "the run of a different seed, with the right hashes of initial weights" 'step 5 of .* does not match its log'
forge && sed -i '/"step": 15, "total"/d' "forged/$run/log.jsonl" && forger records "forged/$run" pass
found "a record that was left out" 'step 15 of .* does not match its log'
forge && sed -i '/"step": 15, "total"/{p;s/"step": 15/"step": 17/}' "forged/$run/log.jsonl" && forger records "forged/$run" pass
found "an invented record" '.'
forge && sed -i 's/key 0: ......../key 0: 00000000/' "forged/$run/initial.json"
found "a changed hash of initial weights" 'initial.json does not match the initial weights'
forge && rm "forged/$run/initial.json"
found "missing hashes of initial weights" 'initial.json cannot be read'
# The segments in `done` passed with the original log, so they do not count.
forge && records 'r.update(total=1.5) if r["step"] == 25 and "total" in r else 0' && ! "$weft" audit "forged/$run" --resume done >/dev/null 2>err &&
    grep -q 'step 25 of .* does not match its log' err
result $? "a log that was forged after it had passed is found"
# The third segment alone is forged: audits of the others pass, of this one not.
forge && records 'r.update(total=1.5) if r["step"] == 25 and "total" in r else 0'
passed=0 failed=0
for seed in {1..12}; do
    if "$weft" audit "forged/$run" --segments 1 --seed $seed >/dev/null 2>err; then
        passed=$((passed + 1))
    elif grep -q 'step 25 of .* does not match its log' err; then
        failed=$((failed + 1))
    fi
done
((passed > 0 && failed > 0 && passed + failed == 12))
result $? "a forged segment is found when it is drawn: $failed of 12 audits of one of four segments"
finish
