#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# generated.sh - the files generated from tables are up to date, and Kconfig can read the one for it.
# run-tests: 1 s
set -u
source tests/tap
use_scratch

current() { # FILE TOPIC FORM
    "$weft" help "$2" --as "$3" | diff "$1" - >"$scratch/diff"
    result $? "$1 matches the tables; if not, run \`make generated\` and commit it"
    sed 's/^/# /' "$scratch/diff"
}
current docs/options.md options markdown
current docs/ops.md ops markdown
current configs/Kconfig options kconfig
tools/api_page.py include/weft.h | diff docs/api.md - >"$scratch/diff"
result $? "docs/api.md matches include/weft.h; if not, run \`make generated\` and commit it"
sed 's/^/# /' "$scratch/diff"

if ! command -v kconfig-conf >/dev/null; then
    result 0 "kconfig-conf reads configs/Kconfig # SKIP it is not installed (package kconfig-frontends)"
    finish
fi
for mode in alldefconfig olddefconfig allyesconfig; do
    KCONFIG_CONFIG=$scratch/config kconfig-conf --$mode configs/Kconfig >/dev/null 2>"$scratch/err" &&
        [[ ! -s $scratch/err ]] && grep -q '^CONFIG_WEFT_LAYERS=2$' "$scratch/config"
    result $? "kconfig-conf --$mode reads configs/Kconfig without warnings"
    sed 's/^/# /' "$scratch/err"
done
finish
