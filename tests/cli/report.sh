#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# report.sh - `weft report` reads a study from its folder only: the same bytes for the same runs, only finished runs that
# belong to it, no text from files as markup; `weft compare` compares arms and single runs.
# run-tests: 15 s
set -u
source tests/tap
use_scratch

study() { python3 tests/cli/study.py "$scratch/$1" "${@:2}"; }
# json NAME EXPRESSION: whether it holds of the report's object, d.
json() {
    "$weft" report "$scratch/$1" --json |
        python3 -c 'import json, sys; d = json.load(sys.stdin); sys.exit(not eval("(" + sys.argv[1] + ")"))' "$2"
}
# edit NAME STATEMENT: changes study.json, s.
edit() {
    python3 -c 'import json, sys; s = json.load(open(sys.argv[1])); exec(sys.argv[2]); json.dump(s, open(sys.argv[1], "w"))' \
        "$scratch/$1/study.json" "$2"
}
# refuses NAME WORDS: a report of the study fails and prints WORDS.
refuses() { ! "$weft" report "$scratch/$1" >"$scratch/out" 2>&1 && grep -qF -- "$2" "$scratch/out"; }

study two 2
"$weft" report "$scratch/two" >"$scratch/out" && grep -q '^w2-full .* better by 0.0' "$scratch/out" &&
    [[ -s $scratch/two/report.html && -s $scratch/two/report.md ]]
result $? "a study of two arms is reported"
[[ $(wc -l <"$scratch/two/report.csv") == 11 ]] && grep -q '| w2-full | geom=w2 spread=full |.* better by' "$scratch/two/report.md"
result $? "report.csv has a row per run, report.md the verdicts"
json two 'd["w2-full.verdict"] == "better" and d["w2-full.diff_low"] < d["w2-full.diff_mean"] < d["w2-full.diff_high"] < 0
    and d["dot.seeds"] == 5 and d["dot.params"] == 420000 and d["reproduced"] is None'
result $? "and as JSON"
python3 - "$scratch/two" "$("$weft" report "$scratch/two" --json)" <<'END'
import json, statistics, sys
loss = {(r["arm"], r["seed"]): r["test_loss"] for r in map(json.loads, open(sys.argv[1] + "/runs.jsonl"))}
differences = [loss["w2-full", seed] - loss["dot", seed] for seed in range(1, 6)]
mean, half = statistics.mean(differences), 2.7764451052 * statistics.stdev(differences) / 5**0.5
printed = json.loads(sys.argv[2])
percent = 100 * mean / statistics.mean(loss["dot", seed] for seed in range(1, 6))
for key, value in {"mean": mean, "low": mean - half, "high": mean + half, "percent": percent}.items():
    assert abs(printed["w2-full.diff_" + key] - value) < 1e-7
assert f"<td>{mean:+.4f}</td><td>{percent:+.2f} %</td>" in open(sys.argv[1] + "/report.html").read()
END
result $? "the difference and its interval are computed from paired losses"
[[ $(stat -c %s "$scratch/two/report.html") -lt 1000000 ]] && ! grep -qE '\{\{|(src|href)="https?:|@import|url\(' "$scratch/two/report.html"
result $? "the page is complete and loads nothing from elsewhere"

# In every dot plot each seed has its own dot, no two overlap, and the axis has a title and at least two numbers.
study dots 3 40
sed -i -E '/"arm": "dot"/s/"test_loss": [^,]*/"test_loss": 0.9/' "$scratch/dots/runs.jsonl"
for name in two dots; do
    "$weft" report "$scratch/$name" >/dev/null
    python3 - "$scratch/$name/report.html" "$name" <<'END'
import itertools, re, sys
picture = re.search(r'<svg class="dots".*?</svg>', open(sys.argv[1]).read(), re.S)[0]
rows = picture.split('<g class="c')[1:]
for row in rows:
    dots = [tuple(map(float, d)) for d in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)"', row)]
    assert len(dots) == (5 if sys.argv[2] == "two" else 40), len(dots)
    touching = [1 for (x, y, r), (u, v, _) in itertools.combinations(dots, 2) if (x - u) ** 2 + (y - v) ** 2 < (2 * r) ** 2 - 0.5]
    assert not touching, row
