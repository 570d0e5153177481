#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check.sh [pytest arguments...] - checks the Python package: style, types, tests. `make check-python` runs it.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$(tools/venv.sh)
cd python
"$python" -m ruff check --quiet .
"$python" -m ruff format --check --quiet .
"$python" -m mypy
results=$(mktemp)
trap 'rm -f "$results"' EXIT
status=0
"$python" -m pytest -q --durations=10 "$@" | tee "$results" || status=$?
count() { tail -n 1 "$results" | grep -oE "[0-9]+ $1" | grep -oE '[0-9]+' || echo 0; }
[[ -z ${WEFT_TOTALS:-} ]] || echo "$(count passed) $(($(count failed) + $(count error))) $(count skipped)" >>"$WEFT_TOTALS"
exit $status
