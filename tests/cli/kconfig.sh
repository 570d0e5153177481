#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# kconfig.sh - studies from Kconfig: every defconfig means the same before and after Kconfig, and lines that Kconfig
# would silently drop are errors with line and suggestion. Runs in its own folder, because the tree may have a .config.
# run-tests: 4 s, asan 14 s
set -u
source tests/tap
use_scratch
cp -r Makefile tools configs include "$scratch"
cd "$scratch" || exit 1

say() { sed 's/^/# /' "$@"; }
study() { printf '%s\n' "$@" >study; } # LINE...: writes the config "study"
study_refuses() { refuses "$1" config study "${@:2}"; } # TEXT ARGUMENTS...
takes() { # NAME [ARGUMENT...]
    local name=$1
    shift
    "$weft" config study "$@" >out 2>err
    result $? "$name"
    say err
}

# ---- arms

study 'CONFIG_WEFT_PRESET="llama"' 'CONFIG_WEFT_ARMS="dot:  |w2 : geom=w2   spread=full "' 'CONFIG_WEFT_SEEDS=5'
takes "arms of a text"
[[ $(<out) == "study: llama, task recall; 2 arms, 5 seeds"$'\n'"  dot"*$'\n'"  w2 "*"geom=w2 spread=full" ]]
result $? "name, preset, arms and seeds are printed"
"$weft" config study --arm w2 >w2.json && "$weft" show llama --set geom=w2 --set spread=full --config | cmp -s - w2.json
result $? "an arm is the model of its settings"
"$weft" config study --arm w2 --set width=64 --set seeds=2 | grep -q '"width": 64'
result $? "the command line overrides the config"
"$weft" config study --arm w3 2>&1 | grep -qF 'study has no arm "w3": did you mean w2?'
result $? "an arm that is none"
"$weft" show study:w2 --config | cmp -s - w2.json && "$weft" show study:w2 --set width=64 --config | grep -q '"width": 64'
result $? "STUDY:ARM is that model for other commands"
"$weft" show study:w3 2>&1 | grep -qF 'study has no arm "w3": did you mean w2?' &&
    "$weft" show study:w2 --set seeds=2 2>&1 | grep -q 'seeds is a study option' && "$weft" show none:w2 2>&1 | grep -q 'none cannot be read'
result $? "an arm, an option or a study that it cannot be is rejected"
study 'CONFIG_WEFT_ARMS="a: | b: ffn=swiglu"' 'CONFIG_WEFT_MATCH="params"'
"$weft" config study --arm b | grep -q '"ffn_width": 34[0-9],' && "$weft" show study:b --config | grep -q '"ffn_width": 34[0-9],'
result $? "and has the width that matches"
study 'CONFIG_WEFT_PRESET="ra-mla"' 'CONFIG_RA_MLA_ABLATION_STEPS="0,1,2,3,4,5"'
takes "the steps of the RA-MLA study"
grep -q 'step4 .*m1=yes m2=yes m3=no; again step2' out && grep -q 'step5 .*; again step3' out
result $? "steps 4 and 5 are 2 and 3 again"
study 'CONFIG_WEFT_PRESET="w2"'
takes "a preset alone"
[[ $(tail -n 1 out) == "  w2 "* ]]
result $? "is an arm"
study '# CONFIG_WEFT_TIE is not set' 'CONFIG_OLD=1'
study_refuses 'study:2: there is no symbol CONFIG_OLD'
study 'CONFIG_WEFT_LAERS=3'
study_refuses 'study:1: there is no symbol CONFIG_WEFT_LAERS: did you mean CONFIG_WEFT_LAYERS?'
study '' 'CONFIG_WEFT_LAYERS=5000'
study_refuses 'study:2: CONFIG_WEFT_LAYERS=5000 is invalid: expected 1 to 1024'
study 'CONFIG_WEFT_GEOM="w3"'
study_refuses 'study:1: CONFIG_WEFT_GEOM=w3 is invalid: expected dot, w2, overlap; did you mean w2?'
study 'CONFIG_WEFT_PRESET="lama"'
study_refuses 'study:1: there is no preset "lama": did you mean llama?'
study 'CONFIG_WEFT_SEEDS=0'
study_refuses 'expected 1 to 1000'
study 'CONFIG_WEFT_ARMS="a: geom=dot" # CONFIG'
study_refuses 'study:1: invalid value of CONFIG_WEFT_ARMS'
for arms in '"' 'a' 'a b: geom=w2' 'a: geom=w2 | a:' 'a: geom' 'a: | ' ': x=1' 'a: =1'; do
    study "" "CONFIG_WEFT_ARMS=\"$arms\""
    study_refuses 'study:2: '