assert "test loss, nats" in picture and len(re.findall(r'text-anchor="middle">[\d.]+<', picture)) >= 2
END
    result $? "$name: every seed has a dot of its own, and the axis its scale"
done

python3 - "$scratch/two/report.html" <<'END'
import json, re, sys
page = open(sys.argv[1]).read()
charts = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])["charts"]
assert [(c["y"], c["log"]) for c in charts] == [("training loss, nats", False), ("validation loss, nats", False), ("difference, nats", False)]
assert all(c["x"] == "step" for c in charts)
END
result $? "every chart has titles of its axes"
study decades 2
sed -i -E 's/"(main|val_loss)": ([0-9.]+)/"\1": \2e-3/' "$scratch"/decades/runs/dot/*/log.jsonl
"$weft" report "$scratch/decades" >/dev/null && grep -q '"y":"training loss, nats, logarithmic","log":true' "$scratch/decades/report.html" &&
    grep -q '"y":"difference, nats","log":false' "$scratch/decades/report.html"
result $? "losses that span a decade are drawn on a logarithmic axis, differences never"

# The order in which runs finished and the times they took do not matter.
study same 2
shuf --random-source=/dev/zero "$scratch/two/runs.jsonl" | sed -E 's/"(tokens_per_s|seconds)": [^,}]*/"\1": 7.5/g' >"$scratch/same/runs.jsonl"
edit same 's["name"] = "two"; s["command"] = s["command"].replace("same", "two")'
"$weft" report "$scratch/same" >/dev/null
strip() { sed -E 's/(<td [^>]*class="[^"]*\btime\b[^>]*>)[^<]*/\1/g; s/(<td class="time">)[^<]*/\1/g' "$1"; }
cmp <(strip "$scratch/two/report.html") <(strip "$scratch/same/report.html") &&
    cmp <(sed 's/,[^,]*,[^,]*$//' "$scratch/two/report.csv") <(sed 's/,[^,]*,[^,]*$//' "$scratch/same/report.csv")
result $? "the same runs in a different order give the same page except for times"
cp "$scratch/two/report.html" "$scratch/before" && "$weft" report "$scratch/two" >/dev/null && cmp "$scratch/before" "$scratch/two/report.html"
result $? "written again it is the same"

study older 2
"$weft" report "$scratch/older" >/dev/null && cp "$scratch/older/report.html" "$scratch/before"
edit older 'for a in s["arms"]:
    a["apart"] = a.pop("settings")
    for g in a["gates"]: g["story"] = g.pop("message")'
"$weft" report "$scratch/older" >/dev/null && cmp "$scratch/before" "$scratch/older/report.html"
result $? "study.json of 0.1.0, with different names of two fields, is read"

# One file that cannot be replaced: the others stay as they are.
study blocked 2
"$weft" report "$scratch/blocked" >/dev/null
edit blocked 's["machine"] = "another machine"'
for ending in html md csv; do
    cp -r "$scratch/blocked" "$scratch/obstacle" && rm "$scratch/obstacle/report.$ending" && mkdir -p "$scratch/obstacle/report.$ending/x"
    refuses obstacle "report.$ending cannot be replaced" && rm -r "$scratch/obstacle/report.$ending" &&
        diff -rq -x "report.$ending" "$scratch/blocked" "$scratch/obstacle"
    result $? "a folder named report.$ending: nothing is replaced and nothing is left behind"
    rm -rf "$scratch/obstacle"
done

study twelve 12 5 3
"$weft" report "$scratch/twelve" >"$scratch/out" && json twelve 'd["reproduced"] == 1 and d["again.verdict"] == "reproduced"
    and d["dot.lr"] == 1e-3 and d["latent-128.verdict"] == "worse" and d["alibi.verdict"] == "not resolved"'
