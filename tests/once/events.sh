#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# events.sh - a run's events, read by npm's tfrecord, which checks every checksum, and protobufjs, are the numbers of its
# log: losses, scores and diagnoses, also after the run went on; and a diagnosis changes nothing. Needs node and the
# registry.
set -u
source tests/tap
weft=${WEFT:-build/weft}
mkdir -p "${WEFT_BUILD:-build}"
scratch=$(mktemp -d -p "${WEFT_BUILD:-build}")
trap 'rm -rf "$scratch"' EXIT

train() { # SETTINGS...: the weights' fingerprint
    local settings=()
    for setting in task=recall recall_length=12 layers=2 width=32 heads=2 ffn_width=64 batch=4 ws_heads=4 ws_form=dense \
        eval_samples=8 log_every=2 eval_every=3 checkpoint_every=4 "$@"; do
        settings+=(--set "$setting")
    done
    "$weft" train ws --json "${settings[@]}" --out "$scratch/run" --resume 2>"$scratch/err" |
        sed -n 's/.*"weights_sha256": "\([0-9a-f]*\)".*/\1/p'
}

weights=$(train steps=6) && rm -r "$scratch/run"
[[ ${#weights} == 64 && $(train steps=6 diagnose_every=2) == "$weights" ]]
result $? "diagnoses change nothing in the weights"
(($(grep -c '^step [246]/6  attn_entropy [0-9.]*  reciprocity .*  head_similarity .*  off_block_mass' "$scratch/err") == 3))
result $? "they are told on the terminal"
train steps=9 diagnose_every=4 >/dev/null
python3 - "$scratch/run/log.jsonl" "$weights" <<'END_PYTHON'
import json, math, sys
log = [json.loads(line) for line in open(sys.argv[1])]
steps = lambda key: [r["step"] for r in log if key in r]
assert steps("total") == [2, 4, 6, 8, 9] and steps("val_loss") == [3, 6, 9]
assert steps("attn_entropy") == [2, 4, 6, 8, 9] and steps("weights_sha256") == [3, 4, 6, 8, 9]
assert [r["weights_sha256"] for r in log if r["step"] == 6 and "weights_sha256" in r] == [sys.argv[2]]
for r in (r for r in log if "attn_entropy" in r):
    assert 0 < r["attn_entropy"] <= math.lgamma(24) / 23 + 1e-6 and abs(r["reciprocity"]) <= 1
    assert abs(r["head_similarity"]) <= 1 and 0 < r["off_block_mass"] < 1
    for key in ("attn_entropy", "reciprocity", "head_similarity", "off_block_mass"):
        mean = (r[key + "/layer0"] + r[key + "/layer1"]) / 2
        assert math.isclose(r[key], mean, rel_tol=1e-6, abs_tol=1e-9)
END_PYTHON
result $? "the log has diagnoses, and the weights' fingerprint with scores and checkpoints"

(cd "$scratch" && npm install --ignore-scripts --no-save --prefix . tfrecord@0.2) >"$scratch/npm" 2>&1 || {
    echo "ok $((++tap_number)) - events are the log's numbers # SKIP no npm, or no tfrecord"
    finish
}
cat >"$scratch/read.js" <<'END_NODE'
const { RecordReader } = require('tfrecord');
const { Event } = require('protobufjs').parse(`syntax = "proto3";
message Value { string tag = 1; float simple_value = 2; }
message Summary { repeated Value value = 1; }
message Event { double wall_time = 1; int64 step = 2; oneof what { string file_version = 3; Summary summary = 5; } }`,
  { keepCase: true }).root;
const tags = { total: 'train/loss', lr: 'train/lr', val_loss: 'val/loss' };
const quiet = ['step', 'seconds', 'weights_sha256'];

function expected(log) { // [step, tag, value] of every number that goes into the events
  const found = [];
  for (const { step, ...record } of log.trim().split('\n').map(JSON.parse))
    for (const [key, value] of Object.entries(record))
      if (key in tags) found.push([step, tags[key], value]);
      else if ('attn_entropy' in record && !quiet.includes(key)) found.push([step, 'diagnostics/' + key, value]);
  return found;
}

async function main() {
  const reader = await RecordReader.create(process.argv[2]), events = [];
  for (let record; (record = await reader.readRecord());) events.push(Event.decode(record));
  if (events.shift().file_version !== 'brain.Event:2') throw Error('no version');
  const wanted = expected(require('fs').readFileSync(process.argv[3], 'utf8'));
  if (events.length !== wanted.length) throw Error(`${events.length} events, ${wanted.length} numbers in the log`);
  events.forEach((event, i) => {
    const [step, tag, value] = wanted[i], [got] = event.summary.value;
    const near = Math.abs(got.simple_value - value) <= 2e-7 * Math.abs(value);
    if (Number(event.step) !== step || got.tag !== tag || !near || !(event.wall_time > 1e9))
      throw Error(`${JSON.stringify(event)} instead of ${wanted[i]}`);
  });
  console.log(events.length);
}
main().catch((error) => { console.error(error.message); process.exit(1); });
END_NODE
events=$(echo "$scratch"/run/events*)
count=$(cd "$scratch" && node read.js run/events* run/log.jsonl)
result $? "$count events are the log's numbers"
printf X | dd of="$events" bs=1 seek=300 conv=notrunc 2>/dev/null
! (cd "$scratch" && node read.js run/events* run/log.jsonl) 2>"$scratch/err" && grep -q CRC32C "$scratch/err"
result $? "the reader notices a damaged byte"
finish
