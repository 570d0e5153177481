#compdef weft
# SPDX-License-Identifier: MIT
#
# Completion of weft for zsh. The program knows what fits: `weft --complete WORD...` prints it.

_weft() {
    local -a lines plain open
    local line word help paths
    lines=("${(@f)$("${(Q)words[1]}" --complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for line in $lines; do
        word=${line%%$'\t'*}
        help=${line#"$word"} help=${help#$'\t'}
        case $word in
        :files) paths=(_files) ;;
        :folders) paths=(_files -/) ;;
        *=) open+=("${word//:/\\:}:$help") ;;
        *) plain+=("${word//:/\\:}${help:+:$help}") ;;
        esac
    done
    (($#plain)) && _describe -t values weft plain
    (($#open)) && _describe -t settings setting open -S ''
    if [[ -n $paths ]]; then
        compset -P '*='
        $paths
    fi
}

_weft "$@"
