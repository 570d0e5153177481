#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# completion.sh - the completions that TAB offers in bash, zsh and fish, as reported by these shells.
# run-tests: 2 s
set -u
source tests/tap
tree=$PWD
use_scratch

mkdir "$scratch/bin" "$scratch/here" "$scratch/here/tr-folder" "$scratch/here/gate"
ln -s "$weft" "$scratch/bin/weft"
echo '{}' >"$scratch/here/train-me.json"
cd "$scratch/here" || exit 1
PATH=$scratch/bin:$PATH

# A shell is a function that prints what TAB would offer after a line, a word per line.

in_bash() { # LINE, as bash breaks it: at spaces, and around every "="
    # shellcheck disable=SC2016 # for the inner shell
    bash --norc -c 'source "$1"
        COMP_LINE=$2 COMP_POINT=${#2}
        spaced=${2//=/ = }
        read -ra COMP_WORDS <<<"$spaced"
        [[ $spaced != *" " || $2 == *= ]] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _weft weft "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf "%s\n" "${COMPREPLY[@]}"' - "$tree/src/cmd/shell/weft.bash" "$1"
}

in_zsh() { # LINE: types it into an interactive zsh and also writes down what its completion adds
    cat >"$scratch/zshrc" <<END
unset PROMPT RPROMPT
autoload -Uz compinit
fpath=($scratch/zsh \$fpath)
compinit -u -d $scratch/zcompdump
compadd() {
    local -a found
    [[ \${@[1,(i)(-|--)]} != *-[OAD]\ * ]] || { builtin compadd "\$@"; return; }
    builtin compadd -O found "\$@"
    ((\$#found)) && print -rl -- \$found >>$scratch/matches
    builtin compadd "\$@"
}
ask() { zle complete-word; : >$scratch/asked }
zle -N ask
bindkey '^I' ask
END
    rm -f "$scratch/matches" "$scratch/asked"
    # shellcheck disable=SC2016
    timeout 60 zsh -f -c 'zmodload zsh/zpty
        zpty shell zsh -f -i
        zpty -w shell "source $1/zshrc; print READ""Y"
        zpty -r shell output "*READY*"
        zpty -w -n shell "$2"$'"'\\t'"'
        repeat 600; do [[ -e $1/asked ]] && break; sleep 0.05; done
        zpty -d shell' - "$scratch" "$1" >/dev/null 2>&1
    sort -u "$scratch/matches" 2>/dev/null
}

in_fish() { # LINE
    HOME=$scratch XDG_CONFIG_HOME=$scratch fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$tree/src/cmd/shell/weft.fish" "$1" |
        cut -f 1
}

# offers SHELL LINE WORDS: exactly these, in any order
offers() {
    local got expected
    got=$("in_$1" "$2" | sed 's|/$||' | sort -u | xargs)
    expected=$(tr ' ' '\n' <<<"$3" | sort | xargs)
    [[ $got == "$expected" ]]
    result $? "$1: \"$2\" can become: $3"
    [[ $got == "$expected" ]] || echo "# not: $got"
}

commands=$(sed -n 's/^CMD(\(.*\))/\1/p' "$tree/src/cmd/cmds.def" | xargs)
presets=$("$weft" help models | awk '{ print $1 }' | xargs)

check() { # SHELL WHOLE: bash wants only what follows the last "=", others the whole word
    local shell=$1 whole=$2
    offers "$shell" "weft " "$commands"
    offers "$shell" "weft tr" "train"
    offers "$shell" "weft train " "$presets gate tr-folder train-me.json"
    offers "$shell" "weft train gpt2-" "gpt2-124m gpt2-mini"
    offers "$shell" "weft train gpt2 --o" "--out"
    offers "$shell" "weft train gpt2 --out " "gate tr-folder"
    offers "$shell" "weft train gpt2 --set att" "attn="
    offers "$shell" "weft train gpt2 --set attn=" "${whole:+attn=}full ${whole:+attn=}latent"
    offers "$shell" "weft train gpt2 -s attn=l" "${whole:+attn=}latent"
    offers "$shell" "weft train gpt2 -s bias=" "${whole:+bias=}no ${whole:+bias=}yes"
    offers "$shell" "weft verify gpt2 --gate ca" "causal cached"
    offers "$shell" "weft data info --s" "--split"
    offers "$shell" "weft data info --split=" "${whole:+--split=}train ${whole:+--split=}val ${whole:+--split=}test"
    offers "$shell" "weft help mod" "models"
    offers "$shell" "weft version gpt" ""
}

check bash ""
for shell in zsh fish; do
    if command -v "$shell" >/dev/null; then
        [[ $shell != zsh ]] || { mkdir "$scratch/zsh" && cp "$tree/src/cmd/shell/weft.zsh" "$scratch/zsh/_weft"; }
        check "$shell" whole
    else
        echo "ok $((++tap_number)) - $shell completes # SKIP $shell is not installed: run tools/deps.sh"
    fi
done
finish
