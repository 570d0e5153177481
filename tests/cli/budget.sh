#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# budget.sh - studies with limited time or data: a budget in minutes fixes one number of steps for all arms, which the
# plan keeps; plan and report name stand-in data. Make passes both options on.
# run-tests: 22 s
set -u
export WEFT_TEST_SKIP_GATES=1
source tests/tap
use_scratch
cp -r Makefile tools configs include "$scratch"
cd "$scratch" || exit 1

tiny_config "dot: geom=dot | w2: geom=w2 warmup=0" 1000000 RECALL_LENGTH=8 WIDTH=32 WARMUP=250000 EVAL_SAMPLES=16 SEEDS=1 >tiny
study() { "$weft" ablate --config tiny --json "$@" >out 2>err; } # ARGUMENTS...
gated() { WEFT_TEST_SKIP_GATES=0 study "$@"; }                     # one that can be reported
study_refuses() { refuses "$1" ablate --config tiny --json "${@:2}"; } # TEXT ARGUMENTS...
# planned FOLDER: steps, then steps and warmup of every arm.
planned() {
    python3 -c 'import json, sys
s = json.load(open(sys.argv[1] + "/study.json"))
print(s["steps"], *(a["config"][n] for a in s["arms"] for n in ("steps", "warmup")))' "$1"
}
plan_hash() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1] + "/study.json"))["plan_sha256"])' "$1"; }

# ---- a budget

study --dry-run --unsafe --out none --budget 0.5 && steps=$(field steps <out) && ((steps > 1 && steps < 1000000)) &&
    python3 -c 'import json; s = json.load(open("out"))["seconds"]; exit(not 25 < s <= 30)' &&
    grep -q "^$steps of 1000000 steps for every arm, .*: fixed by a budget of 0.5 minutes" err && [[ ! -e none ]]
result $? "as many steps as fit, and no fewer"
study_refuses "a budget of 1e-05 minutes is too small for one step of every run: 2 runs" --out none --budget 1e-5
study_refuses "the steps of a ladder's rungs follow from their parameters" --out none --budget 1 --ladder "width=32 | width=64 | width=96"
study_refuses "arm b has steps=50 and arm a has 1000000" --out none --budget 1 --set "arms=a: | b: steps=50"
study_refuses "none has no plan with a budget of 0.5 minutes" --out none --budget 0.5 --run 0
study_refuses "budget=-1 is invalid" --out none --budget -1

# The plan fixes the number; a new estimate does not change it.
study --out kept --budget 0.5 --slurm && read -r steps one warmup two zero <<<"$(planned kept)" &&
    ((steps == one && steps == two && warmup == (steps + 2) / 4 && zero == 0)) && grep -q 'budget=0.5' kept/study.sbatch
result $? "it is the same for all arms; warm-up keeps its fraction"
sed -i "s/^ \"steps\": $steps,/ \"steps\": 20,/; /^ \"plan_sha256\"/d" kept/study.json
gated --out kept --budget 0.5 --run 0 && grep -q '"steps": 20,' kept/runs/dot/*/config.json &&
    grep -q '"warmup": 5,' kept/runs/dot/*/config.json
result $? "a single run takes the number from the plan"
gated --out kept --budget 0.5 && [[ $(planned kept) == "20 20 5 20 0" && $(field done_before <out) == 1 ]] &&
    [[ $(wc -l <kept/runs.jsonl) == 2 ]] && ! grep -v '"steps": 20,' kept/runs.jsonl
result $? "and so does the study that continues"
study_refuses "kept has a study with a different plan" --out kept --budget 1.5
study_refuses "kept has a study with a different plan" --out kept --budget 0.5 --set width=64
"$weft" report kept | grep -q "^A budget of 0.5 minutes reduced the number of steps of all arms to 20 of 1000000\. .* steps=20 and warmup=5 without" &&
    grep -q "A budget of 0.5 minutes reduced the number of steps" kept/report.md kept/report.html
result $? "the report names the budget"
sed -i 's/"of_steps": 1000000/"of_steps": -1/' kept/study.json
"$weft" report kept 2>&1 | grep -q "kept/study.json was edited"
result $? "a number of steps that the budget did not fix is rejected"
forger plan kept && "$weft" report kept 2>&1 | grep -q '"of_steps" is not an integer'
result $? "a number of steps that is not an integer is rejected"

