#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# text.sh - training on token files: the files it reads, error messages, and the tokenizer in a checkpoint.
# run-tests: 6 s
set -u
export WEFT_TEST_SKIP_GATES=1
source tests/tap
hash=$(realpath tests/cli/weights_hash.py)
enter_scratch

python3 -c 'print("".join(chr(97 + i * i % 7) for i in range(5000)))' >input.txt
"$weft" data prepare input.txt --out data --tokenizer char >/dev/null 2>&1
top=$(($(field vocab <data/data.json) - 1))
small=(--set task=text --set data=data --set layers=1 --set width=32 --set heads=2 --set context=16 --set batch=4)

refuses 'task=text needs data=FOLDER' train gpt2 --set task=text
refuses "go up to $top: set vocab=$((top + 1)) or more, not 3" train gpt2 "${small[@]}" --set vocab=3 --out run
refuses 'too few for a sequence of context=1000' train gpt2 "${small[@]}" --set context=1000 --out run
refuses 'data=data/train_000000.bin is not a folder: set data to a folder with' train gpt2 "${small[@]}" --set data=data/train_000000.bin --out run
refuses 'data is an option of task=text' train gpt2 --set data=data
[[ ! -e run ]]
result $? "a command that fails leaves no folder behind"

vocab() { "$weft" show "$1" "${small[@]}" "${@:2}" --config | field vocab; } # MODEL [ARGUMENTS...]
[[ $(vocab gpt2) == $((top + 1)) && $(vocab llama --set vocab=0) == $((top + 1)) ]]
result $? "the vocabulary size defaults to the data's"
[[ $(vocab gpt2 --set vocab=20) == 20 && $(vocab gpt2-mini) == 4096 && $(vocab gpt2 --set data=none) == 64 ]]
result $? "a setting or a preset overrides it; without data it is 64"
echo '{"preset": "gpt2", "vocab": 30}' >thirty.json && [[ $(vocab thirty.json) == 30 ]]
result $? "a config file overrides it"
one=$("$weft" train gpt2 "${small[@]}" --set steps=400 --set eval_samples=1000 --json --out run 2>/dev/null)
[[ $(field eval_loss <<<"$one") == 0.* && $(field test_loss <<<"$one") == 0.* ]] && cmp -s data/tokenizer.json run/step-000000400/tokenizer.json
result $? "learns a text; the checkpoint contains its tokenizer"
[[ $(field vocab <run/config.json) == $((top + 1)) ]]
result $? "its config has the vocabulary of the data"
"$weft" train gpt2 "${small[@]}" --set steps=400 --set eval_samples=1000 --out again --time 0.01 >/dev/null 2>&1
again=$("$weft" train again --resume --json --threads 1 2>/dev/null)
[[ $(field weights_sha256 <<<"$one") == "$(field weights_sha256 <<<"$again")" ]]
result $? "a run that was stopped continues at the same position"
cp -r data moves
"$weft" train gpt2 "${small[@]}" --set data=moves --set steps=60 --set checkpoint_every=1 --out moved >/dev/null 2>&1 &
until compgen -G 'moved/step-*' >/dev/null || ! kill -0 $! 2>/dev/null; do sleep 0.01; done
mv moves elsewhere
wait $! && cmp -s data/tokenizer.json moved/step-000000060/tokenizer.json
result $? "the data may be moved while a run has it open"
long=$(printf './%.0s' {1..700})data
"$weft" train gpt2 "${small[@]}" --set "data=$long" --set steps=1 --out long >/dev/null 2>&1 &&
    "$weft" train long --resume --set steps=2 >/dev/null 2>&1
result $? "a run with a long data path can be resumed"
cp -r data other
"$weft" train gpt2 "${small[@]}" --set data=other --set steps=1 --out swapped >/dev/null 2>&1
rev input.txt >reversed.txt && rm -r other && "$weft" data prepare reversed.txt --out other --tokenizer char >/dev/null 2>&1
refuses 'the data is not the data that the run in swapped was trained on' train swapped --resume --set steps=2
changes() { grep -c '"changed":' "$1/log.jsonl"; }
cp -r long extended
"$weft" train extended --resume --set steps=3 >/dev/null 2>&1 && [[ $(changes extended) == 2 ]] &&
    cp long/config.json extended && rm -r extended/step-000000003 &&
    "$weft" train extended --resume --set steps=3 >/dev/null 2>&1 && [[ $(changes extended) == 2 ]]
result $? "a change is logged once, even after a kill before the config was written"
WEFT_ISA=base "$weft" train gpt2 "${small[@]}" --set steps=1 --out elsewhere-run >/dev/null 2>&1
"$weft" train elsewhere-run --resume --set steps=2 >/dev/null 2>&1
isa=$("$weft" version --json | field isa)
[[ $isa == base ]] || grep -q "isa base -> $isa" elsewhere-run/log.jsonl
result $? "a different instruction set is recorded in the log"
WEFT_ISA=base "$weft" train gpt2 "${small[@]}" --set steps=2 --out elsewhere-whole >/dev/null 2>&1
python3 "$hash" elsewhere-run/step-000000002/model.safetensors elsewhere-whole/step-000000002/model.safetensors |
    uniq -c | grep -q '^ *2 '
result $? "a run that continues at a different level has the same weights"
metadata() { # FILE NAME VALUE: changes the metadata of a checkpoint
    python3 - "$@" <<'END'
import json, struct, sys
path, name, value = sys.argv[1:]
file = open(path, "rb").read()
size = struct.unpack("<Q", file[:8])[0]
header = json.loads(file[8 : 8 + size])
header["__metadata__"] = {k: v for k, v in header["__metadata__"].items() if not k.startswith("weft.")} | {name: value}
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(path, "wb").write(struct.pack("<Q", len(text)) + text + file[8 + size :])
END
}
for value in 1e300 -4 9223372036854775807 nan 2.0; do
    rm -rf hostile && cp -r long hostile && rm -rf hostile/step-000000001
    metadata hostile/step-000000002/optimizer.safetensors step "$value"
    refuses 'step is missing, or is not a number from 0 to' train hostile --resume --set steps=3
done
metadata hostile/step-000000002/optimizer.safetensors step 1000000000000
refuses '8 samples were read by step 1000000000000: expected 4 in each step' train hostile --resume --set steps=3
python3 - data parted <<'END'
import pathlib, struct, sys
data, parted = map(pathlib.Path, sys.argv[1:])
parted.mkdir()
(parted / "train.bin").write_bytes((data / "train_000000.bin").read_bytes()[1024:])
(parted / "val.bin").write_bytes(struct.pack("<18H", *range(18)))
END
refuses 'too few for validation and a test' train gpt2 "${small[@]}" --set data=parted
cp parted/val.bin parted/test.bin
[[ $(vocab gpt2 --set data=parted) == 18 ]]
result $? "without data.json, the vocabulary ends with the largest token of all files"
same=$("$weft" train gpt2 "${small[@]}" --set data=parted --set steps=1 --json 2>/dev/null)
[[ $(field eval_loss <<<"$same") == "$(field test_loss <<<"$same")" ]]
result $? "the test loss is computed on the test files"
cp -r data damaged && printf '\377\377' | dd of=damaged/train_000000.bin bs=1 seek=3000 conv=notrunc 2>/dev/null
refuses 'does not match damaged/train_000000.bin.tree' train gpt2 "${small[@]}" --set data=damaged --set steps=400
rm damaged/train_000000.bin.tree
refuses 'the file is damaged' train gpt2 "${small[@]}" --set data=damaged --set steps=400
finish
