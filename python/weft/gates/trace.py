"""Finds the first module whose output shows a fault."""

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn

from weft.gates.subject import Subject


def _tensors(output: Any) -> list[Tensor]:
    """Return all tensors in what a module reads or returns."""
    if isinstance(output, Tensor):
        return [output]
    values = output.values() if isinstance(output, dict) else output if isinstance(output, tuple | list) else ()
    return [t for v in values for t in _tensors(v)]


@dataclasses.dataclass(frozen=True)
class _Call:
    """One call of a module: its name, and the tensors that it read and returned."""

    name: str
    read: list[Tensor]
    returned: list[Tensor]


def _calls(subject: Subject, ids: Tensor, training: bool, seed: int) -> list[_Call]:
    """Return the calls of all modules, in the order in which they end."""
    assert isinstance(subject.model, nn.Module)
    found: list[_Call] = []

    def keep(name: str) -> Any:
        def hook(_module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            read = [t.clone() for t in [*_tensors(args), *_tensors(kwargs)]]
            found.append(_Call(name, read, [t.clone() for t in _tensors(output)]))

        return hook

    handles = [m.register_forward_hook(keep(n), with_kwargs=True) for n, m in subject.model.named_modules()]
    try:
        with subject.mode(training, seed):
            subject.logits(ids)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _differ(before: list[Tensor], after: list[Tensor], shape: torch.Size, copy: int, kept: int) -> bool:
    """Return whether tensors with axes of this shape, [batch, time], differ among the tokens that a copy keeps."""
    for a, b in zip(before, after, strict=False):
        if a.shape != b.shape or a.dim() < 2 or a.shape[0] not in (1, shape[0]):
            continue
        first, second = (t[copy if len(t) > 1 else 0] for t in (a, b))
        axis = next((i for i, size in enumerate(first.shape) if size == shape[1]), None)
        if axis is not None and not torch.equal(first.narrow(axis, 0, kept), second.narrow(axis, 0, kept)):
            return True
    return False


def first_module(
    subject: Subject, ids: Tensor, changed: Tensor, training: bool, seed: int, copy: int, kept: int
) -> str | None:
    """Return the name of the innermost module that reads the same tokens and returns something different.

    Copy is the sequence of ids to look at, and kept is how many of its tokens are equal in changed. The axis of time is
    the one whose size is the length of ids, which should be a prime for that reason.
    """
    if not subject.is_module:
        return None
    before, after = _calls(subject, ids, training, seed), _calls(subject, changed, training, seed)
    for a, b in zip(before, after, strict=False):
        if a.name != b.name:
            return None
        if _differ(a.returned, b.returned, ids.shape, copy, kept) and not _differ(
            a.read, b.read, ids.shape, copy, kept
        ):
            return a.name or type(subject.model).__name__
    return None
