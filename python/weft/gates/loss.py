"""The gates *loss* and *normalised*: a training step scores the right tokens, with equal weights, by their probability.

The derivative of the loss with respect to a row of logits is w (p - q): p are the row's probabilities, q is 1 at the target
and 0 elsewhere, and w is the row's weight. So the one negative entry is the target, and targets and weights can be read
off, whatever the step does: shift, masking, averaging, several micro-batches.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from weft.gates.decoders import ModelError, logits_of
from weft.gates.report import Check, Outcome
from weft.gates.subject import random_numbers

LOSS, NORMALISED = "loss", "normalised"
IGNORED = -100
BOUND = 1e-3  # relative; losses are f32


@dataclasses.dataclass
class _Pass:
    """One forward pass of a step: its logits, and the derivative of the step's loss with respect to them."""

    logits: Tensor
    derivative: Tensor | None = None


class _Watch(TorchFunctionMode):
    """Records the logits of every forward pass, from what the model returns or, if it returns none, from its loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.passes: list[_Pass] = []
        self._model = model
        self._inside = 0
        self._scored: list[Tensor] = []
        self._handles = [
            model.register_forward_pre_hook(self._enter),
            model.register_forward_hook(self._leave),
        ]

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _enter(self, _model: nn.Module, _args: Any) -> None:
        self._inside += 1
        self._scored = []

    def _leave(self, _model: nn.Module, _args: Any, output: Any) -> None:
        self._inside -= 1
        try:
            logits = logits_of(output)
        except ModelError:
            if not self._scored:
                return
            logits = self._scored[-1]
        self._add(logits)

    def _add(self, logits: Tensor) -> None:
        if not logits.requires_grad:
            return
        found = _Pass(logits)
        self.passes.append(found)

        def keep(gradient: Tensor) -> None:
            found.derivative = gradient if found.derivative is None else found.derivative + gradient

        logits.register_hook(keep)  # type: ignore[no-untyped-call]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (F.cross_entropy, F.nll_loss) and self._inside:
            scored = args[0] if args else kwargs.get("input")
            if isinstance(scored, Tensor):
                self._scored.append(scored)
        return func(*args, **kwargs)


def _targets(batch: Any) -> Tensor:
    """Return the target of each row [batch, time]; IGNORED where there is none.

    A pair (inputs, targets) has a target for each row. Of ids alone, or of `labels` in a dict, the target is the next one.
    """
    if isinstance(batch, dict):
        found = batch.get("labels", batch.get("targets", batch.get("input_ids")))
        moved = "targets" not in batch
    elif isinstance(batch, tuple | list) and len(batch) >= 2 and isinstance(batch[1], Tensor):
        found, moved = batch[1], False
    else:
        found, moved = (batch[0] if isinstance(batch, tuple | list) else batch), True
    if not isinstance(found, Tensor) or found.dim() != 2:
        raise ValueError("the targets of this batch are not known: pass targets= [batch, time], -100 where a row has none")
    if moved:
        return F.pad(found[:, 1:], (0, 1), value=IGNORED)
    return found


@dataclasses.dataclass(frozen=True)
class _Rows:
    """What was read off the derivative, for all rows of all passes: target, weight, and what does not fit."""

    target: Tensor
    weight: Tensor
    residual: Tensor
    own_loss: Tensor


def _read(passes: list[_Pass]) -> _Rows:
    """Read targets and weights off the derivative of each pass."""
    found = []
    for p in passes:
        logits = p.logits.detach().double().flatten(0, -2)
        d = torch.zeros_like(logits) if p.derivative is None else p.derivative.detach().double().flatten(0, -2)
        target = d.argmin(-1)
        log_p = logits.log_softmax(-1)
        shape = log_p.exp()
        shape.scatter_add_(1, target[:, None], -torch.ones_like(shape[:, :1]))
        weight = (d * shape).sum(-1) / shape.square().sum(-1).clamp_min(1e-300)
        residual = (d - weight[:, None] * shape).norm(dim=-1) / d.norm(dim=-1).clamp_min(1e-300)
        scored = d.abs().amax(-1) > 0
        found.append(
            _Rows(
                torch.where(scored, target, IGNORED),
                torch.where(scored, weight, 0.0),
                torch.where(scored, residual, 0.0),
                -log_p.gather(1, target[:, None])[:, 0],
            )
        )
    return _Rows(*(torch.cat([getattr(r, f.name) for r in found]) for f in dataclasses.fields(_Rows)))


def _offset(rows: _Rows, wanted: Tensor, length: int) -> str:
    """Say which token is scored in place of the wanted one, if one offset explains it."""
    got, wanted = rows.target.view(-1, length), wanted.view(-1, length)
    inputs = F.pad(wanted[:, :-1], (1, 0), value=IGNORED)
    if bool(((got == inputs) | (got == IGNORED) | (inputs == IGNORED)).all()):
        return ": each row scores its own token, which it has read"
    for k in (1, 2, 3):
        later = F.pad(wanted[:, k:], (0, k), value=IGNORED)
        if bool(((got == later) | (got == IGNORED) | (later == IGNORED)).all()):
            return f": each row scores the token {k + 1} places after it"
    return ""


def _shift(rows: _Rows, wanted: Tensor, length: int) -> Iterator[Check]:
    """Yield the checks of targets and masking."""
    wanted = wanted.flatten().to(rows.target.device)
    both = (rows.target != IGNORED) & (wanted != IGNORED)
    wrong = both & (rows.target != wanted)
    if wrong.any():
        i = int(wrong.nonzero()[0])
        message = f"row {i % length} of sequence {i // length} scores token {int(rows.target[i])}, not {int(wanted[i])}"
        yield Check(LOSS, "targets", Outcome.FAIL, message + _offset(rows, wanted, length), position=i % length)
        return
    yield Check(LOSS, f"targets of {int(both.sum())} rows", Outcome.PASS)
    missed, extra = (wanted != IGNORED) & ~both, (rows.target != IGNORED) & ~both
    if missed.any() or extra.any():
        rows_of = (missed if missed.any() else extra).nonzero()[:, 0]
        kind = "rows with a target are not scored" if missed.any() else "rows without a target are scored"
        i = int(rows_of[0])
        message = f"{len(rows_of)} {kind}, the first is row {i % length} of sequence {i // length}"
        yield Check(LOSS, "masking", Outcome.FAIL, message, position=i % length)
    else:
        yield Check(LOSS, "masking", Outcome.PASS)


def _weights(rows: _Rows, passes: list[_Pass], length: int) -> Iterator[Check]:
    """Yield the checks that rows have equal weights whose sum is 1."""
    scored = rows.target != IGNORED
    weight = rows.weight[scored]
    total, mean = float(weight.sum()), float(weight.mean())
    spread = float((weight - mean).abs().max()) / max(abs(mean), 1e-300)
    if spread > BOUND:
        i = int((rows.weight - mean).abs().masked_fill(~scored, 0).argmax())
        message = f"row {i % length} of sequence {i // length} has {float(rows.weight[i]) / mean:.3g} of the mean weight"
        if len(passes) > 1:
            message += ": micro-batches with different numbers of targets count the same"
        yield Check(LOSS, "equal weights", Outcome.FAIL, message, spread, position=i % length)
    else:
        yield Check(LOSS, "equal weights", Outcome.PASS, value=spread)
    name = f"sum of the weights, {int(scored.sum())} rows, {len(passes)} passes"
    if abs(total - 1) > BOUND:
        count = int(scored.sum())
        guesses = {
            "it is the sum over rows, not their mean": count,
            "it is the sum of the micro-batches' means: divide each by their number": len(passes),
            "it was divided twice by the number of micro-batches": 1 / len(passes),
            "it was divided twice by the number of rows": 1 / count,
            "it was divided by the number of rows of all sequences too often": 1 / length,
        }
        why = next((f": {text}" for text, size in guesses.items() if size != 1 and abs(total / size - 1) < 1e-2), "")
        yield Check(LOSS, name, Outcome.FAIL, f"it is {total:.6g}, not 1{why}", abs(total - 1))
    else:
        yield Check(LOSS, name, Outcome.PASS, value=abs(total - 1))


def _normalised(rows: _Rows, reported: float | None) -> Iterator[Check]:
    """Yield the checks that the loss is the cross-entropy of the logits."""
    worst = float(rows.residual.max())
    if worst > BOUND:
        message = f"its derivative is not that of a cross-entropy of the logits ({worst:.1e} of it does not fit)"
        yield Check(NORMALISED, "derivative", Outcome.FAIL, message, worst, position=int(rows.residual.argmax()))
    else:
        yield Check(NORMALISED, "derivative", Outcome.PASS, value=worst)
    if reported is None:
        yield Check(NORMALISED, "reported loss", Outcome.NOT_RUN, "the step returned no loss", optional=True)
        return
    wanted = float((rows.own_loss * rows.weight).sum())
    mean = float(rows.own_loss[rows.target != IGNORED].mean())
    error = min(abs(reported - w) / max(1e-9, abs(w)) for w in (wanted, mean))
    if error > BOUND:
        message = f"the step reports {reported:.6g}, but the cross-entropy of its rows is {mean:.6g}"
        yield Check(NORMALISED, "reported loss", Outcome.FAIL, message, error)
    else:
        yield Check(NORMALISED, f"reported loss {reported:.6g}", Outcome.PASS, value=error)


def check(
    step: Callable[[Any, Any], Any], model: nn.Module, batch: Any, targets: Tensor | None, seed: int
) -> Iterator[Check]:
    """Yield the checks of the gates *loss* and *normalised*."""
    wanted = targets if targets is not None else _targets(batch)
    model.requires_grad_(True)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    with random_numbers(seed, device):
        watch = _Watch(model)
        try:
            with watch:
                returned = step(model, batch)
        finally:
            watch.close()
        loss = returned if isinstance(returned, Tensor) else getattr(returned, "loss", None)
        if not watch.passes:
            reason = "no logits were seen: the step must call the model that it gets"
            yield Check(LOSS, "step", Outcome.NOT_RUN, reason)
            return
        if all(p.derivative is None for p in watch.passes):
            if not isinstance(loss, Tensor) or not loss.requires_grad:
                reason = "the step neither called backward() nor returned a loss with a gradient"
                yield Check(LOSS, "step", Outcome.NOT_RUN, reason)
                return
            loss.backward()  # type: ignore[no-untyped-call]
    rows = _read(watch.passes)
    if wanted.numel() != rows.target.numel():
        reason = f"the passes have {rows.target.numel()} rows of logits and the batch {wanted.numel()}: pass targets="
        yield Check(LOSS, "targets", Outcome.NOT_RUN, reason)
        return
    if not bool((rows.target != IGNORED).any()):
        yield Check(LOSS, "targets", Outcome.FAIL, "the loss has no derivative with respect to the logits")
        return
    length = wanted.shape[-1]
    yield from _shift(rows, wanted, length)
    yield from _weights(rows, watch.passes, length)
    reported = float(loss.detach()) if isinstance(loss, Tensor) and loss.numel() == 1 else loss
    yield from _normalised(rows, reported if isinstance(reported, float) else None)
