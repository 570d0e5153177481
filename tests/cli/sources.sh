#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The figures of docs/sources.md that are fields of `weft show`: a row has the command, then `FIELD` VALUE.
# run-tests: 1 s
set -u
source tests/tap

rows=0
while IFS='|' read -r _ number _ command figure _; do
    command=$(sed -n 's/^ *`weft \(show [^`]*--json\)`.*/\1/p' <<<"$command")
    [[ -n $command ]] || continue
    field=$(sed -n 's/^ *`\([a-z_0-9]*\)` .*/\1/p' <<<"$figure")
    wanted=$(sed -n 's/^ *`[a-z_0-9]*` \([-0-9.e+]*\).*/\1/p' <<<"$figure")
    # shellcheck disable=SC2086
    got=$("$weft" $command 2>/dev/null | sed -n "s/.*\"$field\": \([-0-9.e+]*\).*/\1/p")
    [[ -n $wanted && $got == "$wanted" ]]
    result $? "promise$number: $field is $wanted (weft $command: ${got:-nothing})"
    rows=$((rows + 1))
done < <(grep '^| [0-9]' docs/sources.md)

((rows >= 10))
result $? "$rows rows have a figure of weft show"
[[ $(grep -c '^| [0-9]' docs/sources.md) == 75 ]]
result $? "75 promises"
finish
