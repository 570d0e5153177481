#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# ladder.sh - weft ladder on studies at four sizes whose losses follow known curves: multipliers, their trend, the
# verdict, and errors.
# run-tests: 25 s
set -u
source tests/tap
use_scratch

# rungs NAME GROWTH [GAIN]: studies NAME-1 to NAME-4; the second arm is as good as the first with GAIN C^GROWTH times the
# compute, by default 1.5.
python3 tests/cli/study.py "$scratch/base" 2 5 >"$scratch/log" || cat "$scratch/log"
rungs() {
    for rung in 1 2 3 4; do
        cp -r "$scratch/base" "$scratch/$1-$rung"
        python3 - "$scratch/$1-$rung" "$rung" "$2" "${3:-1.5}" <<'END'
import json, sys
folder, rung, growth, gain = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
study = json.load(open(folder + "/study.json"))
compute = 4.0 ** (rung - 1)
for arm in study["arms"]:
    arm["flops"], arm["tokens"] = 1e6, 1e6 * compute
json.dump(study, open(folder + "/study.json", "w"))
runs = [json.loads(line) for line in open(folder + "/runs.jsonl")]
first = study["arms"][0]["name"]
for run in runs:
    noise = 0.001 * ((run["seed"] * 7 + rung * 3) % 5 - 2) + (0 if run["arm"] == first else 0.0004 * ((run["seed"] * 3 + rung) % 5 - 2))
    run["test_loss"] = 2 + 2 * (compute * (1 if run["arm"] == first else gain * compute ** growth)) ** -0.25 + noise
with open(folder + "/runs.jsonl", "w") as to:
    for run in runs:
        to.write(json.dumps(run) + "\n")
END
    done
}
ladder() { "$weft" ladder "$scratch/$1"-{1,2,3,4} "${@:2}"; }

for kind in holds:0 grows:0.15 shrinks:-0.15; do
    rungs "${kind%:*}" "${kind#*:}"
    ladder "${kind%:*}" --json >"$scratch/json" && python3 - "$scratch/json" "$kind" <<'END'
import json, math, sys
d, (name, growth) = json.load(open(sys.argv[1])), sys.argv[2].split(":")
arm = next(key for key in d if key.endswith(".verdict"))[:-8]
truth = 1.5 * 64 ** float(growth)
assert d["rungs"] == 4 and d["seeds"] == 5 and d[arm + ".verdict"] == "gain " + name, d
assert d[arm + ".multiplier_4_low"] < truth < d[arm + ".multiplier_4_high"] and abs(d[arm + ".multiplier_4"] / truth - 1) < 0.05, d
assert abs(d[arm + ".change_per_tenfold"] / 10 ** float(growth) - 1) < 0.05 and abs(d[arm + ".prediction_error"]) < 0.02, d
END
    result $? "a gain that ${kind%:*} is found, with its multiplier"
done
for kind in "more so with size:-0.15:0.7" "less so with size:0.15:0.3" "by the same factor:0:0.5"; do
    IFS=: read -r words growth gain <<<"$kind"
    rungs "$growth" "$growth" "$gain"
    ladder "$growth" >"$scratch/out" && grep -q ": worse on every rung, $words: on the largest rung" "$scratch/out" && ! grep -q 'gain' "$scratch/out"
    result $? "an arm that is worse on every rung, $words"
done
ladder holds --html "$scratch/page.html" >"$scratch/out" && grep -q ': gain holds: on the largest rung, .* would need 1\.[45][0-9]* times \[' "$scratch/out" &&
    grep -q 'predicted from the smaller rungs, is off by' "$scratch/out" &&
    grep -q '^ranking on the largest rung: w2-full [0-9.]* (better), dot [0-9.]*$' "$scratch/out"
result $? "the table states it in words"
python3 - "$scratch/page.html" <<'END'
import sys
from html.parser import HTMLParser
page, open_tags = open(sys.argv[1]).read(), []
class Check(HTMLParser):
    def handle_starttag(self, tag, attributes):
        assert not any(name.startswith("on") or name in ("src", "href") and value != "data:," for name, value in attributes)
        if tag not in ("meta", "link", "path", "circle"): open_tags.append(tag)
    def handle_endtag(self, tag):
        if tag not in ("path", "circle"): assert open_tags.pop() == tag, tag
