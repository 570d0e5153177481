"""Results of gates: one check, and the report of all of them."""

import dataclasses
import enum
import json
from collections.abc import Mapping

SHOWN = 3  # checks of each gate and outcome in the short report


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
        optional: whether the gate counts as run even if this check was not run.

    """

    gate: str
    name: str
    outcome: Outcome
    message: str = ""
    value: float = 0.0
    module: str | None = None
    position: int | None = None
    optional: bool = False

    def __str__(self) -> str:
        """Return one line of the printed report."""
        text = f"{self.outcome.value:7}  {self.gate}: {self.name}"
        return f"{text}: {self.message}" if self.message else text


class GateError(AssertionError):
    """A required gate failed or was not run."""


def declared(checks: list[Check], exceptions: Mapping[str, str]) -> list[Check]:
    """Return checks in which the failures that exceptions name are warnings with the declared reason.

    Each key is a gate, or GATE:TEXT for the failures of a gate whose line contains TEXT. An exception that matches no
    failure is a warning of its own.
    """
    found = []
    used = set()
    for check in checks:
        for key, reason in exceptions.items():
            gate, _, text = key.partition(":")
            if check.outcome is Outcome.FAIL and check.gate == gate and text.strip() in str(check):
                used.add(key)
                message = f"{check.message} (declared: {reason})"
                check = dataclasses.replace(check, outcome=Outcome.WARNING, message=message)
        found.append(check)
    for key in sorted(exceptions.keys() - used):
        gate = key.partition(":")[0]
        found.append(Check(gate, f"exception {key!r}", Outcome.WARNING, "no failure needs it: delete it"))
    return found


@dataclasses.dataclass(frozen=True)
class Report:
    """All checks of a model.

    Attributes:
        checks: the checks in the order in which they ran.
        require: names of the gates that must have run.
        model: name of the model's class.
        seed: seed of the random tokens.
        seconds: duration of the checks.

    """

    checks: tuple[Check, ...]
    require: tuple[str, ...] = ()
    model: str = ""
    seed: int = 0
    seconds: float = 0.0

    @property
    def failed(self) -> list[Check]:
        """The checks that failed."""
        return [c for c in self.checks if c.outcome is Outcome.FAIL]

    @property
    def missing(self) -> list[str]:
        """The required gates without any check that ran, or with a check that was not run and is not optional."""
        ran = {c.gate for c in self.checks if c.outcome is not Outcome.NOT_RUN}
        skipped = {c.gate for c in self.checks if c.outcome is Outcome.NOT_RUN and not c.optional}
        return [gate for gate in self.require if gate not in ran or gate in skipped]

    @property
    def exit_status(self) -> int:
        """The exit status of the command: 0 passed, 1 failed, 2 a required gate could not be run."""
        return 1 if self.failed else 2 if self.missing or not self.checks else 0

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
        head = {"model": self.model, "passed": self.exit_status == 0, "required": self.require, "missing": self.missing}
        return json.dumps(head | {"seed": self.seed, "seconds": round(self.seconds, 2), "checks": checks}, indent=1)

    def __str__(self) -> str:
        """Return a line for every gate, the first checks that did not pass, and the verdict."""
        gates = dict.fromkeys(c.gate for c in self.checks)
        lines = []
        for gate in gates:
            its = [c for c in self.checks if c.gate == gate]
            count = {o: sum(c.outcome is o for c in its) for o in Outcome}
            lines.append(f"{gate:9} " + ", ".join(f"{n} {o.value}" for o, n in count.items() if n))
            for outcome in (Outcome.FAIL, Outcome.WARNING, Outcome.NOT_RUN):
                found = [f"  {c}" for c in its if c.outcome is outcome]
                lines += found[:SHOWN]
                if len(found) > SHOWN:
                    lines.append(f"  {outcome.value:7}  {gate}: and {len(found) - SHOWN} more")
        return "\n".join([*lines, self._verdict()])

    def details(self) -> str:
        """Return a line for every check, and the verdict."""
        return "\n".join([*(str(c) for c in self.checks), self._verdict()])

    def _verdict(self) -> str:
        if self.failed:
            text = "FAILED: " + ", ".join(dict.fromkeys(c.gate for c in self.failed))
        elif self.missing:
            text = "NOT PROVED: " + ", ".join(self.missing) + " could not be run"
        else:
            text = "passed" if self.checks else "NOT PROVED: no check was run"
        return f"{self.model or 'model'}: {text} ({self.seconds:.1f} s)"
