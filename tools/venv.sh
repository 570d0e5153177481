#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# venv.sh PACKAGE==VERSION... - creates a virtual environment with these Python packages under $WEFT_BUILD/venv
# (build/venv if not set), once, and prints the path of its python. If this fails or takes longer than five minutes, it
# prints why and exits with 77, which tests report as skipped.
set -u

folder=$(realpath -m "${WEFT_BUILD:-build}/venv/$(IFS=+ && echo "${*//==/-}")")
mkdir -p "${folder%/*}"
exec 9>"$folder.lock" && flock 9 # tests that run side by side want the same
if [[ ! -x $folder/bin/python ]]; then
    new=$(mktemp -d "$folder.XXXXXX") # renamed when complete
    trap 'rm -rf "$new"' EXIT
    {
        timeout 60 python3 -m venv "$new" &&
            timeout 300 "$new/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --retries 1 \
                --only-binary :all: "$@" && mv -T "$new" "$folder"
    } >"$folder.log" 2>&1 || {
        echo "cannot install $* from PyPI: $(grep -v '^WARNING' "$folder.log" | tail -n 1)" >&2
        exit 77
    }
fi
echo "$folder/bin/python"
