"""The model that is checked: copies of it, its logits, and the state that checks must not change."""

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Self

import torch
from torch import Tensor, nn

Model = Callable[..., Any]


def logits_of(output: Any) -> Tensor:
    """Return the logits [batch, time, vocabulary] in what a model returned."""
    found = output
    if not isinstance(found, Tensor) and hasattr(found, "logits"):
        found = found.logits
    if isinstance(found, dict):
        found = found.get("logits")
    if isinstance(found, tuple | list) and found:
        found = found[0]
    if not isinstance(found, Tensor) or found.dim() != 3 or not found.is_floating_point():
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise TypeError(f"the model must return logits [batch, time, vocabulary], but it returned {shape}")
    return found


@dataclasses.dataclass(frozen=True)
class Subject:
    """A model under test.

    Attributes:
        model: maps ids [batch, time] to logits. A module here is a copy that checks may change.
        vocabulary: number of token ids that the model accepts.
        context: maximum number of tokens; None if there is none.

    """

    model: Model
    vocabulary: int
    context: int | None

    @classmethod
    def of(cls, model: Model, vocabulary: int | None, context: int | None, factory: Callable[[], Model] | None) -> Self:
        """Return the subject for a model, with the sizes that the caller or the model's config gives."""
        copied = model
        if isinstance(model, nn.Module):
            copied = cls._copy(model, factory)
        config = getattr(model, "config", None)
        if vocabulary is None:
            vocabulary = getattr(config, "vocab_size", None) or cls._table_rows(model)
        if vocabulary is None:
            raise TypeError("the number of token ids is not known: pass vocabulary=")
        if context is None:
            context = getattr(config, "max_position_embeddings", None)
        return cls(copied, int(vocabulary), context)

    @staticmethod
    def _copy(model: nn.Module, factory: Callable[[], Model] | None) -> nn.Module:
        made = factory() if factory else None
        if not isinstance(made, nn.Module):
            return copy.deepcopy(model)
        made.load_state_dict(model.state_dict())
        return made

    @staticmethod
    def _table_rows(model: Model) -> int | None:
        """Return the number of rows of the first embedding table."""
        modules = model.modules() if isinstance(model, nn.Module) else ()
        return next((m.num_embeddings for m in modules if isinstance(m, nn.Embedding)), None)

    def logits(self, ids: Tensor) -> Tensor:
        """Return the logits for ids [batch, time]."""
        found = logits_of(self.model(ids))
        if found.shape[:2] != ids.shape:
            raise TypeError(f"the model returned logits {tuple(found.shape)} for ids {tuple(ids.shape)}")
        return found

    @property
    def is_module(self) -> bool:
        """Whether the model is a module, so that its dtype, mode and weights can be changed."""
        return isinstance(self.model, nn.Module)

    def to(self, dtype: torch.dtype) -> Self:
        """Return a copy of the subject with weights of this dtype."""
        assert isinstance(self.model, nn.Module)
        return dataclasses.replace(self, model=copy.deepcopy(self.model).to(dtype))

    def scaled(self, factor: float) -> Self:
        """Return a copy of the subject whose matrices are multiplied, which makes attention sharper."""
        assert isinstance(self.model, nn.Module)
        model = copy.deepcopy(self.model)
        tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
        with torch.no_grad():
            for p in model.parameters():
                if p.dim() == 2 and id(p) not in tables:
                    p.mul_(factor)
        return dataclasses.replace(self, model=model)

    @property
    def device(self) -> torch.device:
        """The device of the model's weights."""
        first = next(self.model.parameters(), None) if isinstance(self.model, nn.Module) else None
        return first.device if first is not None else torch.device("cpu")

    @contextlib.contextmanager
    def mode(self, training: bool, seed: int) -> Iterator[None]:
        """Run the model in training or evaluation mode, with random numbers that begin at seed, and restore both."""
        modules = list(self.model.modules()) if isinstance(self.model, nn.Module) else []
        before = [m.training for m in modules]
        buffers = [(b, b.clone()) for b in self.model.buffers()] if isinstance(self.model, nn.Module) else []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for m in modules:
                m.training = training
            try:
                yield
            finally:
                for m, was in zip(modules, before, strict=True):
                    m.training = was
                with torch.no_grad():
                    for b, value in buffers:
                        b.copy_(value)
