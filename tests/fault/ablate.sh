#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# ablate.sh - plans, runs, stops, continues and repeats a tiny study: killed at any moment, it ends with the ledger of one
# that was never killed; nothing is trained twice; a repeat has the same bits. WEFT_KILLED_STUDIES is the number of
# studies to kill, 3 by default.
# run-tests: 59 s
set -u
source tests/tap
enter_scratch
RANDOM=1

tiny_config "dot: geom=dot | w2: geom=w2" 30 RECALL_LENGTH=8 WIDTH=32 WARMUP=5 EVAL_SAMPLES=16 CHECKPOINT_EVERY=5 SEEDS=2 >tiny
study() { "$weft" ablate --config tiny --json "$@"; } # ARGUMENTS...
begin() { "$weft" ablate --config tiny --json "$@" >out 2>err & } # ARGUMENTS...: in the background, as $!
study_refuses() { refuses "$1" ablate --config tiny --json "${@:2}"; } # TEXT ARGUMENTS...
# The contents of a ledger without times and the order in which runs finished.
timeless() { sed -E 's/, "(threads|tokens_per_s|seconds|chain)": [^,}]*//g' "$1/runs.jsonl" | sort; }
column() { # FOLDER ARM: hashes of the weights by seed, without the seeds that choose a learning rate
    python3 -c 'import json, sys
runs = [json.loads(line) for line in open(sys.argv[1] + "/runs.jsonl")]
print(*(w for s, w in sorted((r["seed"], r["weights_sha256"]) for r in runs if r["arm"] == sys.argv[2] and r["seed"] < 2000)))' "$1" "$2"
}

plan=$(study --dry-run --unsafe --out none 2>err) && [[ $(field runs <<<"$plan") == 4 && $(field dot.params <<<"$plan") -gt 1000 ]] &&
    [[ $(field gates_failed <<<"$plan") == 0 && ! -e none ]] && grep -q 'steps of every arm were timed' err
result $? "--dry-run prints the cost of every arm and the time, and leaves nothing"

one=$(study --out whole 2>err) && [[ $(field done <<<"$one") == 4 && $(field failed <<<"$one") == 0 ]] &&
    [[ $(wc -l <whole/runs.jsonl) == 4 && -s whole/runs/w2/lr-0.001-seed-2/log.jsonl ]] &&
    ! grep -q 'gates:' whole/runs/*/*/output.txt
result $? "runs all arms and seeds; the runs need not check the gates again"
timeless whole >ledger
cp whole/study.json study.json
times=$(stat -c '%n %y' whole/runs/*/*/log.jsonl)
again=$(study --out whole 2>err) && [[ $(field done_before <<<"$again") == 4 ]] && ! grep -q started err &&
    [[ $(stat -c '%n %y' whole/runs/*/*/log.jsonl) == "$times" ]] && timeless whole | cmp -s - ledger &&
    cmp -s whole/study.json study.json
result $? "what is done is not trained again, and study.json is the same"

study_refuses 'whole has a study with a different plan, and 4 of its runs are finished' --out whole --seeds 3
study_refuses 'has a study with a different plan' --out whole --set lr=0.002
study_refuses 'has a study with a different plan' --out whole --set 'arms=dot: geom=dot | w2: geom=w2 | more: geom=w2 ffn_width=64'
study_refuses 'use later seeds, with --set seed=3' --out more --seeds 3 --set parent=whole
study_refuses 'parent=nothing is not the folder of a study' --out more --set parent=nothing
cmp -s whole/study.json study.json && timeless whole | cmp -s - ledger && [[ ! -e more/study.json ]]
result $? "what is rejected changes nothing"
more=$(study --out more --seeds 1 --set parent=whole --set seed=3 2>err) && [[ $(field done <<<"$more") == 2 ]] &&
    "$weft" report more | grep -q 'This study follows the one in whole'
result $? "a new plan is a new study, which names its parent"

