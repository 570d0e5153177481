#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run_tests.py - runs tests, which are programs or scripts, counts their results and measures their cost.

Each test declares in a comment where it runs and how many CPU seconds it takes there:

    run-tests: 3 s, asan 10 s, tsan 20 s

This one takes 3 s in `make check` and also runs under the two sanitizers. `make long-asan` and `long-tsan` run the C tests
and tests/cli whatever they declare, except those with `once`. The number of concurrent tests is the number of cores plus one,
because some tests wait (WEFT_JOBS sets the number). The longest start first. Each gets its share of the cores, because
threads that wait for one another are slow when other tests run.

Tests that print TAP lines ("ok 3 - name", "not ok 4 - name" or "FAIL name", "... # SKIP why") are counted by line, others by
exit status: 0 passed, 77 skipped. A test that fails without such a line counts as one failure. Only failures and skips are
shown, failures again at the end, then the slowest tests. A test that takes more than twice its declared CPU seconds is
listed; one that takes more than four times as much fails. The last line is the total.

With WEFT_FIRST_FAILURE=1 the cheapest tests run first, and none starts after one has failed.

If WEFT_COVERAGE names a folder, each test writes its coverage into its own folder there (FLAVOUR=coverage).

If WEFT_TOTALS names a file, "passed failed skipped" is appended to it; if WEFT_TIMES does, a line for each test. WEFT_WRAP is
a command to run programs (not scripts) with, such as valgrind. Declared times are not compared under such a command, with
a value of WEFT_EVERY that selects a different sample of cases, or if WEFT_ISA selects slower kernels.
"""
import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time

# Maximum total that the tests of a flavour may declare, in CPU seconds: about 1.5 times their use on a quiet machine, see
# declare_command. `make lint` compares.
BUDGET = {"check": 1450, "asan": 800, "tsan": 270, "aarch64": 180, "emulated": 460}
QUICK = 2  # `make check-quick` runs the tests that declare at most this
SLOWEST = 20


class Declared:
    """The declarations in the comment of a test's source."""

    def __init__(self, source):
        self.source, self.seconds, self.once = source, {}, False
        found = re.search(r"run-tests: (.+)", pathlib.Path(source).read_text())
        for item in found[1].split(", ") if found else ():
            match = re.fullmatch(r"(?:(\w+) )?(\d+) s", item.strip(" */"))
            if match:
                self.seconds[match[1] or "check"] = int(match[2])
            elif item.strip(" */") == "once":
                self.once = True
            else:
                sys.exit(f"{source}: run-tests: \"{item}\" is neither \"FLAVOUR N s\" nor \"once\"")

    def runs_in(self, flavour, whole):
        folder = os.path.dirname(self.source)
        can = "check" in self.seconds and not self.once and (self.source.endswith(".c") or folder == "tests/cli")
        return flavour in self.seconds or (whole and can)


def source_of(test):
    """The file a test is built from: of build/release/tests/unit/x and of .../x_v3 tests/unit/x.c."""
    if test.endswith(".sh"):
        return test
    stem = "tests/" + test.rsplit("/tests/", 1)[1]
    return next(s for s in (stem + ".c", re.sub(r"_v\d$", "", stem) + ".c") if os.path.exists(s))


def all_sources():
    """The files that are tests. Those of tests/fuzz and tests/long have targets of their own."""
    folders = ("", "unit", "cli", "once", "fault", "howto", "lint", "mpi", "aarch64", "emulated")
    files = (f for folder in folders for kind in ("*.c", "*.sh") for f in pathlib.Path("tests", folder).glob(kind))
    return sorted(str(f) for f in files if f.name != "shim.c")


@dataclasses.dataclass
class Outcome:
    test: str
    declared: int | None  # None: not compared
    wall: float
    cpu: float
    passed: int
    failed: int
    skipped: int
    log: str

    def is_over(self, times):
        return self.declared is not None and self.cpu > times * self.declared