result $? "twelve arms on a grid of learning rates, one of them a repeat"
head -1 "$scratch/out" | grep -q '^study twelve: w2-full is better than dot by .* arms do not differ measurably from dot (parameter counts differ from that of dot by up to 29 %; set match=params to equalise them; losses were still falling)\.$' &&
    grep -q '<p class="headline">w2-full is better than dot by' "$scratch/twelve/report.html" &&
    grep -q '^\*\*w2-full is better than dot by' "$scratch/twelve/report.md" &&
    json twelve 'd["headline"].startswith("w2-full is better than dot by") and "solve" not in d["headline"]'
result $? "the headline is the finding in one sentence, with what it depends on"
json two 'd["headline"].endswith("(w2-full has 103 % of the parameters of dot; set match=params to equalise them; learning rates were not tuned).")'
result $? "the headline notes a larger arm and learning rates that were not tuned"
cp -r "$scratch/twelve" "$scratch/solved"
sed -i -E 's/"test_accuracy": [0-9.e-]*/"test_accuracy": 0.999/' "$scratch/solved/runs.jsonl"
"$weft" report "$scratch/solved" >"$scratch/out" && json solved '"all arms solve the task, so only the loss differs" in d["headline"]' &&
    grep -q '^w2-full .*better by .*; both arms solve the task (accuracy 99.5 % or more), so only the loss differs' "$scratch/out"
result $? "if all arms solve the task, the verdict on the loss notes it"
[[ $(stat -c %s "$scratch/twelve/report.html") -lt 1000000 ]]
result $? "their page stays below a megabyte"
# Percentages of a loss near 0, and speeds of a machine that did other things.
study tiny 2
cp -r "$scratch/tiny" "$scratch/busy"
json tiny 'd["w2-full.diff_percent"] < 0'
result $? "a difference is also a percentage of the baseline's loss"
sed -i -E '/"arm": "dot"/s/"test_loss": [^,]*/"test_loss": 0.04/' "$scratch/tiny/runs.jsonl"
for name in tiny solved; do
    json $name 'd["w2-full.diff_percent"] is None and d["w2-full.diff_mean"] != 0' && grep -q 'Percentages are omitted because .*: the loss of dot is close to 0' "$scratch/$name/report.html" &&
        ! grep -qE '>Relative<|<td>[-+][0-9.]+ %' "$scratch/$name/report.html"
    result $? "$name: no percentage of a loss near 0"
done
! grep -q 'Percentages are omitted' "$scratch/two/report.html" && ! grep -q 'tokens/s of its runs' "$scratch/out" && ! grep -q 'runs: ' "$scratch/two/report.md"
result $? "and nothing about it otherwise"
sed -i -E '/"arm": "w2-full", .*"seed": 1,/s/"tokens_per_s": [^,]*/"tokens_per_s": 9000/' "$scratch/busy/runs.jsonl"
"$weft" report "$scratch/busy" >"$scratch/out" && grep -q '^w2-full: tokens/s of its runs ranges from 9.000 k to 2[01]\.[0-9]* k, so do not compare speeds$' "$scratch/out" &&
    ! grep -q '^dot: tokens/s' "$scratch/out" && grep -qE '<small>runs: 9.000 k to 2[01]\.[0-9]* k</small>' "$scratch/busy/report.html" &&
    grep -qE '^\| w2-full .* \| [0-9]+ \(runs: 9.000 k to 2[01]\.[0-9]* k\) \|$' "$scratch/busy/report.md"
result $? "speeds of an arm that differ by more than a fifth are given as a range"
python3 - "$scratch/two/report.html" <<'END'
import re, sys
table = re.search(r'aria-label="Gates">.*?</table>', open(sys.argv[1]).read(), re.S)[0]
assert re.findall(r'<th scope="col">([^<]*)', table) == ["Gate", "dot", "w2-full"] and '<th scope="row">causal <small>' in table
END
result $? "gates are rows, arms columns"
sed -i '/"again".*"seed": 3/s/"weights_sha256": "./"weights_sha256": "x/; s/"x/"0/' "$scratch/twelve/runs.jsonl"
json twelve 'd["reproduced"] == 0 and d["again.verdict"] == "not reproduced"'
result $? "a repeat with different weights is detected"

