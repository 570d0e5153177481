#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# config.sh - MODEL as a config file or folder: saved configs read back unchanged, the order of precedence, and the error
# messages.
# run-tests: 8 s
set -u
source tests/tap
enter_scratch


for model in $("$weft" help models | awk '{ print $1 }'); do
    "$weft" show "$model" --config >config.json && "$weft" show config.json --config | cmp -s - config.json &&
        python3 -c 'import json; json.load(open("config.json"))' && [[ $(field preset <config.json) == "$model" ]]
    result $? "the config of $model reads back as it is"
done

mkdir run
"$weft" show llama --set lr=0.3 --set layers=1 --config >run/config.json
[[ $("$weft" show run --config | field lr) == 0.3 && $("$weft" show run/ --config | field pos) == rope ]]
result $? "a folder with config.json is a model, with its options of training"
[[ $("$weft" show run --set layers=3 --config | field layers) == 3 ]]
result $? "the command line overrides the file"
echo '{"preset": "llama", "width": 64, "heads": 2}' >small.json
[[ $("$weft" show small.json --config | field pos) == rope && $("$weft" show small.json --json | field preset) == llama ]]
result $? "the file overrides its preset"
"$weft" show run --set pos=learned --json >/dev/null
result $? "a default of what has no part is silent"
trained=$("$weft" train small.json --json --set steps=2 --set eval_samples=4 --set batch=2 2>/dev/null | field weights_sha256)
same=$("$weft" train llama --json --set width=64 --set heads=2 --set steps=2 --set eval_samples=4 --set batch=2 \
    2>/dev/null | field weights_sha256)
[[ -n $trained && $trained == "$same" ]]
result $? "a file trains what its settings train"

echo '{"preset": "llama"}' >gpt2
[[ $("$weft" show gpt2 --json | field preset) == gpt2 && $("$weft" show ./gpt2 --json | field preset) == llama ]]
result $? "a preset wins over a file of its name, unless that is written with a slash"

mkdir empty
echo '{"layers": 2}' >bare.json
echo '{"preset": "lama"}' >typo.json
printf '{"preset": "gpt2",\n"layers": }' >syntax.json
echo '{"preset": "gpt2", "laers": 2}' >unknown.json
echo '{"preset": "gpt2", "layers": 0}' >range.json
echo '{"preset": "gpt2", "rope_base": 500}' >part.json
refuses 'no preset "lama" (did you mean llama?), and no file or folder of that name' show lama
refuses 'empty/config.json cannot be read: No such file' show empty
refuses 'bare.json does not name a preset' show bare.json
refuses 'typo.json: there is no preset "lama": did you mean llama?' show typo.json
refuses 'syntax.json:2: ' show syntax.json
refuses 'unknown.json: there is no option "laers": did you mean layers?' train unknown.json
refuses 'range.json: layers=0 is invalid: expected 1 to 1024' train range.json
refuses 'part.json: rope_base is an option of pos=rope' show part.json
refuses 'set pos=rope' bench train --preset part.json
finish
