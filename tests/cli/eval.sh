#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# eval.sh - scores of text and items, the same for any batch size and number of threads; PyTorch's figure for a known
# model; error messages.
# run-tests: 16 s
set -u
source tests/tap
use_scratch

tiny=(--set layers=1 --set width=32 --set heads=2 --set vocab=257 --set context=32 --set batch=5)
# evaluate ARGUMENTS...: the JSON, without what differs from run to run
evaluate() { "$weft" eval --json "$@" 2>"$scratch/log" | sed -E 's/"(seconds|tokens_per_s|threads)": [^,]*, //g'; }
near() { python3 -c 'import sys; a, b, most = map(float, sys.argv[1:]); sys.exit(not abs(a - b) <= most)' "$@"; }
eval_fails() { fails "$1" "$2" eval "${@:3}"; } # STATUS TEXT ARGUMENTS...

for i in {1..40}; do echo "Line $i has words, and some of them are long."; done >"$scratch/text"
for i in {1..70}; do
    echo "{\"query\": \"Number $i:\", \"choices\": [\"is even.\", \"is odd, and this goes on and on.\", \"is $i.\"], \"gold\": $((i % 3))}"
done >"$scratch/choices"
for i in {1..70}; do
    echo "{\"UID\": \"x\", \"pairID\": \"$i\", \"sentence_good\": \"There are $i of them.\", \"sentence_bad\": \"There is of $i them.\"}"
done >"$scratch/pairs"

model=(gpt2 "${tiny[@]}" --tokenizer bytes)
for dtype in f32 bf16; do
    for what in text choices pairs; do
        one=$(evaluate "${model[@]}" --set dtype=$dtype --data "$scratch/$what" --batch 1) && [[ -n $one ]]
        result $? "$dtype: $what is scored"
        for batch in 3 8; do
            [[ $(evaluate "${model[@]}" --set dtype=$dtype --data "$scratch/$what" --batch $batch --threads $batch) == "$one" ]]
            result $? "$dtype: $what gives the same with --batch $batch and $batch threads"
        done
    done
done

one=$(evaluate "${model[@]}" --data "$scratch/text")
bytes=$(wc -c <"$scratch/text")
[[ $(field tokens <<<"$one") == $((bytes - 1)) && $(field bytes <<<"$one") == "$bytes" ]] &&
    python3 -c 'import json, math, sys
r = json.load(sys.stdin)
near = lambda a, b: abs(a - b) < 1e-6 * b
sys.exit(not (near(r["ppl"], math.exp(r["loss"])) and
              near(r["bits_per_byte"], r["loss"] * r["tokens"] / math.log(2) / r["bytes"])))' <<<"$one"
result $? "every byte but the first is a token; perplexity and bits per byte follow from the loss"
near "$(field loss <<<"$one")" 5.55 0.1
result $? "untrained, a token costs about ln 257"
"$weft" data prepare "$scratch/text" --out "$scratch/folder" --val 0 >/dev/null &&
    shards=$(evaluate gpt2 "${tiny[@]}" --data "$scratch/folder" --split train) &&
    [[ $(field loss <<<"$shards") == $(field loss <<<"$one") && $(field bits_per_byte <<<"$shards") == $(field bits_per_byte <<<"$one") ]]
result $? "token files of the text give the same"
[[ $(evaluate "${model[@]}" --data "$scratch/choices" | field items) == 70 ]]
result $? "every item is counted"

# Loss by position: what longer beginnings of a text cost more. Windows of 32 tokens; the second one begins with byte 32.
positions=$(evaluate "${model[@]}" --data "$scratch/text" --by-position)
for bytes in 2 3 5 9 17 33; do head -c $bytes "$scratch/text" >"$scratch/beginning" && evaluate "${model[@]}" --data "$scratch/beginning"; done >"$scratch/beginnings"
head -c 33 "$scratch/text" >"$scratch/beginning"
evaluate "${model[@]}" --data "$scratch/beginning" --by-position >"$scratch/window"
python3 - "$scratch/window" "$scratch/beginnings" "$positions" "$one" <<'END'
import json, sys
window, text, plain = json.load(open(sys.argv[1])), json.loads(sys.argv[3]), json.loads(sys.argv[4])
names = ["loss_at_0", "loss_at_1", "loss_at_2_3", "loss_at_4_7", "loss_at_8_15", "loss_at_16_31"]
cost, tokens = 0, 0
for name, line in zip(names, open(sys.argv[2])):
    whole = json.loads(line)
    mean = (whole["loss"] * whole["tokens"] - cost) / (whole["tokens"] - tokens)
    assert abs(window[name] - mean) < 1e-5, (name, window[name], mean)
    cost, tokens = whole["loss"] * whole["tokens"], whole["tokens"]
for result in window, text:
    assert [name for name in result if name.startswith("loss_at_")] == names
