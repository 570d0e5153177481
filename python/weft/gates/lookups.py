"""Catches what a model looks up by token id, so that gradients reach each position of the input."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8)


def _index(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """Return the indices with which func looks up rows of a table; None if it does not."""
    if func is F.embedding:
        index = args[0] if args else kwargs.get("input")
    elif func in (torch.embedding, torch.Tensor.__getitem__):
        index = args[1] if len(args) > 1 else kwargs.get("indices")
    elif func in (torch.index_select, torch.Tensor.index_select):
        index = args[2] if len(args) > 2 else kwargs.get("index")
    else:
        return None
    if isinstance(index, tuple):
        index = next((i for i in index if isinstance(i, Tensor)), None)
    return index if isinstance(index, Tensor) and index.dtype in _INTEGERS else None


class Lookups(TorchFunctionMode):
    """Records every result of a lookup that has a row for each token of ids [batch, time].

    Each result becomes a leaf of the graph, so that gradients end there. (A TorchDispatchMode runs below autograd and
    cannot do that.)
    """

    def __init__(self, ids: Tensor) -> None:
        """Record lookups for ids."""
        super().__init__()
        self.shape = ids.shape
        self.leaves: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call func, and replace what it looked up by a leaf."""
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        index = _index(func, args, kwargs)
        if index is None or not isinstance(out, Tensor) or not out.is_floating_point():
            return out
        batch, time = self.shape
        if tuple(index.shape) not in ((batch, time), (batch * time,)) or out.shape[: index.dim()] != index.shape:
            return out
        leaf = out.detach().requires_grad_()
        self.leaves.append(leaf)
        return leaf.clone()  # a model may add to it in place

    def gradients(self, loss: Tensor) -> list[Tensor]:
        """Return the gradient of loss with respect to each lookup, as [batch, time, values]."""
        if not loss.requires_grad or not self.leaves:
            return []
        found = torch.autograd.grad(loss, self.leaves, allow_unused=True)
        return [g.reshape(*self.shape, -1) for g in found if g is not None]
