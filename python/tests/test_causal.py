import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from models import VOCABULARY, build
from torch import Tensor

import weft.gates
from weft.gates import Outcome


@pytest.mark.parametrize("name", ["sound", "fused", "fft", "prefix"])
def test_sound(name: str) -> None:
    report = weft.gates.check(build(name))
    assert report.exit_status == 0, str(report)
    assert [c.outcome for c in report.checks].count(Outcome.PASS) == len(report.checks), str(report)
    report.raise_if_failed()


@pytest.mark.parametrize("name", ["no mask", "no mask in training", "weak mask", "mean", "expert choice"])
def test_broken(name: str) -> None:
    report = weft.gates.check(build(name))
    assert report.exit_status == 1, str(report)
    changes = [c for c in report.failed if c.name.startswith("replaced tokens")]
    assert changes and all(c.module == "blocks.1" for c in changes), str(report)
    gradients = [c for c in report.failed if c.name.startswith("gradients")]
    assert bool(gradients) == (name != "expert choice")
    if name == "no mask in training":
        assert all("train" in c.name for c in report.failed)
    with pytest.raises(weft.gates.GateError, match="depends on"):
        report.raise_if_failed()


def test_lookup_of_the_next_token() -> None:
    """The row's own lookup is of the next token, so that only replaced tokens show it."""
    model = build("sound")
    report = weft.gates.check(lambda ids: model(ids.roll(-1, 1)), vocabulary=VOCABULARY, context=131)
    assert [c.name.split(",")[0] for c in report.failed] == ["replaced tokens"], str(report)


def test_nothing_changes() -> None:
    model = build("sound").train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state = torch.random.get_rng_state()
    weft.gates.check(model)
    assert model.training and all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_gate_that_cannot_run_does_not_pass() -> None:
    def one_hot(ids: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(ids, VOCABULARY).float()

    report = weft.gates.check(one_hot, vocabulary=VOCABULARY)
    assert report.exit_status == 2 and report.missing == ["causal"]
    with pytest.raises(weft.gates.GateError, match="no lookup by token id"):
        report.raise_if_failed()
    assert weft.gates.check(one_hot, vocabulary=VOCABULARY, require=[]).exit_status == 0
    with pytest.raises(ValueError, match="no gate casual"):
        weft.gates.check(one_hot, vocabulary=VOCABULARY, require=["casual"])


@pytest.mark.parametrize(
    ("model", "status", "text"),
    [
        ("models:sound", 0, "pass     causal"),
        ("models:broken", 1, "first in blocks.1"),
        ("models", 2, "PACKAGE:FACTORY"),
        ("models:nothing", 2, "models has no function nothing"),
        ("nowhere:build", 2, "No module named 'nowhere'"),
    ],
)
def test_command(model: str, status: int, text: str) -> None:
    command = [sys.executable, "-m", "weft.gates", model, "--context", "131"]
    here = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=here, env=environment, check=False)
    assert done.returncode == status and text in done.stdout + done.stderr


def test_json() -> None:
    found = json.loads(weft.gates.check(build("no mask"), context=131).to_json())
    assert not found["passed"] and any(c["outcome"] == "fail" for c in found["checks"])
