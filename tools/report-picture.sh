#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# report-picture.sh REPORT.html PICTURE.png - the picture in README.md: the verdicts and the first chart of a report.
# Run it on studies/recall-quick/report.html when the look or the words of reports change. Needs Debian's chromium.
set -eu
[ $# = 2 ] || { echo "usage: $0 REPORT.html PICTURE.png" >&2; exit 2; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$1" "$scratch/page.html"
cat >>"$scratch/page.html" <<'END'
<style>
h1, h2, nav, p, details, .notes, .legend, .chart ~ * { display: none !important; }
.verdicts { margin-bottom: 1.5rem; }
</style>
END
# A sandbox does not work for root, as in containers.
root=()
[ "$(id -u)" != 0 ] || root=(--no-sandbox)
chromium --headless "${root[@]}" --disable-gpu --hide-scrollbars --window-size=1300,612 \
    --screenshot="$scratch/picture.png" "file://$scratch/page.html" 2>"$scratch/log" >&2 || { cat "$scratch/log" >&2; exit 1; }
mv "$scratch/picture.png" "$2"
