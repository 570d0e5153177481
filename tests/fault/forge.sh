#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# forge.sh - changes to a run's folder are found when the run is resumed or its weights are used: files edited, truncated,
# removed, swapped between steps and between runs, and a log that is a link to a different file.
# run-tests: 6 s
set -u
export WEFT_TEST_SKIP_GATES=1
source tests/fault/tiny

train() { # FOLDER SEED
    "$weft" train gpt2 --set task=recall --set recall_length=8 --set layers=1 --set width=16 --set heads=2 --set batch=4 \
        --set steps=30 --set checkpoint_every=10 --set eval_samples=8 --set log_every=5 --set seed="$2" --out "$1" >/dev/null 2>&1
}
train sound 1 && train other 2
"$weft" train sound --resume --set steps=40 --json >json 2>err
result $? "a run that nobody touched is resumed"
cp -r sound longer
rm -rf sound && train sound 1
old=sound/step-000000020 new=sound/step-000000030

# forge NAME: a copy of the run to change, in `forged`
forge() { rm -rf forged && cp -r sound forged && name=$1; }
resume() { "$weft" train forged --resume --set steps=40 --json >json 2>err; }
weights() { sed -n 's/.*"weights_sha256": "\([0-9a-f]*\)".*/\1/p' "$@"; }
whole=$(weights longer/log.jsonl | tail -1)

# refused TEXT: it is not resumed, for this reason, and the log stays as it is
refused() {
    cp forged/log.jsonl before 2>/dev/null || : >before
    ! resume && grep -qF -- "$1" err && { [[ ! -s before ]] || cmp -s before forged/log.jsonl; }
    local status=$?
    result $status "$name is rejected"
    ((status == 0)) || sed 's/^/# /' err
}
# skipped TEXT: the checkpoint is not used, for this reason; an earlier one leads to the same weights
skipped() {
    resume && grep -qF -- "$1" err && [[ $(weights json) == "$whole" ]]
    local status=$?
    result $status "$name is noticed; an earlier checkpoint leads to the same weights"
    ((status == 0)) || sed 's/^/# /' err
}
# unusable TEXT: the checkpoint's weights are not used for anything else either
unusable() {
    ! "$weft" eval forged >/dev/null 2>err && grep -qF -- "$1" err
    local status=$?
    result $status "$name: weft eval refuses it"
    ((status == 0)) || sed 's/^/# /' err
}
# metadata FILE PYTHON: changes the metadata m of a safetensors file, and its data d
metadata() {
    python3 - "$@" <<'END'
import json, struct, sys
path, code = sys.argv[1:]
file = open(path, "rb").read()
size = struct.unpack("<Q", file[:8])[0]
header, d = json.loads(file[8 : 8 + size]), bytearray(file[8 + size :])
m = header.get("__metadata__", {})
exec(code)
header["__metadata__"] = m
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(path, "wb").write(struct.pack("<Q", len(text)) + text + d)
END
}
no_checksums='m = {k: v for k, v in m.items() if not k.startswith("weft.")}'

# ---- the log
forge "a log that is missing" && rm forged/log.jsonl
refused 'does not have the record of the checkpoint of step 30'
forge "an empty log" && : >forged/log.jsonl
refused 'does not have the record of the checkpoint of step 30'
forge "a log without its last line" && sed -i '$d' forged/log.jsonl
refused 'does not have the record of the checkpoint of step 30'
forge "a log without its first line" && sed -i 1d forged/log.jsonl
refused 'line 1 of forged/log.jsonl does not match its chain'
forge "a log without a line in the middle" && sed -i 6d forged/log.jsonl
refused 'line 6 of forged/log.jsonl does not match its chain'
forge "a log with a line twice" && sed -i 6p forged/log.jsonl
refused 'line 7 of forged/log.jsonl does not match its chain'
forge "a log with two lines swapped" && sed -i '6{h;d};7G' forged/log.jsonl
refused 'line 6 of forged/log.jsonl does not match its chain'
forge "a log with a better loss" && sed -i -E '/"val_loss"/s/("val_loss": )[0-9.]+/\10.5/' forged/log.jsonl
refused 'of forged/log.jsonl does not match its chain'
forge "a log with a changed time" && sed -i -E '0,/"seconds"/s/("seconds": )[0-9.e-]+/\11/' forged/log.jsonl
refused 'of forged/log.jsonl does not match its chain'
forge "a log with a better loss and a chain to match" &&
    python3 - forged/log.jsonl <<'END'
import hashlib, re, sys
head, lines = "0" * 64, []
for line in open(sys.argv[1]):
    text = re.sub(r'"val_loss": [0-9.]+', '"val_loss": 0.5', line.rpartition(', "chain": "')[0])
    head = hashlib.sha256((head + text).encode()).hexdigest()
    lines.append(f'{text}, "chain": "{head}"}}\n')
open(sys.argv[1], "w").writelines(lines)
END
refused 'does not have the record of the checkpoint of step 30'
forge "the log of a different run" && cp other/log.jsonl forged
refused 'does not have the record of the checkpoint of step 30'
forge "a log that is a link" && mv forged/log.jsonl target && cp target kept && ln -s ../target forged/log.jsonl
! resume && grep -q 'is a symbolic link' err && cmp -s target kept
result $? "$name is rejected, and its target stays as it is"
forge "a log whose end does not recur" && rm -r forged/step-000000030 &&
    python3 - forged/log.jsonl <<'END'
