#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# launched.sh - a study whose runs are started by a launcher (--launch) ends with the same ledger as one without it, even
# if hosts fail during runs, if it is stopped or killed, and if several processes write to the ledger.
# run-tests: 22 s
set -u
export WEFT_TEST_SKIP_GATES=1
source tests/tap
enter_scratch

tiny_config "dot: geom=dot | w2: geom=w2" 300 RECALL_LENGTH=8 WIDTH=32 WARMUP=5 EVAL_SAMPLES=16 CHECKPOINT_EVERY=50 SEEDS=2 >tiny
study() { "$weft" ablate --config tiny --json "$@" >out 2>err; } # ARGUMENTS...
launched() { study --launch "$1" --set slots=2 "${@:2}"; }       # COMMAND ARGUMENTS...
timeless() { sed -E 's/, "(threads|tokens_per_s|seconds|chain)": [^,}]*//g' "$1/runs.jsonl" | sort; }
same() { # FOLDER: its ledger equals the ledger of the study without a launcher
    timeless "$1" | cmp -s - ledger
}
column() { grep '"dot".*"seed": 1,' "$1/runs.jsonl" | field weights_sha256; } # FOLDER
launcher() { # NAME: a launcher of this name, from stdin
    { echo '#!/usr/bin/env bash' && cat; } >"$1" && chmod +x "$1"
}

study --out whole --threads 1
timeless whole >ledger
[[ $(wc -l <ledger) == 4 ]]
result $? "a study without a launcher"
study --launch env --out none
[[ $? == 1 && ! -e none ]] && grep -q 'needs the number of concurrent runs: pass --set slots=N' err
result $? "asks for the number of concurrent runs"
SLURM_JOB_NUM_NODES=3 study --launch env --out nodes && same nodes && grep -q '4 runs, 3 concurrently' err
result $? "or starts one run per node of a Slurm job"

# shellcheck disable=SC2016 # the launcher's shell has WEFT_SLOT
launched 'env A="b c" sh -c '\''echo $WEFT_SLOT >>slots; mkdir busy-$WEFT_SLOT || echo twice >>slots; "$@"; code=$?; rmdir busy-$WEFT_SLOT; exit $code'\'' sh' --out slots.d && same slots.d && [[ $(sort -u slots | xargs) == "0 1" ]]
result $? "a launcher is words of a shell; WEFT_SLOT is 0 or 1, never the same in two concurrent runs"
[[ $(field command <slots.d/study.json) == *"--launch 'env A="* ]]
result $? "study.json has the launcher"

# A plan for other hosts checks only small copies, so each run must check the model itself.
WEFT_TEST_SKIP_GATES=0 launched env --out gated --set steps=5 --seeds 1 && [[ $(field gate_sizes <<<"$(python3 -c 'import json; print(json.dumps(json.load(open("gated/study.json"))["arms"][0]))')") == "" ]] &&
    [[ -n $(field sizes <gated/runs/dot/*/gates.json) && $(field checks <gated/runs/dot/*/gates.json) -gt 0 ]] &&
    "$weft" report gated >/dev/null 2>err && "$weft" audit gated --json >json 2>err && [[ $(field arms <json) == 2 ]]
result $? "runs that are started elsewhere check their own gates; report and audit agree"

# A launcher whose host fails: the run ends at some moment, and the launcher prints a message of its own.
launcher lossy <<'END'
"$@" &
run=$! folder=$3 # weft train FOLDER
echo start >>starts
if (($(wc -l <starts) <= 2)); then
    for ((i = 0; i < 400; i++)); do
        ls -d "$folder"/step-* >/dev/null 2>&1 && break
        sleep 0.02
    done
    kill -KILL $run
    wait $run 2>/dev/null
    echo "lossy: error: Node failure on node7" >&2
    exit "${CODE:-1}"
fi
trap 'kill -USR1 $run' USR1
wait $run || wait $run
END
for code in 0 1 137 4; do
    rm -f starts
    CODE=$code launched ./lossy --out "lossy-$code" && same "lossy-$code" && [[ $(wc -l <starts) == 6 ]] &&
        [[ $(grep -c 'lost, will be restarted: lossy: error: Node failure on node7' err) == 2 ]]
    status=$?
    result $status "two runs whose host failed (exit code $code) continue; the ledger is the same"
    ((status == 0)) || sed 's/^/# /' err
