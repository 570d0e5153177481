#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# presets.sh - all gates pass on every preset, in f32 and bf16.
set -u
source tests/tap

json=$("$weft" verify --json 2> >(sed -u 's/^/# /' >&2))
status=$?
echo "# $json"
result $status "weft verify"
python3 -c 'import json, sys; r = json.loads(sys.argv[1]); sys.exit(not (r["checks"] > 0 and r["failed"] == 0))' "$json"
result $? "no gate failed on any preset"
finish
