#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# lint.sh [rule...] - checks the house rules that can be checked automatically, on the tree in the current folder.
# A rule is a function check_<rule> that prints its complaints; without arguments every rule runs.
set -u -o pipefail

# The floor of each room. A room may include headers only from itself and from lower floors.
declare -A floor=(
    [base]=1
    [tensor]=2 [text]=2
    [ckpt]=3 [comm]=3
    [graph]=4 [dnn]=4
    [ops]=5
    [nn]=6 [stats]=6
    [train]=7 [infer]=7 [export]=7
    [check]=8
    [run]=9 [bench]=9 [launch]=9
    [study]=10
    [report]=11
    [simulate]=12
    [api]=13
    [cmd]=14
    [main]=15
)
# The same within a room that has folders: a folder may include headers from the room itself and from lower folders.
declare -A step=(
    [cmd/kit]=1
    [check/op]=1 [check/probe]=1 [check/mutants]=1 [check/own]=2 [check/trainer]=2 [check/gates]=2 [check/samples]=3
    [export/torch]=1 [export/hf]=2 [export/gguf]=3 [export/onnx]=3
    [report/read]=1 [report/draw]=2 [report/judge]=2 [report/page]=3
    [text/tokenizer]=1 [text/tokens]=2
    [train/prune]=1 [train/ranks]=1 [train/record]=2 [train/score]=3
)

c_files() { find "$@" -name '*.[ch]' 2>/dev/null | sort; }

# matches PATTERN [find arguments]: prints "file:line:text" for every match in src and include.
matches() {
    local pattern=$1
    shift
    find src include -type f "$@" -exec grep -EnH "$pattern" {} + | sort
}

check_format() {
    c_files src include tests | xargs -r clang-format --dry-run -Werror 2>&1
}

check_licence() {
    { c_files src include tests && find src -name '*.def'; } | xargs -r awk '
        FNR == 1 && !/^\/\* SPDX-License-Identifier: MIT/ { print FILENAME ":1: does not open with its SPDX-License-Identifier" }'
}