study grid 4 9 2 7
"$weft" report "$scratch/grid" >"$scratch/out" && grep -q 'the 65 of 72 runs that are finished' "$scratch/out" &&
    grep -q 'The best learning rate is at the edge of the grid.*dot (0.001)' "$scratch/out" && grep -q '95 %, bootstrap' "$scratch/grid/report.html"
result $? "an unfinished study is reported, with the edge of the grid and, with 8 or more seeds, the bootstrap"
sed -i -E '/"dot", "lr": 0.001/s/"val_loss": ./"val_loss": 7/' "$scratch/grid/runs.jsonl"
json grid 'd["dot.lr"] == 3e-4 and d["overlap.lr"] == 1e-3'
result $? "the learning rate is chosen on validation, whatever the test scores"
rm "$scratch/grid/runs.jsonl"
json grid 'd["runs"] == 0 and d["dot.verdict"] == "not run" and d["dot.loss_mean"] is None
    and d["headline"] == "w2-full and overlap have not run yet."'
result $? "and so is one without a finished run"

study one 2 1
json one 'd["w2-full.verdict"] == "too few seeds" and d["w2-full.diff_low"] is None
    and d["headline"] == "w2-full has no verdict: too few seeds."'
result $? "one seed gives no interval"
study noise 3 4
cp -r "$scratch/noise" "$scratch/both"
sed -i '/"again"/s/"seed": \(.\)/"seed": 10\1/' "$scratch/noise/runs.jsonl"
edit noise 's["arms"][2]["first_seed"] = 101'
json noise 'd["again.verdict"] == "noise" and d["reproduced"] is None'
result $? "a repeat with different seeds measures noise"
cat "$scratch/noise/runs.jsonl" >>"$scratch/both/runs.jsonl"
edit both 's["arms"][2]["first_seed"] = 101'
json both 'd["again.verdict"] == "noise" and d["again.seeds"] == 4'
result $? "and runs with the seeds it had before do not count"
study shifted 2 4
sed -i '/"w2-full".*"seed": 1,/d; /"dot".*"seed": 4,/d' "$scratch/shifted/runs.jsonl"
edit shifted 's["seeds"] = [1, 2, 3]; s["arms"][1]["first_seed"] = 2'
json shifted 'd["w2-full.verdict"] == "unfinished" and d["w2-full.diff_mean"] is None'
result $? "arms whose seeds differ by one have no pair of equal losses that were never measured"
study lost 2
sed -i '/"w2-full".*"seed": [24],/d' "$scratch/lost/runs.jsonl"
"$weft" report "$scratch/lost" | grep -q 'NOTE: w2-full lacks 2 of 5 runs (seeds 2, 4), which failed or are unfinished'
result $? "missing runs are named"
study mixed 2
sed -i '3s/"isa": "v4"/"isa": "amx"/' "$scratch/mixed/runs.jsonl"
! "$weft" report "$scratch/mixed" | grep -q 'NOTE: Runs used different'
result $? "a different instruction set needs no note"
sed -i '3s/"isa": "amx"/"isa": "v4-onednn"/' "$scratch/mixed/runs.jsonl"
"$weft" report "$scratch/mixed" | grep -q 'NOTE: Runs used different matmul engines, v4 and v4-onednn'
result $? "a different engine does"
study null 2
sed -i '7s/"val_loss": [^,]*/"val_loss": null/' "$(printf %s "$scratch"/null/runs/dot/*seed-2)/log.jsonl"
"$weft" report "$scratch/null" >/dev/null
result $? "a non-finite score leaves a gap in a curve"

# Lines that are not this study's.
study stale 2
edit stale 's["arms"][1]["config"]["width"] = 256'
json stale 'd["w2-full.seeds"] == 0 and d["dot.seeds"] == 5 and d["runs"] == 5'
result $? "runs whose settings differ from the arm's are left out"
study program 2
edit program 's["program_sha256"] = "0" * 64'
json program 'd["runs"] == 0'
result $? "and so are runs of a different build"

