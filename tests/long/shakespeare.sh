#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# shakespeare.sh - nanoGPT's larger model of Shakespeare's characters reaches a validation loss of 1.60 in 1000 steps.
set -u
source tests/tap
source tests/long/shakespeare

run=$(train layers=6 heads=6 width=384 context=256 batch=64 dropout=0.2 steps=1000)
python3 - "$run" <<'END'
import json, sys
run = json.loads(sys.argv[1])
print(json.dumps({"val_loss": run["eval_loss"], "seconds": run["seconds"], "tokens_per_s": run["tokens_per_s"]}))
sys.exit(not run["eval_loss"] <= 1.60)
END
result $? "a validation loss of at most 1.60"
finish
