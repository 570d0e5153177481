#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# items.sh - test-set noise: every run keeps its test items, reports give the difference over items next to that over
# seeds, and no figure if a file is missing, damaged or has different items.
# run-tests: 14 s
set -u
source tests/tap
here=$PWD
enter_scratch

items() { python3 "$here/tests/cli/items.py" "$@"; }
# holds STUDY EXPRESSION [VALUES]: whether it holds of the report's object, d; v is a list in JSON.
holds() {
    "$weft" report "$1" --json | python3 -c 'import json, sys
d, v = json.load(sys.stdin), json.loads(sys.argv[2])
sys.exit(not eval("(" + sys.argv[1] + ")"))' "$2" "${3:-[]}"
}
says() { "$weft" report "$1" >out 2>&1 && grep -qF -- "$2" out; } # STUDY WORDS
silent() { "$weft" report "$1" >out 2>&1 && ! grep -q 'test set' out; } # STUDY

# ---- a study on text, with documents

python3 - >docs.jsonl <<'END'
import json, random
random.seed(3)
for i in range(300):
    print(json.dumps({"text": " ".join(random.choice(["the cat", "a dog", "sat on", f"house {i}"]) for _ in range(random.randint(2, 40)))}))
END
"$weft" data prepare docs.jsonl --field text --out data --tokenizer bytes --val 0.3 >/dev/null 2>&1
printf 'CONFIG_WEFT_%s\n' PRESET='"gpt2"' ARMS='"dot: geom=dot | llama: norm=rmsnorm pos=rope ffn=swiglu"' LAYERS=1 WIDTH=16 HEADS=2 CONTEXT=32 \
    BATCH=4 WARMUP=5 EVAL_SAMPLES=64 SEEDS=3 TASK='"text"' DATA='"data"' >config
echo 'CONFIG_GPT2_MAX_ITERS=30' >>config
"$weft" ablate --config config --out text --threads 2 >out 2>&1
result $? "a study on text is trained"
[[ $(find text -name items.safetensors | wc -l) == 6 ]] && holds text 'd["llama.test_items"] == v[0] > 20
    and abs(d["llama.diff_mean"] - v[1]) < 1e-7 and abs(d["llama.diff_test_error"] - v[2]) < 1e-9
    and abs((d["llama.diff_test_low"] + d["llama.diff_test_high"]) / 2 - v[1]) < 1e-7
    and 1.96 < (d["llama.diff_test_high"] - v[1]) / v[2] < 2.2
    and d["dot.test_error"] > 0 and d["dot.diff_test_low"] is None' "$(items expect text dot llama)"
result $? "the error of the difference equals its jackknife over documents"
python3 - <<'END'
import csv
rows = list(csv.DictReader(open("text/report.csv")))
assert len(rows) == 6 and all(float(row["test_error"]) > 0 and int(row["test_items"]) > 20 for row in rows)
base = {row["seed"]: float(row["test_loss"]) for row in rows if row["arm"] == "dot"}
for row in rows:
    if row["arm"] == "dot":
        assert row["diff"] == row["diff_error"] == ""
    else:
        assert abs(float(row["diff"]) - (float(row["test_loss"]) - base[row["seed"]])) < 1e-7 and float(row["diff_error"]) > 0
END
result $? "report.csv has the errors of every run"
grep -q '^Noise of the test items only, not of seeds: .*Verdicts do not use them\.$' text/report.md &&
    grep -qE '^- llama: \\\[[-+]0\.[0-9]*, [-+]0\.[0-9]*\\\], [0-9]+ documents$' text/report.md && ! grep -q '| .*test items' text/report.md &&
    grep -q '<h3>Noise of the test items only</h3>' text/report.html && grep -qE '<td>[0-9]+ documents</td><td>\[' text/report.html &&
    ! grep -A30 'label="Comparisons' text/report.html | sed '/<\/table>/q' | grep -q 'items'
result $? "report.md and report.html have the interval, apart from those of the verdicts"
run=text/runs/dot/lr-0.001-seed-1
cp -r "$run" again && cp again/items.safetensors before && rm again/items.safetensors
"$weft" train again --resume --threads 1 --unsafe >out 2>&1 && cmp before again/items.safetensors
result $? "the file does not depend on the number of threads"
"$weft" audit text >out 2>&1
result $? "an audit repeats the items"
cp -r "$run" forged && items set forged/items.safetensors 'nll[0], nll[1] = nll[0] + 1e-9, nll[1] - 1e-9'
! "$weft" audit forged >out 2>&1 && grep -q 'items.safetensors does not match the results of this run.s model' out
result $? "and finds one that was changed"
"$weft" compare text/runs/dot text/runs/llama >out && grep -qE '^noise from the test items only \([0-9]+ documents, paired\), not from seeds: B - A is [-+]' out &&
    "$weft" compare "$run" text/runs/llama/lr-0.001-seed-1 >out && grep -q '^noise from the test items only' out
