#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# run-tests.sh test... - runs each test, a program or script, and counts.
#
# A test that prints lines as TAP does ("ok 3 - name", "not ok 4 - name" or "FAIL name", "... # SKIP why") counts by
# them, any other by its exit status: 0 passed, 77 skipped. A test that fails without such a line is one failure. Only
# failures and skips are shown. The last line is the total; with WEFT_TOTALS set, "passed failed skipped" is also appended to that file.
# WEFT_WRAP is put before the programs (not the scripts), e.g. valgrind.
set -u

log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0
SECONDS=0
export CMOCKA_MESSAGE_OUTPUT=TAP
export OMP_WAIT_POLICY=passive # tests use more threads than there are cores: waiting must not spin
unset MAKEFLAGS MAKELEVEL MFLAGS # a test that calls make does so as a person would

run() { # TEST: its output goes to $log; its own stdin is empty, so that nothing waits for a person
    local wrap=
    [[ $1 == *.sh ]] || wrap=${WEFT_WRAP:-}
    # shellcheck disable=SC2086 # the wrap is a command with arguments
    timeout "${WEFT_TEST_TIMEOUT:-900}" $wrap "$1" </dev/null >"$log" 2>&1
}

count() { grep -cE "$1" "$log"; }

for test in "$@"; do
    start=$EPOCHREALTIME
    run "$test"
    status=$?
    seconds=$(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $start }")
    s=$(count '^(not )?ok\>.*# SKIP')
    f=$(($(count '^(not ok|FAIL)\>') - $(count '^not ok\>.*# SKIP')))
    p=$(($(count '^ok\>') - $(count '^ok\>.*# SKIP')))
    if ((status == 77)); then
        ((p + f + s)) || s=1
    elif ((status != 0)); then
        ((f)) || f=1
    elif ((p + f + s == 0)); then
        p=1
    fi
    printf '%-48s %4d passed %3d failed %3d skipped %7s s\n' "$test" $p $f $s "$seconds"
    if ((f)); then
        sed 's/^/    /' "$log"
        ((status == 124)) && echo "    stopped after ${WEFT_TEST_TIMEOUT:-900} s"
    elif ((s)); then
        grep -E '# SKIP|^skip' "$log" | sed 's/^/    /'
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done

[[ -z ${WEFT_TOTALS:-} ]] || echo "$passed $failed $skipped" >>"$WEFT_TOTALS"
echo "took $SECONDS s"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