done
study 'CONFIG_WEFT_ARMS="a: | b: geomm=w2"'
study_refuses 'study:1: arm b: there is no option "geomm": did you mean geom'
study 'CONFIG_WEFT_ARMS="a: | b: geom=w3"'
study_refuses 'study:1: arm b: geom=w3 is invalid'
study 'CONFIG_WEFT_ARMS="a: | b: width=100 heads=3"'
study_refuses 'width=100 is not a multiple of heads=3'
study 'CONFIG_WEFT_ARMS="a: | b: geom=w2 | c: geom=w2 width=128"'
study_refuses 'study:1: arms b and c are the same model'
study 'CONFIG_WEFT_ARMS="a: | b: geom=w2 | c: geom=w2 init_key=2"'
takes "unless their first weights are other ones"
study 'CONFIG_WEFT_ARMS="a: | b: geom=w2 seed=2"'
study_refuses 'study:1: arm b has seed=2 and arm a has 1: they would see different data'
study 'CONFIG_WEFT_ARMS="a: | b: task=mqar vocab=128"'
study_refuses 'arm b has task=mqar and arm a has recall'
study 'CONFIG_WEFT_ARMS="a: | b: recall_length=8"'
study_refuses 'arm b has recall_length=8 and arm a has 16'
study 'CONFIG_WEFT_ARMS="a: | b: context=32"' 'CONFIG_WEFT_TASK="text"' 'CONFIG_WEFT_DATA="x"'
study_refuses 'arm b has context=32 and arm a has'
study 'CONFIG_WEFT_ARMS="a: | b: context=256"'
takes "a longer context on a task whose samples do not depend on it"
for steps in 6 0,,1 0,0 1,4 0,5 4,2 -1 0x1 ,; do
    study "CONFIG_RA_MLA_ABLATION_STEPS=\"$steps\""
    study_refuses 'study:1: '
done
study 'CONFIG_RA_MLA_ABLATION_STEPS="0"' 'CONFIG_WEFT_ARMS="a:"'
study_refuses 'study:1: ablation_steps and arms both define the arms'
study 'CONFIG_WEFT_LRS="1e-3 much"'
study_refuses 'lrs=much is invalid: expected'
study 'CONFIG_WEFT_LRS="1e-3 0.001"'
study_refuses 'study:1: the learning rate 0.001 is given twice'
study 'CONFIG_WEFT_LRS="1e-3 3e-3"'
study_refuses 'study:1: the better of two learning rates is always at the edge of the grid'
study 'CONFIG_WEFT_SCREEN_SEEDS=4'
study_refuses 'study:1: screen_seeds=4 has no effect without lrs'
study 'CONFIG_WEFT_LRS="1e-3 3e-3 1e-2"' 'CONFIG_WEFT_LR="2e-3"'
study_refuses 'study:2: lr=2e-3 has no effect: lrs="1e-3 3e-3 1e-2" sets the learning rates'
study 'CONFIG_WEFT_LOOKS="3,3"'
study_refuses 'study:1: looks must be ascending, but 3 follows 3'
study 'CONFIG_WEFT_LOOKS="2,5"'
study_refuses 'looks=2 is invalid: expected'
study 'CONFIG_WEFT_LOOKS="3,5"' 'CONFIG_WEFT_SEEDS=4'
study_refuses 'study:2: seeds=4 has no effect together with looks, the last of which is after 5 seeds'
study 'CONFIG_WEFT_STUDY="../x"'
study_refuses '"../x" cannot be the name of a study'
study 'CONFIG_WEFT_MATCH_BY="width"'
study_refuses 'study:1: CONFIG_WEFT_MATCH_BY=width has no effect without match!=none'

# ---- what no arm makes use of

