#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# report-picture.sh [REPORT.html [PICTURE.png]] - renders the picture in README.md, docs/report.png: the finding, the
# verdicts and the first chart of a report. Without arguments it builds Weft and trains configs/recall-quick, unless
# studies/ already has it; that takes a few minutes. Run it when the design or the wording of reports changes. Needs
# Debian's chromium.
set -eu
cd "$(dirname "$0")/.."
study=studies/recall-quick
[ $# -le 2 ] || { echo "usage: $0 [REPORT.html [PICTURE.png]]" >&2; exit 2; }
page=${1:-$study/report.html}
picture=${2:-docs/report.png}
chromium=$(command -v chromium || command -v chromium-browser) || { echo "$0: chromium is missing: apt install chromium" >&2; exit 1; }

if [ $# = 0 ]; then
    make build
    # Writes the page; trains what is missing.
    build/weft report $study --json 2>/dev/null | grep -q '"runs": \([0-9]*\), "runs_planned": \1[,}]' ||
        build/weft ablate --config configs/recall-quick --out $study
fi
[ -f "$page" ] || { echo "$0: there is no $page: \`weft report\` writes it" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$page" "$scratch/page.html"
cat >>"$scratch/page.html" <<'END'
<style>
body { padding-bottom: 0; }
nav, h2, main > p, details, .legend, .chart ~ * { display: none !important; }
.verdicts { margin: 1rem 0 1.5rem; }
.chart { margin: 0; }
</style>
END
# The sandbox does not work for root, for example in containers.
root=()
[ "$(id -u)" != 0 ] || root=(--no-sandbox)
timeout 120 "$chromium" --headless "${root[@]}" --disable-gpu --hide-scrollbars --user-data-dir="$scratch/profile" \
    --window-size=1200,990 --screenshot="$scratch/picture.png" "file://$scratch/page.html" 2>"$scratch/log" >&2 ||
    { cat "$scratch/log" >&2; exit 1; }
[ -s "$scratch/picture.png" ] || { echo "$0: chromium took no picture:" >&2; cat "$scratch/log" >&2; exit 1; }
mv "$scratch/picture.png" "$picture"
echo "$picture: $(stat -c %s "$picture") bytes"