full, rest = divmod(text["tokens"], 32)
sizes = [1, 1, 2, 4, 8, 16]
counts = [full * size + max(0, min(rest - first, size)) for size, first in zip(sizes, [0, 1, 2, 4, 8, 16])]
assert abs(sum(n * text[name] for n, name in zip(counts, names)) / text["tokens"] - text["loss"]) < 1e-6
assert {name: text[name] for name in plain} == plain
END
result $? "--by-position: the ranges are those of every window, and change nothing else"
eval_fails 1 "--by-position has no effect on" "${model[@]}" --data "$scratch/pairs" --by-position

eval_fails 2 "no MODEL given" --data "$scratch/text"
eval_fails 2 "pass --data=PATH" gpt2
eval_fails 2 "expected an integer from 1 to" gpt2 --data "$scratch/text" --batch 0
eval_fails 1 "no tokenizer.json" gpt2 --data "$scratch/text"
eval_fails 1 "257 tokens, but the model" gpt2 --set vocab=100 --tokenizer bytes --data "$scratch/text"
eval_fails 1 "cannot be read" "${model[@]}" --data "$scratch/none"
eval_fails 1 "has no such option" "${model[@]}" --set steps=3 --data "$scratch/text"
eval_fails 1 "nor a valid checkpoint" "$scratch" --data "$scratch/text"
eval_fails 1 "--split has no effect" "${model[@]}" --data "$scratch/text" --split val
eval_fails 1 "--tokenizer has no effect" "${model[@]}" --data "$scratch/folder"
eval_fails 1 "token ids up to 256" gpt2 --set vocab=100 --data "$scratch/folder" --split train
eval_fails 1 "no token files for val" gpt2 --data "$scratch/folder"
eval_fails 1 "not a regular file" "${model[@]}" --data /dev/null
printf x >"$scratch/short"
eval_fails 1 "fewer than two tokens" "${model[@]}" --data "$scratch/short"

# refused TEXT LINE: a third line that is none
refused() {
    { head -n 2 "$scratch/choices" && echo "$2"; } >"$scratch/items"
    eval_fails 1 "items:3:$1" "${model[@]}" --data "$scratch/items"
}
refused " unknown field \"answer\"" '{"query": "a", "choices": ["b", "c"], "gold": 0, "answer": 1}'
refused " gold must be" '{"query": "a", "choices": ["b", "c"], "gold": 2}'
refused " gold must be" '{"query": "a", "choices": ["b", "c"], "gold": "0"}'
refused " query must be" '{"query": "a", "choices": ["b"], "gold": 0}'
refused " query must be" '{"choices": ["b", "c"], "gold": 0}'
refused " a choice must be" '{"query": "a", "choices": ["b", ""], "gold": 0}'
refused " a pair among items" '{"sentence_good": "a", "sentence_bad": "b"}'
refused " neither an item" '{"text": "a"}'
refused " neither an item" '[1, 2]'
refused "" '{"query": '

# A run's own task: the scores that training ended with.
small=(--set layers=1 --set width=32 --set heads=2 --set batch=4 --set context=64 --set steps=3 --set eval_samples=10)
"$weft" data prepare "$scratch/text" --out "$scratch/data" --val 0.2 --tokenizer char >/dev/null
for task in recall 'mqar vocab=80' 'fuzzy fuzzy_noise=0.3' 'entailment dtype=f32' "text data=$scratch/data"; do
    run="$scratch/runs/${task%% *}"
    read -ra settings <<<"task=$task"
    trained=$("$weft" train gpt2 "${small[@]}" "${settings[@]/#/--set=}" --out "$run" --json 2>/dev/null)
    scored=$(evaluate "$run")
    python3 - "$trained" "$scored" <<'END'
import json, sys
trained, scored = map(json.loads, sys.argv[1:])
floor = [] if trained["task"] == "text" else ["floor_loss", "best_accuracy", "chance_accuracy"]
for name in ["task", "eval_loss", "accuracy", "test_loss", "test_accuracy", "weights_sha256"] + floor:
    assert trained[name] == scored[name], name
END
    result $? "${task%% *}: a run is scored on its own task as at the end of training"
    [[ -n $scored && $(evaluate "$run/step-000000003" --batch 3 --threads 3) == "$scored" ]]
    result $? "${task%% *}: so is its checkpoint, with a different batch size and number of threads"
done
[[ $(evaluate "$scratch/runs/fuzzy" --set fuzzy_noise=0.875 | field best_accuracy) == 0.25 ]]
result $? "the floor is computed from the scored samples"
[[ $(evaluate "$scratch/runs/recall" --set eval_samples=20 | field samples) == 20 ]]
result $? "options of the task can be set"
eval_fails 1 "--split has no effect without --data" "$scratch/runs/recall" --split val
eval_fails 1 "--tokenizer has no effect without --data" "$scratch/runs/recall" --tokenizer bytes
eval_fails 1 "--by-position has no effect without --data" "$scratch/runs/recall" --by-position

