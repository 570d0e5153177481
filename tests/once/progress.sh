#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# progress.sh - the progress of a command: on a terminal one line, rewritten and never wider than the terminal; plain
# lines elsewhere. (train.sh checks the progress of training.)
# run-tests: 10 s
set -u
export WEFT_TEST_SKIP_GATES=1
source tests/tap
use_scratch

# on_terminal COLUMNS ARGUMENTS...: all that the program prints there
on_terminal() {
    python3 - "$weft" "$@" <<'END'
import fcntl, os, pty, struct, sys, termios
program, columns, words = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
pid, terminal = pty.fork()
if not pid:
    fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("4H", 50, columns, 0, 0))
    os.execv(program, [program] + words)
try:
    while data := os.read(terminal, 65536):
        sys.stdout.buffer.write(data)
except OSError:
    pass
sys.exit(os.waitpid(pid, 0)[1])
END
}

yes 'The quick brown fox jumps over the lazy dog, and then does it again.' | head -c 30000000 >"$scratch/text"
head -c 200000 "$scratch/text" >"$scratch/some"
"$weft" data prepare "$scratch/some" --out "$scratch/eval" --val 0.5 >/dev/null 2>&1
prepare=(data prepare "$scratch/text")
on_terminal 200 "${prepare[@]}" --out "$scratch/a" >"$scratch/seen"
result $? "data prepare runs on a terminal"
grep -qP '\r[0-9]+ documents.*tokens.*MB/s  [0-9.]+ (second|minute)s? left\e\[K' "$scratch/seen"
result $? "its line is rewritten, cleared to its end, and shows the time left"
# \r starts the line again each time; one newline ends it, before the result
[[ $(tr '\r' '\n' <"$scratch/seen" | grep -c 'MB/s') -gt 1 && $(grep -c 'MB/s' "$scratch/seen") == 1 ]]
result $? "it is one line"
on_terminal 40 "${prepare[@]}" --out "$scratch/b" | tr '\r' '\n' | sed 's/\x1b\[K//' | grep '^[0-9]* documents' | grep -qE '^.{40}'
(($? == 1))
result $? "on a narrow terminal it is cut"

"$weft" "${prepare[@]}" --out "$scratch/c" 2>"$scratch/err" >/dev/null
[[ $(grep -c 'MB/s' "$scratch/err") -ge 2 && $(grep -c 'MB/s' "$scratch/err") -le 20 ]] && ! grep -q $'[\r\e]' "$scratch/err"
result $? "elsewhere there are some plain lines"
"$weft" data prepare - --out "$scratch/d" <"$scratch/text" 2>"$scratch/err" >/dev/null && ! grep -q 'left' "$scratch/err"
result $? "how long a pipe will go on nobody knows"

"$weft" eval gpt2 --set vocab=257 --set context=16 --data "$scratch/eval" 2>"$scratch/err" >/dev/null
[[ $(grep -cE '^[0-9]+ tokens scored  [0-9]+ tokens/s(  [0-9.]+ [a-z]+ left)?$' "$scratch/err") -ge 2 ]] && grep -q ' left$' "$scratch/err"
result $? "eval knows how many tokens token files have"

study=(ablate --config tests/fixtures/recall --seeds 1 --set steps=6 --set layers=1 --set width=32)
on_terminal 200 "${study[@]}" --out "$scratch/study" >"$scratch/seen"
grep -q "dot lr 0.001 seed 1: done, test loss" "$scratch/seen" && grep -qP '\r2 of 2 runs done, 0 running  100 %\e\[K\r$' "$scratch/seen"
result $? "a study keeps a line for every run and rewrites the last one"
"$weft" "${study[@]}" --out "$scratch/study2" >/dev/null 2>"$scratch/err"
grep -q "w2 lr 0.001 seed 1: started" "$scratch/err" && grep -q '^[12] of 2 runs done, [01] running' "$scratch/err" && ! grep -q $'[\r\e]' "$scratch/err"
result $? "elsewhere these are plain lines"
finish
