#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# links.sh - in every Markdown file, relative links lead to files and headings that exist, and `weft COMMAND` names a
# command that exists. Links to other sites are not checked. README.md lists every page of the documentation.
# run-tests: 2 s
set -u
source tests/tap

pages() { find . -name '*.md' ! -path './build/*' ! -path './third_party/*' ! -path './studies/*' ! -path './runs/*' | sort; }
prose() { awk '/^```/ { code = !code; next } !code' "$1"; }

# Targets of links; one may be written over two lines.
links() { prose "$1" | tr '\n' ' ' | sed 's/`[^`]*`//g' | grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//' | grep -vE '^[a-z]+:'; }

# Headings as they are linked to: in lower case, without punctuation, with hyphens for spaces.
anchors() { prose "$1" | sed -nE 's/^#+ +//p' | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'; }

broken_links() { # PAGE
    local link file anchor
    while read -r link; do
        file=${link%%#*} anchor=
        [[ $link != *'#'* ]] || anchor=${link#*#}
        if [[ -n $file ]]; then file=$(dirname "$1")/$file; else file=$1; fi
        if [[ ! -e $file ]]; then
            echo "$1: ($link): there is no such file"
        elif [[ -n $anchor ]] && ! anchors "$file" | grep -qxF "$anchor"; then
            echo "$1: ($link): there is no such heading"
        fi
    done < <(links "$1")
}

# Commands in inline code, and at the beginning of a line of code.
named_commands() {
    grep -oE '`(build/)?weft [a-z]+|^( {4})?(build/)?weft [a-z]+' "$1" | sed 's/.*weft //' | sort -u
}

unknown_commands() { # PAGE
    local command
    while read -r command; do
        grep -qxF "$command" <<<"$commands" || echo "$1: weft $command: there is no such command"
    done < <(named_commands "$1")
}

commands=$("$weft" help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
grep -qx train <<<"$commands"
result $? "weft help lists the commands"

for page in $(pages); do
    found=$(broken_links "$page"; unknown_commands "$page")
    [[ -z $found ]]
    result $? "$page: links and commands exist"
    [[ -z $found ]] || sed 's/^/# /' <<<"$found"
done

# The table is also that of the site, see tools/site/pages.py.
listed=$(sed -n '/^## Documentation/,/^## References/p' README.md | grep -oE '\]\([^)]+\.md\)' | sed 's/^](//; s/)$//' | sort)
found=$(diff <(sort -u <<<"$listed") <(ls ./*.md docs/*.md docs/howto/*.md | sed 's|^\./||; /^README.md$/d' | sort) | grep '^[<>]'
    uniq -d <<<"$listed")
[[ -z $found ]]
result $? "README.md: the table under Documentation lists every page once"
[[ -z $found ]] || sed 's/^/# /' <<<"$found"
finish
