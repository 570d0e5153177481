#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tokenizers.sh - tokenizers of Hugging Face's models, against PyPI's tokenizers (tests/export/tokens.py).
set -u
weft=$(realpath "${WEFT:-build/weft}")
[[ -f ${WEFT_DATA:-}/se-prose/train.txt ]] || { echo "skip: no prose in WEFT_DATA"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python=$(tools/venv.sh tokenizers==0.23.3 numpy==2.2.6 2>"$scratch/why") || { echo "skip: $(cat "$scratch/why")"; exit 77; }
library=$(dirname "$(readlink -f "$weft")")/libweft.so.0
"$python" tests/export/tokens.py "$library" "$WEFT_DATA" "$scratch"
