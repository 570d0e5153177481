# SPDX-License-Identifier: MIT
#
# Completion of weft for bash. The program knows what fits: `weft --complete WORD...` prints it.

_weft() {
    local -a words=() lines=() found=()
    local word line typed before i
    # Bash takes "attn=full" for three words.
    for ((i = 1; i <= COMP_CWORD; i++)); do
        if ((i > 1)) && [[ ${COMP_WORDS[i]} == = || ${COMP_WORDS[i - 1]} == = ]]; then
            words[${#words[@]} - 1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
    done
    word=${words[${#words[@]} - 1]}
    typed=${word##*=}          # the part that bash replaces
    before=${word%"$typed"}    # the part that it keeps
    COMPREPLY=()
    mapfile -t lines < <("${COMP_WORDS[0]}" --complete "${words[@]}" 2>/dev/null)
    for line in "${lines[@]}"; do
        line=${line%%$'\t'*}
        case $line in
        :files | :folders)
            compopt -o filenames 2>/dev/null
            [[ $line == :files ]] && i=-f || i=-d
            mapfile -t found < <(compgen $i -- "$typed")
            COMPREPLY+=("${found[@]}")
            ;;
        *)
            [[ $line != *= ]] || compopt -o nospace 2>/dev/null
            COMPREPLY+=("${line#"$before"}")
            ;;
        esac
    done
}
complete -F _weft weft