done

launcher broken <<'END'
echo start >>tries
echo "broken: no such partition" >&2
exit 1
END
rm -f tries
timeout --preserve-status 10 "$weft" ablate --config tiny --launch ./broken --set slots=1 --out broken.d --seeds 1 --set arms='dot: geom=dot' >out 2>err
[[ $? == 3 && $(wc -l <tries) == 2 ]] && grep -q 'lost, will be restarted: broken: no such partition' err
result $? "a launcher that fails is started again after 5 s, then after 25 s; its message is shown"
launched no-such-launcher --out missing.d --seeds 1
[[ $? == 1 ]] && grep -q 'no-such-launcher: not found' err && ! grep -q 'restarted' err
result $? "one that does not exist is not tried again"
cp -r whole locked.d && grep -v '"dot".*"seed": 1,' whole/runs.jsonl >locked.d/runs.jsonl
exec 9>>locked.d/runs/dot/lr-0.001-seed-1/log.jsonl && flock 9
launcher keeps <<'END'
exec 9>&-
exec "$@"
END
launched ./keeps --out locked.d
[[ $? == 1 ]] && ! grep -q 'restarted' err && grep -q 'FAILED: weft: another process is training in' err
result $? "nor is a run that fails by itself"
exec 9>&-

# The launcher gives up on a run that is still running; its successor finds the folder locked and retries later.
launcher forgets <<'END'
echo start >>forgotten
(($(wc -l <forgotten) > 1)) && exec "$@"
setsid flock "$3/log.jsonl" sleep 20 </dev/null >/dev/null 2>&1 & # as the run would do
exit 255
END
launched ./forgets --out forgotten.d --seeds 1 --set arms='dot: geom=dot' &&
    [[ $(column forgotten.d) == "$(column whole)" ]] && grep -q 'restarted: weft: another process is training in' err
result $? "a run that was given up, but still has the folder, is waited for"

{ cat "$weft" && echo; } >other && chmod +x other
launcher elsewhere <<'END'
shift
exec ./other "$@"
END
launched ./elsewhere --out other.d --seeds 1
[[ $? == 1 && ! -e other.d/runs.jsonl ]] && grep -q 'was written by a different build of weft' err
result $? "a run by a different build does not count"

for signal in TERM INT KILL; do
    "$weft" ablate --config tiny --json --launch env --set slots=2 --out "stop-$signal" --set steps=3000 >out 2>err &
    for ((i = 0; i < 400; i++)); do
        ls -d "stop-$signal"/runs/*/*/step-* >/dev/null 2>&1 && break
        sleep 0.05
    done
    kill -"$signal" $!
    { wait $!; } 2>/dev/null
    code=$?
    for ((i = 0; i < 100; i++)); do
        flock -n "stop-$signal" true && break
        sleep 0.1
    done
    grep -q 'stopped by SIGUSR1 after step' "stop-$signal"/runs/*/*/output.txt &&
        [[ $signal == KILL && $code == 137 || $code == 3 ]]
    result $? "on SIG$signal its runs save and end"
done

launched env --out array --slurm && grep -q -- "--launch env .*--run" array/study.sbatch &&
    grep -qE '^#SBATCH --cpus-per-task=[1-9]' array/study.sbatch
result $? "--slurm writes an array job whose tasks use the launcher"
for task in 3 0 2 1; do
    SLURM_CPUS_PER_TASK=1 SLURM_ARRAY_TASK_ID=$task bash array/study.sbatch >out-$task 2>err-$task &
done
wait
same array
result $? "its tasks, all in parallel, give the same ledger"

# Several hosts write to one ledger, and one dies while writing: the next removes its half line.
mkdir torn && cp -r whole/study.json whole/runs torn && head -c -40 whole/runs.jsonl >torn/runs.jsonl
launched env --out torn --threads 1 && same torn
result $? "a line that was half written is not counted, and its run is repeated"
finish
