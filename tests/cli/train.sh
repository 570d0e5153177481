#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# train.sh - a short training run prints one JSON object and has the same weights with any number of threads, but not
# with a different seed; a run's folder is protected, can be resumed, and is a model.
# run-tests: 24 s
set -u
export WEFT_TEST_SKIP_GATES=1
source tests/tap
use_scratch

train() { # ARGUMENTS...: the run's JSON
    "$weft" train gpt2 --json --set task=recall --set layers=1 --set width=32 --set heads=2 --set batch=4 \
        --set steps=3 --set eval_samples=8 "$@" 2>/dev/null
}

for dtype in bf16 f32; do
    one=$(train --set dtype=$dtype --threads 1) && loss=$(field loss <<<"$one") && weights=$(field weights_sha256 <<<"$one")
    result $? "$dtype: trains and prints the result as JSON"
    python3 -c 'import sys; sys.exit(not 0 < float(sys.argv[1]) < 100)' "$loss"
    result $? "$dtype: the loss is a number"
    for threads in 2 3; do
        [[ -n $weights && $(train --set dtype=$dtype --threads $threads | field weights_sha256) == "$weights" ]]
        result $? "$dtype: $threads threads give the weights of one"
    done
    again=$(train --set dtype=$dtype --set recompute=yes | field weights_sha256) && [[ $again == "$weights" ]]
    result $? "$dtype: recomputing gives the same weights"
    other=$(train --set dtype=$dtype --set seed=2 | field weights_sha256) && [[ $other != "$weights" ]]
    result $? "$dtype: a different seed gives different weights"
done

quiet=(train gpt2 --set task=recall --set layers=1 --set width=32 --set heads=2 --set batch=4 --set steps=2)
[[ $("$weft" "${quiet[@]}" 2>&1 >/dev/null | grep -c 'instruction set') == 1 ]]
result $? "which instruction set runs is printed once"
[[ $(WEFT_ISA=base "$weft" "${quiet[@]}" 2>&1 >/dev/null | grep -c 'this processor has no AMX') == 1 ]]
result $? "bf16 without AMX is reported once"
[[ $("$weft" "${quiet[@]}" --set recall_length=2 --set vocab=3 2>&1 >/dev/null |
    grep -c 'weft: note: only 6 different samples exist, so held-out samples occur in training') == 1 ]]
result $? "if there are so few samples that they repeat, one warning is printed"
! "$weft" "${quiet[@]}" 2>&1 >/dev/null | grep -q 'different samples'
result $? "others are not"

# Progress lines: about twenty if the output is not a terminal, with the terms of the loss if there are several.
number='[0-9.e+-]+' left='[0-9]+ tokens/s(  [0-9.]+ [a-z]+ left)?'
"$weft" "${quiet[@]}" --set steps=40 --set ffn=ws 2>&1 >/dev/null | grep '^step ' >"$scratch/lines"
[[ $(grep -cE "^step [0-9]+/40  loss $number \(main $number, ws_z $number, ws_c $number\)  $left\$" "$scratch/lines") == 20 &&
    $(grep -c ' left$' "$scratch/lines") == 19 && $(cut -d ' ' -f 2 "$scratch/lines" | tr '\n' ' ') == "$(seq -f %.0f/40 -s ' ' 2 2 40) " ]]
result $? "progress: step, loss and its terms, tokens/s, time left"
python3 - "$scratch/lines" <<'END'
import re, sys
for line in open(sys.argv[1]):
    loss, main, z, c = map(float, re.findall(r"(?:loss|main|ws_z|ws_c) ([^ ,)]+)", line))
    assert 0 < main < 100 and z > 0 and c > 0 and abs(loss - main - z - c) < 1e-3 * loss, line
END
result $? "progress: the terms add up to the loss"
[[ $("$weft" "${quiet[@]}" 2>&1 >/dev/null | grep -cE "^step [12]/2  loss $number  $left\$") == 2 ]]
result $? "progress: one term is not printed twice, nor the fraction of the engine's speed in a short run"
# Watches a long run on a terminal until it prints the fraction of the engine's speed.
python3 - "$weft" "${quiet[@]}" --set steps=1000000000 --time 1 <<'END'
import os, pty, re, signal, sys
pid, terminal = pty.fork()
if not pid:
    os.execv(sys.argv[1], sys.argv[1:])
line = rb"\rstep [0-9]+/1000000000  loss [0-9.]+  [1-9][0-9]* tokens/s \([0-9]+ % of the engine\)  [1-9][0-9.]* days left\x1b\[K"
seen = b""
try:
    while not re.search(line, seen):
        seen += os.read(terminal, 4096)
except OSError:  # it ended
    sys.exit(seen.decode())
os.kill(pid, signal.SIGKILL)
END
result $? "progress: a long run prints the fraction of the engine's speed"

