#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# transfer.sh - finds the best learning rate at widths 64, 128 and 256 with scaling=mup, for models with every part on
# text, and for one of them without mup. Prints the rates (the minimum of a parabola through the best of the grid and its
# neighbours, in logarithms) and by how many octaves the best rate moves when the width is quadrupled: at most one with
# mup.
set -u
source tests/tap
text=${WEFT_DATA:-}/tinyshakespeare/input.txt
if [[ ! -e $text ]]; then
    skip "the best learning rate over widths" "no WEFT_DATA"
    finish
fi
use_scratch
cp configs/width-transfer "$scratch" && cd "$scratch" || exit 1
"$weft" data prepare "$text" --out data/chars -t char >/dev/null 2>err
result $? "data of characters"

best() { # FOLDER
    python3 - "$1" <<'END'
import json, math, sys
loss = {}
for line in open(sys.argv[1] + "/runs.jsonl"):
    run = json.loads(line)
    if run["seed"] > 2000:
        loss.setdefault(run["arm"], {}).setdefault(run["lr"], []).append(run["test_loss"])
found = []
for arm in sorted(loss, key=lambda arm: int(arm[1:])):
    rates = sorted(loss[arm])
    y = [sum(loss[arm][r]) / len(loss[arm][r]) if all(map(math.isfinite, loss[arm][r])) else 99 for r in rates]
    i = min(range(len(y)), key=y.__getitem__)
    if not 0 < i < len(y) - 1:
        sys.exit("the best rate of %s, %g, is at the edge of those tried" % (arm, rates[i]))
    x = math.log2(rates[i]) + (y[i - 1] - y[i + 1]) / (2 * (y[i - 1] - 2 * y[i] + y[i + 1]))
    found.append((x, y[i]))
print(*("%.4g (loss %.4f)" % (2 ** x, y) for x, y in found), "octaves %.2f" % (found[-1][0] - found[0][0]))
END
}

# measure NAME SCALING SETTINGS...
measure() {
    local settings=(scaling="$2" "${@:3}")
    "$weft" ablate --config width-transfer --out "$1-$2" "${settings[@]/#/--set=}" </dev/null >/dev/null 2>err || cat err
    best "$1-$2" >line 2>&1
    echo "# $1, $2: $(cat line)"
}
measure dot standard "lrs=1e-3 2e-3 4e-3 8e-3 16e-3"
while read -r name settings; do
    case $name in # these want lower rates
    relative) lrs=("lrs=3e-5 6e-5 12e-5 25e-5 5e-4") ;;
    llama-like) lrs=("lrs=6e-5 12e-5 25e-5 5e-4 1e-3") ;;
    *) lrs=() ;;
    esac
    # shellcheck disable=SC2086
    measure "$name" mup $settings "${lrs[@]}"
    awk '/octaves/ { good = $NF >= -1 && $NF <= 1 } END { exit !good }' line
    result $? "$name: the best learning rate moves by at most an octave"
done <<'END'
dot geom=dot
w2 geom=w2
overlap geom=overlap
latent attn=latent latent_width=16
mechanisms m1=yes m2=yes m3=yes
mechanisms-latent m1=yes m2=yes m3=yes attn=latent m3_tying=untied
ws ffn=ws
llama-like pos=rope ffn=swiglu norm=rmsnorm tie=no kv_heads=2
relative pos=relative output_gate=yes ra_alpha=0.3
END
finish
