"""The gate *causal*: no row of the logits depends on a later token.

Two tests, because each sees what the other does not. Gradients miss routing and statistics that have none; replaced
tokens miss leaks that happen to be equal for both. In f64 a sound model usually gives exactly 0. Sums taken as a total
minus a rest and convolutions by FFT give rounding errors: smaller than ROUNDING, and far larger in f32.
"""

import dataclasses
from collections.abc import Iterator

import torch
from torch import Tensor

from weft.gates.lookups import Lookups
from weft.gates.report import Check, Outcome
from weft.gates.subject import Subject
from weft.gates.trace import first_module

GATE = "causal"
LENGTHS = (131, 257)  # primes, so that an axis of this size is the time axis
ROUNDING = 2.0**-30  # in f64, relative to the largest own value
GROWTH = 1e4  # by which a rounding error is larger in f32
SHARPER = 32.0  # factor for matrices: a mask made of a finite constant then shows
BLOCK = 32  # size whose multiples windows and blocks of kernels have
VALUES = 2**24  # most logits of one pass


@dataclasses.dataclass(frozen=True)
class Leak:
    """The largest dependence on a later token: its size, relative to the row's own values, and its place."""

    size: float
    row: int = 0
    token: int = 0


@dataclasses.dataclass(frozen=True)
class Setting:
    """How the model is run: its mode, and a factor for its matrices."""

    training: bool = False
    factor: float = 1.0

    def __str__(self) -> str:
        """Return the setting as part of a check's name."""
        return ("train" if self.training else "eval") + (f", matrices x {self.factor:g}" if self.factor != 1 else "")


SETTINGS = (Setting(), Setting(training=True), Setting(factor=SHARPER))


def _cuts(length: int) -> list[int]:
    """Return the numbers of tokens to keep: all of a short sequence, else those around multiples of BLOCK."""
    near = (0, 1, BLOCK - 1)
    return [n for n in range(1, length) if length <= LENGTHS[0] or n == length - 1 or n % BLOCK in near]


