"""The gate *cached*: decoding with a cache gives the logits of one pass over the whole sequence."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from weft.gates.decoders import Cached, ModelError, NotOffered
from weft.gates.limits import AMPLIFIED, Limits, relative
from weft.gates.report import Check, Outcome
from weft.gates.subject import EVAL, Subject
from weft.gates.trace import Rows, first_difference, located

GATE = "cached"
LENGTH, BATCH = 67, 3


@dataclasses.dataclass(frozen=True)
class Fault:
    """A step whose logits differ: its tokens, and by how much."""

    size: float = 0.0
    row: int = 0
    step: int = 0


def _plans(length: int, windows: tuple[int, ...]) -> dict[str, list[int]]:
    """Return numbers of tokens per step, by what they try."""
    third = length // 3
    plans = {
        "a first pass, then single tokens": [third, *[1] * 5],
        "a filled cache gets several tokens": [third, 7, 2, length - third - 9],
    }
    for window in windows:
        if window + 12 <= length:
            plans[f"past the window of {window}"] = [window - 1, 1, 1, 1, 5, 1, 1]
            plans[f"a first pass past the window of {window}"] = [window + 3, 1, 1, 3, 1]
    plans |= {
        "chunks": [5, 1, 8, 3, 1, 1, 16, 4, 13, 2],
        "one pass": [length],
        "single tokens": [1] * min(length, 40),
    }
    return {name: _within(plan, length) for name, plan in plans.items()}


def _within(plan: list[int], length: int) -> list[int]:
    """Return the steps of a plan that fit into a length."""
    return [n for i, n in enumerate(plan) if n > 0 and sum(plan[: i + 1]) <= length]


class _Trial:
    """Decoding of some sequences, compared with the logits of the whole ones."""

    def __init__(self, model: Subject, decoder: Cached, length: int, seed: int) -> None:
        self.model, self.decoder, self.seed, self.length = model, decoder, seed, length
        self.ids = model.sequence(length, seed, BATCH)
        with torch.no_grad(), model.running(EVAL, seed):
            self.whole = decoder.whole(self.ids)
        self.bound = model.rounding

    def step(
        self, cache: Any, ids: Tensor, begin: int, end: int, wanted: Tensor, worst: Fault, i: int = 0
    ) -> tuple[Any, Fault]:
        """Decode tokens begin to end, and return the cache and the worst fault."""
        logits, cache = self.decoder.step(ids[:, begin:end], cache)
        if logits.shape[1] != end - begin:
            raise NotOffered(f"it returned {logits.shape[1]} rows of logits for {end - begin} tokens")
        difference = (logits - wanted[:, begin:end]).abs()
        size = relative(difference, self.whole)
        if size > worst.size:
            worst = Fault(size, begin + int(difference.amax((0, 2)).argmax()), i)
        return cache, worst

    def plan(self, steps: list[int]) -> Fault:
        """Decode in steps."""
        worst, at = Fault(), 0
        with torch.no_grad(), self.model.running(EVAL, self.seed):
            cache = self.decoder.start(BATCH, self.length)
            for i, n in enumerate(steps):
                cache, worst = self.step(cache, self.ids, at, at + n, self.whole, worst, i)
                at += n
        return worst

    def forked(self, change: Callable[[Any], Any], index: Tensor, begin: int) -> Fault:
        """Change the cache after some tokens, and go on with the sequences of index."""
        ids, whole = self.ids[index], self.whole[index]
        with torch.no_grad(), self.model.running(EVAL, self.seed):
            cache = self.decoder.start(BATCH, self.length)
            cache, worst = self.step(cache, self.ids, 0, begin, self.whole, Fault())
            cache = change(cache)
            for at in range(begin, begin + 3):
                cache, worst = self.step(cache, ids, at, at + 1, whole, worst)
            cache, worst = self.step(cache, ids, begin + 3, begin + 8, whole, worst)
        return worst

    def cropped(self, begin: int, count: int) -> Fault:
        """Decode wrong tokens, remove them, and go on with the right ones."""
        wrong = self.model.different(self.ids, torch.ones_like(self.ids, dtype=torch.bool), self.seed + 1)
        worst = Fault()
        with torch.no_grad(), self.model.running(EVAL, self.seed):
            cache = self.decoder.start(BATCH, self.length)
            cache, worst = self.step(cache, self.ids, 0, 1, self.whole, worst)
            self.decoder.prepare_crop(cache)
            cache, worst = self.step(cache, self.ids, 1, begin, self.whole, worst)
            _, cache = self.decoder.step(wrong[:, begin : begin + count], cache)
            cache = self.decoder.crop(cache, count)
            cache, worst = self.step(cache, self.ids, begin, begin + 4, self.whole, worst)
        return worst

    def module(self, steps: list[int], fault: Fault) -> str | None:
        """Return the first module whose output in the faulty step differs from that in the whole pass."""
        model = self.model
        if model.module is None:
            return None
        begin, n = sum(steps[: fault.step]), steps[fault.step]
        with torch.no_grad(), model.running(EVAL, self.seed):
            cache = self.decoder.start(BATCH, self.length)
            at = 0
            for k in steps[: fault.step]:
                _, cache = self.decoder.step(self.ids[:, at : at + k], cache)
                at += k
            return first_difference(
                model.module,
                lambda: self.decoder.whole(self.ids),
                lambda: self.decoder.step(self.ids[:, begin : begin + n], cache),
                Rows(BATCH, self.length, 0, begin, begin + n),
                Rows(BATCH, n, 0, 0, n),
                tolerance=self.bound,
            )


def _judged(trial: _Trial, name: str, run: Callable[[], Fault], steps: list[int] | None = None) -> Check:
    title = f"{trial.decoder.name}, {name}, {trial.model.precision}"
    try:
        fault = run()
    except NotOffered as reason:
        return Check(GATE, title, Outcome.NOT_RUN, str(reason), optional=True)
    except ModelError as reason:
        return Check(GATE, title, Outcome.NOT_RUN, str(reason), optional=steps is None or trial.decoder.optional)
    if fault.size <= trial.bound:
        return Check(GATE, title, Outcome.PASS, f"rounding of {fault.size:.1e}" if fault.size else "", fault.size)
    message = f"row {fault.row} differs from that of the whole pass by {fault.size:.1e}"
    module = located(functools.partial(trial.module, steps, fault)) if steps else None
    if module:
        message += f", first in {module}"
    amplified = trial.model.f64 and fault.size < AMPLIFIED
    outcome = Outcome.WARNING if trial.decoder.optional or amplified else Outcome.FAIL
    return Check(GATE, title, outcome, message, fault.size, module, fault.row)


def _check(trial: _Trial, windows: tuple[int, ...]) -> Iterator[Check]:
    """Yield the checks of one way to decode."""
    for name, steps in _plans(trial.length, windows).items():
        yield _judged(trial, name, functools.partial(trial.plan, steps), steps)
    decoder, device = trial.decoder, trial.ids.device
    if trial.length < 20 or decoder.optional:
        return
    order = torch.tensor([2, 0, 0], device=device)
    few = torch.tensor([2, 0], device=device)
    twice = torch.tensor([0, 0, 1, 1, 2, 2], device=device)
    operations: list[tuple[str, Callable[[Any], Any], Tensor]] = [
        ("reordered", lambda c: decoder.reorder(c, order), order),
        ("selected", lambda c: decoder.select(c, few), few),
        ("repeated", lambda c: decoder.repeat(c, 2), twice),
    ]
    for begin in [trial.length // 3, *(w + 2 for w in windows if w + 14 <= trial.length)]:
        at = f"after {begin} tokens"
        for name, change, index in operations:
            yield _judged(trial, f"{name} {at}", functools.partial(trial.forked, change, index, begin))
        yield _judged(trial, f"cropped {at}", functools.partial(trial.cropped, begin, 4))


def _positions(first: _Trial, other: _Trial) -> Check:
    """Check that a whole pass with positions and a mask, as generate passes them, equals one without."""
    size = relative((first.whole - other.whole).abs(), first.whole)
    name = f"positions and mask, {first.model.precision}"
    if size <= first.bound:
        return Check(GATE, name, Outcome.PASS, value=size)
    message = f"a pass with positions from 0 and a mask differs from one with ids only by {size:.1e}"
    return Check(GATE, name, Outcome.WARNING, message, size)


def check(subject: Subject, limits: Limits, seed: int = 0) -> Iterator[Check]:
    """Yield the checks of the gate *cached*."""
    model = subject.exact or subject
    decoders = model.decoders()
    if not decoders:
        reason = "no cache is known: pass decoder=, a function (model, ids, cache) -> (logits, cache)"
        yield Check(GATE, "decoding", Outcome.NOT_RUN, reason, optional=True)
    windows = tuple(w for w in subject.windows if w <= 256)
    length = subject.lengths([max([LENGTH, *(w + 41 for w in windows)]) | 1])[0]
    first: _Trial | None = None
    for decoder in decoders:
        try:
            trial = _Trial(model, decoder, length, seed)
        except NotOffered as reason:
            yield Check(GATE, decoder.name, Outcome.NOT_RUN, str(reason), optional=True)
            continue
        first = first or trial
        if decoder.optional and first is not trial:
            yield _positions(first, trial)
        for found in _check(trial, windows):
            yield found
            if limits.over:
                yield Check(GATE, f"{decoder.name}, the rest", Outcome.NOT_RUN, "the time is used up", optional=True)
                break
