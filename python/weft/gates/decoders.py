"""Ways to decode with a cache, and what can be done to a cache between two passes."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor


class NotOffered(Exception):
    """A model or its cache does not offer an operation; the message names it and the reason."""


class ModelError(Exception):
    """The model raised an exception; the message is its first line."""


@contextlib.contextmanager
def model_errors() -> Iterator[None]:
    """Turn what a model raises into a ModelError."""
    try:
        yield
    except (NotOffered, ModelError):
        raise
    except Exception as error:  # whatever a model raises is a reason that belongs into the report
        lines = str(error).strip().splitlines() or [""]
        raise ModelError(f"{type(error).__name__}: {lines[0]}") from error


def logits_of(output: Any) -> Tensor:
    """Return the logits [batch, time, vocabulary] in what a model returned."""
    found = output
    if not isinstance(found, Tensor) and hasattr(found, "logits"):
        found = found.logits
    if isinstance(found, dict):
        found = found.get("logits")
    if isinstance(found, tuple | list) and found:
        found = next((t for t in found if isinstance(t, Tensor) and t.dim() == 3), found[0])
    if not isinstance(found, Tensor) or found.dim() != 3 or not found.is_floating_point():
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ModelError(f"the model must return logits [batch, time, vocabulary], but it returned {shape}")
    return found


class Cached:
    """A way to decode. Methods that a subclass does not define are not offered."""

    name = "cache"
    optional = False  # whether faults are warnings, and only steps are tried

    def start(self, batch: int, length: int) -> Any:
        """Return an empty cache for sequences of up to this length."""
        return None

    def whole(self, ids: Tensor) -> Tensor:
        """Return the logits of whole sequences, without a cache."""
        raise NotImplementedError

    def step(self, ids: Tensor, cache: Any) -> tuple[Tensor, Any]:
        """Return the logits for the next tokens of every sequence, and the cache that contains them."""
        raise NotImplementedError

    def reorder(self, cache: Any, index: Tensor) -> Any:
        """Return the cache whose sequence i is sequence index[i] of this one."""
        raise NotOffered(f"{self.name} cannot be reordered")

    def select(self, cache: Any, index: Tensor) -> Any:
        """Return the cache of some of the sequences."""
        raise NotOffered(f"{self.name} cannot be reduced to some sequences")

    def repeat(self, cache: Any, times: int) -> Any:
        """Return the cache that has every sequence several times."""
        raise NotOffered(f"{self.name} cannot be repeated")

    def crop(self, cache: Any, count: int) -> Any:
        """Return the cache without its last tokens."""
        raise NotOffered(f"{self.name} cannot be cropped")

    def prepare_crop(self, cache: Any) -> None:
        """Announce that the cache will be cropped."""


class Stepped(Cached):
    """A decoder that the caller passed: (model, ids, cache) -> (logits, cache), with None as the empty cache."""

    name = "decoder"

    def __init__(
        self, decoder: Callable[[Any, Tensor, Any], tuple[Any, Any]], model: Any, whole: Callable[[Tensor], Tensor]
    ) -> None:
        """Decode with a function of the caller."""
        self._decoder, self._model, self._whole = decoder, model, whole

    def whole(self, ids: Tensor) -> Tensor:
        """Return the logits of whole sequences."""
        return self._whole(ids)

    def step(self, ids: Tensor, cache: Any) -> tuple[Tensor, Any]:
        """Return the logits for the next tokens, and the new cache."""
        with model_errors():
            output, cache = self._decoder(self._model, ids, cache)
        return logits_of(output), cache