def _batches(subject: Subject, length: int, cuts: list[int], seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield copies of one random sequence, and the cut of each copy."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(subject.vocabulary, (1, length), generator=generator)
    copies = max(1, VALUES // (length * subject.vocabulary))
    for begin in range(0, len(cuts), copies):
        cut = torch.tensor(cuts[begin : begin + copies])
        yield ids.repeat(len(cut), 1).to(subject.device), cut


def _replaced(subject: Subject, ids: Tensor, cut: Tensor, seed: int) -> Tensor:
    """Return ids in which every token from the cut on is different."""
    generator = torch.Generator().manual_seed(seed)
    shift = torch.randint(1, subject.vocabulary, ids.shape, generator=generator).to(ids.device)
    later = torch.arange(ids.shape[1])[None, :] >= cut[:, None]
    return torch.where(later.to(ids.device), (ids + shift) % subject.vocabulary, ids)


def _gradient(subject: Subject, setting: Setting, length: int, cuts: list[int], seed: int) -> Leak | None:
    """Return the largest gradient of a row's loss with respect to lookups of later tokens; None: there are none."""
    worst: Leak | None = None
    for ids, cut in _batches(subject, length, cuts, seed):
        with subject.mode(setting.training, seed), Lookups(ids) as lookups:
            logits = subject.logits(ids)
            copies = torch.arange(len(cut), device=logits.device)
            rows = logits[copies, cut.to(logits.device) - 1]
            loss = (rows.logsumexp(-1) - rows[:, 0]).sum()
            gradients = [g.abs().amax(-1).cpu() for g in lookups.gradients(loss)]
        later = torch.arange(length)[None, :] >= cut[:, None]
        for g in gradients:
            if not g.isfinite().all():
                raise ValueError("gradients are not finite")
            own = g.masked_fill(later, 0).amax(1)
            foreign, token = g.masked_fill(~later, 0).max(1)
            size = foreign / own.clamp_min(torch.finfo(own.dtype).tiny)
            i = int(size.argmax())
            if worst is None or size[i] > worst.size:
                worst = Leak(float(size[i]), int(cut[i]) - 1, int(token[i]))
    return worst


def _change(subject: Subject, setting: Setting, length: int, cuts: list[int], seed: int) -> Leak:
    """Return the largest change of a row's logits after later tokens were replaced."""
    worst = Leak(0.0)
    for ids, cut in _batches(subject, length, cuts, seed):
        outputs = []
        for given in (ids, _replaced(subject, ids, cut, seed + 1)):
            with torch.no_grad(), subject.mode(setting.training, seed):
                outputs.append(subject.logits(given).cpu())
        before, after = outputs
        if not (before.isfinite().all() and after.isfinite().all()):
            raise ValueError("logits are not finite")
        earlier = torch.arange(length)[None, :] < cut[:, None]
        difference = (after - before).abs().amax(-1).masked_fill(~earlier, 0)
        size, row = difference.max(1)
        i = int(size.argmax())
        relative = float(size[i] / before[i].abs().max().clamp_min(torch.finfo(before.dtype).tiny))
        if relative > worst.size:
            worst = Leak(relative, int(row[i]), int(cut[i]))
    return worst


def _module(subject: Subject, setting: Setting, length: int, cuts: list[int], kept: int, seed: int) -> str | None:
    """Return the first module that shows a change, in the same batch, because dropout depends on that."""
    for ids, cut in _batches(subject, length, cuts, seed):
        if kept in cut:
            with torch.no_grad():
                changed = _replaced(subject, ids, cut, seed + 1)
                return first_module(subject, ids, changed, setting.training, seed, cut.tolist().index(kept), kept)
    return None


def _judge(name: str, leak: Leak, single: Leak, what: str) -> Check:
    """Return the check for a leak in f64, given its size in f32."""
    if leak.size == 0:
        return Check(GATE, name, Outcome.PASS)
    if leak.size < ROUNDING and single.size >= GROWTH * leak.size:
        return Check(GATE, name, Outcome.PASS, f"rounding of {leak.size:.1e} ({single.size:.1e} in f32)", leak.size)
    message = f"row {leak.row} depends on {what} {leak.token}, by {leak.size:.1e} of its own"
    return Check(GATE, name, Outcome.FAIL, message, leak.size, position=leak.row)


def _check(subject: Subject, exact: Subject | None, setting: Setting, length: int, seed: int) -> Iterator[Check]:
    """Yield both tests at one length in one setting."""
    cuts = _cuts(length)
    dtype = "f64" if exact is not None else "its own dtype"
    first, second = (exact or subject), subject
    if setting.factor != 1:
        first, second = first.scaled(setting.factor), second.scaled(setting.factor)
    where = f"{length} tokens, {len(cuts)} of {length - 1} cuts, {setting}, {dtype}"
    changed = _change(first, setting, length, cuts, seed)
    single = _change(second, setting, length, cuts, seed) if changed.size else changed
    check = _judge(f"replaced tokens, {where}", changed, single, "tokens from")
    if check.outcome is Outcome.FAIL:
        module = _module(first, setting, length, cuts, changed.token, seed)
        if module:
            check = dataclasses.replace(check, module=module, message=f"{check.message}, first in {module}")
    yield check
    leak = _gradient(first, setting, length, cuts, seed)
    name = f"gradients, {where}"
    if leak is None:
        yield Check(GATE, name, Outcome.NOT_RUN, "no lookup by token id was seen")
        return
    single_leak = _gradient(second, setting, length, cuts, seed) if leak.size else leak
    yield _judge(name, leak, single_leak or leak, "the token at")


def _length(subject: Subject, exact: Subject | None, length: int, seed: int) -> Check:
    """Check that a row does not depend on how many tokens follow."""
    model = exact or subject
    ids, _ = next(_batches(model, length, [1], seed))
    worst = Leak(0.0)
    with torch.no_grad(), model.mode(False, seed):
        whole = model.logits(ids)
        for t in sorted({1, 2, length // 3, length // 2, length - 1}):
            difference = (model.logits(ids[:, :t]) - whole[:, :t]).abs()
            size = float(difference.max() / whole.abs().max())
            if size > worst.size:
                worst = Leak(size, int(difference.amax(-1).argmax()), t)
    name = f"length, {length} tokens, eval"
    if worst.size < ROUNDING:
        return Check(GATE, name, Outcome.PASS, f"rounding of {worst.size:.1e}" if worst.size else "", worst.size)
    message = f"row {worst.row} depends on the length {worst.token}, by {worst.size:.1e}: generated text may differ"
    return Check(GATE, name, Outcome.WARNING, message, worst.size, position=worst.row)


def check(subject: Subject, seed: int = 0) -> Iterator[Check]:
    """Yield the checks of the gate *causal*."""
    exact = None
    if subject.is_module:
        try:
            exact = subject.to(torch.float64)
            with torch.no_grad(), exact.mode(False, seed):
                exact.logits(torch.zeros(1, 2, dtype=torch.int64, device=exact.device))
        except (RuntimeError, NotImplementedError):
            exact = None  # the names of the checks say so
    lengths = [n for n in LENGTHS if subject.context is None or n <= subject.context] or [subject.context or 2]
    for length in lengths:
        for setting in SETTINGS if subject.is_module else SETTINGS[:1]:
            try:
                yield from _check(subject, exact, setting, length, seed)
            except ValueError as error:
                yield Check(GATE, f"{length} tokens, {setting}", Outcome.NOT_RUN, str(error))
        yield _length(subject, exact, length, seed)
