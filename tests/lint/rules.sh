#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# rules.sh - every rule of tools/lint.sh complains about a tree that breaks it, and names the place. Each case works on
# a fresh copy of the sources: the complaint must be absent before the damage and present after it.
set -u
source tests/tap

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# breaks RULE COMPLAINT DAMAGE...: after the command DAMAGE the rule must print COMPLAINT and fail.
breaks() {
    local rule=$1 complaint=$2 before after good=1
    shift 2
    rm -rf "${tree:?}"/*
    cp -r src include tests tools .clang-format "$tree"
    before=$(cd "$tree" && tools/lint.sh "$rule")
    (cd "$tree" && "$@")
    after=$(cd "$tree" && tools/lint.sh "$rule") && good=0
    [[ $before != *"$complaint"* && $after == *"$complaint"* ]] || good=0
    result $((1 - good)) "$rule: $complaint"
    ((good)) || sed 's/^/# /' <<<"$after"
}

append() { printf '%s\n' "$2" >>"$1"; }
new_file() { mkdir -p "$(dirname "$1")" && printf '/* SPDX-License-Identifier: MIT */\n%s\n' "$2" >"$1"; }

breaks rooms "src/base/bad.c:2: base (floor 1) must not include tensor (floor 2)" \
    new_file src/base/bad.c '#include "tensor/tensor.h"'
breaks rooms "src/graph/bad.c:2: graph (floor 4) must not include dnn (floor 4)" \
    new_file src/graph/bad.c '#include "dnn/dnn.h"'
breaks rooms "src/nn/attn/bad.c:2: nn (floor 6) must not include train (floor 7)" \
    new_file src/nn/attn/bad.c '  #  include "train/train.h"'
breaks rooms 'src/ops/bad.c:2: "ops.h" is not of the form' new_file src/ops/bad.c '#include "ops.h"'
breaks rooms 'src/ops/bad.c:2: "../base/base.h" is not of the form' new_file src/ops/bad.c '#include "../base/base.h"'
breaks rooms "src/attic/bad.c:2: room attic has no floor" new_file src/attic/bad.c '#include "base/base.h"'
breaks openmp "src/tensor/bad.c:2: OpenMP outside" new_file src/tensor/bad.c '#pragma omp parallel for'
breaks openmp "src/tensor/bad.c:2: OpenMP outside" new_file src/tensor/bad.c '#include <omp.h>'
breaks onednn "src/ops/bad.c:2: oneDNN outside" new_file src/ops/bad.c '#include <oneapi/dnnl/dnnl.h>'
breaks printing "src/tensor/bad.c:2: prints or exits" new_file src/tensor/bad.c '    printf("hello: %d\n", 1);'
breaks printing "src/tensor/bad.c:2: prints or exits" new_file src/tensor/bad.c '    exit(1);'
breaks licence "src/tensor/bad.c:1: does not open with its SPDX" eval 'echo "int x;" >src/tensor/bad.c'
breaks rows "src/ops/bad.c has no row in src/ops/ops.def" new_file src/ops/bad.c ''
breaks rows "src/ops/ops.def: the row bad has no file src/ops/bad.c" append src/ops/ops.def 'OP(bad, (struct weft_graph * g))'
breaks rows "src/ops/ops.def: two rows name add" append src/ops/ops.def 'OP(add, (struct weft_graph * g))'
breaks rows "src/cmd/bad.c has no row in src/cmd/cmds.def" new_file src/cmd/bad.c ''
breaks rows "src/cmd/cmds.def: the row bad has no file src/cmd/bad.c" append src/cmd/cmds.def 'CMD(bad)'
breaks rows "src/nn/attn/bad.c has no row in src/nn/parts.def" new_file src/nn/attn/bad.c ''
breaks rows "src/nn/parts.def: the row bad has no file src/nn/ffn/bad.c" append src/nn/parts.def 'FFN(bad)'
breaks rows "src/train/task/bad.c has no row in src/train/tasks.def" new_file src/train/task/bad.c ''
breaks format "src/tensor/bad.c:2:" new_file src/tensor/bad.c 'int   x ;'

finish
