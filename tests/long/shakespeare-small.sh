#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# shakespeare-small.sh - nanoGPT's small model of Shakespeare's characters comes to a validation loss of 1.88 in 2000
# steps, and a step takes at most a third of the time that it takes PyTorch in the faster of f32 and bf16. Weft and
# PyTorch take turns, five legs each, on two threads; a leg gives the time of a step on average, the legs their median.
# Needs WEFT_DATA and Debian's python3-torch; the ratio means something on a machine with no other work.
set -u
source tests/tap
source tests/long/shakespeare
python=/usr/bin/python3
"$python" -c 'import torch' 2>/dev/null || { echo "skip: no python3-torch"; exit 77; }

small=(layers=4 heads=4 width=128 context=64 batch=12)
run=$(train "${small[@]}" steps=2000)
echo "# $run"

# A fair rival: Debian's OpenBLAS does not know processors with AMX and would be ten times slower, and PyTorch would take
# one thread. Waiting as both do by default: tools/run-tests.sh makes it slower.
unset OMP_WAIT_POLICY
export OPENBLAS_CORETYPE=SKYLAKEX OMP_NUM_THREADS=2
coproc torch { exec "$python" tests/long/shakespeare_torch.py "$scratch"/data/train_000000.bin; }
read -r weights <&"${torch[0]}"

own() { # a leg of Weft's: "MILLISECONDS LOSS", as PyTorch's are told
    train "${small[@]}" steps=200 |
        python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["seconds"] / r["steps"] * 1000, r["loss"])'
}
rival() { # DTYPE
    local leg
    echo "$1" >&"${torch[1]}" && read -r leg <&"${torch[0]}" && echo "$leg"
}
for leg in 1 2 3 4 5; do
    echo "weft $(own)"
    for dtype in f32 bf16; do echo "torch_$dtype $(rival $dtype)"; done
done >"$scratch/legs"
sed 's/^/# /' "$scratch/legs"

figures=$(python3 - "$run" "$scratch/legs" <<'END'
import json, statistics, sys
times, losses = {}, {}
for line in open(sys.argv[2]):
    who, ms, loss = line.split()
    times.setdefault(who, []).append(float(ms))
    losses[who + "_loss"] = float(loss)
figures = {"val_loss": json.loads(sys.argv[1])["eval_loss"]}
figures |= {who + "_ms": statistics.median(legs) for who, legs in times.items()}
figures["ratio"] = figures["weft_ms"] / min(figures["torch_f32_ms"], figures["torch_bf16_ms"])
print(json.dumps(figures | losses))
END
)
echo "$figures"

holds() { # JSON EXPRESSION NAME
    python3 -c 'import json, sys; r = json.loads(sys.argv[1]); sys.exit(not eval(sys.argv[2], r))' "$1" "$2"
    result $? "$3: $2"
}
holds "$run" "params == ${weights:-0}" "PyTorch's model has as many weights"
holds "$figures" "max(abs(weft_loss - torch_f32_loss), abs(weft_loss - torch_bf16_loss)) < 0.2" "200 steps teach both as much"
holds "$figures" "val_loss <= 1.88" "2000 steps"
holds "$figures" "ratio <= 1 / 3" "a step against PyTorch's"
finish