run=$scratch/runs/one
weights=$(WEFT_TEST_SKIP_GATES=0 train --set checkpoint_every=2 --out "$run" | field weights_sha256)
[[ ${#weights} == 64 && $weights == $(train | field weights_sha256) && -s $run/step-000000003/optimizer.safetensors &&
    -e $run/step-000000002 ]]
result $? "a run's folder gets checkpoints and changes nothing in the weights"
python3 - "$run/log.jsonl" "$weights" <<'END'
import json, sys
records = [json.loads(line) for line in open(sys.argv[1])]
log = [r for r in records if "environment" not in r]
assert [r["step"] for r in log] == [0, 2, 3, 3, 3]
assert records[1]["gates_failed"] == 0 and records[1]["gates_checks"] > 0 and len(records[1]["program_sha256"]) == 64
assert [list(r) for r in records if r.get("environment") == "time"] == [["step", "environment", "tokens_per_s", "seconds", "chain"]]
assert list(log[2]) == ["step", "total", "main", "lr", "grad_norm", "tokens", "chain"]
assert log[2]["tokens"] == 3 * 4 * 31 and "val_loss" in log[3] and log[4]["weights_sha256"] == sys.argv[2]
END
result $? "its log has a head, losses, the score and the weights' fingerprint"

"$weft" train ws --set task=recall --set layers=2 --set width=32 --set heads=2 --set batch=4 --set ws_heads=4 --set ws_form=dense --set ws_logits=yes \
    --set steps=40 --set eval_samples=8 --set eval_every=18 --set diagnose_every=14 --set checkpoint_every=30 \
    --out "$scratch/events" >/dev/null 2>&1
for of in "$run" "$scratch/events"; do
    count=$(python3 tests/cli/events.py "$of"/events.out.tfevents.weft "$of/log.jsonl") && ((count > 12))
    result $? "its events, $count, are the numbers of its log"
done
for term in main ws_z ws_c ws_logits logits_z; do
    grep -q "\"$term\": " "$scratch/events/log.jsonl" && grep -q "train/$term" "$scratch/events/events.out.tfevents.weft"
    result $? "the term $term of the loss is in the log and among the events"
done
shown=$("$weft" show "$run" --json) && [[ $(field step <<<"$shown") == 3 && $(field weights_sha256 <<<"$shown") == "$weights" ]]
result $? "show reports step and weights of its newest checkpoint"
[[ $("$weft" show "$run/step-000000003" --json) == "$shown" ]]
result $? "a checkpoint is shown as its run is"

cp -r "$run" "$scratch/before"
refuses 'is not empty: pass --resume' train gpt2 --out "$run"
refuses 'has layers=1, not 2' train gpt2 --out "$run" --resume
refuses 'has lr=0.001, not 0.5' train "$run" --resume --set lr=0.5
refuses 'is already at step 3' train "$run" --resume --set steps=2
refuses '--resume needs the folder of a run' train gpt2 --resume
ignored='has weights, which training would ignore'
refuses "$ignored" train "$run"
refuses "$ignored" train "$run" --out "$scratch/other"
refuses "$ignored" train "$run" --out "$scratch/other" --resume
refuses "$ignored" train "$run/step-000000003"
refuses "$ignored" train "$run/step-000000003" --resume
refuses "pass $run/step-000000003/config.json as MODEL" train "$run/step-000000003" --out "$run" --resume
[[ ! -e $scratch/other ]]
result $? "invalid arguments leave no folder behind"
refuses 'Try a batch below 1000000 (and more micro_batches), recompute=yes (saves' train gpt2-124m --set batch=1000000 \
    --set vocab=64
exec 9>>"$run/log.jsonl" && flock 9
refuses 'another process is training in' train "$run" --resume
exec 9>&-
diff -r "$run" "$scratch/before"
result $? "what is rejected changes nothing"

again=$("$weft" train "$run" --resume --json 2>"$scratch/err") && [[ $(field weights_sha256 <<<"$again") == "$weights" ]] &&
    diff -r "$run" "$scratch/before" && ! grep -q gates "$scratch/err"
result $? "a finished run that is resumed stays as it is, without checking its gates again"
longer=$("$weft" train "$run" --resume --json --set steps=5 2>"$scratch/err") && [[ $(field steps <<<"$longer") == 5 ]] &&
    grep -q 'follow the new schedule' "$scratch/err" && grep -q '"changed": "steps 3 -> 5"' "$run/log.jsonl" &&
    [[ $("$weft" show "$run" --config | field steps) == 5 ]]
result $? "more steps are possible, and reported"
python3 tests/cli/events.py "$run"/events.out.tfevents.weft "$run/log.jsonl" >/dev/null
result $? "and its events are still the numbers of its log"
[[ $("$weft" train "$scratch/before/config.json" --json 2>/dev/null | field weights_sha256) == "$weights" ]]
result $? "a run's config is a model: it trains to the same weights"
again=$("$weft" train "$scratch/before" --out "$scratch/./before" --resume --json 2>/dev/null) && [[ $(field weights_sha256 <<<"$again") == "$weights" ]]
result $? "a run may be both MODEL and --out"
(cd "$scratch" && mkdir gpt2 && touch gpt2/model.safetensors && "$weft" "${quiet[@]}" >/dev/null 2>&1)
result $? "a preset's name means the preset, even if there is a folder of that name"
# A config as an earlier release wrote it, without the options clip, keep and ffn_width.
python3 - "$scratch/before" "$scratch/earlier" <<'END'
import json, shutil, sys
shutil.copytree(*sys.argv[1:])
path = sys.argv[2] + "/config.json"
config = json.load(open(path))
for name in "clip", "keep", "ffn_width":
    del config[name]
json.dump(config, open(path, "w"))
END
refuses 'has clip=1, not 0.5' train "$scratch/earlier" --resume --set clip=0.5
again=$("$weft" train "$scratch/earlier" --resume --json --set clip=1.0 --set keep=5 2>"$scratch/err") &&
    [[ $(field weights_sha256 <<<"$again") == "$weights" ]] && grep -q 'changed: keep 2 -> 5' "$scratch/err"
result $? "options that an earlier release did not have are at their defaults"
damage() { printf X | dd of="$1" bs=1 seek=$(($(stat -c %s "$1") - 9)) conv=notrunc 2>/dev/null; }
damage "$scratch/before/step-000000003/model.safetensors"
again=$("$weft" train "$scratch/before" --resume --json 2>"$scratch/err") &&
    [[ $(field weights_sha256 <<<"$again") == "$weights" ]] && grep -q 'from step 2' "$scratch/err"
result $? "a damaged checkpoint is passed over"

endless=(train gpt2 --set task=recall --set layers=1 --set width=32 --set heads=2 --set batch=4 --set steps=1000000)
start() { # FOLDER TEXT [ARGUMENTS...]: a run in the background, as job $!, once its log has the text
    set -m # or it would ignore SIGINT
    "$weft" "${endless[@]}" --out "$1" "${@:3}" >"$scratch/out" 2>"$scratch/err" &
    set +m
    until grep -qs "$2" "$1/log.jsonl" || ! kill -0 $!; do sleep 0.05; done
}
for signal in INT TERM USR1; do
    start "$scratch/by $signal" total
    kill -$signal $!
    wait $!
    (($? == 3)) && grep -q "^stopped by SIG$signal after step [0-9]* of 1000000, saved. To continue: weft train '$scratch/by $signal' --resume$" "$scratch/err" &&
        [[ -e $(echo "$scratch/by $signal"/step-*/model.safetensors) ]] && grep -q weights_sha256 "$scratch/out"
    result $? "SIG$signal: saves, prints how to resume, and exits with 3"
done
resume=$(sed -n "s|^stopped by .* To continue: weft |'$weft' |p" "$scratch/err")
eval "$resume --time 0.05" >"$scratch/out" 2>"$scratch/err"
(($? == 3)) && grep -q '^resuming .* from step [1-9]' "$scratch/err"
result $? "the command that was printed resumes the run"
start "$scratch/twice" params --set steps=1 --set micro_batches=100000 # a step of a minute
sleep 1                                                                  # it has begun
kill -INT $!
until grep -q 'Ctrl-C again' "$scratch/err" || ! kill -0 $!; do sleep 0.01; done
kill -INT $!
wait $!
(($? == 130))
result $? "a second SIGINT ends it immediately"
timed=$("$weft" train "$scratch/by TERM" --resume --json --time 0.05 2>"$scratch/err")
(($? == 3 && $(field steps <<<"$timed") < 1000000)) && grep -q 'stopped by --time after step' "$scratch/err" &&
    [[ -e $(printf '%s/step-%09d' "$scratch/by TERM" "$(field steps <<<"$timed")") ]]
result $? "--time: saves and ends before the last step, with 3"
timed=$(timeout 60 "$weft" train gpt2 --unsafe --set steps=3 --set layers=1 --set width=32 --set batch=4 --set eval_samples=1000000000 --json --time 0.1 2>"$scratch/err")
(($? == 3 && $(field steps <<<"$timed") < 3)) && grep -q 'nothing was saved because there is no --out' "$scratch/err"
result $? "--time: counts the scoring that is due at the end"
[[ $(head -n 1 "$scratch/err") == 'weft: note: nothing will be saved because there is no --out' ]]
result $? "without --out it first warns that nothing will be saved"

saved=$("$weft" show gpt2-mini --json | field recompute_saves_bytes) && ((saved > 100000000))
result $? "show reports what recomputing saves"

for model in $("$weft" help models | awk '{ print $1 }'); do
    [[ $("$weft" show "$model" --json | field params) -gt 1000 ]]
    result $? "show $model counts its parameters"
done
finish