# Hostile and damaged files.
study bad 2
edit bad 's["command"] = "<script>alert(1)</script>"; s["arms"][1]["settings"] = "</td><img src=x onerror=alert(1)>|"
s["machine"] = "\"&\x27<img>"; s["match_by"] = "<script>alert(2)</script>"; s["arms"][1]["matched"] = 7
s["arms"][0]["gates"][0].update(failed=1, message="</small><b onclick=x>")'
"$weft" report "$scratch/bad" >/dev/null && ! grep -qE '<script>alert|<img|<b onclick' "$scratch/bad/report.html" &&
    ! grep -qE '(^|[^\\])<img' "$scratch/bad/report.md" && grep -qF '&lt;script&gt;alert(1)' "$scratch/bad/report.html"
result $? "texts of the files are not taken as markup"
cp "$scratch/bad/report.html" "$scratch/before"
edit bad 's["machine"] = "\x1b[2J"'
refuses bad '"machine" is not a string, or has control characters' && cmp "$scratch/bad/report.html" "$scratch/before"
result $? "control characters are rejected, and the old report stays"
edit bad 's["machine"] = ""; del s["arms"][1]["flops"]'
refuses bad 'study.json: arms[1]: "flops" is missing'
result $? "a missing field is named with its place"
edit bad 's["arms"][1]["flops"] = 1; s["arms"][1]["name"] = "../dot"'
refuses bad 'arms[1]: "name" is not the name of an arm'
result $? "a name that would leave the folder is rejected"
study line 2
sed -i '3s/"val_loss": [^,]*/"val_loss": "low"/' "$scratch/line/runs.jsonl"
refuses line 'runs.jsonl:3: "val_loss" is not a number'
result $? "a bad line of the ledger is named by its number"
echo '{"step": -1}' >>"$(printf %s "$scratch"/two/runs/dot/*seed-2)/log.jsonl"
refuses two 'log.jsonl:'
result $? "so is one of a log"
refuses nothing "is not the folder of a study"
result $? "a folder without a study is an error that names the command to create one"

study arms 2
"$weft" compare "$scratch/arms/runs/dot" "$scratch/arms/runs/w2-full" >"$scratch/out" &&
    grep -qE '^geom +dot +w2' "$scratch/out" && grep -q 'better by .* 5 seeds' "$scratch/out"
result $? "two arms are compared seed by seed"
"$weft" compare "$scratch"/arms/runs/{dot,w2-full}/lr-0.0003-seed-1 >"$scratch/out" &&
    grep -q 'one seed does not show the variation between seeds' "$scratch/out"
result $? "two runs are compared, with a warning"
"$weft" compare "$scratch"/arms/runs/{dot,w2-full}/lr-0.0003-seed-1 --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert d["A.seeds"] == 1 and d["B.params"] > d["A.params"] and d["B.verdict"] == "too few seeds" and d["scored_on"] == "test"'
result $? "and as JSON"
! "$weft" compare "$scratch/arms/runs" "$scratch/arms/runs/dot" >"$scratch/out" 2>&1 && grep -q 'neither the folder of a run' "$scratch/out"
result $? "a folder without runs is rejected"

# A single run.
cat >"$scratch/check.py" <<'END'
import re, sys
from html.parser import HTMLParser
page, tags = open(sys.argv[1]).read(), []
EMPTY = ("meta", "link", "path", "circle")
class Check(HTMLParser):
    def handle_starttag(self, tag, attributes):
        assert not any(name.startswith("on") or name in ("src", "href") and not value.startswith(("data:,", "#")) for name, value in attributes)
        if tag not in EMPTY: tags.append(tag)
    def handle_endtag(self, tag):
        if tag not in EMPTY: assert tags.pop() == tag, tag
