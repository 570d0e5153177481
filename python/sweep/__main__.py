"""Checks the causal classes of transformers, with tiny random weights: python -m sweep [TYPE...] [--json FILE]."""

import argparse
import collections
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import transformers

import weft.gates
from sweep.configs import LEFT_OUT, tiny, types
from weft.gates import Outcome, Report

GATES = ("isolated", "causal", "cached")
SEEDS = (0, 1, 2)
MOST = 3_000_000  # parameters of a class that could not be made tiny


def build(model_type: str, seed: int) -> Any:
    """Return the model with random weights."""
    kind = getattr(transformers, types()[model_type])
    with torch.device("meta"):
        size = sum(p.numel() for p in kind(tiny(model_type)).parameters())
    if size > MOST:
        raise ValueError(f"the config has {size} parameters")
    torch.manual_seed(seed)
    return kind(tiny(model_type)).eval()


def run(model_type: str, seed: int, gates: tuple[str, ...], f64: bool) -> Report:
    """Check the class once."""
    return weft.gates.check(build(model_type, seed), gates=gates, require=(), seed=seed, f64=f64, time=60, context=131)


def findings(report: Report, outcome: Outcome = Outcome.FAIL) -> dict[str, list[str]]:
    """Return the lines of the checks with this outcome, by gate."""
    found = collections.defaultdict(list)
    for c in report.checks:
        if c.outcome is outcome:
            found[c.gate].append(f"{c.name}: {c.message}")
    return dict(found)


def one(model_type: str) -> dict[str, Any]:
    """Return what was found for a class. A gate fails if it does for all seeds, in f64 and in f32."""
    begin = time.monotonic()
    first = run(model_type, 0, GATES, True)
    failed = findings(first)
    confirmed = {}
    for gate in failed:
        others = [run(model_type, s, (gate,), f64) for s in SEEDS for f64 in (True, False) if (s, f64) != (0, True)]
        confirmed[gate] = sum(gate in findings(r) for r in others) + 1
    gates = {c.gate: "pass" for c in first.checks if c.outcome is Outcome.PASS}
    gates |= {gate: "fail" if n == 2 * len(SEEDS) else f"{n} of {2 * len(SEEDS)}" for gate, n in confirmed.items()}
    return {
        "type": model_type,
        "class": types()[model_type],
        "gates": gates,
        "failed": failed,
        "warnings": findings(first, Outcome.WARNING),
        "not_run": findings(first, Outcome.NOT_RUN),
        "seconds": round(time.monotonic() - begin, 1),
    }


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m sweep", description=__doc__)
    parser.add_argument("types", nargs="*", metavar="TYPE", help="model types (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found, one line for each class")
    a = parser.parse_args()
    transformers.logging.set_verbosity_error()
    done = []
    every = a.types or [t for t in types() if t not in LEFT_OUT]
    for i, model_type in enumerate(every):
        try:
            found = one(model_type)
        except Exception as error:  # a class that does not run is a line of the table
            lines = str(error).strip().splitlines() or [""]
            found = {"type": model_type, "class": types()[model_type], "error": f"{type(error).__name__}: {lines[0]}"}
        done.append(found)
        text = found.get("error") or ", ".join(f"{g} {v}" for g, v in found["gates"].items())
        print(f"{i + 1} of {len(every)}  {found['class']}: {text}", flush=True)
        if a.json:
            a.json.write_text("".join(json.dumps(d) + "\n" for d in done))
    return 0


if __name__ == "__main__":
    sys.exit(main())
