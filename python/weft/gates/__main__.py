"""The command `python -m weft.gates MODEL`: checks a model."""

import argparse
import os
import sys

from weft.gates import run
from weft.gates.load import factory_of
from weft.gates.report import Check


def _exception(text: str) -> tuple[str, str]:
    key, equals, reason = text.partition("=")
    if not equals or not reason:
        raise argparse.ArgumentTypeError(f"{text} is not GATE[:TEXT]=REASON")
    return key, reason


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m weft.gates",
        description="Check a PyTorch language model. Exit status: 0 passed, 1 failed, 2 a required gate could not be run.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="PACKAGE:FACTORY, a function without arguments that returns the model, or hf:NAME, "
        "a folder or a name on the Hugging Face hub")  # fmt: skip
    add("--vocabulary", type=int, metavar="N", help="number of token ids (default: from the model)")
    add("--context", type=int, metavar="N", help="maximum number of tokens (default: from the model)")
    add("--gate", action="append", metavar="NAME", help="run only this gate; may be repeated (default: all)")
    add("--require", action="append", metavar="NAME", help="gate that must have run; may be repeated (default: causal)")
    add("--except", dest="exceptions", type=_exception, action="append", default=[], metavar="GATE[:TEXT]=REASON",
        help="known failure, which becomes a warning; may be repeated")  # fmt: skip
    add("--time", type=float, default=120.0, metavar="SECONDS", help="sample after this time (default 120)")
    add("--memory", type=float, default=2.0, metavar="GIB", help="memory of one pass (default 2)")
    add("--flex", action="store_true", help="also try flex_attention, which compiles code for a minute")
    add("--trust-remote-code", action="store_true", help="run the Python code that comes with an hf: model")
    add("--seed", type=int, default=0, metavar="N", help="seed of the random tokens (default 0)")
    add("--verbose", action="store_true", help="print every check")
    add("--json", action="store_true", help="print the report as JSON")
    return parser


def main() -> int:
    """Run the command."""
    a = _parser().parse_args()
    shows = sys.stderr.isatty() and not a.json

    def progress(check: Check) -> None:
        if shows:
            print(f"\r\033[K{check}"[: os.get_terminal_size(sys.stderr.fileno()).columns], end="", file=sys.stderr)

    try:
        factory = factory_of(a.model, a.trust_remote_code)
        report = run.check(
            factory(),
            vocabulary=a.vocabulary,
            context=a.context,
            factory=None if a.model.startswith("hf:") else factory,
            gates=a.gate,
            require=a.require or [g for g in ("causal",) if not a.gate or g in a.gate],
            exceptions=dict(a.exceptions),
            flex=a.flex,
            time=a.time,
            memory=a.memory * 2**30,
            seed=a.seed,
            progress=progress,
        )
    except (ImportError, OSError, TypeError, ValueError) as error:
        print(f"weft.gates: {error}", file=sys.stderr)
        return 2
    if shows:
        print("\r\033[K", end="", file=sys.stderr)
    print(report.to_json() if a.json else report.details() if a.verbose else report)
    return report.exit_status


if __name__ == "__main__":
    sys.exit(main())
