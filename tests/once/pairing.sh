#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# pairing.sh - runs with the same seed are verified to be pairs: there is no verdict if arms read different samples, seeds
# read the same samples, or shared weights have different initial values; an arm that does not differ from the baseline
# has failed. Data that earlier releases did not record is reported as such.
# run-tests: 9 s
set -u
source tests/tap
use_scratch

study() { python3 tests/cli/study.py "$scratch/$1" "${@:2}"; }
# edit NAME STATEMENT: changes the runs of the ledger, by arm and seed: runs["dot", 1]["stream_sha256"].
edit() {
    python3 - "$scratch/$1/runs.jsonl" "$2" <<'END'
import json, sys
runs = {(r["arm"], r["seed"]): r for r in map(json.loads, open(sys.argv[1]))}
exec(sys.argv[2])
open(sys.argv[1], "w").writelines(json.dumps(r) + "\n" for r in runs.values())
END
}
# says NAME ARM VERDICT TEXT: the arm of the study has the verdict, and its row and a note have the text.
says() {
    "$weft" report "$scratch/$1" >"$scratch/out" && grep -q "^$2 .*$4" "$scratch/out" && grep -q "NOTE: $2: .*$4" "$scratch/out" &&
        "$weft" report "$scratch/$1" --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
arm, verdict = sys.argv[1:]
assert d[arm + ".verdict"] == verdict and all(d[f"{arm}.diff_{k}"] is None for k in ("mean", "low", "high"))' "$2" "$3"
}

study sound 3
"$weft" report "$scratch/sound" >"$scratch/out" && grep -q '^w2-full .* better by' "$scratch/out" && ! grep -q 'Not recorded\|not paired' "$scratch/out"
result $? "a sound study is compared, without a word about its pairs"

study other 4
edit other 'runs["w2-full", 3]["stream_sha256"] = "0" * 64'
says other w2-full 'not paired' 'with seed 3 its samples or their order differ from those of dot (no option'
result $? "an arm that read a different stream of samples gets no verdict"
"$weft" report "$scratch/other" | grep '^overlap' | grep -q 'not resolved\|worse\|better'
result $? "while the other arms do"

study repeated 3
edit repeated 'runs["w2-full", 4]["stream_sha256"] = runs["w2-full", 2]["stream_sha256"]'
says repeated w2-full 'not paired' 'seeds 2 and 4 of w2-full read the same samples in the same order'
result $? "two seeds that read the same stream are not two draws"
study base 3
edit base 'for a in "dot", "w2-full", "again": runs[a, 5]["stream_sha256"] = runs[a, 1]["stream_sha256"]'
says base w2-full 'not paired' 'seeds 1 and 5 of dot read the same samples'
result $? "nor are the baseline's"

study began 3
run=$(printf %s "$scratch"/began/runs/w2-full/*seed-2)
sed -i -E "s/(\"wte.*key 0: )[0-9a-f]*(\", \"blocks)/\1$(printf %064d 0)\2/" "$run/initial.json"
says began w2-full 'not paired' 'with seed 2 its initial values of wte differ from those of dot'
result $? "a shared weight with different initial values: no verdict, and the weight is named"
sed -i 's/key 0/key 7/' "$scratch"/began/runs/w2-full/*/initial.json
"$weft" report "$scratch/began" | grep -q '^w2-full .* better by'
result $? "weights drawn with a different init_key may differ"

study same 4
edit same 'for s in range(1, 6): runs["overlap", s]["weights_sha256"] = runs["dot", s]["weights_sha256"]'
says same overlap failed 'FAILED: the arm does not differ from dot in any of 5 seeds, so its settings have no effect'
result $? "an arm with the weights of the baseline in every seed has failed"
"$weft" report "$scratch/same" | grep -q '^again .*reproduced'
result $? "a declared repeat has not"
study scores 4
edit scores 'for s in range(1, 6): runs["overlap", s].update({k: v for k, v in runs["dot", s].items() if k[:3] in ("val", "tes")})'
says scores overlap failed 'does not differ from dot in any of'
result $? "so has an arm with the scores of the baseline"
edit scores 'runs["overlap", 2]["test_loss"] += 1e-9; runs["overlap", 2]["val_loss"] += 1e-9'
"$weft" report "$scratch/scores" --json | grep -q '"overlap.verdict": "not resolved"'
result $? "but not if one seed differs"

study old 3
edit old 'for r in runs.values(): del r["stream_sha256"]'
rm "$scratch"/old/runs/dot/*/initial.json
"$weft" report "$scratch/old" >"$scratch/out" && grep -q '^w2-full .* better by' "$scratch/out" &&
    grep -q 'Not recorded: the samples that 15 of 15 runs read and the initial weights of 5' "$scratch/out"
result $? "a study without the hashes is compared as before, and the report states what was not recorded"
"$weft" compare "$scratch"/sound/runs/{dot,w2-full} >"$scratch/out" && grep -q 'better by' "$scratch/out" && ! grep -q 'Not recorded' "$scratch/out"
result $? "weft compare pairs two arms"
sed -i -E "s/(\"stream_sha256\": \")[0-9a-f]*/\1$(printf %064d 0)/" "$scratch"/sound/runs/w2-full/*seed-1/log.jsonl
"$weft" compare "$scratch"/sound/runs/{dot,w2-full} >"$scratch/out" && grep -q '^B .*no verdict: not paired, because with seed 1 its samples or their order differ from those of A' "$scratch/out"
result $? "and refuses to where their streams differ"

# Runs of this program: everything is recorded, and what is sound stays so.
arms="dot: geom=dot | w2: geom=w2 | recomputed: recompute=yes | halves: batch=2 micro_batches=2 | more: batch=6"
tiny_config "$arms" 3 RECALL_LENGTH=8 WIDTH=16 WARMUP=1 EVAL_SAMPLES=4 SEEDS=2 >"$scratch/tiny"
"$weft" ablate --config "$scratch/tiny" --out "$scratch/real" >"$scratch/out" 2>"$scratch/err" &&
    python3 - "$scratch/real" <<'END'
import json, sys
runs = [json.loads(line) for line in open(sys.argv[1] + "/runs.jsonl")]
streams = {(r["arm"], r["seed"]): r["stream_sha256"] for r in runs}
assert len(runs) == 10 and len({streams[a, s] for a in ("dot", "w2", "recomputed", "halves") for s in (1, 2)}) == 2
assert streams["dot", 1] != streams["dot", 2] and streams["more", 1] != streams["dot", 1]
END
result $? "weft ablate records the stream of every run: by seed, whatever the model and the micro-batches"
says real recomputed failed 'does not differ from dot in any of 2 seeds'
result $? "an arm whose setting changes no bit has failed"
says real more 'not paired' 'with seed 1 its samples or their order differ from those of dot (batch is 6, not 4)'
result $? "an arm with a different batch size is not paired, and the option is named"
"$weft" report "$scratch/real" >"$scratch/out" && ! grep -q 'Not recorded\|^w2 .*not paired\|^halves .*not paired' "$scratch/out"
result $? "arms with a different geometry or different micro-batches are"

finish
