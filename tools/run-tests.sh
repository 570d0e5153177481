#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# run-tests.sh test... - runs tests, which are programs or scripts, and counts the results. One test per core runs at a
# time (WEFT_JOBS sets the number), with its share of the cores unless the test says how many threads it wants: threads
# that wait for one another are slow where others run too. A test that measures time has "run-tests: alone" in a
# comment; such tests run one by one at the end, with all cores.
#
# Tests that print TAP lines ("ok 3 - name", "not ok 4 - name" or "FAIL name", "... # SKIP why") are counted by line,
# others by exit status: 0 passed, 77 skipped. A test that fails without such a line counts as one failure. Only
# failures and skips are shown, failures again at the end. The last line is the total; if WEFT_TOTALS is set, "passed
# failed skipped" is also appended to that file. WEFT_WRAP is a command to run programs (not scripts) with, such as
# valgrind.
set -u

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
passed=0 failed=0 skipped=0
failures=()
SECONDS=0
limit=${WEFT_TEST_TIMEOUT:-900}
jobs=${WEFT_JOBS:-$(nproc)}
export CMOCKA_MESSAGE_OUTPUT=TAP
unset MAKEFLAGS MAKELEVEL MFLAGS # a test that calls make starts from a clean environment

# run TEST LOG: standard input is empty, so that the test cannot wait for input.
run() {
    local wrap= start=$EPOCHREALTIME
    [[ $1 == *.sh ]] || wrap=${WEFT_WRAP:-}
    # shellcheck disable=SC2086 # the wrap is a command with arguments
    timeout -k 10 "$limit" $wrap "$1" </dev/null >"$2" 2>&1
    echo "$? $(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $start }")" >"$2.status"
}

# report TEST LOG: counts and prints.
report() {
    local log=$2 status seconds s f p
    read -r status seconds <"$log.status"
    count() { grep -cE "$1" "$log"; }
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
    printf '%-48s %4d passed %3d failed %3d skipped %7s s\n' "$1" $p $f $s "$seconds"
    if ((f)); then
        failures+=("$1 $log")
        sed 's/^/    /' "$log"
        ((status == 124)) && echo "    stopped after $limit s"
    elif ((s)); then
        sed -nE 's/^(not )?ok *[0-9]* *-? *(.*)# SKIP */    skip: \2/p; s/^skip/    skip/p' "$log"
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# Whether a test must run alone. The source of build/release/tests/unit/x (or x_v3) is tests/unit/x.c.
is_alone() {
    local source=$1
    [[ $1 == *.sh ]] || source=tests/${1#*/tests/}.c
    [[ -e $source ]] && grep -q 'run-tests: alone' "$source"
}

# run_all JOBS TEST...: reports in list order.
run_all() {
    local most=$1 test started=0 reported=0 running=0
    local -a list logs_of
    shift
    list=("$@")
    while ((reported < ${#list[@]})); do
        while ((running < most && started < ${#list[@]})); do
            logs_of[started]=$(mktemp -p "$logs")
            run "${list[started]}" "${logs_of[started]}" &
            started=$((started + 1)) running=$((running + 1))
        done
        wait -n && true
        running=$((running - 1))
        while ((reported < started)) && [[ -s ${logs_of[reported]}.status ]]; do
            report "${list[reported]}" "${logs_of[reported]}"
            reported=$((reported + 1))
        done
    done
}

together=() alone=()
for test in "$@"; do
    if is_alone "$test"; then alone+=("$test"); else together+=("$test"); fi
done
share=$(($(nproc) / jobs > 0 ? $(nproc) / jobs : 1))
((${#together[@]} == 0)) || OMP_NUM_THREADS=${OMP_NUM_THREADS:-$share} run_all "$jobs" "${together[@]}"
((${#alone[@]} == 0)) || run_all 1 "${alone[@]}"

[[ -z ${WEFT_TOTALS:-} ]] || echo "$passed $failed $skipped" >>"$WEFT_TOTALS"
echo "took $SECONDS s"
for failure in "${failures[@]}"; do
    echo "failed: ${failure% *}, the end of what it printed:"
    tail -n 20 "${failure##* }" | sed 's/^/    /'
done
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
