#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# events.sh - a run's events, read by TensorBoard, which checks every checksum, match its log: losses, scores and
# diagnostics, even after the run was resumed; and diagnostics do not change the run. Needs tensorboard from PyPI.
set -u
source tests/tap
mkdir -p "${WEFT_BUILD:-build}"
use_scratch "${WEFT_BUILD:-build}"

train() { # SETTINGS...: the weights' fingerprint
    local settings=(task=recall recall_length=12 layers=2 width=32 heads=2 ffn_width=64 batch=4 ws_heads=4 ws_form=dense
        eval_samples=8 log_every=2 eval_every=3 checkpoint_every=4 "$@")
    "$weft" train ws --json "${settings[@]/#/--set=}" --out "$scratch/run" --resume 2>"$scratch/err" |
        sed -n 's/.*"weights_sha256": "\([0-9a-f]*\)".*/\1/p'
}

weights=$(train steps=6) && rm -r "$scratch/run"
[[ ${#weights} == 64 && $(train steps=6 diagnose_every=2) == "$weights" ]]
result $? "diagnoses change nothing in the weights"
(($(grep -c '^step [246]/6  attn_entropy [0-9.]*  reciprocity .*  head_similarity .*  off_block_mass' "$scratch/err") == 3))
result $? "they are printed on the terminal"
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

python=$(tools/venv.sh tensorboard==2.20.0 2>"$scratch/why") || {
    skip "the events are the numbers of the log" "$(cat "$scratch/why")"
    finish
}
cat >"$scratch/read.py" <<'END_PYTHON'
import math, sys
from events import expected
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

version, *events = EventFileLoader(sys.argv[1]).Load()  # stops at a wrong checksum
wanted = list(expected(open(sys.argv[2])))
assert version.file_version == "brain.Event:2"
if len(events) != len(wanted):
    sys.exit(f"{len(events)} events, {len(wanted)} numbers in the log")
for event, (step, tag, value) in zip(events, wanted):
    [got] = event.summary.value
    [number] = got.tensor.float_val
    assert (event.step, got.tag) == (step, tag) and math.isclose(number, value, rel_tol=2e-7), (event, step, tag, value)
    assert event.wall_time > 1e9
print(len(events))
END_PYTHON
events=$(echo "$scratch"/run/events*)
read_events() { PYTHONPATH=tests/cli "$python" "$scratch/read.py" "$events" "$scratch/run/log.jsonl"; }
count=$(read_events)
result $? "$count events are the log's numbers"
printf X | dd of="$events" bs=1 seek=300 conv=notrunc 2>/dev/null
! read_events 2>"$scratch/err" && grep -q "^[0-9]* events, $count numbers in the log" "$scratch/err"
result $? "the reader notices a damaged byte"
finish