study 'CONFIG_WEFT_ARMS="a: | b: geom=w2"' '' 'CONFIG_WEFT_ROPE_BASE="5000"'
study_refuses 'study:3: CONFIG_WEFT_ROPE_BASE=5000 has no effect in any arm: it needs pos=rope, but pos is learned'
study 'CONFIG_WEFT_ARMS="a: | b: pos=alibi"' 'CONFIG_WEFT_ROPE_BASE="5000"'
study_refuses 'but pos is learned or alibi'
study 'CONFIG_WEFT_ARMS="a: | b: pos=rope"' 'CONFIG_WEFT_ROPE_BASE="5000"'
takes "what one arm makes use of is silent in the others"
study 'CONFIG_WEFT_ARMS="a: | b: geom=w2"' 'CONFIG_WEFT_ROPE_BASE="1e4"' 'CONFIG_RA_MLA_RA_WINDOW=64'
takes "so is a default"
study 'CONFIG_WEFT_PRESET="ra-mla"' 'CONFIG_WEFT_ATTN="full"' 'CONFIG_RA_MLA_LATENT_DIM=128'
takes "and the preset's value"
study 'CONFIG_RA_MLA_RA_WINDOW=32'
study_refuses 'study:1: CONFIG_RA_MLA_RA_WINDOW=32 has no effect in any arm: it needs ra_alpha!=0, but ra_alpha is 0'
study 'CONFIG_WEFT_ARMS="a: geom=dot | b: geom=w2"' 'CONFIG_WEFT_GEOM="overlap"'
study_refuses 'study:2: CONFIG_WEFT_GEOM=overlap has no effect: every arm sets its own value'
study 'CONFIG_WEFT_ARMS="a: spread=full | b: geom=w2"'
study_refuses 'study:1: arm a: spread is an option of geom=w2'
study 'CONFIG_WEFT_ARMS="a: | b: geom=w2"'
study_refuses 'ra_window=32 has no effect in any arm' --set ra_window=32
study_refuses 'there is no option "layer": did you mean layers?' --set layer=3
takes "a setting of the command line that one arm makes use of" --set spread=full --set layers=3 --set layers=1
study 'CONFIG_GPT2_MAX_ITERS=400'
takes "and one that overrides the config's" --set steps=50
printf '# \0' >study
study_refuses 'study:1: this line has a zero byte'

# ---- through Kconfig

if ! command -v kconfig-conf >/dev/null; then
    result 0 "defconfigs through Kconfig # SKIP it is not installed (package kconfig-frontends)"
    finish
fi
unset MAKEFLAGS MAKELEVEL
run_make() { make --no-print-directory -o build PROGRAM="$weft" "$@" >out 2>err; } # builds nothing
for config in configs/*; do
    name=${config#configs/}
    [[ $name != Kconfig ]] || continue
    run_make "defconfig-$name" && "$weft" config "$config" >asked && "$weft" config .config | cmp -s - asked
    result $? "make defconfig-$name keeps its arms"
    arm=$(awk 'END { print $1 }' asked)
    "$weft" config "$config" --arm "$arm" >asked && "$weft" config .config --arm "$arm" | cmp -s - asked
    result $? "and all options of $arm"
    run_make savedefconfig && "$weft" config defconfig --arm "$arm" | cmp -s - asked
    result $? "as make savedefconfig does"
done
for line in CONFIG_WEFT_LAERS=3 CONFIG_WEFT_LAYERS=5000 'CONFIG_WEFT_ROPE_BASE="5000"' CONFIG_RA_MLA_RA_ALPHA=0.5; do
    printf '\n%s\n' "$line" >configs/bad
    ! run_make defconfig-bad && grep -q '^weft: configs/bad:2: ' err && [[ ! -e .config ]]
    result $? "make defconfig refuses $line and leaves no .config"
done
run_make defconfig-recall-quick && grep -qx '.config has the study configs/recall-quick: run it with make' out &&
    ! grep -q 'built first' out && make --no-print-directory -n -o build PROGRAM=none defconfig-recall-quick | grep -q 'built first'
result $? "make defconfig says that it builds weft, if that is not built, and what is next"
! run_make defconfig-recal && grep -q 'there are: .*recall-quick' err
result $? "a defconfig that is none"

rm .config
make --no-print-directory -n -o build PROGRAM=weft | grep -q ablate
result $((1 - $?)) "without a .config make builds"
! run_make SET=steps=5 && grep -q 'there is none' err
result $? "and refuses settings for a study"
cp configs/recall-quick configs/mine
run_make defconfig-mine
make --no-print-directory -n -o build PROGRAM=weft SET="steps=50 width=32" >out
grep -qx 'weft ablate --config .config --out studies/mine --set steps=50 --set width=32' out
result $? "with one it runs the study, with the settings"
make --no-print-directory -n -o build PROGRAM=weft build check lint | grep -q ablate
result $((1 - $?)) "make build, check and lint do not"
finish
