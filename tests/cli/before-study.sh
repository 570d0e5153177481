#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# before-study.sh - the checks of `weft ablate` before training, except the gates: simulated studies, once for each
# build, and the first samples of all arms.
# run-tests: 30 s
set -u
source tests/fault/tiny

"$weft" verify --study >out && ! grep -v '^PASSED simulated  *study ' out | grep -E '^(PASSED|FAILED)' &&
    grep -q 'five arms: intervals and p values: ' out
result $? "the simulated studies pass"
"$weft" verify --study --json >json && (($(field checks <json) > 250 && $(field failed <json) == 0))
result $? "as JSON: $(field checks <json) checks"
! "$weft" verify gpt2 --study >/dev/null 2>err && grep -q -- '--study checks no models' err
result $? "they need no model: $(cat err)"

# ablate STUDY ARGUMENTS...: the study in STUDY.config
ablate() { "$weft" ablate --config "$1.config" --out "$1" --threads 2 "${@:2}" >/dev/null 2>err; }
printf 'CONFIG_%s\n' WEFT_ARMS='"narrow: ffn_width=32 | wide: ffn_width=33 | more: batch=32"' WEFT_LAYERS=1 WEFT_WIDTH=16 \
    WEFT_HEADS=2 WEFT_CONTEXT=16 WEFT_BATCH=16 WEFT_WARMUP=5 WEFT_EVAL_SAMPLES=8 WEFT_RECALL_LENGTH=8 WEFT_SEEDS=3 \
    GPT2_MAX_ITERS=60 WEFT_LOG_EVERY=1 WEFT_LR=\"0.004\" 'WEFT_SCHEDULE="constant"' >study.config
ablate study
result $? "a study of three arms"
grep -q '^simulated studies: [0-9]* of [0-9]* checks of queue, ledger and report passed$' err &&
    grep -q '^first samples: the same for all 3 arms (3 seeds: 16 of training, 16 held out)$' err
result $? "is checked before: $(grep -E '^(simulated studies|first samples)' err | tr '\n' ' ')"
grep -q 'no verdict on arm more: it is trained on 1920 samples instead of 960 like narrow' err &&
    [[ $(grep -c 'no verdict on' err) == 1 ]] && grep -q '| more .* no verdict: not paired' study/report.md
result $? "an arm that reads a different number of samples is named before it is trained, and not paired in the report"
[[ $(field program_sha256 <study/simulated.json) == $(sha256sum "$weft" | cut -c-64) && $(field failed <study/simulated.json) == 0 ]]
result $? "the record names the program"
cp study/simulated.json record
ablate study && ! grep -q '^simulated studies' err && cmp -s record study/simulated.json
result $? "the same program does not simulate again"
for change in 's/sha256": "..../sha256": "0000/' 's/"failed": 0/"failed": 1/' 's/"checks": [0-9]*/"checks": 0/' 's/}//'; do
    sed "$change" record >study/simulated.json
    ablate study && grep -q '^simulated studies' err && cmp -s record study/simulated.json
    result $? "a record that does not count is replaced: $change"
done
rm study/simulated.json
WEFT_TEST_SKIP_GATES=1 ablate study && grep -q '^gates: not run' err && ! grep -q '^simulated studies' err && [[ ! -e study/simulated.json ]]
result $? "nothing is simulated where gates are skipped"

sed 's/"failed": 0/"failed": 2/' record >study/simulated.json
"$weft" report study >/dev/null && grep -q '2 of [0-9]* checks of simulated studies failed before this study was trained' study/report.md
result $? "a report states that checks failed before an unsafe study"
grep -q '(.*learning rates were not tuned; losses were still falling)\.\*\*$' study/report.md &&
    grep -q '^- Training losses were still falling at the end: narrow by 0\.' study/report.md
result $? "and that losses were still falling, and by how much: $(grep 'still falling at' study/report.md)"
cp record study/simulated.json
"$weft" publish study --out study.tar.zst >/dev/null && zstd -dc study.tar.zst | tar -t >list && grep -q '/simulated.json$' list && grep -qx study/study.config list
result $? "the record is published, and the copy of the config"

# ---- plans that cannot give a verdict, and folders that they do not fit into, are rejected before the gates

refuses() { # TEXT ARGUMENTS...
    ! "$weft" ablate --config study.config --threads 2 "${@:2}" >out 2>err && grep -qF -- "$1" err && ! grep -q ': gates$' err
    result $? "ablate ${*:2}: $(tail -n 1 err)"
}
two="arms=narrow: ffn_width=32 | wide: ffn_width=33"
"$weft" ablate --config study.config --dry-run --out none --set "$two" >out 2>err && [[ ! -e none ]]
result $? "a dry run of a plan that can give one"
refuses 'no verdict on arm more: it is trained on 1920 samples' --dry-run --out none
refuses 'it has 2 seeds, and a verdict needs 3 or more. Set seeds=3' --dry-run --out none --set "$two" --set seeds=2
refuses 'arm wide has recall_length=6 and arm narrow has 8: they would see different data' --dry-run --out none \
    --set 'arms=narrow: ffn_width=32 | wide: recall_length=6'
refuses 'with --set seed=4' --dry-run --out none --set "$two" --set parent=study
refuses 'study has a study with a different plan, and 9 of its runs are finished: arm wide: settings is now "ffn_width=34", was "ffn_width=33"' \
    --out study --set 'arms=narrow: ffn_width=32 | wide: ffn_width=34 | more: batch=32'
refuses 'finished: it now has 2 arms, had 3' --dry-run --out study --set "$two"
refuses 'finished: seeds is now [1,2,3,4], was [1,2,3]' --out study --seeds 4
"$weft" ablate --config study.config --dry-run --unsafe --out none >out 2>err && grep -q 'no verdict on arm more' err
result $? "with --unsafe it is only a warning"
finish