import hashlib, re, sys
head, lines = "0" * 64, []
for line in open(sys.argv[1]):
    text = line.rpartition(', "chain": "')[0]
    if text.startswith('{"step": 25, "total"'):
        text = re.sub(r'"total": [0-9.]+', '"total": 0.5', text)
    head = hashlib.sha256((head + text).encode()).hexdigest()
    lines.append(f'{text}, "chain": "{head}"}}\n')
open(sys.argv[1], "w").writelines(lines)
END
! "$weft" train forged --resume >json 2>err && grep -q 'step 25 of forged does not match its log' err
result $? "$name is noticed at that step"

# ---- checkpoints
forge "weights of a different step" && cp "$old/model.safetensors" "forged/${new#*/}"
unusable 'belong to different checkpoints: step differs'
skipped 'belong to different checkpoints: step differs'
forge "moments of a different step" && cp "$old/optimizer.safetensors" "forged/${new#*/}"
skipped 'belong to different checkpoints: step differs'
forge "weights of a different run" && cp other/step-000000030/model.safetensors "forged/${new#*/}"
unusable 'belong to different checkpoints: config_sha256 differs'
skipped 'belong to different checkpoints: config_sha256 differs'
forge "a checkpoint of a different run" && rm -r "forged/${new#*/}" && cp -r other/step-000000030 forged
refused 'the run in forged has seed=2'
forge "a checkpoint under the name of a later step" && mv "forged/${new#*/}" forged/step-000000035
refused 'holds step 30, which is not the step in its name'
forge "a checkpoint with a flipped bit" && printf '\001' | dd of="forged/${new#*/}/model.safetensors" bs=1 seek=9000 conv=notrunc 2>/dev/null
skipped 'skipping the damaged checkpoint'
forge "weights with a flipped bit and no checksums" && metadata "forged/${new#*/}/model.safetensors" "$no_checksums; d[1000] ^= 1"
unusable 'do not match their saved hash'
skipped 'do not match their saved hash'
forge "moments with a flipped bit and no checksums" && metadata "forged/${new#*/}/optimizer.safetensors" "$no_checksums; d[1000] ^= 1"
skipped 'the moments in forged/step-000000030 do not match their saved hash'
forge "weights without any metadata" && metadata "forged/${new#*/}/model.safetensors" 'm = {}; d[1000] ^= 1'
unusable 'belong to different checkpoints: step differs'
skipped 'model.safetensors lacks some of the hashes that bind it to the run'
forge "weights without any metadata, and no moments" && rm "forged/${new#*/}/optimizer.safetensors" &&
    metadata "forged/${new#*/}/model.safetensors" 'm = {}; d[1000] ^= 1'
"$weft" eval forged >/dev/null 2>err && grep -q 'has no hashes: its weights cannot be verified' err
result $? "$name: weft eval reports that nothing vouches for them"
forge "weights and hashes to match in one file" && metadata "forged/${new#*/}/model.safetensors" "$no_checksums; m['weights_sha256'] = '1' * 64"
skipped 'belong to different checkpoints: weights_sha256 differs'
forge "a flipped bit, and hashes to match in both files" &&
    metadata "forged/${new#*/}/model.safetensors" "$no_checksums; d[1000] ^= 1" &&
    hash=$(python3 "$here/tests/cli/weights_hash.py" "forged/${new#*/}/model.safetensors") &&
    metadata "forged/${new#*/}/model.safetensors" "m['weights_sha256'] = '$hash'" &&
    metadata "forged/${new#*/}/optimizer.safetensors" "$no_checksums; m['weights_sha256'] = '$hash'"
refused 'does not have the record of the checkpoint of step 30'
forge "a checkpoint's config with other heads" && sed -i 's/"heads": "\?2"\?/"heads": 4/' "forged/${new#*/}/config.json" &&
    ! cmp -s "forged/${new#*/}/config.json" "$new/config.json"
unusable 'config.json is not the one that was saved with these weights'
skipped 'config.json is not the one that was saved with these weights'
forge "a run's config with a changed learning rate" && sed -i -E 's/("lr": "?)[0-9.e-]+/\10.01/' forged/config.json
refused 'the run in forged has lr='
forge "a tokenizer that was not there" && echo '{}' >"forged/${new#*/}/tokenizer.json"
skipped 'tokenizer.json is not the one that was saved with these weights'
forge "samples that were skipped" && metadata "forged/${new#*/}/optimizer.safetensors" "$no_checksums; m['samples'] = '160'"
skipped 'samples were read by step 30'
forge "samples and steps that were skipped" && metadata "forged/${new#*/}/optimizer.safetensors" "$no_checksums; m['samples'] = '160'; m['step'] = '40'"
skipped 'belong to different checkpoints: step differs'
forge "a changed stream" && for file in model optimizer; do
    metadata "forged/${new#*/}/$file.safetensors" "$no_checksums; m['stream_sha256'] = '2' * 64"
done
refused 'does not have the record of the checkpoint of step 30'
forge "a run that was cut back with its checkpoints" && rm -r "forged/${new#*/}" && sed -i '/"step": \(2[1-9]\|30\)/d' forged/log.jsonl
resume && [[ $(weights json) == "$whole" ]]
result $? "$name gives the same weights: only the ledger of a study can show it"
finish
