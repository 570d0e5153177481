"""Checks whether a PyTorch language model is what it claims to be.

    import weft.gates

    report = weft.gates.check(model)
    print(report)
    report.raise_if_failed()

Gates run the model on random tokens and prove properties of it, without training and without changing the model.
"""

from weft.gates.report import Check, GateError, Outcome, Report
from weft.gates.run import check, check_step

__all__ = ["Check", "GateError", "Outcome", "Report", "check", "check_step"]
