"""The command `python -m weft.gates PACKAGE:FACTORY`: checks the model that a function returns."""

import argparse
import importlib
import os
import sys
from collections.abc import Callable

from weft.gates.run import check
from weft.gates.subject import Model


def _factory(text: str) -> Callable[[], Model]:
    """Return the function that PACKAGE:FACTORY names."""
    package, colon, name = text.partition(":")
    if not colon or not package or not name:
        raise ValueError(f"{text} is not PACKAGE:FACTORY, for example mymodel:build")
    sys.path.insert(0, os.getcwd())
    factory = getattr(importlib.import_module(package), name, None)
    if not callable(factory):
        raise ValueError(f"{package} has no function {name}")
    found: Callable[[], Model] = factory
    return found


def main() -> int:
    """Run the command. Exit status: 0 passed, 1 failed, 2 a required gate could not be run."""
    parser = argparse.ArgumentParser(prog="python -m weft.gates", description="Check a PyTorch language model.")
    parser.add_argument("model", metavar="PACKAGE:FACTORY", help="function without arguments that returns the model")
    parser.add_argument("--vocabulary", type=int, metavar="N", help="number of token ids (default: from the model)")
    parser.add_argument("--context", type=int, metavar="N", help="maximum number of tokens (default: from the model)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the random tokens (default 0)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    a = parser.parse_args()
    try:
        factory = _factory(a.model)
        report = check(factory(), vocabulary=a.vocabulary, context=a.context, factory=factory, seed=a.seed)
    except (ImportError, TypeError, ValueError) as error:
        print(f"weft.gates: {error}", file=sys.stderr)
        return 2
    print(report.to_json() if a.json else report)
    return report.exit_status


if __name__ == "__main__":
    sys.exit(main())
