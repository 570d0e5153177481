#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# fineweb.sh - tools/fineweb_edu.py converts shards to token files and detects differing counts. $WEFT_DATA has GPT-2's
# vocabulary; Parquet needs pyarrow.
# run-tests: 4 s
set -u
source tests/tap
use_scratch
vocab=${WEFT_DATA:-}/gpt2-bpe/vocab.bpe
tool() { local python=$1 && shift && "$python" tools/fineweb_edu.py --weft "$weft" "$@" >"$scratch/out" 2>"$scratch/err"; }

# Texts with known numbers of GPT-2's tokens.
python3 - "$scratch/shard.jsonl" <<'END'
import json, sys
known = [("hello world", 2), ("Hello, world!\n", 5), ("a b c", 3), (" the the the", 3)]
with open(sys.argv[1], "w") as f:
    for i in range(400):
        parts = [known[(i >> k) % 4] for k in range(0, 8, 2)]
        f.write(json.dumps({"id": i, "text": " the".join(t for t, _ in parts), "token_count": sum(n for _, n in parts) + 3}) + "\n")
END

tool python3 "$scratch/shard.jsonl" --vocab 270 --out "$scratch/small" && grep -q '^documents *400 as in the shards' "$scratch/out" &&
    grep -q '^bytes .*as in the shards' "$scratch/out" && grep -q '"val_by": "hash of document"' "$scratch/small/data.json" &&
    grep -q '"vocab": 270,' "$scratch/small/data.json" && grep -q -e '--field text --val 0.005' "$scratch/out"
result $? "JSON lines with a tokenizer that is learned from them"
tool python3 "$scratch/shard.jsonl" --vocab 270 --out "$scratch/few" --documents 250 && grep -q '^documents *250 as' "$scratch/out"
result $? "only some documents"
! tool python3 "$scratch/none.jsonl" --vocab 270 --out "$scratch/none" && [[ ! -e $scratch/none ]]
result $? "a shard that is missing"
! tool python3 - --vocab 270 --out "$scratch/none" </dev/null && grep -q 'reads the text twice' "$scratch/err"
result $? "a pipe cannot be read twice"
! tool python3 "$scratch/shard.jsonl" --vocab 270 --out "$scratch/small" && ! grep -q Traceback "$scratch/err"
result $? "a folder that exists is rejected"

if [[ -r $vocab ]]; then
    tool python3 - --tokenizer "$vocab" --out "$scratch/gpt2" <"$scratch/shard.jsonl" && [[ $(grep -c 'as in the shards$' "$scratch/out") == 3 ]]
    result $? "the number of GPT-2 tokens matches the count in the shards, through a pipe"
    sed '7s/"token_count": /&1/' "$scratch/shard.jsonl" >"$scratch/wrong.jsonl"
    ! tool python3 "$scratch/wrong.jsonl" --tokenizer "$vocab" --out "$scratch/wrong" && grep -q '^tokens .*but the shards have' "$scratch/out"
    result $? "one count that differs is noticed"
else
    skip "tokens of GPT-2" "there is no $vocab"
fi

if python=$(tools/venv.sh 2>"$scratch/why"); then
    "$python" -c 'import sys, pyarrow.json as j, pyarrow.parquet as p
p.write_table(j.read_json(sys.argv[1]), sys.argv[2], row_group_size=64)' "$scratch/shard.jsonl" "$scratch/shard.parquet"
    tool "$python" "$scratch/shard.parquet" --vocab 270 --out "$scratch/parquet" && cmp -s "$scratch"/{small,parquet}/train_000000.bin
    result $? "Parquet gives the same tokens as JSON lines"
else
    skip "Parquet" "$(cat "$scratch/why")"
fi
finish
