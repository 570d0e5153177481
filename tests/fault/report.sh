#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# report.sh - whichever call fails while a report is written, its three files are all old or all new.
# run-tests: 4 s
set -u
source tests/tap
shim=$(realpath "${WEFT_BUILD:-build}/release/tests/fault/shim.so")
use_scratch

python3 tests/cli/study.py "$scratch/old" 2
cp -r "$scratch/old" "$scratch/new"
sed -i 's/"machine": "/&another /' "$scratch/new/study.json"
sed -i 's/"tokens_per_s": [^,}]*/"tokens_per_s": 7.5/g' "$scratch/new/runs.jsonl"
for which in old new; do "$weft" report "$scratch/$which" >/dev/null; done
reports() { cat "$scratch/$1"/report.{html,md,csv} 2>/dev/null | sha256sum; }
old=$(reports old)
new=$(reports new)

# try HOW N REPORTS: with the new study in a folder that has these reports, or none.
try() {
    rm -rf "$scratch/study" "$scratch/study.failed"
    cp -r "$scratch/new" "$scratch/study" && rm "$scratch"/study/report.*
    [[ $3 != old ]] || cp "$scratch"/old/report.* "$scratch/study"
    LD_PRELOAD=$shim WEFT_FAULT_UNDER=$scratch/study WEFT_FAULT_AT=$2 WEFT_FAULT_HOW=$1 "$weft" report "$scratch/study" >/dev/null 2>&1
}
none=$(sha256sum </dev/null)
for how in fail full; do
    for before in old none; do
        bad='' n=0
        while ((++n < 100)); do
            try $how $n $before
            status=$?
            [[ -e $scratch/study.failed ]] || break
            after=$(reports study)
            [[ $after == "$new" || ($after == "${!before}" && $status == 1) ]] || bad+=" $n"
        done
        ((n > 10)) && [[ -z $bad && $status == 0 ]]
        result $? "$how at each of $((n - 1)) calls, over $before reports: all or none${bad:+; not so at call$bad}"
    done
done
finish