Check().feed(page)
assert not open_tags and "gain holds" in page and page.count('class="interval') == 4 and page.count("<svg class=\"plotted\"") == 2
assert "nan" not in page.lower().replace("nats", "")
END
result $? "the page is well-formed, loads nothing, and has both pictures"

ladder_refuses() { refuses "$1" ladder "${@:2}"; } # TEXT FOLDERS...
cd "$scratch" || exit 1
ladder_refuses 'a ladder cannot have 2 studies: expected 3 to 8' holds-1 holds-2
ladder_refuses 'rung 2 has compute' holds-2 holds-1 holds-3
ladder_refuses 'is not the folder of a study' holds-1 holds-2 nothing
ladder_refuses 'does not record the number of tokens per run' base holds-1 holds-2
sed -i 's/"name": "w2-full"/"name": "other"/' holds-3/study.json
ladder_refuses 'and holds-1 have different arms' holds-1 holds-2 holds-3
sed -i '$d' grows-2/runs.jsonl
"$weft" ladder grows-{1,2,3,4} >out && grep -q 'no verdict: on rung 2, no verdict yet' out
result $? "a rung that is not finished gives no verdict"

# a study with a ladder: all rungs are run, and the last word is the ladder's
cat >tiny <<'END'
CONFIG_WEFT_PRESET="llama"
CONFIG_WEFT_ARMS="dot: geom=dot | w2: geom=w2"
CONFIG_WEFT_LADDER="width=16 | width=32 | width=32 layers=2 steps=30"
CONFIG_WEFT_SEEDS=3
CONFIG_WEFT_LAYERS=1
CONFIG_WEFT_HEADS=2
CONFIG_WEFT_CONTEXT=16
CONFIG_WEFT_RECALL_LENGTH=8
CONFIG_WEFT_BATCH=4
CONFIG_GPT2_MAX_ITERS=8
CONFIG_WEFT_EVAL_SAMPLES=64
END
WEFT_TEST_SKIP_GATES=1 "$weft" ablate --config tiny --dry-run --json >plan 2>err && python3 - plan <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["rungs"] == 3 and d["runs"] == 18 and d["gates_failed"] == 0, d
assert d["rung_1.steps"] == 8 and d["rung_3.steps"] == 30, d
assert d["rung_2.steps"] == round(8 * d["rung_2.dot.params"] / d["rung_1.dot.params"]), d
END
result $? "--dry-run: tokens grow with the weights, unless a rung sets its steps"
"$weft" ablate --config tiny --out whole --json >out 2>err && [[ $(wc -l <out) == 1 && -s whole/ladder.html && -s whole/rung-3/report.html ]] &&
    "$weft" ladder whole/rung-{1,2,3} --json | cmp - out && grep -q 'whole/ladder.html has the pictures' err
result $? "a study with a ladder ends with what weft ladder prints, and with its page"
"$weft" ablate --config tiny --out whole --json >again 2>err && cmp out again && ! grep -q 'started' err
result $? "the same command does nothing again"
command=$(python3 -c 'import json; print(json.load(open("whole/rung-2/study.json"))["command"])')
"$weft" ${command#weft } --json >out 2>err && python3 - out <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["runs"] == d["done_before"] == 6 and d["folder"] == "whole/rung-2", d
END
result $? "a rung has a command of its own"
ablate_refuses() { refuses "$1" ablate --config tiny --out none "${@:2}"; } # TEXT ARGUMENTS...
ablate_refuses 'a ladder cannot have 2 rungs: expected at least 3 sizes' --ladder 'width=16 | width=32'
ablate_refuses 'rung 3: there is no option "widht"' --ladder 'width=16 | width=32 | widht=64'
ablate_refuses '"wide" is not a setting' --ladder 'width=16 | width=32 | wide'
ablate_refuses 'the rungs of a ladder are compared over the same seeds' --set looks=3,5
ablate_refuses '--run selects a run of one study, but this is a ladder' --run 0
finish