# A large difference is decided at the first look, and the remaining runs are not trained.
cat tiny - >looking <<'END'
CONFIG_WEFT_LOOKS="3,5"
END
sed -i '/SEEDS/d; s/^CONFIG_WEFT_ARMS=.*/CONFIG_WEFT_ARMS="slow: lr=1e-8 | fast: lr=3e-3"/' looking
sed -i 's/MAX_ITERS=.*/MAX_ITERS=200/; s/EVAL_SAMPLES=.*/EVAL_SAMPLES=256/' looking
(until grep -q refresh looks/report.html 2>/dev/null; do sleep 0.1; done && touch watched) &
watcher=$!
early=$("$weft" ablate --config looking --out looks --json --watch 2>err)
[[ $? == 0 && $(field runs <<<"$early") == 10 && $(field done <<<"$early") == 6 && $(wc -l <looks/looks.jsonl) == 1 ]] &&
    "$weft" report looks | grep -q 'better by .*, 3 seeds (look 1 of 2)'
result $? "a study stops at the look that decides it"
"$weft" audit looks --segments 1 --json >out 2>err && [[ $(field runs <out) == 6 && $(field missing <out) == 0 ]]
result $? "and an audit misses none of the runs that it did not need"
[[ -e watched ]] && ! grep -q 'http-equiv="refresh"' looks/report.html
result $? "--watch writes a page that reloads itself while the study runs"
kill $watcher 2>/dev/null
sed -i 's/1e-8/3.001e-3/; s/MAX_ITERS=.*/MAX_ITERS=30/' looking
late=$("$weft" ablate --config looking --out late --json 2>err)
[[ $? == 0 && $(field done <<<"$late") == 10 && $(wc -l <late/looks.jsonl) == 2 ]] &&
    "$weft" report late | grep -q ', 5 seeds.*(look 2 of 2)' && [[ $(wc -l <late/looks.jsonl) == 2 ]]
result $? "an undecided look leads to the next, and every look is recorded"

cp -r whole broken
rm -r broken/runs.jsonl broken/runs/dot/lr-0.001-seed-1/gates.json
sed -i 's/"program_sha256": "./&0/' broken/runs/w2/lr-0.001-seed-1/gates.json
study --out broken >out 2>err
[[ $(field done <out) == 4 ]] && timeless broken | cmp -s - ledger &&
    ! grep -q 'goes on' broken/runs/{dot,w2}/lr-0.001-seed-1/output.txt
result $? "a folder of a different build, or without a record of the gates, is trained again"

cat tiny - >repeating <<'END'
CONFIG_WEFT_LRS="1e-3 2e-3 4e-3"
END
sed -i 's/^CONFIG_WEFT_ARMS=.*/CONFIG_RA_MLA_ABLATION_STEPS="2,4"/; s/LAYERS=1/LAYERS=2/' repeating
"$weft" ablate --config repeating --out repeated --json >out 2>err
[[ $(field done <out) == 10 && -n $(column repeated step2) && $(column repeated step2) == "$(column repeated step4)" ]] &&
    [[ $(grep -o '"step2".*"threads": [0-9]*' repeated/runs.jsonl | grep -o '[0-9]*$' | sort -u) != \
        $(grep -o '"step4".*"threads": [0-9]*' repeated/runs.jsonl | grep -o '[0-9]*$' | sort -u) ]]
result $? "a repeat with a different number of threads has the same bits"
"$weft" ablate --config repeating --out repeated --json >out 2>err && [[ $(field done_before <out) == 10 ]]
result $? "it is not trained again in its folder"
"$weft" report repeated >out && grep -q 'each arm at the best of the learning rates 0.001, 0.002, 0.004, chosen on the validation set with' out &&
    [[ $(cut -d, -f1,2,3,4 <repeated/report.csv | grep -c ',yes,[12]$') == 4 && $(grep -c ',200[12],' repeated/report.csv) == 6 ]]