Check().feed(page)
assert not tags and "default-src 'none'" in page and not re.search(r"\{\{|@import|url\(|https?://(?!.*(MIT|leeoniya))", page.split("<script>")[0])
for text in sys.argv[2:]: assert text in page, text
END
# well_formed NAME TEXT...: its page is, loads nothing, and has the texts.
well_formed() { python3 "$scratch/check.py" "$scratch/$1/report.html" "${@:2}"; }
run="$scratch/arms/runs/dot/lr-0.0003-seed-1"
sed -i 's/"preset": "gpt2"/&,\n  "task": "recall"/' "$run/config.json"
cp -r "$run" "$scratch/run"
"$weft" report "$scratch/run" >"$scratch/out" 2>&1 && grep -q '^gpt2 on recall: test loss 0\.[0-9]* nats after 1000 steps, accuracy 80.0 %\.$' "$scratch/out" &&
    well_formed run 'id="plot-loss"' 'id="plot-norm"' 'id="plot-rate"' '<p class="headline">gpt2 on recall: test loss' '"y":"loss, nats"' \
        '"x":"step (512 tokens each)"' '<th scope="row">width</th><td>128</td>' && grep -q '^| Test loss | 0\.' "$scratch/run/report.md" && [[ ! -e $scratch/run/report.csv ]]
result $? "a single run is reported, with its curves, figures and settings"
legend() { sed -n '/class="legend"/,/<\/div>/p' "$scratch/$1/report.html" | grep -o '</svg> [a-z]*' | tr -d '\n'; }
cp -r "$run" "$scratch/once" && tac "$run/log.jsonl" | awk '!/"val_loss"/ || !n++' | tac >"$scratch/once/log.jsonl" && "$weft" report "$scratch/once" >/dev/null 2>&1 &&
    [[ $(legend run) == '</svg> training</svg> validation' && $(legend once) == '</svg> training' ]] && well_formed once 'The validation loss was computed only at the end'
result $? "the legend names validation if it has a curve"
cp -r "$run" "$scratch/elsewhere" && "$weft" report "$scratch/elsewhere/" >/dev/null 2>&1 && cmp "$scratch"/{run,elsewhere}/report.html &&
    cmp "$scratch"/{run,elsewhere}/report.md && OMP_NUM_THREADS=1 "$weft" report "$scratch/run" >/dev/null 2>&1 &&
    OMP_NUM_THREADS=2 "$weft" report "$scratch/elsewhere" >/dev/null 2>&1 && cmp "$scratch"/{run,elsewhere}/report.html
result $? "the same run gives the same bytes, whatever its folder is called and with any number of threads"
"$weft" report "$scratch/run" --json 2>/dev/null | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert d["finished"] == 1 and d["steps"] == d["steps_planned"] == 1000 and d["test_loss"] > 0 and len(d["weights_sha256"]) == 64 and d["headline"].startswith("gpt2 on recall")'
result $? "and as JSON"
sed -i '90,$d' "$scratch/run/log.jsonl" && printf '{"step": 75' >>"$scratch/run/log.jsonl"
"$weft" report "$scratch/run" >"$scratch/out" 2>&1 && grep -q 'gpt2 on recall: not finished, training loss [0-9.]* nats after 7[0-9]0 of 1000 steps\.$' "$scratch/out" &&
    well_formed run 'The run is not finished: its log ends at step' && ! grep -q 'Test loss' "$scratch/run/report.md"
result $? "an unfinished run is marked as such, without a test loss"
sed -i '2,$d' "$scratch/run/log.jsonl"
"$weft" report "$scratch/run" >"$scratch/out" 2>&1 && grep -q 'no loss has been logged yet (1000 steps planned)' "$scratch/out" && well_formed run 'fewer than two points'
result $? "one that has only begun gives a page without curves"
printf '</pre><script>alert(1)</script>\n\033[2J' >"$scratch/elsewhere/samples.txt"
sed -i '1s/"weft": "0.1.0"/"weft": "<script>alert(2)<\/script>"/' "$scratch/elsewhere/log.jsonl"
sed -i 's/"task": "recall"/"task": "text", "data": "<img src=x onerror=alert(1)>|"/' "$scratch/elsewhere/config.json"
"$weft" report "$scratch/elsewhere" >"$scratch/out" 2>&1 && well_formed elsewhere '&lt;/pre&gt;&lt;script&gt;alert(1)' '&lt;script&gt;alert(2)' '\x1b[2J' \
    '&lt;img src=x' && ! grep -qE '(^|[^\\])<(img|script)' "$scratch/elsewhere/report.md"
