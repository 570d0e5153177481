#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# old-folders.sh - the folders of runs, data and studies written by earlier releases (tests/fixtures) can be read, scored
# and reported. Their results had different bits, so a loss is nearly the same, and a run cannot be resumed.
# run-tests: 2 s
set -u
source tests/tap
hash=$(realpath tests/cli/weights_hash.py)
use_scratch

# same KEY... : whether these keys of the two JSON files `old` and `new` have equal values, `loss` nearly equal ones.
same() {
    python3 - "$@" <<'END_PYTHON'
import json, sys
old, new = (json.load(open(name)) for name in ("old", "new"))
different = [f"{key}: {old[key]}, now {new.get(key)}" for key in sys.argv[1:] if old[key] != new.get(key) and
             not (key == "loss" and abs(old[key] / new.get(key, 0) - 1) < 1e-4)]
for line in different:
    print(line)
sys.exit(bool(different))
END_PYTHON
}

for version in tests/fixtures/*/; do
    version=$(basename "$version")
    cp -r "tests/fixtures/$version" "$scratch" && cd "$scratch/$version" || exit 1

    "$weft" show run --json >new && ln -sf eval.json old && same weights_sha256
    result $? "$version: weft show reads a run"
    "$weft" data info data >new && grep -q '^tokens *1610$' new
    result $? "$version: weft data info reads token files"
    "$weft" eval run --data text --json >new 2>err && same tokens bytes loss context && grep -q 'has no hashes' err &&
        grep -q "$(python3 "$hash" run/step-*/model.safetensors)" new
    result $? "$version: weft eval gives a run's text the recorded loss, and reports that nothing vouches for the weights"
    "$weft" compare run run-unfinished --json >new 2>&1 && grep -q '"B.seeds": 0' new
    result $? "$version: weft compare reads a finished and an unfinished run"

    cp -r run-unfinished kept && ! "$weft" train run-unfinished --resume --json >new 2>err &&
        grep -q 'trained by a release whose results are not bit-identical to this one' err && diff -r run-unfinished kept
    result $? "$version: weft train --resume is rejected, and changes nothing"

    figures=(params lr seeds loss_mean diff_mean)
    "$weft" report study --json >new && ln -sf report.json old &&
        same study runs runs_planned "${figures[@]/#/dot.}" "${figures[@]/#/w2.}" &&
        grep -q 'Not recorded: the samples that 4 of 4 runs read and the initial weights of 4' study/report.html
    result $? "$version: weft report gives a study the recorded figures"
    "$weft" compare study/runs/dot study/runs/w2 --json | sed 's/"A\./"dot./g; s/"B\./"w2./g' >new &&
        same "${figures[@]/#/dot.}" "${figures[@]/#/w2.}"
    result $? "$version: weft compare gives its arms the recorded figures"
    "$weft" ablate --config study.config --out study >new 2>err && [[ $(wc -l <study/runs.jsonl) == 8 ]]
    result $? "$version: weft ablate trains the study again"
    cd "$OLDPWD" || exit 1
done
finish
