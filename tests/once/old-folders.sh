#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# old-folders.sh - the folders of runs, data and studies that earlier releases wrote (tests/fixtures) are read, scored,
# reported and resumed, with the numbers and the weights that those releases recorded. The instruction set is `base`, so
# that this holds on every machine.
set -u
source tests/tap
weft=$(realpath "${WEFT:-build/weft}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export WEFT_ISA=base

# same KEY... : whether these keys of the two JSON files `old` and `new` have equal values.
same() {
    python3 - "$@" <<'END_PYTHON'
import json, sys
old, new = (json.load(open(name)) for name in ("old", "new"))
different = [f"{key}: {old[key]}, now {new.get(key)}" for key in sys.argv[1:] if old[key] != new.get(key)]
for line in different:
    print(line)
sys.exit(bool(different))
END_PYTHON
}
# weights: arm, seed and weights of the lines of a ledger.
weights() { sed -E 's/.*"arm": "([^"]*)".*"seed": ([0-9]*).*"weights_sha256": "([0-9a-f]*)".*/\1 \2 \3/' | sort; }

for version in tests/fixtures/*/; do
    version=$(basename "$version")
    cp -r "tests/fixtures/$version" "$scratch" && cd "$scratch/$version" || exit 1

    "$weft" show run --json >new && ln -sf eval.json old && same weights_sha256
    result $? "$version: weft show reads a run"
    "$weft" data info data >new && grep -q '^tokens *1610$' new
    result $? "$version: weft data info reads token files"
    "$weft" eval run --data text --json >new && same tokens bytes loss context weights_sha256
    result $? "$version: weft eval gives a run's text the recorded loss"
    "$weft" compare run run-unfinished --json >new 2>&1 && grep -q '"B.seeds": 0' new
    result $? "$version: weft compare reads a finished and an unfinished run"

    "$weft" train run-unfinished --resume --json >new 2>err && ln -sf finished.json old &&
        same params steps loss eval_loss test_loss weights_sha256 && grep -q '"changed": "program_sha256' run-unfinished/log.jsonl &&
        grep -q '"stream_sha256": "unknown"' new && tail -n 1 run-unfinished/log.jsonl | grep -q '"stream_sha256": "unknown"'
    result $? "$version: weft train --resume ends at the recorded weights"
    "$weft" train run --resume --set steps=80 --json >new 2>err && grep -q '"steps": 80' new
    result $? "$version: a finished run can be made longer"

    figures=(params lr seeds loss_mean diff_mean)
    "$weft" report study --json >new && ln -sf report.json old &&
        same study runs runs_planned "${figures[@]/#/dot.}" "${figures[@]/#/w2.}" &&
        grep -q 'Not recorded: the samples that 4 of 4 runs read and the initial weights of 4' study/report.html
    result $? "$version: weft report gives a study the recorded figures"
    "$weft" compare study/runs/dot study/runs/w2 --json | sed 's/"A\./"dot./g; s/"B\./"w2./g' >new &&
        same "${figures[@]/#/dot.}" "${figures[@]/#/w2.}"
    result $? "$version: weft compare gives its arms the recorded figures"
    "$weft" ablate --config study.config --out study >new 2>err && [[ $(wc -l <study/runs.jsonl) == 8 ]] &&
        cmp <(head -n 4 study/runs.jsonl | weights) <(tail -n 4 study/runs.jsonl | weights)
    result $? "$version: weft ablate trains the study again, to the recorded weights"
    cd "$OLDPWD" || exit 1
done
finish
