#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# init.sh - runs that start from the weights of other runs: 100 + 100 steps, different parts and contexts, the record,
# and wrong uses, which are errors with a remedy.
# run-tests: 14 s
set -u
export WEFT_TEST_SKIP_GATES=1
source tests/tap
enter_scratch

small=(--set recall_length=8 --set vocab=16 --set context=16 --set layers=2 --set width=32 --set heads=2
    --set eval_samples=64 --set warmup=5)
train() { "$weft" train "$@" --json >json 2>err || { sed 's/^/# /' err && false; }; }
hash_of() { python3 - "$1" <<'END'
import glob, json, sys
print(json.loads(open(sys.argv[1] + "/log.jsonl").readline()).get("init_sha256", ""))
END
}

train gpt2 "${small[@]}" --set steps=100 --out a
first=$(field eval_loss <json)
WEFT_TEST_SKIP_GATES=0 train a --init a --out b
second=$(field eval_loss <json)
awk "BEGIN { exit !($second < $first) }"
result $? "100 + 100 steps: validation loss $first, then $second"
grep -q '36 copied' err && ! grep -q 'drawn\|left out' err
result $? "all weights are copied"
[[ $(hash_of b) == "$(sha256sum a/step-000000100/model.safetensors | cut -d' ' -f1)" ]]
result $? "the log names the hash of the file"
"$weft" audit b >out 2>err
result $? "the run passes an audit"
train a --init a --out b2
[[ $(grep -o '"weights_sha256": "[^"]*"' b/log.jsonl | tail -n 1) == "$(grep -o '"weights_sha256": "[^"]*"' b2/log.jsonl | tail -n 1)" ]]
result $? "the same again ends at the same weights"

train a/config.json --init a --set m1=yes --set steps=2 --out m1
grep -q '3 new, randomly initialised: blocks.0.m1.w1' err
result $? "a new part is drawn"
train a/config.json --init a --set ffn=swiglu --set init_leave=yes --set steps=2 --out swiglu
grep -q '8 left out: blocks.0.ffn.fc,' err
result $? "weights that the new part lacks are left out if that is allowed"
WEFT_TEST_SKIP_GATES=0 train a/config.json --init a --set context=40 --set steps=1 --set lr=0 --out long && "$weft" audit long >out 2>&1
result $? "a longer context with learned positions"
python3 - <<'END'
import json, struct, sys
def read(path, name):
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        begin, end = head[name]["data_offsets"]
        base = f.tell()
        f.seek(base + begin)
        return head[name]["shape"], f.read(end - begin)
old, a = read("a/step-000000100/model.safetensors", "wpe")
new, b = read("long/step-000000001/model.safetensors", "wpe")
row = 4 * old[1]
sys.exit(not (old[0] == 16 and new[0] == 40 and all(b[p * row:(p + 1) * row] == a[p % 16 * row:(p % 16 + 1) * row] for p in range(40))))
END
result $? "its rows repeat the rows of the shorter context"
train llama "${small[@]}" --set steps=2 --out rope && train rope/config.json --init rope --set context=64 --set steps=2 --out rope64 && ! grep -q 'drawn\|extended\|left out' err
result $? "with rope nothing needs to be extended"
train gpt2 "${small[@]}" --set pos=relative --set steps=2 --out rel && train rel/config.json --init rel --set context=64 --set steps=2 --out rel64 && grep -q '2 extended' err
result $? "relative positions are extended"
train ws "${small[@]}" --set layers=2 --set steps=2 --out ws && train ws/config.json --init ws --set aux=no --set init_leave=yes --set steps=2 --out noaux
result $? "auxiliary losses can be switched off"
train a/config.json --init a/step-000000100/model.safetensors --set steps=2 --out file
result $? "--init also takes a safetensors file"
for minutes in 0.005 0.02 0.1; do # until there is time for a step, even on a busy machine
    rm -rf cut
    "$weft" train a/config.json --init a --set steps=200 --set checkpoint_every=10 --time $minutes --out cut >out 2>err
    ! compgen -G 'cut/step-*' >/dev/null || break
done
mv a away && train cut --resume --out cut
status=$?
mv away a
result $status "a run with a checkpoint is resumed without the file"

# ---- wrong uses

refuses() { # WORDS ARGUMENTS...
    local words=$1
    shift
    "$weft" train "$@" --out refused >out 2>err
    local status=$?
    ((status == 1 || status == 2)) && grep -q -- "$words" err && [[ ! -e refused/log.jsonl ]]
    result $? "refused: $words"
    grep -q -- "$words" err || sed 's/^/# /' err
    rm -rf refused
}
refuses 'pass --init a' a
refuses 'pass --init a/step-000000100' a/step-000000100
refuses 'match no weight of this model' a/config.json --init a --set ffn=swiglu
refuses 'init_leave=yes' a/config.json --init a --set layers=1
refuses 'has no weight that matches' llama "${small[@]}" --set width=16 --set vocab=20 --init a
refuses 'neither a folder nor a file with weights' gpt2 --init nowhere
refuses 'neither a folder nor a file with weights' gpt2 --init gpt2
mkdir empty
refuses 'has neither model.safetensors nor' gpt2 --init empty
printf 'rubbish' >rubbish
refuses 'rubbish' gpt2 --init rubbish
refuses 'match no weight' a/config.json --init a --set width=64
refuses 'match no weight' a/config.json --init a --set heads=4 --set kv_heads=2
refuses 'match no weight' a/config.json --init a --set pos=rope
refuses 'match no weight' a/config.json --init a --set bias=no
refuses "wte \[16, 32\] (the model's is \[17, 32\])" a/config.json --init a --set vocab=17
refuses 'match no weight' a/config.json --init a --set norm=rmsnorm
refuses 'init_leave' gpt2 "${small[@]}" --set init_leave=yes
refuses 'has weights' b --init a
refuses 'log.jsonl' gpt2 --init a/log.jsonl
cp -r a damaged
printf '\x01' | dd of=damaged/step-000000100/model.safetensors bs=1 seek=5000 conv=notrunc status=none
refuses 'damaged' a/config.json --init damaged/step-000000100
refuses 'damaged' a/config.json --init damaged
train b --resume --set init=swiglu --out b
grep -q 'init' err
result $? "a run's origin cannot be changed when it is resumed: $(head -c 100 err | head -n 1)"
WEFT_TEST_SKIP_GATES=0 train rope --init rope --set steps=3 --out other && rm -rf rope && ! "$weft" audit other >out 2>err && grep -q 'rope' err
result $? "an audit without the origin names the missing file"
finish
