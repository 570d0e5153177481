#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# hashes.sh - checks every op on some of its cases with the aarch64 build in an emulator, and trains combinations of
# options, which must have the same bits as with the build for this machine. The emulator is about 200 times slower, so
# one of WEFT_EVERY combinations is used. WEFT_MODELS names presets whose recorded hashes are also compared (make
# long-aarch64).
# run-tests: aarch64 141 s
set -u
source tests/tap
here=${WEFT_BUILD:-build}/release/weft
every=${WEFT_EVERY:-32}
ops=$(mktemp)
trap 'rm -f "$ops"' EXIT
there() { ${WEFT_WRAP:-} "$WEFT" "$@" 2>/dev/null; }

[[ -x $here ]] || { echo "skip: there is no $here to compare with" && exit 77; }
there check --every 16 --json >"$ops" & # in parallel with the others, because it takes most of the time
wanted=$("$here" check --hashes --pairs --every "$every" --json 2>/dev/null | field sha256)
json=$(there check --hashes --pairs --every "$every" --json)
[[ ${#wanted} == 64 && $(field sha256 <<<"$json") == "$wanted" ]]
result $? "the bits of this machine: $json"
wait $!
result $? "every op, its first case and one of 16: $(cat "$ops")"
for model in ${WEFT_MODELS:-}; do
    json=$(there check --hashes --model "$model" --json)
    result $? "recorded hashes of $model: $json"
done
finish
