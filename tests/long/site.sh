#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# site.sh - `make site` builds a page for every Markdown file of docs/ and the top folder, all links and anchors of the
# result lead somewhere, and nothing is loaded from other sites. A page that the table of contents leaves out and a link
# that leads nowhere are errors. Needs mkdocs from PyPI; without it, it is skipped.
set -u
source tests/tap
source tests/howto/page
copy_tree
build=$(realpath "${WEFT_BUILD:-build}")
mkdir -p "$build/venv" && ln -s "$build/venv" "$work/build/venv"
cd "$work" || exit 1

site() { make --no-print-directory BUILD=build site >log 2>&1; }

site
status=$?
((status == 0)) || ! grep -q '^cannot install' log || { echo "skip: $(grep '^cannot install' log)"; exit 77; }
result $status "make site builds it"
((status == 0)) || sed 's/^/# /' log

found=$(tests/long/site_links.py build/site)
[[ $(wc -l <<<"$found") == 1 ]]
result $? "its links and anchors exist: $(tail -n 1 <<<"$found")"
sed '$d; s/^/# /' <<<"$found"

missing=$(for page in *.md docs/*.md docs/howto/*.md; do
    html=${page%.md}.html
    [[ -e build/site/${html/README/index} ]] || echo "$page"
done)
[[ -z $missing ]]
result $? "every page is in it $missing"

grep -q '<code>examples</code>' build/site/index.html
result $? "without an address of the repository, a file is named as code"
echo 'repository-code: "https://example.org/weft"' >>CITATION.cff
site && grep -q '<a href="https://example.org/weft/blob/HEAD/examples">' build/site/index.html
result $? "with an address, it is a link"

# refused NAME PATTERN: the site is not built, and the log names the reason.
refused() {
    ! site && grep -q "$2" log
    local status=$?
    result $status "$1"
    ((status == 0)) || sed 's/^/# /' log
}

echo '# Left out' >docs/left-out.md
refused "a page that is not in the table of contents is an error" 'docs/left-out.md'
rm docs/left-out.md
cp docs/ops.md ops.saved
echo 'See [nothing](nothing.md).' >>docs/ops.md
refused "a link to a file that does not exist is an error" 'nothing.md'
cp ops.saved docs/ops.md
echo 'See [nothing](data.md#nothing).' >>docs/ops.md
refused "a link to a heading that does not exist is an error" '#nothing'
cp ops.saved docs/ops.md
sed -i 's|(docs/ops.md)|(docs/opps.md)|' README.md
refused "a page in the table of contents that does not exist is an error" 'docs/opps.md'
finish
