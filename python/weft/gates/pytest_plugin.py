"""Pytest plugin: `pytest --weft-gates=PACKAGE:FACTORY` checks a model, with one test for each gate."""

from collections.abc import Iterator
from typing import Any

import pytest

from weft.gates.load import factory_of
from weft.gates.report import GateError, Report
from weft.gates.run import GATES, check


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("weft").addoption(
        "--weft-gates",
        action="append",
        default=[],
        metavar="PACKAGE:FACTORY",
        help="check the model that this function returns, or hf:NAME; may be repeated",
    )


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add a test for each gate of each model."""
    for model in config.getoption("--weft-gates"):
        items.extend(_Gates.from_parent(session, name=f"weft.gates[{model}]", model=model).collect())


class _Gates(pytest.Collector):
    """The gates of one model."""

    def __init__(self, *, model: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._model = model
        self._report: Report | None = None

    def collect(self) -> Iterator[pytest.Item]:
        for gate in GATES:
            if gate != "grouped":
                yield _Gate.from_parent(self, name=gate)

    def report(self) -> Report:
        if self._report is None:
            factory = factory_of(self._model)
            self._report = check(factory(), factory=None if self._model.startswith("hf:") else factory)
        return self._report


class _Gate(pytest.Item):
    """One gate of one model."""

    parent: _Gates

    def runtest(self) -> None:
        whole = self.parent.report()
        its = tuple(c for c in whole.checks if c.gate == self.name)
        report = Report(its, tuple(g for g in whole.require if g == self.name), whole.model)
        if not any(c.outcome.value != "not run" for c in its) and self.name not in report.require:
            pytest.skip("; ".join(str(c) for c in its) or "no check")
        report.raise_if_failed()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value) if isinstance(excinfo.value, GateError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[str, int | None, str]:
        return self.parent.name, None, f"{self.parent.name}: {self.name}"