result $? "the seeds that choose its learning rate are not judged"

# The rest runs without gates, which take longer than training. They are in the plan, so one study is run for its ledger.
export WEFT_TEST_SKIP_GATES=1
study --out ungated 2>err >out && timeless ungated | cmp -s - ledger
result $? "without gates the ledger is the same"
cp ungated/study.json study.json

for signal in INT TERM; do
    begin --out "$signal" --set steps=100000
    until grep -q '"step": [1-9]' "$signal"/runs/*/*/log.jsonl 2>/dev/null; do sleep 0.05; done
    kill -$signal $!
    wait $!
    status=$?
    ((status == 3)) && [[ -n $(compgen -G "$signal/runs/*/*/step-*") ]] && [[ $(field done <out) == 0 ]] &&
        grep -qx "stopped and saved with 0 of 4 runs done. To continue: $(field command <"$signal/study.json")" err
    result $? "SIG$signal: runs save and end, the exit code is 3, and the command to continue is printed"
done

timeout -k 5 120 python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], ["weft", *sys.argv[2:]])' "$weft" ablate --config tiny --json --out ignored >out 2>err && timeless ignored | cmp -s - ledger
result $? "a parent that ignores SIGCHLD changes nothing"

kills=0
for ((i = 1; i <= ${WEFT_KILLED_STUDIES:-3}; i++)); do
    for ((n = 0; n < 6; n++)); do
        begin --out "killed-$i"
        sleep "$((RANDOM % 3)).$((RANDOM % 1000))"
        { kill -KILL $! && kills=$((kills + 1)) && wait $!; } 2>/dev/null
        [[ -e killed-$i/runs.jsonl && $(wc -l <"killed-$i/runs.jsonl") == 4 ]] && break
    done
    study --out "killed-$i" >out 2>err && timeless "killed-$i" | cmp -s - ledger && cmp -s "killed-$i/study.json" \
        <(sed "s/ungated/killed-$i/g" study.json)
    status=$?
    result $status "killed again and again, it ends with the same ledger and plan"
    ((status == 0)) || { cat err && timeless "killed-$i" | diff - ledger; } | sed 's/^/# /'
    rm -rf "killed-$i"
done
((kills > 0))
result $? "$kills kills in all"

study --out array --slurm >out 2>err && bash -n array/study.sbatch && grep -q '^#SBATCH --array=0-3$' array/study.sbatch
result $? "--slurm writes an array job"
study --out "with long" --slurm --long --unsafe --set lr=0.002 --seeds 1 >out 2>err &&
    [[ $(field command <"with long/study.json") == "weft ablate --config 'with long/tiny.config' --out 'with long' --unsafe --long --set lr=0.002 --set seeds=1" ]]
result $? "study.json has every option that is needed to run the study again"
for task in 3 0 2 1; do
    SLURM_CPUS_PER_TASK=1 SLURM_ARRAY_TASK_ID=$task bash array/study.sbatch >out 2>err &
done
wait
timeless array | cmp -s - ledger && ! grep -q nan err
result $? "its tasks, all in parallel, give the same ledger"

study_refuses 'there is no run 4' --out none --run 4
study_refuses 'the study cannot run here; arm dot: training would take' --out none --set batch=1048576 --set layers=64
study_refuses 'configs/gpt2-ra-mla-small' --out none --set task=text --set data=nowhere --set recall_length=16
study_refuses 'pass --long' --out none --set steps=1000000000

cp -r array failing && grep -v '"dot".*"seed": 1,' array/runs.jsonl >failing/runs.jsonl && exec 9>>failing/runs/dot/lr-0.001-seed-1/log.jsonl &&
    flock 9
study_refuses '1 of 4 runs failed; the first is arm dot, seed 1: weft: another process is training in' --out failing
exec 9>&-
study --out failing >out 2>err && timeless failing | cmp -s - ledger
result $? "the same command tries it again"
finish
