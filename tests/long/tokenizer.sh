#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tokenizer.sh - ten million random byte strings (STRINGS=n sets the number) round-trip under the sanitizers.
set -u
build=${WEFT_BUILD:-build}

make -s FLAVOUR=asan BUILD="$build" "$build/asan/tests/unit/tokenizer_bytes" >/dev/null || exit 1
WEFT_STRINGS=${STRINGS:-10000000} CMOCKA_MESSAGE_OUTPUT=TAP "$build/asan/tests/unit/tokenizer_bytes"
