"""Broken models are found by the right gate and module, sound ones pass."""

from typing import Any

import models
import pytest
import torch
from broken import BROKEN, Broken
from torch import nn

import weft.gates
from weft.gates import Outcome

SOUND = [
    models.Attention,
    models.Fused,
    models.FusedWithMask,
    models.Window,
    models.Alibi,
    models.Sink,
    models.Rope,
    models.Softcap,
    models.Fft,
    models.Prefix,
    models.Convolution,
    models.Shift,
    models.LinearAttention,
    models.Recurrence,
    models.Experts,
    nn.Identity,
]


@pytest.mark.parametrize("mixer", SOUND, ids=lambda m: m.__name__)
def test_sound(mixer: Any) -> None:
    report = weft.gates.check(models.made(mixer), context=None if mixer is models.Fused else 131)
    assert report.exit_status == 0, str(report)
    assert not [c for c in report.checks if c.outcome is Outcome.WARNING], str(report)
    report.raise_if_failed()


@pytest.mark.parametrize("case", BROKEN, ids=lambda b: b.name)
def test_broken(case: Broken) -> None:
    report = weft.gates.check(case.build(), **{"context": 131} | case.options)
    found = {gate: {c.module for c in report.failed if c.gate == gate} for gate in {c.gate for c in report.failed}}
    assert case.gate in found, str(report)
    assert set(found) <= {case.gate, *case.also}, str(report)
    assert case.module is None or case.module in found[case.gate], str(report)
    with pytest.raises(weft.gates.GateError, match=case.gate):
        report.raise_if_failed()


def test_leaks_of_one_mode_or_backend_are_found_there() -> None:
    """The names of the failed checks say where a leak is."""
    cases = {b.name: b for b in BROKEN}
    for name, text in (("no mask in training", "train"), ("one backend", "sdpa MATH"), ("beyond 256 tokens", "257")):
        report = weft.gates.check(cases[name].build(), gates=["causal"])
        assert report.failed and all(text in c.name for c in report.failed), str(report)


def test_gradients_and_replaced_tokens_see_different_leaks() -> None:
    cases = {b.name: b for b in BROKEN}
    report = weft.gates.check(cases["expert choice"].build(), gates=["causal"])
    assert {c.name.split(",")[0] for c in report.failed} == {"replaced tokens"}, str(report)

    def gradient_only(ids: torch.Tensor) -> torch.Tensor:
        """A leak that two passes do not show, because it is 0 in both: but its derivative is not."""
        x = table(ids)
        later = (x - x.detach()).flip(1).cumsum(1).flip(1)
        return x.cumsum(1) + later

    table = nn.Embedding(models.VOCABULARY, models.VOCABULARY)
    report = weft.gates.check(gradient_only, vocabulary=models.VOCABULARY, context=131, gates=["causal"])
    assert {c.name.split(",")[0] for c in report.failed} == {"gradients"}, str(report)
