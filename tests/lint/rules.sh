#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# rules.sh - every rule of tools/lint.sh complains about a tree that breaks it, and names the place. Each case uses a
# fresh copy of the sources: the complaint must be absent before the damage and present after it.
# run-tests: 30 s
set -u
source tests/tap

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

declare -A sound # complaints of a rule about the unchanged sources

# breaks RULE COMPLAINT DAMAGE...: after the command DAMAGE the rule must print COMPLAINT and fail.
breaks() {
    local rule=$1 complaint=$2 after good=1
    shift 2
    rm -rf "${tree:?}"/*
    if [[ $rule == format || $rule == licence ]]; then # rules that look at each file alone need not look at all
        mkdir "$tree/src" && cp -r src/tensor "$tree/src" && cp -r tools .clang-format "$tree"
    else
        cp -r src include tests tools .clang-format "$tree"
    fi
    [[ -v sound[$rule] ]] || sound[$rule]=$(cd "$tree" && tools/lint.sh "$rule")
    (cd "$tree" && "$@")
    after=$(cd "$tree" && tools/lint.sh "$rule") && good=0
    [[ ${sound[$rule]} != *"$complaint"* && $after == *"$complaint"* ]] || good=0
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
    new_file src/nn/attn/bad.c '  #  include "train/recipe.h"'
breaks rooms "src/report/read/bad.c:2: report/read (step 1) must not include report/page (step 3)" \
    new_file src/report/read/bad.c '#include "report/page/html.h"'
breaks rooms "src/check/gates/bad.c:2: check/gates (step 2) must not include check/samples (step 3)" \
    new_file src/check/gates/bad.c '#include "check/samples/labels.h"'
breaks rooms "src/nn/attn/bad.c:2: nn/attn (step none) must not include nn/ffn (step none)" \
    new_file src/nn/attn/bad.c '#include "nn/ffn/gelu.h"'
breaks rooms 'src/ops/bad.c:2: "ops.h" is not of the form' new_file src/ops/bad.c '#include "ops.h"'
breaks rooms 'src/ops/bad.c:2: "../base/base.h" is not of the form' new_file src/ops/bad.c '#include "../base/base.h"'
breaks rooms "src/attic/bad.c:2: room attic has no floor" new_file src/attic/bad.c '#include "base/base.h"'
breaks openmp "src/tensor/bad.c:2: OpenMP" new_file src/tensor/bad.c '#pragma omp parallel for'
breaks openmp "src/base/bad.c:2: OpenMP" new_file src/base/bad.c '#include <omp.h>'
breaks openmp "src/study/bad.c:2: OpenMP" new_file src/study/bad.c 'int n(void) { return omp_get_max_threads(); }'
breaks onednn "src/dnn/bad.c:2: oneDNN outside" new_file src/dnn/bad.c '#include <oneapi/dnnl/dnnl.h>'
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
breaks closing "src/tensor/bad.c:2: ferror and fclose" new_file src/tensor/bad.c '    if (!to || ferror(to) + fclose(to))'
breaks closing "src/tensor/bad.c:2: ferror and fclose" new_file src/tensor/bad.c '    return fclose(to) | ferror(to);'
breaks format "src/tensor/bad.c:2:" new_file src/tensor/bad.c 'int   x ;'

breaks printing "src/tensor/bad.c:2: prints or exits" new_file src/tensor/bad.c '    fprintf(stderr, "hello\n");'
breaks printing "src/tensor/bad.c:2: prints or exits" new_file src/tensor/bad.c '    fputs("hello", stderr);'
breaks printing "src/tensor/bad.c:2: prints or exits" new_file src/tensor/bad.c '    perror("hello");'
breaks printing "src/tensor/bad.c:2: prints or exits" new_file src/tensor/bad.c '    _exit(1);'

call_back() { # FILE FUNCTION CALLED: a function in the file that calls the other
    printf '\nvoid %s(void);\nvoid %s(void);\nvoid %s(void)\n{\n    %s();\n}\n' "$2" "$3" "$2" "$3" >>"$1"
}
circle() { # FILE FILE FILE: each calls the next
    call_back "$1" weft_one weft_two && call_back "$2" weft_two weft_three && call_back "$3" weft_three weft_one
}
breaks circles "src/graph/plan.c: circle of 2 files: src/graph/plan.c uses weft_one of src/graph/print.c; src/graph/print.c uses weft_two of src/graph/plan.c" \
    eval 'call_back src/graph/print.c weft_one weft_two; call_back src/graph/plan.c weft_two weft_one'
breaks circles "circle of 3 files: src/base/clock.c uses weft_two of src/tensor/tensor.c" \
    circle src/base/clock.c src/tensor/tensor.c src/graph/place.c
breaks circles "src/ops/power_inl.h uses weft_one of src/ops/whiten.c" \
    eval 'call_back src/ops/whiten.c weft_one weft_two; append src/ops/whiten.c "#include \"ops/power_inl.h\""
        append src/ops/power_inl.h "static void power(void) { weft_one(); }"'
breaks circles "circle of 2 files: src/base/fields.h includes src/base/json.h; src/base/json.h includes src/base/fields.h" \
    eval 'append src/base/json.h "#include \"base/fields.h\""; append src/base/fields.h "#include \"base/json.h\""'
breaks headers "src/tensor/tensor.h:$(($(wc -l <src/tensor/tensor.h) + 2)): a function of 6 lines in a header" \
    append src/tensor/tensor.h "static inline int six(int x)$(printf '\n{'; printf '\n    x++;%.0s' 1 2 3 4 5; printf '\n    return x;\n}')"
breaks size "src/tensor/tensor.c:461: more than 460 lines" eval 'yes "" | head -n 460 >>src/tensor/tensor.c'
breaks words "src/tensor/tensor.h:$(($(wc -l <src/tensor/tensor.h) + 1)):held against: write: compared with" \
    append src/tensor/tensor.h '/* which is held against the first */'

finish