result $? "weft compare prints it for arms and for single runs"
"$weft" publish text --out text.tar.zst >out 2>&1 && mkdir there && tar -C there --zstd -xf text.tar.zst &&
    "$weft" report there/* >/dev/null && cmp text/report.md there/*/report.md
result $? "a published study has its items"

# ---- two models on text and on questions

other=text/runs/llama/lr-0.001-seed-1
eval_json() { "$weft" eval "$@" --json 2>err; } # ARGUMENTS...
eval_json "$run" --data data --items a --batch 5 >first && eval_json "$other" --data data --against a --items b --batch 3 >second &&
    PYTHONDONTWRITEBYTECODE=1 python3 - "$here" <<'END'
import json, math, sys
first, second = json.load(open("first")), json.load(open("second"))
sys.path.insert(0, sys.argv[1] + "/tests/cli")
from items import read
(a, tokens, about), (b, other_tokens, _) = read("a"), read("b")
assert tokens == other_tokens and about["kind"] == "documents" == first["item"] and len(a) == first["items"] > 20
assert abs(sum(a) / sum(tokens) - first["loss"]) < 1e-7 and sum(tokens) == first["tokens"]
cost, all = [y - x for x, y in zip(a, b)], sum(tokens)
mean = sum(cost) / all
error = math.sqrt((len(a) - 1) / len(a) * sum(((sum(cost) - c) / (all - t) - mean) ** 2 for c, t in zip(cost, tokens)))
assert abs(second["diff_loss"] - mean) < 1e-7 and 1.96 < (second["diff_loss_high"] - mean) / error < 2.2
assert abs(second["diff_bits_per_byte"] - (second["bits_per_byte"] - first["bits_per_byte"])) < 1e-7
END
result $? "two models on the same text: the difference over documents, in nats and in bits per byte"
eval_json "$run" --data data --batch 2 --threads 1 --items c >/dev/null && cmp a c
result $? "neither the batch nor threads change the file"
python3 - >questions.jsonl <<'END'
import json, random
random.seed(1)
for i in range(200):
    choices = [" ".join(random.choice(["the cat", "a dog", "sat on", "house 7", "xq zv"]) for _ in range(random.randint(1, 3))) for _ in range(3)]
    print(json.dumps({"query": random.choice(["the cat", "a dog"]), "choices": choices, "gold": random.randrange(3)}))
END
eval_json "$run" --data questions.jsonl --items a >first && eval_json "$other" --data questions.jsonl --against a >second && python3 - <<'END'
import json
first, second = json.load(open("first")), json.load(open("second"))
for name in "accuracy", "accuracy_norm":
    low, mean, high = second[f"diff_{name}_low"], second[f"diff_{name}"], second[f"diff_{name}_high"]
    assert abs(mean - (second[name] - first[name])) < 1e-7 and low <= mean <= high
    assert high - low < 0.06 # with different questions for each model it would be 0.17
END
result $? "two models on the same questions: the difference of their accuracies"
! eval_json "$other" --data data --against a >out && grep -q 'a has the items of a different test (200 choices instead of [0-9]* documents)' err &&
    head -1 questions.jsonl >one.jsonl && tail -n +3 questions.jsonl >>one.jsonl && ! eval_json "$other" --data one.jsonl --against a >out &&
    sed 's/the cat/the hat/' questions.jsonl >hat.jsonl && ! eval_json "$other" --data hat.jsonl --against a >out
result $? "items of a different test are rejected"
truncate -s -3 a && ! eval_json "$other" --data questions.jsonl --against a >out && ! grep -q 'tokens scored' err
result $? "and a damaged file, before anything is scored"
eval_json "$other" --against "$run/items.safetensors" >out && python3 -c 'import json; d = json.load(open("out")); assert d["diff_test_loss_low"] < d["diff_test_loss"]'
result $? "the items in a run's folder can be compared with"

# ---- fresh samples for every seed

printf 'CONFIG_WEFT_%s\n' PRESET='"gpt2"' ARMS='"dot: geom=dot | w2: geom=w2"' LAYERS=1 WIDTH=16 HEADS=2 CONTEXT=32 BATCH=4 WARMUP=5 \
    EVAL_SAMPLES=40 SEEDS=2 >config
echo 'CONFIG_GPT2_MAX_ITERS=10' >>config
"$weft" ablate --config config --out recall --threads 2 >out 2>&1 && holds recall 'd["w2.test_items"] == 80 and d["w2.diff_test_error"] > 0' &&
    says recall 'Every seed has its own test set, so intervals over seeds include the noise of the test set.'
result $? "if every seed has its own items, the report notes it"

