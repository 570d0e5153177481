"""Reports, exceptions, what is left unchanged, the command and the pytest plugin."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo  # or pytester would import it, and forget it
from broken import BROKEN
from models import VOCABULARY, Unmasked, made, sound
from torch import Tensor

import weft.gates
from weft.gates import Outcome
from weft.gates.__main__ import main

pytest_plugins = ["pytester"]


def test_nothing_changes() -> None:
    model = sound().train()
    model.head.weight.requires_grad_(False)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state, default = torch.random.get_rng_state(), torch.get_default_dtype()
    weft.gates.check(model, context=131)
    assert model.training and all(p.grad is None for p in model.parameters())
    assert not model.head.weight.requires_grad and torch.get_default_dtype() is default
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_the_factory_is_called_again() -> None:
    calls = []

    def factory() -> torch.nn.Module:
        calls.append(1)
        return sound()

    weft.gates.check(factory(), factory=factory, context=67, gates=["live"], require=[])
    assert len(calls) >= 2


def test_ids() -> None:
    """Given tokens are used: a model that leaks for one token only is found with it."""

    def model(ids: Tensor) -> Tensor:
        leak = (ids == 7).sum(1, keepdim=True)
        return torch.nn.functional.embedding(ids, table) + leak[..., None]

    table = torch.randn(10**6, 8)
    found = weft.gates.check(model, torch.tensor([[7, 8, 9]]), vocabulary=10**6, context=20, gates=["causal"])
    assert found.failed
    assert not weft.gates.check(model, vocabulary=10**6, context=20, gates=["causal"]).failed


def test_a_gate_that_cannot_run_does_not_pass() -> None:
    def one_hot(ids: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(ids, VOCABULARY).float()

    report = weft.gates.check(one_hot, vocabulary=VOCABULARY)
    assert report.exit_status == 2 and report.missing == ["causal"]
    with pytest.raises(weft.gates.GateError, match="no lookup by token id"):
        report.raise_if_failed()
    assert weft.gates.check(one_hot, vocabulary=VOCABULARY, require=[]).exit_status == 0
    assert weft.gates.check(sound(), require=["causal", "packed"], context=67).exit_status == 2
    with pytest.raises(ValueError, match="no gate casual"):
        weft.gates.check(one_hot, vocabulary=VOCABULARY, require=["casual"])


def test_what_a_model_raises_is_reported() -> None:
    def raises(ids: Tensor) -> Tensor:
        raise IndexError("no such thing")

    report = weft.gates.check(raises, vocabulary=VOCABULARY)
    assert report.exit_status == 2 and "IndexError: no such thing" in str(report)
    with pytest.raises(TypeError, match="pass vocabulary="):
        weft.gates.check(raises)


def test_the_shape_of_logits() -> None:
    report = weft.gates.check(lambda ids: torch.zeros(len(ids), 1, VOCABULARY), vocabulary=VOCABULARY)
    assert report.exit_status == 2 and "for ids" in str(report), str(report)
    wrapped = weft.gates.check(sound(), forward=lambda model, ids: (None, model(ids)), context=67, gates=["causal"])
    assert wrapped.exit_status == 0, str(wrapped)


def test_exceptions() -> None:
    case = next(b for b in BROKEN if b.name == "mean over the batch")
    model = case.build()
    report = weft.gates.check(model, gates=["isolated"], require=[], exceptions={"isolated": "on purpose"})
    assert report.exit_status == 0 and "(declared: on purpose)" in str(report)
    partly = {"isolated: place in the batch": "on purpose"}
    assert weft.gates.check(model, gates=["isolated"], require=[], exceptions=partly).exit_status == 1
    unused = weft.gates.check(sound(), gates=["isolated"], require=[], exceptions={"isolated": "on purpose"})
    assert [c.message for c in unused.checks if c.outcome is Outcome.WARNING] == ["no failure needs it: delete it"]
    with pytest.raises(ValueError, match="no gate isolate"):
        weft.gates.check(model, exceptions={"isolate": "x"})


def test_a_model_that_cannot_run_in_f64() -> None:
    class Single(type(sound())):  # type: ignore[misc]
        def forward(self, ids: Tensor) -> Tensor:
            if self.head.weight.dtype != torch.float32:
                raise RuntimeError("expected f32")
            return super().forward(ids)

    for mixer, status in ((Unmasked, 1), (type(sound().blocks[0]), 0)):
        report = weft.gates.check(Single(mixer()), context=131)
        assert report.exit_status == status, str(report)
        assert all("its own dtype" in c.name for c in report.checks if c.gate == "causal" and c.name[0] in "rg")


def test_time_is_a_limit() -> None:
    report = weft.gates.check(sound(), time=0.0, memory=2.0**20, gates=["causal"])
    assert report.exit_status == 0 and all("of 130 cuts" in c.name for c in report.checks if "131 tokens" in c.name)
    assert all("all of" not in c.name for c in report.checks)


def test_json() -> None:
    report = weft.gates.check(made(Unmasked), context=131, gates=["causal"])
    found = json.loads(report.to_json())
    assert not found["passed"] and any(c["outcome"] == "fail" for c in found["checks"]) and found["model"] == "Frame"
    assert "more" in str(report) and str(report).count("fail  ") < report.details().count("fail  ")


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["models:sound", "--gate", "causal", "--verbose"], 0, "pass     causal"),
        (["models:broken", "--gate", "causal"], 1, "first in blocks.1"),
        (["models:broken", "--gate", "causal", "--except", "causal=known"], 0, "declared: known"),
        (["models:sound", "--gate", "isolated", "--json"], 0, '"passed": true'),
        (["models:sound", "--gate", "isolated", "--require", "packed"], 2, "packed could not be run"),
        (["models"], 2, "PACKAGE:FACTORY"),
        (["models:nothing"], 2, "models has no function nothing"),
        (["nowhere:build"], 2, "No module named 'nowhere'"),
        (["hf:/nonexistent"], 2, "/nonexistent"),
    ],
)
def test_command(
    arguments: list[str], status: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["weft.gates", *arguments, "--context", "131"])
    monkeypatch.chdir(Path(__file__).parent)
    assert main() == status
    printed = capsys.readouterr()
    assert text in printed.out + printed.err


def test_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        tiny="""
        import torch
        from torch import nn

        class Model(nn.Sequential):
            def forward(self, ids):
                x = self[0](ids)
                return self[1](x + x.mean(1, keepdim=True) if self.leaks else x)

        def build(leaks=False):
            model = Model(nn.Embedding(11, 4), nn.Linear(4, 11))
            model.leaks = leaks
            return model

        def leaky():
            return build(True)
        """
    )
    pytester.syspathinsert()
    for factory, failed in (("tiny:build", 0), ("tiny:leaky", 1)):
        result = pytester.runpytest("-p", "weft.gates.pytest_plugin", f"--weft-gates={factory}")
        outcomes = result.parseoutcomes()
        assert outcomes.get("failed", 0) == failed and outcomes["passed"] >= 2, result.stdout.str()
    result.stdout.fnmatch_lines(["*causal*row*depends on*"])


def test_a_value_that_is_not_finite_never_passes() -> None:
    model = sound()

    def decode(model: Any, ids: Tensor, cache: Any) -> tuple[Tensor, Any]:
        past = ids if cache is None else torch.cat([cache, ids], 1)
        logits = model(past)[:, -ids.shape[1] :]
        return (logits * float("nan") if past.shape[1] == 7 else logits), past  # and right ones afterwards

    def documents(model: Any, ids: Tensor, positions: Tensor) -> Tensor:
        return model(ids) * float("nan")

    report = weft.gates.check(
        model, decoder=decode, documents=documents, context=131, gates=["cached", "packed"], require=["cached", "packed"]
    )
    assert {c.gate for c in report.failed} == {"cached", "packed"}, report.details()
    assert any("single tokens" in c.name for c in report.failed), report.details()


def test_a_decoder_that_raises_does_not_pass() -> None:
    def decode(model: Any, ids: Tensor, cache: Any) -> tuple[Tensor, Any]:
        if cache is not None and ids.shape[1] > 1:
            raise NotImplementedError("one token at a time")
        past = ids if cache is None else torch.cat([cache, ids], 1)
        return model(past)[:, -ids.shape[1] :], past

    report = weft.gates.check(sound(), decoder=decode, context=131, gates=["cached"], require=["cached"])
    assert report.exit_status == 2 and "one token at a time" in str(report)


def test_a_factory_that_returns_the_same_model() -> None:
    model = sound()
    weft.gates.check(model, factory=lambda: model, context=67, gates=["isolated", "live"], require=[])
    assert all(p.dtype is torch.float32 for p in model.parameters())
    other = sound()
    weft.gates.check(model, factory=lambda: other, context=67, gates=["live"], require=[])


def test_a_leak_is_a_failure_even_if_its_module_cannot_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unhooked(*_args: Any, **_kwargs: Any) -> None:
        raise RuntimeError("no hooks here")

    monkeypatch.setattr(torch.nn.Module, "register_forward_hook", unhooked)
    report = weft.gates.check(made(Unmasked), context=131, gates=["causal"])
    assert report.exit_status == 1 and all(c.module is None for c in report.failed)


def test_callers_without_gradients() -> None:
    for mode in (torch.no_grad, torch.inference_mode):
        model = sound()
        with mode():
            report = weft.gates.check(model, context=67)
        assert report.exit_status == 0, str(report)


def test_sizes_that_leave_nothing_to_check_are_refused() -> None:
    for options in ({"context": 1}, {"vocabulary": 1}, {"ids": torch.zeros(1, 0, dtype=torch.int64)}):
        with pytest.raises(ValueError, match=r"context|vocabulary|empty"):
            weft.gates.check(sound(), **options)
    for context in (2, 3, 5, 12):
        report = weft.gates.check(sound(), context=context)
        assert report.exit_status == 0, report.details()
