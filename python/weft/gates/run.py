"""Runs the gates on a model."""

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from weft.gates import cached, causal, grouped, isolated, live, loss, packed
from weft.gates.decoders import ModelError
from weft.gates.huggingface import subject_of
from weft.gates.limits import Limits
from weft.gates.report import Check, Outcome, Report, declared
from weft.gates.subject import Model, Subject

GATES = (isolated.GATE, causal.GATE, cached.GATE, packed.GATE, live.GATE, grouped.GATE)
SHARE = 0.6  # of the time that is left, for each of the gates that can take a sample


def _checks(gate: str, run: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """Yield the checks of one gate. If the model raises, the gate could not be run."""
    try:
        yield from run()
    except ModelError as error:
        yield Check(gate, "all that follows", Outcome.NOT_RUN, str(error))


def _known(names: Sequence[str], what: str, gates: Sequence[str]) -> None:
    unknown = sorted(set(names) - set(gates))
    if unknown:
        raise ValueError(f"{what}: there is no gate {', '.join(unknown)}; the gates are {', '.join(gates)}")


def check(
    model: Model,
    ids: Tensor | None = None,
    *,
    vocabulary: int | None = None,
    context: int | None = None,
    factory: Callable[[], Model] | None = None,
    forward: Callable[[Any, Tensor], Any] | None = None,
    decoder: Callable[[Any, Tensor, Any], tuple[Any, Any]] | None = None,
    documents: Callable[[Any, Tensor, Tensor], Any] | None = None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    gates: Sequence[str] | None = None,
    require: Sequence[str] = (causal.GATE,),
    exceptions: Mapping[str, str] | None = None,
    flex: bool = False,
    f64: bool = True,
    time: float = 120.0,
    memory: float = 2.0**31,
    seed: int = 0,
    progress: Callable[[Check], None] | None = None,
) -> Report:
    """Check a model.

    Args:
        model: maps token ids [batch, time] to logits [batch, time, vocabulary], or to an object that has such `logits`.
            A module is copied before it is checked, so its weights, buffers, mode and gradients stay as they are.
        ids: tokens to run the model on; by default random ones.
        vocabulary: number of token ids; by default that of the model's config or first embedding table.
        context: maximum number of tokens; by default that of the model's config, or none.
        factory: returns a new model; it is called instead of copying the model.
        forward: calls the model, (model, ids) -> logits, if it is not called with ids alone.
        decoder: decodes with a cache, (model, ids, cache) -> (logits, cache), with None as the empty cache. Models of
            transformers need none.
        documents: runs several documents in one sequence, (model, ids, positions) -> logits. Positions begin at 0 in
            each document.
        optimizer: optimiser of the model's parameters, or several; the gate *grouped* needs it.
        gates: names of the gates to run; by default all that can run.
        require: gates that must have run: if one has not, the report has not passed.
        exceptions: reasons for known failures, which become warnings: the key is a gate, or GATE:TEXT for failures
            whose line contains TEXT.
        flex: whether to try flex_attention too, which compiles code for a minute.
        f64: whether to compute in f64 if the model can; otherwise in its own dtype, where bounds are wider.
        time: seconds after which checks look at a sample. Each check runs at least once.
        memory: bytes that one pass may use, beside weights.
        seed: seed of the random tokens.
        progress: called with each check when it has run.

    """
    chosen = tuple(gates) if gates is not None else tuple(g for g in GATES if g != grouped.GATE or optimizer is not None)
    _known(chosen, "gates", GATES)
    _known(require, "require", GATES)
    _known([key.partition(":")[0] for key in exceptions or {}], "exceptions", GATES)
    limits = Limits(time, memory)
    checks = []
    with torch.inference_mode(False), torch.enable_grad():
        subject = subject_of(model, vocabulary, context, factory, ids, forward, decoder, documents)
        subject.flex = flex
        if not f64:
            subject.exact = None
        runs: dict[str, Callable[[], Iterator[Check]]] = {
            isolated.GATE: lambda: isolated.check(subject, seed),
            causal.GATE: lambda: causal.check(subject, limits.part(SHARE), seed),
            cached.GATE: lambda: cached.check(subject, limits.part(SHARE), seed),
            packed.GATE: lambda: packed.check(subject, seed, packed.GATE in require),
            live.GATE: lambda: live.check(subject, seed),
            grouped.GATE: lambda: _grouped(subject, optimizer),
        }
        for found in (c for gate in GATES if gate in chosen for c in _checks(gate, runs[gate])):
            checks.append(found)
            if found.gate == isolated.GATE and found.outcome is Outcome.FAIL:
                subject.run_alone()  # or other gates would blame the sequences beside the one they look at
            if progress:
                progress(found)
    done = declared(checks, exceptions or {})
    return Report(tuple(done), tuple(require), subject.name, seed, limits.used)


def _grouped(subject: Subject, optimizer: Any) -> Iterator[Check]:
    if optimizer is None:
        yield Check(grouped.GATE, "parameters", Outcome.NOT_RUN, "pass optimizer=")
        return
    yield from grouped.check(subject, optimizer)


def check_step(
    step: Callable[[Any, Any], Any],
    model: nn.Module,
    batch: Any,
    *,
    targets: Tensor | None = None,
    exceptions: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Report:
    """Check what a training step scores.

    Args:
        step: (model, batch) -> loss. It calls the model with the batch, in one pass or several, and returns the loss, or
            calls backward() itself.
        model: module that returns logits, alone or with the loss, or scores them by cross_entropy. It is copied.
        batch: what the step gets: ids [batch, time], of which each row's target is the next token; a pair of inputs and
            targets; or a dict with `input_ids` and, if they differ, `labels`, whose next entry is the target.
        targets: the target of each row [batch, time], -100 where a row has none, if the batch is of another kind.
        exceptions: reasons for known failures, which become warnings.
        seed: seed of random numbers that the step uses.

    """
    begin = time.monotonic()
    names = (loss.LOSS, loss.NORMALISED)
    _known([key.partition(":")[0] for key in exceptions or {}], "exceptions", names)
    with torch.inference_mode(False), torch.enable_grad():
        copied = copy.deepcopy(model)
        checks = list(_checks(loss.LOSS, lambda: loss.check(step, copied, batch, targets, seed)))
    done = declared(checks, exceptions or {})
    return Report(tuple(done), (loss.LOSS,), type(model).__name__, seed, time.monotonic() - begin)