# ---- verdicts that a different test set could change

study() { python3 "$here/tests/cli/study.py" "$1" 2 && items fill "$@"; } # NAME ITEMS NOISE [own]
study small 500 0.02
silent small && holds small 'd["w2-full.verdict"] == "better" and d["w2-full.test_items"] == 500 and d["w2-full.diff_test_high"] < 0'
result $? "a small noise of the test set needs no note"
study fragile 40 0.6
says fragile 'NOTE: w2-full: with a different test set of this size (40 documents), the difference would be between -0.' &&
    grep -q 'and the verdict could change. More seeds would not help; a larger test set (eval_samples) would\.$' out &&
    holds fragile 'd["w2-full.verdict"] == "better"'
result $? "a verdict that a different test set could change remains, with a note"
grep -q 'Note:.*with a different test set of this size' fragile/report.md && grep -q 'class="warning".*with a different test set of this size' fragile/report.html
result $? "also in report.md and report.html"
study own 40 0.6 own
says own 'Every seed has its own test set' && ! grep -q 'a different test set' out
result $? "but not if seeds have their own test sets"
study wide 500 0.15
says wide 'w2-full: with a different test set of this size (500 documents), the difference would be between -0.' && ! grep -q 'verdict could change' out
result $? "test-set noise above half of the seeds' noise gets a note"

# ---- files that are missing, damaged or of something else

study good 50 0.02
"$weft" report good >/dev/null
file=runs/w2-full/lr-0.0003-seed-2/items.safetensors
broken() { # NAME WORDS: no figure for the arm, and the reason
    says bad "$2" && grep -qF 'NOTE: w2-full: the noise of its test set is unknown' out &&
        holds bad 'd["w2-full.test_items"] == 0 and d["w2-full.diff_test_low"] is None and d["w2-full.verdict"] == "better" and d["dot.test_items"] == 50' &&
        ! grep -q 'test items only' bad/report.md
    result $? "$1: no figure, and the reason"
    rm -rf bad
}
begin() { cp -r good bad; }
begin && rm "bad/$file"
silent bad && holds bad 'd["w2-full.test_items"] == 0 and d["w2-full.verdict"] == "better"' && ! grep -q 'test items only' bad/report.md
result $? "a run without the file: no figure, no error"
rm -rf bad
begin && truncate -s -9 "bad/$file" && broken "a truncated file" items.safetensors
begin && : >"bad/$file" && broken "an empty file" items.safetensors
begin && head -c 5000 /dev/urandom >"bad/$file" && broken "random bytes" items.safetensors
begin && items set "bad/$file" 'nll[3] = math.nan' && broken "a NaN" 'its cost is not finite'
begin && items set "bad/$file" 'nll[3], nll[4] = 1e308, 1e308' && broken "a cost that overflows" 'is not the test loss'
begin && items set "bad/$file" 'tokens[3] = 0' && broken "no tokens" 'an item has no tokens'
begin && items set "bad/$file" 'tokens.append(1)' && broken "a wrong number of tokens" 'lists of equal length'
begin && items set "bad/$file" 'nll[:] = []; tokens[:] = []' && broken "no items" 'lists of equal length'
begin && items set "bad/$file" 'metadata["kind"] = "<script>"' && broken "an unknown kind" 'lacks the kind'
begin && items set "bad/$file" 'del metadata["weft.items"]' && broken "a different kind of file" 'not an items file'
begin && items set "bad/$file" 'metadata["items_sha256"] = "0" * 64' && broken "other items" 'with seed 2 it was not scored on the same items as dot'
begin && items set "bad/$file" 'nll, tokens = nll[::-1], tokens[::-1]' && broken "the same hash, but different tokens" 'not scored on the same items'
begin && cp "bad/runs/w2-full/lr-0.0003-seed-1/items.safetensors" "bad/$file" && broken "the items of a different run" 'is not the test loss of the run'
begin && rm "bad/$file" && mkdir "bad/$file" && broken "a folder of that name" items.safetensors
begin && rm "bad/$file" && mkfifo "bad/$file" && ! "$weft" report bad >/dev/null 2>err && grep -q 'is neither a regular file nor a folder' err
result $? "a pipe of that name is rejected"
for seed in 1 2; do items set "good/runs/dot/lr-0.0003-seed-$seed/items.safetensors" 'metadata["items_sha256"] = "0" * 64'; done
for seed in 1 2; do items set "good/runs/w2-full/lr-0.0003-seed-$seed/items.safetensors" 'metadata["items_sha256"] = "0" * 64'; done
says good 'w2-full: the noise of its test set is unknown, because only some of its seeds have the same items' &&
    holds good 'd["w2-full.diff_test_low"] is None'
result $? "seeds of which only some share their items: no figure"

finish
