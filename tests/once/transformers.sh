#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# transformers.sh - models that cross between Hugging Face's transformers and Weft (tests/export/parity.py).
set -u
weft=$(realpath "${WEFT:-build/weft}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python=$(tools/venv.sh torch==2.13.0 transformers==5.23.0 numpy==2.2.6 2>"$scratch/why") || { echo "skip: $(cat "$scratch/why")"; exit 77; }
library=$(dirname "$(readlink -f "$weft")")/libweft.so.0
HF_HUB_OFFLINE=1 "$python" tests/export/parity.py "$weft" "$library" "$scratch"
