#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# compilers.sh - builds by clang, and by gcc with -O1, train all small models to the recorded bits, and combinations with
# all pairs of option values to the bits of the build under test.
set -u
source tests/tap
build=${WEFT_BUILD:-build}

wanted=$("$weft" check --hashes --pairs --json 2>/dev/null | field sha256)
compare() { # NAME ARGUMENTS-OF-MAKE...
    local name=$1 program=$build/$1/release/weft json
    make --no-print-directory BUILD="$build/$1" "${@:2}" build >"$build/$1.log" 2>&1
    result $? "$name: builds"
    json=$("$program" check --hashes --json 2>/dev/null)
    result $? "$name: recorded hashes: $json"
    json=$("$program" check --hashes --pairs --json 2>/dev/null)
    [[ ${#wanted} == 64 && $(field sha256 <<<"$json") == "$wanted" ]]
    result $? "$name: all pairs of choices: $json"
}
compare clang CC=clang
compare gcc-O1 OPT=-O1
finish
