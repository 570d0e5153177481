"""The gate *causal*: no row of the logits depends on a later token.

Two tests, because each sees what the other does not. Gradients miss routing and statistics that have none; replaced
tokens miss leaks that happen to be equal for both. In f64 a sound model usually gives exactly 0. Sums taken as a total
minus a rest and convolutions by FFT give rounding errors: smaller than ROUNDING, and far larger in f32. Experts give some,
too, because the number of tokens that an expert gets decides how its matrix product is computed; a change of a few units
in the last place is therefore rounding even if f32 shows none. A leak of that size would have a gradient.
"""

import dataclasses
import functools
from collections.abc import Iterator

import torch
from torch import Tensor

from weft.gates.decoders import ModelError, model_errors
from weft.gates.limits import GROWTH, ROUNDING, UNIT, Limits, relative
from weft.gates.lookups import Lookups
from weft.gates.report import Check, Outcome
from weft.gates.subject import EVAL, Setting, Subject
from weft.gates.trace import Rows, first_difference, last_gradient, located

GATE = "causal"
SHORT, MEDIUM = 131, 257  # primes, so that an axis of this size is the time axis
SHARPER = 32.0  # factor for matrices: a mask made of a finite constant then shows
BLOCK = 32  # size whose multiples windows and blocks of kernels have
LONGEST = 4096  # tokens of the longest sequence that is tried
TRAIN, SHARP = Setting(training=True), Setting(factor=SHARPER)


@dataclasses.dataclass(frozen=True)
class Leak:
    """The largest dependence on a later token: its size, relative to the row's own values, and its place.

    Attributes:
        size: 0 is none.
        row: a row that depends on later tokens.
        token: the first of those tokens.
        tried: number of cuts that were tried.
        found: whether there was anything to look at.

    """

    size: float = 0.0
    row: int = 0
    token: int = 1
    tried: int = 0
    found: bool = True


@dataclasses.dataclass(frozen=True)
class Trial:
    """One setting at one length: which cuts are tried. A cut is the number of tokens that stay."""

    setting: Setting
    length: int
    cuts: list[int]
    optional: bool = False

    def __str__(self) -> str:
        """Return the trial as part of a check's name."""
        return f"{self.length} tokens, {self.setting}"