# A context longer than in training: 64 tokens. Learned positions wrap around.
head -c 64 "$scratch/text" >"$scratch/beginning"
for pos in learned relative rope alibi; do
    "$weft" train gpt2 "${small[@]}" --set pos=$pos --set task=text --set "data=$scratch/data" --out "$scratch/runs/$pos" >/dev/null 2>&1
    short=$(evaluate "$scratch/runs/$pos" --data "$scratch/beginning" | field loss)
    [[ -n $short && $(evaluate "$scratch/runs/$pos" --data "$scratch/beginning" --set context=200 | field loss) == "$short" ]]
    result $? "$pos: the first tokens cost the same at a longer context"
    long=$(evaluate "$scratch/runs/$pos" --data "$scratch/text" --set context=200 --by-position)
    [[ -n $(field loss_at_128_255 <<<"$long") && $(field context <<<"$long") == 200 ]]
    result $? "$pos: later positions are also scored"
    [[ $pos == rope || $pos == alibi || $(<"$scratch/log") == *": resized to a context of 200 tokens, for which the model was not trained"* ]]
    result $? "$pos: the message names the extended weights"
done
eval_fails 1 "match no weight of this model" "$scratch/runs/learned" --data "$scratch/text" --set context=200 --set width=64
eval_fails 1 "does not match the model" "$scratch/runs/rope" --data "$scratch/text" --set context=200 --set width=64
eval_fails 1 "lacks weights of the model: wpe" "$scratch/runs/rope" --data "$scratch/text" --set context=200 --set pos=learned
eval_fails 1 "there is no option" "$scratch/runs/recall" --set nonsense=1
rev "$scratch/text" >"$scratch/reversed" && mv "$scratch/data" "$scratch/moved" &&
    "$weft" data prepare "$scratch/reversed" --out "$scratch/data" --val 0.2 --tokenizer char >/dev/null
eval_fails 1 "the data is not the data that" "$scratch/runs/text"
rm -r "$scratch/data"
eval_fails 1 "$scratch/data cannot be read" "$scratch/runs/text"
[[ $(evaluate "$scratch/runs/text" --data "$scratch/moved" | field kind) == text ]]
result $? "with --data a run of the task text needs no data of its own"

# Non-finite weights, or weights so large that the loss is not finite.
poison() { # MODEL FOLDER VALUE: a copy without hashes, whose embedding is all of this value
    cp -r "$1" "$2" && rm "$2/optimizer.safetensors" && python3 - "$2/model.safetensors" "$3" <<'END'
import json, struct, sys
path, value = sys.argv[1:]
file = open(path, "rb").read()
size = struct.unpack("<Q", file[:8])[0]
header = json.loads(file[8 : 8 + size])
del header["__metadata__"]
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
data = bytearray(file[8 + size :])
begin, end = header["wte"]["data_offsets"]
for at in range(begin, end, 4):
    data[at : at + 4] = struct.pack("<f", float(value))
open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
END
}
poison "$scratch/runs/recall/step-000000003" "$scratch/nan" nan
eval_fails 1 "is not finite at element 0" "$scratch/nan"
poison "$scratch/runs/text/step-000000003" "$scratch/large" 1e38
eval_fails 1 "the model's loss is not finite" "$scratch/large" --data "$scratch/moved"
poison "$scratch/runs/recall/step-000000003" "$scratch/large-too" 1e38
eval_fails 1 "the model's loss is not finite" "$scratch/large-too"

# A model and its logits that are not ours.
name="a known model has the loss that PyTorch's logits give"
if [[ -n ${WEFT_DATA:-} ]]; then
    mkdir "$scratch/known"
    loss=$(python3 tests/cli/eval_gpt2.py "$WEFT_DATA" "$scratch/known") &&
        "$weft" show gpt2 --config --set layers=2 --set width=32 --set heads=2 --set vocab=61 --set context=16 \
            --set ffn_width=64 --set dtype=f32 --set steps=7 >"$scratch/known/config.json" &&
        near "$(evaluate "$scratch/known" --data "$scratch/known/tokens.bin" | field loss)" "$loss" 1e-6
    result $? "$name"
    mkdir -p "$scratch/run/step-000000009" && cp -r "$scratch/known" "$scratch/run/step-000000007" &&
        near "$(evaluate "$scratch/run" --data "$scratch/known/tokens.bin" | field loss)" "$loss" 1e-6 &&
        grep -qF "skipping the damaged checkpoint" "$scratch/log"
    result $? "a run's newest good checkpoint is scored"
    cp "$WEFT_DATA/gpt2-bpe/encoder.json" "$scratch/known/tokenizer.json"
    "$weft" data prepare "$scratch/text" --out "$scratch/chars" --val 0 --tokenizer char >/dev/null
    eval_fails 1 "not prepared with the model's tokenizer" "$scratch/known" --data "$scratch/chars" --split train
    for file in blimp/blimp_first100.jsonl evals/hellaswag_val_first1000.jsonl; do
        head -n 100 "$WEFT_DATA/$file" >"$scratch/items"
        [[ $(evaluate "${model[@]}" --data "$scratch/items" | field items) == 100 ]]
        result $? "items of $file are read"
    done
else
    echo "ok $((++tap_number)) - $name # SKIP WEFT_DATA is not set"
fi
finish
