#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""defects.py - changes one line of src/ at a time, at random, and counts the changes that `make check` notices.

A defect swaps a comparison, an arithmetic or logical operator or a truth value, raises an integer constant by one, or
removes a call. It is drawn anew if the file does not compile or its object code stays the same. Code for AMX is left out:
not every processor runs it. Each defect is built and tested in a copy of the tree under build/defects; the cheapest tests
run first, and the first failure decides. Prints a line per defect, then the count.

`--tree DIR` tests another version of the tree with the same defects, drawn here; it must have the same lines.
"""
import argparse
import difflib
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
         "+": "-", "-": "+", "*": "+", "/": "*", "true": "false", "false": "true"}
SITE = re.compile(r" (<=?|>=?|==|!=|&&|\|\||[-+*/]) |\b(true|false)\b|(?<![\w.])(\d+)(?![\w.])|^ +(?!return)(\w+\(.*\);)$")
COPY = pathlib.Path("build/defects")


def lines_of_code(path):
    """(number, line) without comments, preprocessor lines and lines with text, whose wording no test needs to know."""
    inside = False
    for number, line in enumerate(path.read_text().split("\n")):
        code = not inside and not line.lstrip().startswith(("#", "/*", "*")) and '"' not in line
        inside = "*/" not in line and (inside or "/*" in line)
        if code:
            yield number, line.split("/*")[0].rstrip() if "*/" in line else line


def changed(line, match):
    """The line with a defect at the match."""
    swapped, truth, number, call = match.groups()
    if call:
        return line.replace(call, ";")
    new = str(int(number) + 1) if number else SWAPS[swapped or truth]
    group = 1 if swapped else 2 if truth else 3
    return line[:match.start(group)] + new + line[match.end(group):]


def draw(rng, files):
    """Endless defects: (file, number of the line, the line, the line with the defect)."""
    places = [(f, n, line) for f in files for n, line in lines_of_code(f) if SITE.search(line)]
    while True:
        file, number, line = rng.choice(places)
        yield file, number, line, changed(line, rng.choice(list(SITE.finditer(line))))


def run(*command, **more):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)


def object_code(file):
    """What a source file of the copy compiles to, without debugging information; None if it does not compile."""
    object_file = f"build/release/{file.with_suffix('.o')}".replace("/src/", "/obj/")
    if run("make", "-C", COPY, "WERROR=", object_file).returncode:
        return None
    bare = COPY / "bare.o"
    run("strip", "-g", COPY / object_file, "-o", bare)
    return bare.read_bytes()


def copy_tree(tree):
    """Copies what git knows of the tree, with dates, and removes what the copy has besides."""
    listed = run("git", "-C", tree, "ls-files", "-co", "--exclude-standard").stdout.split("\n")
    for name in filter(None, listed):
        source, target = pathlib.Path(tree, name), COPY / name
        if source.exists() and not (target.exists() and target.read_bytes() == source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def apply(file, number, line, defect):
    """Writes the defect into the copy, where the line may stand elsewhere. Returns the text from before."""
    path = COPY / file
    text = path.read_text()
    lines = text.split("\n")
    same = [i for i, l in enumerate(lines) if l.startswith(line)]
    if not same:
        sys.exit(f"{path} has no line \"{line}\": {difflib.get_close_matches(line, lines, 1)}")
    at = min(same, key=lambda i: abs(i - number))
    lines[at] = defect + lines[at][len(line):]
    path.write_text("\n".join(lines))
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--only", type=int, nargs="*", help="test these defects, by number, and only print the others")
    parser.add_argument("--skip-clean", action="store_true", help="do not test the tree without a defect first")
    parser.add_argument("--tree", default=".", help="test another version of the tree")
    args = parser.parse_args()

    files = [f for f in sorted(pathlib.Path("src").rglob("*.c")) if not f.stem.endswith("_amx")]
    COPY.mkdir(parents=True, exist_ok=True)
    copy_tree(args.tree)
    built = run("make", "-C", COPY, "WERROR=", "build", "mpi")
    if built.returncode:
        sys.exit(built.stdout)
    if not (COPY / "build/venv").exists(): # the packages for Python
        (COPY / "build/venv").symlink_to(os.path.abspath("build/venv"))
    environment = {**os.environ, "WEFT_FIRST_FAILURE": "1", "WEFT_TEST_TIMEOUT": "300"}
    check = ("make", "-C", COPY, "WERROR=", "check")
    if not args.skip_clean and run(*check, env=environment).returncode:
        sys.exit(f"without a defect, `make -C {COPY} check` fails")
    caught = tested = drawn = 0
    for file, number, line, defect in draw(random.Random(args.seed), files):
        if drawn == args.count:
            break
        wanted = args.only is None or drawn + 1 in args.only
        before = object_code(file)
        text = apply(file, number, line, defect)
        after = object_code(file)
        if after is not None and after != before:
            drawn += 1
            print(f"{drawn:2} {file}:{number + 1}: {line.strip()}  ->  {defect.strip()}", flush=True)
            if wanted:
                start = time.monotonic()
                checked = run(*check, env=environment)
                failed = re.findall(r"^failed: ([^\s,]+)", checked.stdout, re.MULTILINE)
                tested += 1
                caught += checked.returncode != 0
                (COPY / f"defect-{drawn}.log").write_text(checked.stdout)
                by = failed[0] if failed else "the build" if checked.returncode else ""
                print(f"   {'caught by ' + by if by else 'NOT CAUGHT'}, {time.monotonic() - start:.0f} s", flush=True)
        (COPY / file).write_text(text)
    print(f"{caught} of {tested} defects caught, seed {args.seed}")


if __name__ == "__main__":
    main()
