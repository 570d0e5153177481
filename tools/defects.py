#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""defects.py - changes one line of src/ at a time, at random, and counts the changes that `make check` notices.

A defect swaps a comparison, an arithmetic or logical operator or a truth value, raises an integer constant by one, or
removes a call. If the file does not compile or its object code does not change, a different defect is drawn. AMX code is
left out, because not every processor runs it. Each defect is built and tested in a copy of the tree under build/defects;
the cheapest tests run first, and the first failure decides. Prints a line per defect, then the count.

`--tree DIR` tests a different version of the tree, which must have the same lines, with the defects drawn for this one.

`--coverage DIR` saves hours: DIR is the output of WEFT_COVERAGE=DIR for that tree in `make FLAVOUR=coverage`. Only tests
that execute the changed line are run, except in tests/howto, which builds its own trees and so has no counters.
A file that was compiled without counters, as kernels may be to save time, is tested with all tests.
"""
import argparse
import difflib
import gzip
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
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
    """Returns the object code of a source file of the copy without debugging information; None if it does not compile."""
    object_file = f"build/release/{file.with_suffix('.o')}".replace("/src/", "/obj/")
    if run("make", "-C", COPY, "WERROR=", object_file).returncode:
        return None
    bare = COPY / "bare.o"
    run("strip", "-g", COPY / object_file, "-o", bare)
    return bare.read_bytes()


class Coverage:
    """Finds the tests that execute a line. The folder has gcov's counters of each test: TEST/PATH-OF-THE-OBJECT.gcda."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder).resolve()
        self.lines = {}  # by file: [(test, lines that it executes)]

    def tests(self, file, number):
        """None: not known."""
        if file not in self.lines:
            counters = self.root.glob(f"**/obj/{file.relative_to('src').with_suffix('.gcda')}")
            self.lines[file] = [found for path in counters if (found := self.read(path))]
        if not self.lines[file]:
            return None
        return {test for test, lines in self.lines[file] if number in lines}

    def read(self, counters):
        parts = counters.relative_to(self.root).parts
        end = 1 + next(i for i, part in enumerate(parts) if part.endswith((".c", ".sh")))
        notes = pathlib.Path("/", *parts[end:]).with_suffix(".gcno")
        if not notes.exists():  # the tree was built and removed by a test
            return None
        lines = set()
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(counters, folder)
            shutil.copy(notes, folder)
            run("gcov", "--json-format", counters.name, cwd=folder)
            for report in pathlib.Path(folder).glob("*.gz"):
                for source in json.loads(gzip.open(report).read())["files"]:
                    if source["file"].endswith(f"/{counters.stem}.c"):
                        lines |= {line["line_number"] for line in source["lines"] if line["count"]}
        return "/".join(parts[:end]), lines


def check(tests, environment):
    """Runs `make check` in the copy, or some tests. Returns the status and the first test that failed."""
    if tests is None:
        done = run("make", "-C", COPY, "WERROR=", "check", env=environment)
    else:
        programs = [f"build/release/{test[:-2]}" for test in tests if test.endswith(".c")]
        scripts = [test for test in tests if test.endswith(".sh")]
        more = (["mpi"] if any("/mpi/" in s for s in scripts) else [])
        if "tests/cli/examples.sh" in scripts:
            more += [f"build/release/examples/{p.stem}" for p in pathlib.Path("examples").glob("*.c")]
        done = run("make", "-C", COPY, "WERROR=", "build", *more, *programs)
        runner = ["tools/run_tests.py", "run"] if (COPY / "tools/run_tests.py").exists() else ["tools/run-tests.sh"]
        if done.returncode == 0:
            done = run(*runner, *scripts, *programs, cwd=COPY, env={**environment, "WEFT": str((COPY / "build/weft").resolve()),
                                                                   "WEFT_BUILD": str((COPY / "build").resolve())})
    failed = re.findall(r"^failed: ([^\s,]+)", done.stdout, re.MULTILINE)
    return done, failed[0] if failed else "the build" if done.returncode else ""


def copy_tree(tree):
    """Copies the files tracked by git, with their dates, and removes all others from the copy."""
    listed = run("git", "-C", tree, "ls-files", "-co", "--exclude-standard").stdout.split("\n")
    for name in filter(None, listed):
        source, target = pathlib.Path(tree, name), COPY / name
        if source.exists() and not (target.exists() and target.read_bytes() == source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    for path in COPY.rglob("*"):
        name = path.relative_to(COPY)
        if path.is_file() and name.parts[0] != "build" and str(name) not in listed:
            path.unlink()


def apply(file, number, line, defect):
    """Writes the defect into the copy, in which the line may have moved. Returns the previous text and the line's index."""
    path = COPY / file
    text = path.read_text()
    lines = text.split("\n")
    same = [i for i, l in enumerate(lines) if l.startswith(line)]
    if not same:
        sys.exit(f"{path} has no line \"{line}\": {difflib.get_close_matches(line, lines, 1)}")
    at = min(same, key=lambda i: abs(i - number))
    lines[at] = defect + lines[at][len(line):]
    path.write_text("\n".join(lines))
    return text, at


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--only", type=int, nargs="*", help="test these defects, by number, and only print the others")
    parser.add_argument("--skip-clean", action="store_true", help="do not test the tree without a defect first")
    parser.add_argument("--coverage", metavar="DIR", help="run only tests that execute the changed line, see above")
    parser.add_argument("--tree", default=".", help="folder of the tree to test")
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
    coverage = Coverage(args.coverage) if args.coverage else None
    if not args.skip_clean and check(None, environment)[0].returncode:
        sys.exit(f"without a defect, `make -C {COPY} check` fails")
    caught = tested = drawn = 0
    for file, number, line, defect in draw(random.Random(args.seed), files):
        if drawn == args.count:
            break
        before = object_code(file)
        text, at = apply(file, number, line, defect)
        after = object_code(file)
        if after is not None and after != before:
            drawn += 1
            print(f"{drawn:2} {file}:{number + 1}: {line.strip()}  ->  {defect.strip()}", flush=True)
            if args.only is None or drawn in args.only:
                start = time.monotonic()
                tests = None
                executing = coverage.tests(file, at + 1) if coverage else None
                if executing is not None:
                    tests = [test for test in sorted(executing) if (COPY / test).exists()]
                done, by = check(tests, environment)
                tested += 1
                caught += bool(by)
                (COPY / f"defect-{drawn}.log").write_text(done.stdout)
                seconds = time.monotonic() - start
                print(f"   {'caught by ' + by if by else 'NOT CAUGHT'}, {'all' if tests is None else len(tests)} tests, {seconds:.0f} s",
                      flush=True)
        (COPY / file).write_text(text)
    print(f"{caught} of {tested} defects caught, seed {args.seed}")


if __name__ == "__main__":
    main()