def count(log, status):
    """Passed, failed and skipped tests."""
    lines = [line for line in log.split("\n") if re.match(r"(?:(?:not )?ok|FAIL)\b", line)]
    skipped = sum("# SKIP" in line for line in lines if not line.startswith("FAIL"))
    failed = sum("# SKIP" not in line for line in lines if not line.startswith("ok"))
    passed = len(lines) - skipped - failed
    if status == 77:
        skipped += not lines
    elif status:
        failed += not failed
    elif not lines:
        passed = 1
    return passed, failed, skipped


class Runner:
    def __init__(self, flavour, jobs):
        self.flavour, self.jobs = flavour, jobs
        self.limit = os.environ.get("WEFT_TEST_TIMEOUT", "900")
        self.wrap = shlex.split(os.environ.get("WEFT_WRAP", ""))
        self.compares = not self.wrap and not {"WEFT_EVERY", "WEFT_ISA"} & set(os.environ)
        self.environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        self.environment["CMOCKA_MESSAGE_OUTPUT"] = "TAP"
        self.environment.setdefault("OMP_NUM_THREADS", str(max(1, os.cpu_count() // jobs)))
        self.printing = threading.Lock()
        self.stops, self.failed = os.environ.get("WEFT_FIRST_FAILURE") == "1", False

    def run(self, test):
        """Runs one test. Its standard input is empty, so that it cannot wait for input."""
        command = ["timeout", "-k", "10", self.limit] + ([] if test.endswith(".sh") else self.wrap) + [test]
        environment = self.environment
        if os.environ.get("WEFT_COVERAGE"):
            environment = {**environment, "GCOV_PREFIX": os.path.join(os.path.abspath(os.environ["WEFT_COVERAGE"]), source_of(test))}
        start = time.monotonic()
        with tempfile.TemporaryFile() as file:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            file.seek(0)
            log = file.read().decode(errors="replace")
        if process.returncode == 124:
            log += f"\nstopped after {self.limit} s\n"
        declared = Declared(source_of(test)).seconds.get(self.flavour) if self.compares else None
        outcome = Outcome(test, declared, time.monotonic() - start, used.ru_utime + used.ru_stime, *count(log, process.returncode), log)
        if outcome.is_over(4):
            outcome.failed += 1
            outcome.log += f"\n{outcome.cpu:.0f} CPU seconds, more than four times the {declared} s that it declares\n"
        self.show(outcome)
        return outcome

    def show(self, o):
        with self.printing:
            print(f"{o.test:48} {o.passed:4} passed {o.failed:3} failed {o.skipped:3} skipped {o.wall:7.1f} s", flush=True)
            if o.failed:
                print(indented(o.log), flush=True)
            elif o.skipped:
                for why in re.findall(r"^(?:ok.*# SKIP|skip:) *(.*)", o.log, re.MULTILINE):
                    print(f"    skip: {why}", flush=True)

    def run_unless_failed(self, test):
        """Runs one test; returns None if the tests stop at the first failure and one has failed."""
        if self.stops and self.failed:
            return None
        outcome = self.run(test)
        self.failed |= outcome.failed > 0
        return outcome

    def run_all(self, tests):
        """The outcomes of all tests, the longest first."""
        tests = sorted(tests, key=lambda t: Declared(source_of(t)).seconds.get(self.flavour, 0), reverse=not self.stops)
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            return [outcome for outcome in pool.map(self.run_unless_failed, tests) if outcome]


def indented(text):
    return "\n".join("    " + line for line in text.rstrip("\n").split("\n"))


def print_slowest(rows):
    """rows: (name, wall, cpu, declared)"""
    rows = sorted(rows, key=lambda r: -r[2])
    print(f"{'the slowest tests':56} {'wall s':>8} {'CPU s':>8} {'declared':>8}")
    for name, wall, cpu, declared in rows[:SLOWEST]:
        print(f"{name:56} {wall:8.1f} {cpu:8.1f} {'' if declared is None else declared:>8}")
    print(f"{f'all {len(rows)}':56} {'':8} {sum(r[2] for r in rows):8.1f} {sum(r[3] or 0 for r in rows):8}")


def print_summary(outcomes, seconds):
    print_slowest([(o.test, o.wall, o.cpu, o.declared) for o in outcomes])
    for o in outcomes:
        if o.is_over(2):
            print(f"over its declaration: {o.test} took {o.cpu:.0f} CPU seconds and declares {o.declared}")
    print(f"took {seconds:.0f} s")
    for o in outcomes:
        if o.failed:
            print(f"failed: {o.test}, the end of what it printed:\n{indented(os.linesep.join(o.log.splitlines()[-20:]))}")


def append_to(variable, lines):
    if os.environ.get(variable):
        with open(os.environ[variable], "a") as file:
            file.writelines(lines)


def run_command(args):
    start = time.monotonic()
    outcomes = Runner(args.flavour, int(os.environ.get("WEFT_JOBS") or os.cpu_count() + 1)).run_all(args.tests)
    passed, failed, skipped = (sum(getattr(o, name) for o in outcomes) for name in ("passed", "failed", "skipped"))
    append_to("WEFT_TOTALS", [f"{passed} {failed} {skipped}\n"])
    append_to("WEFT_TIMES", [f"{args.flavour} {o.test} {o.wall:.1f} {o.cpu:.1f} {o.declared or ''}\n" for o in outcomes])
    print_summary(outcomes, time.monotonic() - start)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


def list_command(args):
    """Prints the tests of a flavour, for the Makefile."""
    chosen = (d for d in map(Declared, all_sources()) if d.runs_in(args.flavour, args.all))
    print(*(d.source for d in chosen if not args.quick or d.seconds[args.flavour] <= QUICK))


def budget_command(_):
    """Prints what is wrong with the declarations, for `make lint`."""
    declared = [Declared(s) for s in all_sources()]
    for d in declared:
        if not d.seconds:
            print(f"{d.source}:1: declares no CPU seconds: see tools/run_tests.py")
    for flavour in {f for d in declared for f in d.seconds}:
        total = sum(d.seconds.get(flavour, 0) for d in declared)
        if total > BUDGET.get(flavour, 0):
            print(f"tests/: the tests declare {total} CPU seconds in {flavour}, and {BUDGET.get(flavour, 0)} are its budget: "
                  "make one cheaper, or move it to tests/long")


def read_times(path):
    """(flavour, source, wall, CPU, declared) of each line of a file that WEFT_TIMES named."""
    for line in open(path):
        flavour, test, wall, cpu, *declared = line.split()
        yield flavour, source_of(test), float(wall), float(cpu), int(declared[0]) if declared else None


def slowest_command(args):
    """Prints the slowest tests of a file of times."""
    print_slowest([(f"{flavour} {source}", *times) for flavour, source, *times in read_times(args.file)])


def declare_command(args):
    """Declares 1.5 times the measured seconds for the tests in a file of times, to allow for slower machines."""
    measured = {}
    for flavour, source, _, cpu, _ in read_times(args.file):
        measured[flavour, source] = max(cpu, measured.get((flavour, source), 0))
    for (flavour, source), cpu in measured.items():
        flavour = "" if flavour == "check" else flavour + " "
        path = pathlib.Path(source)
        pattern = rf"(run-tests: (?:.*, )?{flavour})\d+ s"
        path.write_text(re.sub(pattern, rf"\g<1>{max(1, round(1.5 * cpu))} s", path.read_text(), count=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="run tests")
    run.add_argument("--flavour", default="check", help="whose declarations are meant")
    run.add_argument("tests", nargs="*")
    run.set_defaults(function=run_command)
    listing = commands.add_parser("list", help="print the tests of a flavour")
    listing.add_argument("flavour")
    listing.add_argument("--all", action="store_true", help="also tests that can run there without declaring it")
    listing.add_argument("--quick", action="store_true", help=f"only tests that declare at most {QUICK} s")
    listing.set_defaults(function=list_command)
    commands.add_parser("budget", help="check all declarations").set_defaults(function=budget_command)
    declare = commands.add_parser("declare", help="rewrite declarations after a file of times")
    declare.add_argument("file")
    declare.set_defaults(function=declare_command)
    slowest = commands.add_parser("slowest", help="print the slowest tests of a file of times")
    slowest.add_argument("file")
    slowest.set_defaults(function=slowest_command)
    args = parser.parse_args()
    return args.function(args)


if __name__ == "__main__":
    sys.exit(main())
