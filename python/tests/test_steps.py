"""Training steps and optimisers."""

from typing import Any

import pytest
import torch
from broken import (
    BROKEN_OPTIMIZERS,
    BROKEN_STEPS,
    SOUND_STEPS,
    Normed,
    grouped,
    in_pairs,
    of_labels,
    right,
    unmasked,
)
from models import VOCABULARY, Frame, made, sound
from torch import Tensor, nn

import weft.gates
from weft.gates import Outcome

IDS = torch.randint(VOCABULARY, (3, 24), generator=torch.Generator().manual_seed(1))
LABELS = IDS.masked_fill(torch.arange(24) % 5 == 0, -100)


def batch_for(step: Any) -> Any:
    """Return a batch of four sequences for steps with micro-batches, of labels for those that mask."""
    if step in (unmasked, of_labels):
        return {"input_ids": IDS, "labels": LABELS}
    return torch.cat([IDS, IDS[:1]])


@pytest.mark.parametrize("step", SOUND_STEPS, ids=lambda s: s.__name__)
def test_sound_step(step: Any) -> None:
    report = weft.gates.check_step(step, sound(), batch_for(step))
    assert report.exit_status == 0 and not report.missing, report.details()


@pytest.mark.parametrize(("step", "gate"), BROKEN_STEPS, ids=lambda s: getattr(s, "__name__", s))
def test_broken_step(step: Any, gate: str) -> None:
    report = weft.gates.check_step(step, sound(), batch_for(step))
    assert gate in {c.gate for c in report.failed}, report.details()


def test_other_batches() -> None:
    inputs = IDS[:, :-1], IDS[:, 1:]
    for step, batch in ((in_pairs, inputs), (of_labels, {"input_ids": IDS, "labels": LABELS})):
        report = weft.gates.check_step(step, sound(), batch)
        assert report.exit_status == 0, report.details()
    targets = torch.nn.functional.pad(IDS[:, 1:-1], (0, 0))
    report = weft.gates.check_step(right, sound(), IDS[:, :-1], targets=targets)
    assert report.exit_status == 0, report.details()


def test_a_model_that_returns_only_its_loss() -> None:
    class Scored(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner: Frame = sound()

        def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
            return nn.functional.cross_entropy(self.inner(ids).flatten(0, 1), targets.flatten())

    step = lambda model, batch: model(*batch)  # noqa: E731
    report = weft.gates.check_step(step, Scored(), (IDS[:, :-1], IDS[:, 1:]))
    assert report.exit_status == 0, report.details()


def test_messages_explain() -> None:
    text = {}
    for step, _ in BROKEN_STEPS:
        text[step.__name__] = weft.gates.check_step(step, sound(), batch_for(step)).details()
    assert "which it has read" in text["not_shifted"]
    assert "scores the token 2 places after it" in text["shifted_twice"]
    assert "it is the sum of the micro-batches' means" in text["accumulated_sum"]
    assert "divided twice by the number of micro-batches" in text["averaged_twice"]
    assert "micro-batches with different numbers of targets" in text["unequal"]
    assert "rows without a target are scored" in text["unmasked"]


def test_a_step_without_a_model_is_not_run() -> None:
    report = weft.gates.check_step(lambda _model, _batch: torch.zeros(()), sound(), IDS)
    assert report.exit_status == 2 and "must call the model" in report.details()


def test_grouped() -> None:
    model = made(Normed)
    report = weft.gates.check(model, optimizer=grouped(model), gates=["grouped"], require=["grouped"])
    assert report.exit_status == 0, report.details()
    assert "1 table and head" not in report.details() and "1 head" in report.details()
    plain = torch.optim.AdamW(model.parameters(), weight_decay=0.1)
    report = weft.gates.check(model, optimizer=plain, gates=["grouped"], require=["grouped"])
    assert [c.outcome for c in report.checks].count(Outcome.WARNING) == 1, report.details()


@pytest.mark.parametrize(("optimizer", "module"), BROKEN_OPTIMIZERS, ids=lambda s: getattr(s, "__name__", s))
def test_broken_optimizer(optimizer: Any, module: str | None) -> None:
    model = made(Normed)
    report = weft.gates.check(model, optimizer=optimizer(model), gates=["grouped"], require=["grouped"])
    assert report.exit_status == 1, report.details()
    assert module is None or module in {c.module for c in report.failed}, report.details()


def test_one_norm_in_the_wrong_group() -> None:
    model = made(Normed)
    norm = model.blocks[1].norms[1].weight
    optimizer = grouped(model)
    optimizer.param_groups[0]["params"].append(norm)
    optimizer.param_groups[1]["params"] = [p for p in optimizer.param_groups[1]["params"] if p is not norm]
    report = weft.gates.check(model, optimizer=optimizer, gates=["grouped"], require=["grouped"])
    assert {c.module for c in report.failed} >= {"blocks.1.norms.1"}, report.details()
