#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# hashes.sh - the AMX code, with its instructions emulated in C, trains small models to the same bits as every machine.
# run-tests: emulated 150 s
set -u
source tests/tap
weft=${WEFT:-build/emulated/weft}

if [[ $("$weft" version --json | field isa) != amx ]]; then
    skip "hashes on emulated AMX" "the rest of this code needs AVX-512"
    finish
fi
json=$("$weft" check --hashes --json)
result $? "emulated AMX has the bits of every machine: $json"
finish
