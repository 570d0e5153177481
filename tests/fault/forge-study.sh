#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# forge-study.sh - the report finds changes to a study's folder, its ledger or its runs.
# run-tests: 24 s
set -u
source tests/fault/tiny

study study 20 RECALL_LENGTH=8 SEEDS=2 && "$weft" report study >/dev/null 2>err
result $? "a study that nobody touched is reported"
# misreported NAME TEXT: there is no report on `forged`, for this reason
misreported() {
    ! "$weft" report forged >/dev/null 2>err && grep -qF -- "$2" err
    local status=$?
    result $status "$1 is rejected"
    ((status == 0)) || sed 's/^/# /' err
}
forge_study() { rm -rf forged && cp -r study forged; }
run=$(cd study && echo runs/w2/*seed-1) twin=$(cd study && echo runs/w2/*seed-2)
for of in test_loss val_loss test_accuracy val_accuracy; do
    forge_study && sed -i -E "/\"w2\".*\"seed\": 1,/s/(\"$of\": )[0-9.]+/\10.5/" forged/runs.jsonl
    misreported "a better $of in the ledger" "and the log of w2, seed 1, do not agree: $of differs"
done
forge_study && sed -i -E '/"w2".*"seed": 1,/{p;s/"seed": 1,/"seed": 3,/}' forged/runs.jsonl
misreported "a line with a changed seed" 'has the same weights as line'
forge_study && sed -i -E '/"w2".*"seed": 1,/s/, "chain": "[0-9a-f]*"//' forged/runs.jsonl
misreported "a line without its chain" 'do not agree: chain differs'
forge_study && sed -i -E 's/, "chain": "[0-9a-f]*"//' forged/runs.jsonl
misreported "a ledger without any chain" 'do not agree: chain differs'
forge_study && sed -i -E '/"w2".*"seed": 1,/s/("train_loss": )[0-9.]+/\11.5/' forged/runs.jsonl
misreported "a changed training loss in the ledger" 'and the log of w2, seed 1, do not agree: train_loss differs'
forge_study && sed -i -E '/"w2".*"seed": 1,/s/("stream_sha256": ")[0-9a-f]{4}/\1abcd/' forged/runs.jsonl
misreported "a changed stream of samples in the ledger" 'and the log of w2, seed 1, do not agree: stream_sha256 differs'
forge_study && sed -i -E '/"val_loss"/s/("test_loss": )[0-9.]+/\10.5/' "forged/$run/log.jsonl"
misreported "a better loss in a run's log" 'does not match the chain of hashes: the log was edited'
forge_study && rm "forged/$run/log.jsonl"
misreported "a run without its log" 'chain differs (the log is missing)'
forge_study && sed -i '$d' "forged/$run/log.jsonl"
misreported "a run's log without its last line" 'do not agree: chain differs'
forge_study && mv "forged/$run" aside && mv "forged/$twin" "forged/$run" && mv aside "forged/$twin"
misreported "the exchange of the folders of two seeds" 'has seed=2, but its folder and its line in runs.jsonl have lr=0.001, seed=1'
forge_study && rm forged/runs/*/*/config.json
misreported "a study whose configs were all removed" 'config.json is missing, so it is unknown what was trained in that folder'
# The best seeds of many, under the numbers of the plan: every hash fits, for none was changed.
printf '%s\n' 'import glob, json, os, shutil' 'for arm in ("dot", "w2"):' \
    '    shutil.rmtree(f"forged/runs/{arm}/lr-0.001-seed-1")' \
    '    shutil.move(f"more/runs/{arm}/lr-0.001-seed-4", f"forged/runs/{arm}/lr-0.001-seed-1")' \
    'keep = [l for l in open("forged/runs.jsonl") if json.loads(l)["seed"] != 1]' \
    'new = [l.replace("\"seed\": 4,", "\"seed\": 1,") for l in open("more/runs.jsonl") if json.loads(l)["seed"] == 4]' \
    'open("forged/runs.jsonl", "w").writelines(keep + new)' >choose.py
forge_study && study more 20 RECALL_LENGTH=8 SEEDS=2 SEED=3 && python3 choose.py
misreported "a chosen seed" 'has seed=4, but its folder and its line in runs.jsonl have lr=0.001, seed=1'
# ---- the plan, costs and gates of study.json; make long-forgeries tries many more
edit_study() { # PYTHON: changes the study s of `forged`
    forge_study && python3 -c "import json
s = json.load(open('forged/study.json'))
$1
json.dump(s, open('forged/study.json', 'w'), indent=1)"
}
edit_study 's["parent"] = "studies/first"'
misreported "an edited plan" 'forged/study.json was edited'
edit_study 's["parent"] = "studies/first"' && forger hash forged
misreported "an edited plan with its own hash" 'was trained for the plan'
edit_study 'del s["plan_sha256"]'
misreported "a plan without its hash" 'study.json has the plan (not recorded)'
for cost in params flops peak_bytes state_bytes cache_bytes tokens; do
    edit_study "s['arms'][1]['$cost'] = s['arms'][1]['$cost'] // 2"
    misreported "half of the $cost" "study.json has $cost = "
done
edit_study 's["arms"][1]["gates"][0]["failed"] = 1'
misreported "a changed result of a gate" 'study.json records that 1 of'
forge_study && rm "forged/$run/gates.json"
misreported "a run without the record of its gates" 'gates.json is missing, but the log has its hash'
forge_study && sed -i 's/"failed": 0/"failed": 1/' "forged/$run/gates.json"
misreported "an edited record of the gates" 'gates.json does not match the hash recorded in the log'
forge_study && mv "forged/$run/log.jsonl" log && ln -s "$PWD/log" "forged/$run/log.jsonl"
misreported "a log that is a link" 'is a symbolic link'
edit_study 's["arms"][1]["gates"][1]["failed"] = 1' && forger plan forged && "$weft" report forged >/dev/null 2>&1 &&
    ! "$weft" audit forged --segments 1 >/dev/null 2>err && grep -q 'FAILED gates of w2: forged/study.json records that 1 of' err
result $? "a changed result of a gate, with matching hashes, fails the audit"

# incomplete NAME TEXT: an audit of `forged` fails and names this
incomplete() {
    ! "$weft" audit forged --segments 1 >json 2>err && grep -qF -- "MISSING $2" err && grep -q 'the study is incomplete' err
    local status=$?
    result $status "an audit of $1 fails"
    ((status == 0)) || sed 's/^/# /' err
}
"$weft" audit study --segments 1 --json >json 2>err && [[ $(field runs <json) == 4 && $(field missing <json) == 0 ]]
result $? "an audit of the whole study passes"
WEFT_ISA=v3 "$weft" ablate --config study.config --out mixed --run 0 --threads 1 >/dev/null 2>&1 &&
    "$weft" ablate --config study.config --out mixed --threads 1 >/dev/null 2>&1 &&
    WEFT_ISA=v3 "$weft" report mixed >/dev/null && WEFT_ISA=v3 "$weft" audit mixed --segments 1 >/dev/null 2>&1 && "$weft" audit mixed >/dev/null 2>&1
result $? "and so does one whose runs were made on processors with different instruction sets"
forge_study && : >forged/runs.jsonl
incomplete "an empty ledger" 'dot: the run of seed 1 is planned but not in the ledger'
forge_study && sed -i -E 's/("program_sha256": ")[0-9a-f]{4}/\1abcd/' forged/study.json
incomplete "a study of a different build" 'w2: the run of seed 2 is planned'
forge_study && sed -i '/"w2".*"seed": 2,/d' forged/runs.jsonl
incomplete "a ledger without a line" 'forged/runs/w2/lr-0.001-seed-2 is a run without a valid line in the ledger'
forge_study && sed -i '/"seed": 2,/d' forged/runs.jsonl && rm -r forged/runs/*/*seed-2
incomplete "a study without a seed" 'dot: the run of seed 2 is planned'
forge_study && cp -r "forged/$run" forged/runs/w2/lr-0.001-seed-9
incomplete "a study with a run too many" 'forged/runs/w2/lr-0.001-seed-9 is a run without'
forge_study && "$weft" train "forged/$run" --resume --set steps=25 >/dev/null 2>&1
"$weft" report forged 2>err | grep -q '^1 line of the ledger ignored'
result $? "a run that was trained further does not count, and the report notes it"
finish
