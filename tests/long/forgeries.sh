#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# forgeries.sh - the results of report, publish, compare and audit for forged studies whose forger recomputes all hashes
# (forgeries.py). Prints a line of JSON for each.
set -u
source tests/fault/tiny

study study 20 RECALL_LENGTH=8 SEEDS=3 && study more 20 RECALL_LENGTH=8 SEEDS=3 SEED=4 &&
    study other 20 RECALL_LENGTH=8 SEEDS=3 FFN_WIDTH=24 && study looks 20 RECALL_LENGTH=8 LOOKS='"3,4"' &&
    study screened 20 RECALL_LENGTH=8 SEEDS=2 SCREEN_SEEDS=1 LRS='"1e-3 2e-3 4e-3"' || exit 1
printf 'CONFIG_WEFT_%s\n' PRESET='"gpt2"' ARMS='"dot: | m1: m1=yes m1_mode=sequence"' LAYERS=2 WIDTH=16 HEADS=2 CONTEXT=16 \
    BATCH=4 WARMUP=5 EVAL_SAMPLES=8 RECALL_LENGTH=8 SEEDS=2 >failing.config
echo 'CONFIG_GPT2_MAX_ITERS=20' >>failing.config
"$weft" ablate --config failing.config --out failing --unsafe --threads 2 >/dev/null 2>err || { cat err && exit 1; }
seq 3000 >input.txt && "$weft" data prepare input.txt --tokenizer char --out tokens >/dev/null 2>&1 &&
    study texts 20 SEEDS=2 TASK='"text"' DATA='"data/books"' STAND_IN='"tokens"' VOCAB=16 || exit 1
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here/tests/cli:$here/tests/fault python3 "$here/tests/long/forgeries.py" "$weft" "$scratch" "$@"
