"""The gate *isolated*: a sequence does not depend on the others in its batch, its place, the batch size or padding."""

import dataclasses
import functools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from weft.gates.decoders import ModelError, NotOffered
from weft.gates.limits import AMPLIFIED, relative
from weft.gates.report import Check, Outcome
from weft.gates.subject import EVAL, Setting, Subject
from weft.gates.trace import Rows, first_difference, located

GATE = "isolated"
LENGTH, BATCH, PADDING = 67, 6, 13
LENGTH_LARGE, BATCH_LARGE = 37, 3  # of a large model


def _run(model: Subject, ids: Tensor, setting: Setting, seed: int) -> Tensor:
    with torch.no_grad(), model.running(setting, seed):
        return model.logits(ids)


def _compare(model: Subject, name: str, got: Tensor, wanted: Tensor, what: str) -> Check:
    """Return the check that got equals wanted, up to rounding."""
    difference = (got - wanted).abs()
    size = relative(difference, wanted)
    if size < model.rounding:
        return Check(GATE, name, Outcome.PASS, f"rounding of {size:.1e}" if size else "", size)
    row = int(difference.amax((0, 2)).argmax())
    outcome = Outcome.WARNING if model.f64 and size < AMPLIFIED else Outcome.FAIL
    return Check(GATE, name, outcome, f"{what}, by {size:.1e} at row {row}", size, position=row)


def _others(model: Subject, ids: Tensor, setting: Setting, seed: int, one: bool = False) -> Check:
    """Check that replaced neighbours do not change a sequence: by random tokens, or by one token, which fills experts."""
    where = torch.ones_like(ids, dtype=torch.bool)
    where[1] = False
    changed = torch.where(where, ids[1, 0], ids) if one else model.different(ids, where, seed + 1)
    kind = "other sequences of one token" if one else "other sequences"
    name = f"{kind}, {len(ids)} x {ids.shape[1]} tokens, {setting}, {model.precision}"
    before, after = (_run(model, i, setting, seed)[1:2] for i in (ids, changed))
    check = _compare(model, name, after, before, "a sequence depends on the others in its batch")
    if check.outcome is Outcome.FAIL and model.module is not None:
        rows = Rows(len(ids), ids.shape[1], 1, 0, ids.shape[1])
        first, second = (functools.partial(_run, model, i, setting, seed) for i in (ids, changed))
        module = located(functools.partial(first_difference, model.module, first, second, rows, tolerance=model.rounding))
        if module:
            check = dataclasses.replace(check, message=f"{check.message}, first in {module}", module=module)
    return check


def _place(model: Subject, ids: Tensor, seed: int) -> Check:
    order = torch.arange(len(ids), device=ids.device).roll(1)
    got, wanted = _run(model, ids[order], EVAL, seed), _run(model, ids, EVAL, seed)[order]
    return _compare(model, f"place in the batch, {model.precision}", got, wanted, "a sequence depends on its place")


def _size(model: Subject, ids: Tensor, seed: int) -> Check:
    got, wanted = _run(model, ids[:1], EVAL, seed), _run(model, ids, EVAL, seed)[:1]
    name = f"batch of 1 and of {len(ids)}, {model.precision}"
    return _compare(model, name, got, wanted, "a sequence depends on the size of its batch")


def _padding(model: Subject, ids: Tensor, count: int, left: bool, seed: int) -> Check:
    """Check that padding changes nothing: whatever its tokens are, and how much of it there is."""
    name = f"{'left' if left else 'right'} padding, {model.precision}"
    length = ids.shape[1]
    padding = model.sequence(count, seed + 2, len(ids))
    parts = [padding, ids] if left else [ids, padding]
    mask = torch.cat([torch.full_like(p, int(p is ids)) for p in parts], 1)
    begin = count if left else 0
    with torch.no_grad(), model.running(EVAL, seed):
        got = model.padded(torch.cat(parts, 1), mask)[:, begin : begin + length]
        wanted = model.padded(ids, torch.ones_like(ids))
    return _compare(model, name, got, wanted, "padding changes the logits")


def check(subject: Subject, seed: int = 0) -> Iterator[Check]:
    """Yield the checks of the gate *isolated*."""
    model = subject.exact or subject
    length = subject.lengths([LENGTH_LARGE if subject.is_large else LENGTH])[0]
    ids = model.sequence(length, seed, BATCH_LARGE if subject.is_large else BATCH)
    trials: list[tuple[str, Callable[[], Check]]] = [
        ("other sequences, eval", lambda: _others(model, ids, EVAL, seed)),
        ("other sequences of one token, eval", lambda: _others(model, ids, EVAL, seed, one=True)),
        ("place in the batch", lambda: _place(model, ids, seed)),
        ("batch size", lambda: _size(model, ids, seed)),
    ]
    if subject.module is not None:
        training = Setting(training=True)
        trials.append(("other sequences, train", lambda: _others(model, ids, training, seed)))
    padding = min(PADDING, (subject.context or 2 * PADDING) // 2)
    padded = ids[:, : min(length, (subject.context or length + padding) - padding)]
    for left in (False, True):
        side = "left" if left else "right"
        trials.append((f"{side} padding", functools.partial(_padding, model, padded, padding, left, seed)))
    for name, trial in trials:
        try:
            yield trial()
        except (NotOffered, ModelError) as reason:
            yield Check(GATE, name, Outcome.NOT_RUN, str(reason), optional="padding" in name)
