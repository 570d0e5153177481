"""Finds the first module whose output shows a fault.

The axis of time in a module's tensors is the one whose size is the number of tokens. Checks use prime numbers of
tokens, so that no other axis has this size.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from weft.gates.decoders import ModelError, NotOffered

_Hook = Callable[[str, list[Tensor], list[Tensor]], None]


def _tensors(value: Any) -> list[Tensor]:
    """Return all tensors in what a module reads or returns."""
    if isinstance(value, Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    return [t for v in values for t in _tensors(v)]


def _distance(a: Tensor, b: Tensor) -> float:
    """Return the largest difference, relative to the largest value; integers differ or do not."""
    if not a.is_floating_point():
        return float(not torch.equal(a, b))
    return float((a - b).abs().max()) / max(float(a.abs().max()), 1e-300)


@contextlib.contextmanager
def _hooked(model: nn.Module, hook: _Hook) -> Iterator[None]:
    """Call hook with the name, the inputs and the outputs of every module, in the order in which they end."""

    def registered(name: str) -> Any:
        def call(_module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            hook(name, [*_tensors(args), *_tensors(kwargs)], _tensors(output))

        return call

    handles = [m.register_forward_hook(registered(n), with_kwargs=True) for n, m in model.named_modules()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def located(find: Callable[[], str | None]) -> str | None:
    """Return the module that a search finds; None if the model cannot be searched. The fault is a fault all the same."""
    try:
        return find()
    except (ModelError, NotOffered, RuntimeError):
        return None


def _name_of(model: nn.Module, name: str) -> str:
    """Return the name of a module as it is printed."""
    return name or type(model).__name__


@dataclasses.dataclass(frozen=True)
class Rows:
    """Which values of a tensor are compared: those of one sequence and of some of its tokens.

    Attributes:
        batch: number of sequences.
        time: number of tokens.
        sequence: index of the sequence.
        begin: first token.
        end: the token after the last one.

    """

    batch: int
    time: int
    sequence: int
    begin: int
    end: int

    def of(self, t: Tensor) -> Tensor | None:
        """Return those values of a tensor; None if it does not have both axes."""
        if t.dim() >= 2 and t.shape[0] in (1, self.batch):
            t = t[self.sequence if t.shape[0] > 1 else 0]
        elif t.dim() >= 1 and t.shape[0] == self.batch * self.time:  # both axes as one
            t = t.reshape(self.batch, self.time, *t.shape[1:])[self.sequence]
        else:
            return None
        axis = next((i for i, size in enumerate(t.shape) if size == self.time), None)
        return None if axis is None else t.narrow(axis, self.begin, self.end - self.begin).movedim(axis, 0)


def first_difference(
    model: nn.Module,
    before: Callable[[], object],
    after: Callable[[], object],
    rows: Rows,
    others: Rows | None = None,
    tolerance: float = 0.0,
) -> str | None:
    """Return the name of the innermost module that reads the same in two passes and returns something different.

    Rows are those of the first pass, and others those of the second one if they are different.
    """
    calls: list[tuple[str, list[Tensor], list[Tensor]]] = []
    found: list[str] = []
    others = others or rows

    def picked(tensors: list[Tensor], which: Rows) -> list[Tensor]:
        return [r.detach().clone() for t in tensors if (r := which.of(t)) is not None]

    def keep(name: str, read: list[Tensor], returned: list[Tensor]) -> None:
        calls.append((name, picked(read, rows), picked(returned, rows)))

    def differ(first: list[Tensor], second: list[Tensor]) -> bool:
        pairs = [(a, b) for a, b in zip(first, second, strict=False) if a.shape == b.shape]
        return any(_distance(a, b) > tolerance for a, b in pairs if a.numel())

    position: dict[str, int] = {}

    def compare(name: str, read: list[Tensor], returned: list[Tensor]) -> None:
        its = [c for c in calls if c[0] == name]
        call = position.get(name, 0)
        position[name] = call + 1
        if found or call >= len(its):
            return
        _, first_read, first_returned = its[call]
        if differ(first_returned, picked(returned, others)) and not differ(first_read, picked(read, others)):
            found.append(_name_of(model, name))

    with torch.no_grad():
        with _hooked(model, keep):
            before()
        with _hooked(model, compare):
            after()
    return found[0] if found else None


def _aliased(value: Any, aliases: list[Tensor]) -> Any:
    """Return a tensor as another node of the graph, so that its gradient is what flows through one module only."""
    if not isinstance(value, Tensor) or not value.requires_grad:
        return value
    aliases.append(value.view_as(value))
    return aliases[-1]


def last_gradient(model: nn.Module, loss: Callable[[], Tensor], rows: Rows) -> str | None:
    """Return the name of the innermost module whose output has no gradient in these rows, but whose input has."""
    calls: list[tuple[str, list[Tensor], list[Tensor]]] = []
    open_calls: list[list[Tensor]] = []

    def enter(_module: nn.Module, args: Any, kwargs: Any) -> Any:
        open_calls.append([])
        read = open_calls[-1]
        return tuple(_aliased(a, read) for a in args), {k: _aliased(v, read) for k, v in kwargs.items()}

    def leave(name: str, _read: list[Tensor], returned: list[Tensor]) -> None:
        calls.append((name, open_calls.pop(), [t for t in returned if t.requires_grad]))

    handles = [m.register_forward_pre_hook(enter, with_kwargs=True) for m in model.modules()]
    try:
        with _hooked(model, leave):
            value = loss()
    finally:
        for handle in handles:
            handle.remove()
    tensors = [t for _, read, returned in calls for t in [*read, *returned]]
    if not tensors:
        return None
    found = torch.autograd.grad(value, tensors, allow_unused=True)
    gradients = {id(t): g for t, g in zip(tensors, found, strict=True)}

    def has(ts: list[Tensor]) -> bool:
        picked = [rows.of(g) for t in ts if (g := gradients[id(t)]) is not None]
        return any(bool((p != 0).any()) for p in picked if p is not None)

    for name, read, returned in calls:
        if has(read) and not has(returned):
            return _name_of(model, name)
    return None