# A folder whose plan was not run is planned again for a different budget or model.
study --out again --budget 0.5 --slurm && sed -i "s/^ \"steps\": .*,/ \"steps\": 20,/" again/study.json &&
    study --out again --budget 1 --slurm && read -r steps _ <<<"$(planned again)" && ((steps > 20)) &&
    sed -i "s/^ \"steps\": .*,/ \"steps\": 20,/" again/study.json &&
    study --out again --budget 1 --slurm --set width=64 && read -r steps _ <<<"$(planned again)" && ((steps > 20))
result $? "a different budget or model changes the number"

gated --out fits --budget 5 --set steps=8 --set warmup=2 && gated --out plain --set steps=8 --set warmup=2 &&
    [[ $(planned fits) == "8 8 2 8 2" && $(planned plain) == "8 8 2 8 2" && $(plan_hash fits) != $(plan_hash plain) ]] &&
    "$weft" report fits | grep -q '^All steps fit within the budget of 5 minutes' && ! "$weft" report plain | grep -q budget
result $? "no more steps than the config has; the budget is part of the plan"

# ---- stand-in data

sed -i '/RECALL/d; s/MAX_ITERS=.*/MAX_ITERS=4/; s/WARMUP=.*/WARMUP=2/; s/ warmup=0//' tiny
study_refuses "stand_in=none has no effect" --out text --stand-in none
cat >>tiny <<'END'
CONFIG_WEFT_TASK="text"
CONFIG_WEFT_DATA="data/missing"
END
study_refuses "data/missing cannot be read" --out text
grep -q 'docs/data.md' err && grep -q 'make STAND_IN=' err && [[ ! -e text ]]
result $? "which also says what to do"
study_refuses "none cannot be read" --out text --stand-in none
for i in {1..2000}; do echo "line $i of a text"; done >book.txt
"$weft" data prepare book.txt --out book >out 2>err && gated --out text --stand-in book &&
    grep -q '^stand-in data: book instead of data/missing' err &&
    grep -q '"stand_in_for": "data/missing"' text/study.json && grep -q '"data": "book"' text/runs/w2/*/config.json
result $? "a stand-in is trained on, and the plan records it"
"$weft" report text | tee out | grep -q '^NOTE: Trained on stand-in data, book, instead of data/missing' &&
    head -n 1 out | grep -q 'on stand-in data' && grep -q 'Trained on stand-in data' text/report.md text/report.html
result $? "and so does the report"
gated --out text --stand-in book && [[ $(field done_before <out) == 2 ]]
result $? "what is done is not trained again"
gated --out real --set data=book && ! grep -q stand_in_for real/study.json && ! "$weft" report real | grep -q stand-in
result $? "the data of the config is not a stand-in"

# ---- make

cp tiny configs/tiny
run_make() { make --no-print-directory -o build PROGRAM="$weft" "$@" >out 2>err; } # builds nothing
! run_make BUDGET=1 && grep -q 'there is none' err
result $? "make BUDGET needs a .config"
run_make defconfig-tiny && ! run_make study && grep -q 'make STAND_IN=' err
result $? "make names the missing data and explains what to do"
run_make study BUDGET=5 LONG=1 STAND_IN=book.txt && [[ -e data/stand-in/book.txt-bytes/data.json ]] &&
    grep -q 'budget=5 .*stand_in=data/stand-in/book.txt-bytes' studies/tiny/study.json &&
    grep -q -e --long studies/tiny/study.json
result $? "make BUDGET=5 LONG=1 STAND_IN=book.txt"
before=$(stat -c %y data/stand-in/book.txt-bytes/data.json)
run_make study BUDGET=5 LONG=1 STAND_IN=book.txt && [[ $(stat -c %y data/stand-in/book.txt-bytes/data.json) == "$before" ]] &&
    [[ $(grep -c '' studies/tiny/runs.jsonl) == 2 ]] && make -n study -o build PROGRAM="$weft" STAND_IN=book | grep -q -e '--stand-in book$'
result $? "again: nothing is prepared or trained twice; a folder is taken as it is"
command=$(python3 -c 'import json; print(json.load(open("studies/tiny/study.json"))["command"])')
cp .config before && echo 'CONFIG_WEFT_LAYERS=3' >.config && before=$(plan_hash studies/tiny)
cmp before studies/tiny/tiny.config && "$weft" ${command#weft } --json >out 2>err && [[ $(field done_before <out) == 2 ]] &&
    [[ $(plan_hash studies/tiny) == "$before" ]] && cmp before studies/tiny/tiny.config
result $? "the recorded command runs the study again after .config was replaced: $command"
finish
