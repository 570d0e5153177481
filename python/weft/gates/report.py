"""Results of gates: one check, and the report of all of them."""

import dataclasses
import enum
import json


class Outcome(enum.Enum):
    """The result of one check."""

    PASS = "pass"
    FAIL = "fail"
    WARNING = "warning"
    NOT_RUN = "not run"


@dataclasses.dataclass(frozen=True)
class Check:
    """One check of a gate.

    Attributes:
        gate: name of the gate.
        name: what was checked, and on what.
        outcome: the result.
        message: what was found, or why the check was not run; empty if there is nothing to add.
        value: measured size of the fault; 0 is none.
        module: name of the first module that shows the fault, if it is known.
        position: index of the first row that shows the fault, if it is known.

    """

    gate: str
    name: str
    outcome: Outcome
    message: str = ""
    value: float = 0.0
    module: str | None = None
    position: int | None = None

    def __str__(self) -> str:
        """Return one line of the printed report."""
        text = f"{self.outcome.value:8} {self.gate}: {self.name}"
        return f"{text}: {self.message}" if self.message else text


class GateError(AssertionError):
    """A required gate failed or was not run."""


@dataclasses.dataclass(frozen=True)
class Report:
    """All checks of a model.

    Attributes:
        checks: the checks in the order in which they ran.
        require: names of the gates that must have run.

    """

    checks: tuple[Check, ...]
    require: tuple[str, ...]

    @property
    def failed(self) -> list[Check]:
        """The checks that failed."""
        return [c for c in self.checks if c.outcome is Outcome.FAIL]

    @property
    def missing(self) -> list[str]:
        """The required gates of which a check was not run, or that have none."""
        found = {c.gate for c in self.checks}
        skipped = {c.gate for c in self.checks if c.outcome is Outcome.NOT_RUN}
        return [gate for gate in self.require if gate not in found or gate in skipped]

    @property
    def exit_status(self) -> int:
        """The exit status of the command: 0 passed, 1 failed, 2 a required gate could not be run."""
        return 1 if self.failed else 2 if self.missing else 0

    def raise_if_failed(self) -> None:
        """Raise GateError if a check failed or a required gate was not run."""
        if self.failed:
            raise GateError("\n".join(str(c) for c in self.failed))
        if self.missing:
            reasons = [str(c) for c in self.checks if c.gate in self.missing and c.outcome is Outcome.NOT_RUN]
            raise GateError("\n".join([f"required gates were not run: {', '.join(self.missing)}", *reasons]))

    def to_json(self) -> str:
        """Return the report as a JSON object."""
        checks = [dataclasses.asdict(c) | {"outcome": c.outcome.value} for c in self.checks]
        passed = self.exit_status == 0
        return json.dumps({"passed": passed, "missing": self.missing, "checks": checks}, indent=1)

    def __str__(self) -> str:
        """Return a line for every check, and a line with the result."""
        count = {o: sum(c.outcome is o for c in self.checks) for o in Outcome}
        total = ", ".join(f"{n} {o.value}" for o, n in count.items() if n)
        return "\n".join([*(str(c) for c in self.checks), total or "no check was run"])
