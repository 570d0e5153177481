"""Checks whether a PyTorch language model is what it claims to be.

    import weft.gates

    report = weft.gates.check(model)
    print(report)
    report.raise_if_failed()

A gate runs the model on random tokens and proves a property of it, without training and without changing the model.
"""

from weft.gates.report import Check, GateError, Outcome, Report
from weft.gates.run import check

__all__ = ["Check", "GateError", "Outcome", "Report", "check"]