check_rooms() {
    local file line text header from to own its
    while IFS=: read -r file line text; do
        header=${text#*\"} header=${header%%\"*}
        [[ $header == weft.h ]] && continue
        from=${file#src/} from=${from%%/*} from=${from%.c} # src/nn/attn/x.c: nn, src/main.c: main
        to=${header%%/*}
        if [[ $header != */* || ! -v floor[$to] ]]; then
            echo "$file:$line: \"$header\" is not of the form \"room/header.h\" with a room that tools/lint.sh knows"
        elif [[ ! -v floor[$from] ]]; then
            echo "$file:$line: room $from has no floor: give it one in tools/lint.sh"
        elif [[ $from != "$to" ]] && ((floor[$to] >= floor[$from])); then
            echo "$file:$line: $from (floor ${floor[$from]}) must not include $to (floor ${floor[$to]})"
        elif [[ $from == "$to" ]]; then
            own=${file#src/} own=${own%/*} its=${header%/*}
            if [[ $own != "$from" && $its != "$to" && $own != "$its" ]] && ((${step[$its]:-9} >= ${step[$own]:-0})); then
                echo "$file:$line: $own (step ${step[$own]:-none}) must not include $its (step ${step[$its]:-none})"
            fi
        fi
    done < <(matches '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' -path 'src/*')
}

# (oneDNN uses OpenMP; the code that calls it limits its threads.)
check_openmp() {
    matches '^[[:space:]]*#[[:space:]]*pragma[[:space:]]+omp|_Pragma\("omp|<omp\.h>|[^[:alnum:]_]omp_[a-z_]+\(' \
        ! -path 'src/dnn/onednn/*' | sed -E 's/^([^:]*:[0-9]*):.*/\1: OpenMP; threads are base\/threads.c'\''s/'
}

check_onednn() {
    matches '#[[:space:]]*include.*(oneapi/dnnl|dnnl\.h)' ! -path 'src/dnn/onednn/*' |
        sed 's/:[^:]*$/: oneDNN outside src\/dnn\/onednn/'
}

# The library reports through return values and callbacks. (_exit ends processes that these files started.)
check_printing() {
    local calls='printf|vprintf|puts|putchar|perror|exit|abort' streams='stderr|stdout'
    {
        matches "(^|[^_[:alnum:]])(($calls)\\(|($streams)([^_[:alnum:]]|$))" ! -path 'src/cmd/*' ! -path src/main.c ! -name '*.py'
        matches '(^|[^_[:alnum:]])_exit\(' ! -path 'src/cmd/*' ! -path src/check/jobs.c ! -path src/study/launch.c \
            ! -path src/launch/job.c
    } | sed -E 's/^([^:]*:[0-9]*):.*/\1: prints or exits outside src\/cmd/'
}

check_circles() { python3 tools/lint_circles.py; }

# Code belongs in .c files, or in an _inl.h if several files share it; other headers have inline functions of a few lines.
most_inline_lines=5
check_headers() {
    find src include -name '*.h' ! -name '*_inl.h' -exec awk -v most=$most_inline_lines '
        /^\{/ { first = FNR }
        /^\}/ && first {
            if (FNR - first - 1 > most)
                printf "%s:%d: a function of %d lines in a header; more than %d belong into a .c or _inl.h file\n",
                    FILENAME, first, FNR - first - 1, most
            first = 0
        }' {} + | sort
}

most_lines=460
check_size() {
    find src -name '*.[ch]' -exec awk -v most=$most_lines '
        FNR == most + 1 { print FILENAME ":" FNR ": more than " most " lines: split the file" }' {} + | sort
}

# Every test declares its cost, and the total stays within the budget.
check_budget() { tools/run_tests.py budget; }

# Words for which tools/words.txt has a plainer one.
check_words() {
    local pattern plain
    while IFS=$'\t' read -r pattern plain; do
        [[ $pattern == '' || $pattern == '#'* ]] && continue
        find . \( -name build -o -name third_party -o -name .git -o -path ./tests/lint/rules.sh \) -prune -o -type f \
            \( -name '*.md' -o -name '*.[ch]' -o -name '*.sh' -o -name '*.html' \) -exec grep -PnHoi -- "$pattern" {} + |
            sed -E "s|^\./||; s|\$|: write: $plain|"
    done <tools/words.txt | sort
}

# With both in one expression, the compiler may close the file first.
check_closing() {
    matches '(ferror|fclose)\([^)]*\) *[-+|&]? *!? *(ferror|fclose)\(' | sed -E 's/^([^:]*:[0-9]*):.*/\1: ferror and fclose in one expression: use weft_output_close/'
}

# Files of the folders that need a row, which excludes helpers with their own header.
files_with_rows() {
    local file
    find "$@" -maxdepth 1 -name '*.c' ! -name registry.c ! -name common.c 2>/dev/null | while read -r file; do
        [[ -e ${file%.c}.h ]] || basename "$file" .c
    done | sort
}

# both_ways TABLE MACRO FOLDER...: checks that every row MACRO(name of the table has a file in one of the folders, and
# every file a row.
both_ways() {
    local table=$1 macro=$2 folder=$3 rows files
    shift 2
    [[ -e $table ]] || return 0
    rows=$(sed -nE "s/^$macro\(([a-z0-9_]+).*/\1/p" "$table" | sort)
    files=$(files_with_rows "$@")
    comm -13 <(uniq <<<"$rows") <(echo "$files") | sed "/./s|.*|$folder/&.c has no row in $table|"
    comm -23 <(uniq <<<"$rows") <(echo "$files") | sed "/./s|.*|$table: the row & has no file $folder/&.c|"
    uniq -d <<<"$rows" | sed "s|.*|$table: two rows name &|"
}

check_rows() {
    both_ways src/ops/ops.def OP src/ops src/ops/attention
    both_ways src/cmd/cmds.def CMD src/cmd
    both_ways src/nn/parts.def GEOM src/nn/geom
    both_ways src/nn/parts.def ATTN src/nn/attn
    both_ways src/nn/parts.def FFN src/nn/ffn
    both_ways src/nn/parts.def NORM src/nn/norm
    both_ways src/nn/parts.def POS src/nn/pos
    both_ways src/nn/parts.def RECIP src/nn/recip
    both_ways src/train/tasks.def OPTIM src/train/optim
    both_ways src/train/tasks.def TASK src/train/task
}

rules=("$@")
((${#rules[@]})) || mapfile -t rules < <(declare -F | sed -n 's/.* check_//p')
failed=0
for rule in "${rules[@]}"; do
    complaints=$("check_$rule" 2>&1)
    if [[ -n $complaints ]]; then
        printf 'lint, rule %s:\n%s\n' "$rule" "$complaints"
        failed=1
    fi
done
exit $failed