result $? "nothing of its files is taken as markup"
cp "$scratch/elsewhere/report.html" "$scratch/before" && sed -i 's/"task": "text"/"task": "text\\u0007"/' "$scratch/elsewhere/config.json"
! "$weft" report "$scratch/elsewhere" >"$scratch/out" 2>&1 && cmp "$scratch/before" "$scratch/elsewhere/report.html"
result $? "a config with control characters is rejected, and the old report stays"
rm "$scratch/run/log.jsonl"
refuses run 'has a config, but no log.jsonl: pass the folder of a run'
result $? "a config without a log is rejected"
mkdir "$scratch/empty"
refuses empty 'is not the folder of a study: it has no study.json' && [[ -z $(ls "$scratch/empty") ]]
result $? "an empty folder is rejected, and nothing is written into it"
printf '{"preset": "gpt2", "width": "wide"}' >"$scratch/empty/config.json" && touch "$scratch/empty/log.jsonl"
! "$weft" report "$scratch/empty" >"$scratch/out" 2>&1 && [[ ! -e $scratch/empty/report.html ]] && grep -q 'width' "$scratch/out"
result $? "so is one with a config that cannot be used"

# Losses of different samples are not compared.
tiny=(gpt2 --set layers=1 --set width=16 --set heads=2 --set context=16 --set batch=2 --set steps=2 --set eval_samples=4 --set warmup=1)
train() { "$weft" train "${tiny[@]}" --out "$scratch/$1" "${@:2}" >/dev/null 2>"$scratch/err"; }
# differ TEXT A B: the comparison has no verdict and prints TEXT.
differ() {
    "$weft" compare "$scratch/$2" "$scratch/$3" >"$scratch/out" && grep -qF "NOTE: A and B were scored on different samples: $1" "$scratch/out" &&
        grep -q '^B .* no verdict: the arms were scored on different samples$' "$scratch/out"
}
train v64 --set recall_length=8 && train v32 --set recall_length=8 --set vocab=32 && train shorter --set recall_length=6
differ 'vocab is 64 in A and 32 in B' v64 v32 && differ 'recall_length is 8 in A and 6 in B' v64 shorter
result $? "runs with other vocabularies or samples get no verdict"
"$weft" compare "$scratch/v64" "$scratch/v32" --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert d["B.verdict"] == "not comparable" and d["B.diff_mean"] is None and "vocab" in d["not_comparable"]'
result $? "and as JSON"
for i in 1 2; do
    seq $((i * 1000)) $((i * 1000 + 2000)) >"$scratch/text" && "$weft" data prepare "$scratch/text" --tokenizer char --out "$scratch/data-$i" >/dev/null 2>&1
done
cp -r "$scratch/data-1" "$scratch/moved"
for data in data-1 data-2 moved; do train "on-$data" --set task=text --set vocab=16 --set data="$scratch/$data" --set seed=7; done
differ 'the contents of the data differ' on-data-1 on-data-2
result $? "nor do runs on different data"
"$weft" compare "$scratch/on-data-1" "$scratch/on-moved" >"$scratch/out" && ! grep -q NOTE "$scratch/out" && grep -q 'not enough seeds' "$scratch/out"
result $? "but runs on the same data in a different folder do"
cp -r "$scratch/arms/runs/dot/lr-0.0003-seed-1" "$scratch/arms/runs/dot/copy"
! "$weft" compare "$scratch/arms/runs/dot" "$scratch/arms/runs/w2-full" >"$scratch/out" 2>&1 && grep -q 'which would count twice' "$scratch/out"
result $? "a copy of a run does not count as a different seed"
rm -r "$scratch/arms/runs/dot/copy"
mv "$scratch/arms/runs/w2-full/lr-0.0003-seed-1" "$scratch/arms/runs/dot/other"
! "$weft" compare "$scratch/arms/runs/dot" "$scratch/arms/runs/w2-full" >"$scratch/out" 2>&1 && grep -q 'unlike the other runs in its folder' "$scratch/out"
result $? "runs of different models in one folder are rejected"
finish
