#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# venv.sh [PACKAGE==VERSION...] - creates a virtual environment under $WEFT_BUILD/venv (build/venv if not set), once, and
# prints the path of its python. Without arguments it has the packages of tests/requirements.txt, which the tests of
# `make check` share. If this fails or takes longer than five minutes, it prints why and exits with 77, which tests report
# as skipped.
set -u

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if (($#)); then
    name=$(IFS=+ && echo "${*//==/-}") packages=("$@")
else
    name=tests-$(sha256sum "$top/tests/requirements.txt" | head -c 8) packages=(-r "$top/tests/requirements.txt")
fi
folder=$(realpath -m "${WEFT_BUILD:-build}/venv/$name")
mkdir -p "${folder%/*}"
exec 9>"$folder.lock" && flock 9 # tests that run side by side want the same
if [[ ! -x $folder/bin/python ]]; then
    new=$(mktemp -d "$folder.XXXXXX") # renamed when complete
    trap 'rm -rf "$new"' EXIT
    {
        timeout 60 python3 -m venv "$new" &&
            timeout 300 "$new/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --retries 1 \
                --no-compile --only-binary :all: "${packages[@]}" && mv -T "$new" "$folder"
    } >"$folder.log" 2>&1 || {
        echo "cannot install ${packages[*]} from PyPI: $(grep -v '^WARNING' "$folder.log" | tail -n 1)" >&2
        exit 77
    }
fi
echo "$folder/bin/python"