def _spread(length: int, windows: tuple[int, ...], every: bool = False) -> list[int]:
    """Return cuts, the most important ones first: the last, borders of windows and blocks, then the others."""
    near = [length // 2 | 1, length - 1, 1]
    for window in windows:
        near += [window + i for i in (-1, 0, 1, 2)]
    for block in (64, BLOCK) if length <= SHORT else (64,):
        near += [n + i for n in range(block, length, block) for i in (0, 1, -1)]
    if every:
        step = 1 << (length - 1).bit_length()
        while step > 1:
            near += range(step // 2, length, step)
            step //= 2
    return list(dict.fromkeys(n for n in near if 1 <= n < length))


def _trials(subject: Subject) -> list[Trial]:
    """Return what is tried, the most important first."""
    windows = subject.windows
    short, medium = subject.lengths([SHORT])[0], subject.lengths([SHORT, MEDIUM])[-1]
    past = [w + 67 for w in windows if medium < w + 67 <= LONGEST]
    full = [n for n in (subject.context or 0, *past) if medium < n <= min(LONGEST, subject.context or n)]
    every = short == SHORT and subject.copies > 1
    trials = [Trial(EVAL, short, _spread(short, windows, every))]
    if subject.module is not None:
        trials += [Trial(s, short, _spread(short, windows)) for s in (TRAIN, SHARP)]
    if medium > short:
        trials += [Trial(s, medium, _spread(medium, windows)) for s in (EVAL, TRAIN) if s == EVAL or subject.module]
    trials += [Trial(EVAL, n, _spread(n, windows)) for n in sorted(set(full))]
    small = subject.lengths([min(SHORT, max([67, *(w + 11 for w in windows)]))])[0]
    for backend in subject.backends():
        for setting in (Setting(backend=backend), Setting(training=True, backend=backend)):
            if backend.dropout or not setting.training:
                trials.append(Trial(setting, small, _spread(small, windows), optional=True))
    return trials


def _passes(subject: Subject, trial: Trial, limits: Limits, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield copies of one sequence, and the cut of each copy, until the time is used up."""
    ids = subject.sequence(trial.length, seed)
    copies = min(subject.room(trial.length, limits), len(trial.cuts))
    for begin in range(0, len(trial.cuts), copies):
        cuts = trial.cuts[begin : begin + copies]
        cuts = cuts + trial.cuts[: copies - len(cuts)]  # all passes have one shape
        yield ids.repeat(copies, 1), torch.tensor(cuts)
        if limits.over:
            return


def _later(length: int, cut: Tensor) -> Tensor:
    return torch.arange(length)[None, :] >= cut[:, None]


def _finite(values: Tensor, what: str) -> Tensor:
    if not bool(values.isfinite().all()):
        raise ModelError(f"{what} are not finite")
    return values


def _loss(logits: Tensor, cut: Tensor) -> Tensor:
    """Return the loss of all rows before each copy's cut, with different weights so that nothing cancels."""
    length = logits.shape[1]
    rows = logits.logsumexp(-1) - logits[..., 0]
    weights = 1 + torch.arange(length, device=logits.device) % 7 / 8
    return (rows * weights).masked_fill(_later(length, cut).to(logits.device), 0).sum()


def _gradient(subject: Subject, trial: Trial, limits: Limits, seed: int) -> Leak:
    """Return the largest gradient of earlier rows' losses with respect to lookups of later tokens."""
    worst = Leak(found=False)
    tried: set[int] = set()
    for ids, cut in _passes(subject, trial, limits, seed):
        with subject.running(trial.setting, seed), Lookups(ids) as lookups:
            loss = _loss(subject.logits(ids), cut)
            with model_errors():
                gradients = [_finite(g.abs().amax(-1).cpu(), "gradients") for g in lookups.gradients(loss)]
        tried.update(cut.tolist())
        worst = dataclasses.replace(worst, tried=len(tried), found=worst.found or bool(gradients))
        later = _later(trial.length, cut)
        for g in gradients:
            own = g.masked_fill(later, 0).amax(1)
            foreign, token = g.masked_fill(~later, 0).max(1)
            size = foreign / own.clamp_min(torch.finfo(own.dtype).tiny)
            i = int(size.argmax())
            if size[i] > worst.size:
                worst = Leak(float(size[i]), int(cut[i]) - 1, int(token[i]), len(tried))
    return worst


def _change(subject: Subject, trial: Trial, limits: Limits, seed: int) -> Leak:
    """Return the largest change of a row's logits after later tokens were replaced."""
    worst = Leak()
    tried: set[int] = set()
    before: Tensor | None = None
    for ids, cut in _passes(subject, trial, limits, seed):
        later = _later(trial.length, cut)
        with torch.no_grad():
            if before is None:
                with subject.running(trial.setting, seed):
                    before = _finite(subject.logits(ids), "logits")
                scale = before.abs().amax((1, 2)).clamp_min(torch.finfo(before.dtype).tiny)
            with subject.running(trial.setting, seed):
                after = _finite(subject.logits(subject.different(ids, later, seed + 1)), "logits")
            difference = (after - before).abs_().amax(-1).masked_fill(later.to(before.device), 0)
            size, row = (difference / scale[:, None]).max(1)
        tried.update(cut.tolist())
        worst = dataclasses.replace(worst, tried=len(tried))
        i = int(size.argmax())
        if size[i] > worst.size:
            worst = Leak(float(size[i]), int(row[i]), int(cut[i]), len(tried))
    return worst


def _changed_module(subject: Subject, trial: Trial, limits: Limits, leak: Leak, seed: int) -> str | None:
    """Return the first module that shows a change, in a pass of the same shape, because dropout depends on that."""
    if subject.module is None:
        return None
    for ids, cut in _passes(subject, trial, limits, seed):
        if leak.token in cut:
            changed = subject.different(ids, _later(trial.length, cut), seed + 1)
            rows = Rows(len(ids), trial.length, cut.tolist().index(leak.token), 0, leak.token)

            def run(tokens: Tensor) -> object:
                with subject.running(trial.setting, seed):
                    return subject.logits(tokens)

            return first_difference(subject.module, functools.partial(run, ids), functools.partial(run, changed), rows)
    return None


def _gradient_module(subject: Subject, trial: Trial, limits: Limits, leak: Leak, seed: int) -> str | None:
    """Return the module at which gradients of earlier rows reach later tokens."""
    if subject.module is None:
        return None
    for ids, cut in _passes(subject, trial, limits, seed):
        if leak.row + 1 in cut:
            rows = Rows(len(ids), trial.length, cut.tolist().index(leak.row + 1), leak.row + 1, trial.length)

            def loss(ids: Tensor, cut: Tensor) -> Tensor:
                return _loss(subject.logits(ids), cut)

            with subject.running(trial.setting, seed):
                return last_gradient(subject.module, functools.partial(loss, ids, cut), rows)
    return None


def _check(subject: Subject, trial: Trial, limits: Limits, seed: int) -> Iterator[Check]:
    """Yield both tests of one trial."""
    exact = subject.exact if trial.setting.backend.f64 else None
    model = exact or subject
    backward = trial.setting.backend.backward
    for name, test, finder, what in (
        ("replaced tokens", _change, _changed_module, "tokens from"),
        ("gradients", _gradient, _gradient_module, "the token at"),
    ):
        title = f"{name}, {trial}, {model.precision}"
        if test is _gradient and not backward:
            yield Check(GATE, title, Outcome.NOT_RUN, "it has no backward pass here", optional=True)
            continue
        leak = test(model, trial, limits.part(0.5 if test is _change and backward else 1.0), seed)
        if not leak.found:
            yield Check(GATE, title, Outcome.NOT_RUN, "no lookup by token id was seen", optional=trial.optional)
            continue
        every = trial.length - 1
        title = f"{name}, {trial}, {'all' if leak.tried == every else leak.tried} of {every} cuts, {model.precision}"
        if leak.size == 0:
            yield Check(GATE, title, Outcome.PASS)
            continue
        if exact is not None and leak.size < ROUNDING:
            single = test(subject, trial, limits.part(0.5), seed).size
            if single >= GROWTH * leak.size or (test is _change and leak.size < UNIT):
                yield Check(GATE, title, Outcome.PASS, f"rounding of {leak.size:.1e} ({single:.1e} in f32)", leak.size)
                continue
        module = located(functools.partial(finder, model, trial, limits, leak, seed))
        message = f"row {leak.row} depends on {what} {leak.token}, by {leak.size:.1e} of its own"
        if module:
            message += f", first in {module}"
        yield Check(GATE, title, Outcome.FAIL, message, leak.size, module, leak.row)


def _length(subject: Subject, seed: int) -> Check:
    """Check that a row does not depend on how many tokens follow."""
    model = subject.exact or subject
    length = subject.lengths([MEDIUM, SHORT])[0]
    ids = model.sequence(length, seed)
    worst = Leak()
    with torch.no_grad(), model.running(EVAL, seed):
        whole = model.logits(ids)
        for t in sorted({1, 2, length // 3, length // 2, length - 1} & set(range(1, length))):
            difference = (model.logits(ids[:, :t]) - whole[:, :t]).abs()
            size = relative(difference, whole)
            if size > worst.size:
                worst = Leak(size, int(difference.amax((0, 2)).argmax()), t)
    name = f"number of tokens, {length} tokens, eval, {model.precision}"
    if worst.size < model.rounding:
        return Check(GATE, name, Outcome.PASS, f"rounding of {worst.size:.1e}" if worst.size else "", worst.size)
    message = f"row {worst.row} of {worst.token} tokens differs from that of {length} by {worst.size:.1e}"
    return Check(GATE, name, Outcome.WARNING, f"{message}: generated text may differ", worst.size, None, worst.row)


def check(subject: Subject, limits: Limits, seed: int = 0) -> Iterator[Check]:
    """Yield the checks of the gate *causal*."""
    trials = _trials(subject)
    for i, trial in enumerate(trials):
        # Later trials are as important as earlier ones: each may use its part of the time that is left.
        part = limits.part(1 / (len(trials) - i))
        try:
            yield from _check(subject, trial, part, seed)
        except ModelError as reason:
            optional = trial.optional or trial.setting.factor != 1
            yield Check(GATE, str(trial), Outcome.NOT_RUN, str(reason), optional=optional)
    yield _length(subject, seed)
