"""The model that is checked: copies of it, its logits, and the state that checks must not change."""

import contextlib
import copy
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from weft.gates.decoders import Cached, ModelError, NotOffered, Stepped, logits_of, model_errors
from weft.gates.limits import ROUNDING, Limits

Model = Callable[..., Any]
WINDOWS = ("sliding_window", "attention_chunk_size", "window_size", "attention_window", "block_size", "chunk_size")
LARGE = 10**7  # parameters of a model for which some checks take shorter sequences


class Double(TorchFunctionMode):
    """Computes in f64 what a model asks for in f32: norms, softmax and rotations often do."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call func with f64 in place of f32."""
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        swap = {torch.float32: torch.float64, torch.complex64: torch.complex128}
        args = tuple(swap.get(a, a) if isinstance(a, torch.dtype) else a for a in args)
        kwargs = {k: swap.get(v, v) if isinstance(v, torch.dtype) else v for k, v in (kwargs or {}).items()}
        return func(*args, **kwargs)


@dataclasses.dataclass(frozen=True)
class Backend:
    """An implementation that a model can compute with.

    Attributes:
        name: as it is printed.
        attention: name of the attention implementation; None is the model's own.
        kernel: kernel of scaled_dot_product_attention; None is torch's choice.
        experts: name of the experts' implementation; None is the model's own.
        masked: whether an attention mask of ones is passed.
        f64: whether it computes in f64.
        backward: whether it has gradients.
        dropout: whether it has dropout.

    """

    name: str
    attention: str | None = None
    kernel: SDPBackend | None = None
    experts: str | None = None
    masked: bool = False
    f64: bool = True
    backward: bool = True
    dropout: bool = True


OWN = Backend("")
MATH = Backend("sdpa MATH", kernel=SDPBackend.MATH)
FLASH = Backend("sdpa FLASH_ATTENTION", kernel=SDPBackend.FLASH_ATTENTION, dropout=False)


@dataclasses.dataclass(frozen=True)
class Setting:
    """How a model is run.

    Attributes:
        training: training mode, with dropout, or evaluation mode.
        factor: factor for matrices: large ones make attention sharp.
        backend: implementation.

    """

    training: bool = False
    factor: float = 1.0
    backend: Backend = OWN

    def __str__(self) -> str:
        """Return the setting as part of a check's name."""
        parts = ["train" if self.training else "eval", self.backend.name]
        if self.factor != 1:
            parts.append(f"matrices x {self.factor:g}")
        return ", ".join(p for p in parts if p)


EVAL = Setting()


class _KernelSpy(TorchFunctionMode):
    """Notes whether scaled_dot_product_attention is called."""

    called = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.functional.scaled_dot_product_attention:
            self.called = True
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def random_numbers(seed: int, device: torch.device) -> Iterator[None]:
    """Begin the random numbers of the CPU and of a device at seed, and restore them."""
    on_cpu = device.type == "cpu"
    with torch.random.fork_rng([] if on_cpu else [device.index or 0], device_type="cuda" if on_cpu else device.type):
        torch.default_generator.manual_seed(seed)
        if not on_cpu:
            torch.get_device_module(device).manual_seed(seed)
        yield


class Subject:
    """A model under test. A module here is a copy that checks may change.

    Attributes:
        model: maps ids [batch, time] to logits.
        vocabulary: number of token ids that the model accepts.
        context: maximum number of tokens; None if there is none.
        special: token ids that are not used, for example those of padding.
        windows: sizes of attention windows and blocks, where faults may begin.
        f64: whether the weights are f64, and what the model asks for in f32 is computed in f64.
        flex: whether flex_attention is tried.
        copies: maximum number of copies of a sequence in one pass.

    """

    special: frozenset[int] = frozenset()
    f64 = False
    flex = False
    copies = 160

    def __init__(
        self,
        model: Model,
        vocabulary: int | None = None,
        context: int | None = None,
        factory: Callable[[], Model] | None = None,
        ids: Tensor | None = None,
        forward: Callable[[Any, Tensor], Any] | None = None,
        decoder: Callable[[Any, Tensor, Any], tuple[Any, Any]] | None = None,
        documents: Callable[[Any, Tensor, Tensor], Any] | None = None,
    ) -> None:
        """Copy the model, and find the sizes that the caller does not give in its config or its embedding table."""
        config = getattr(model, "config", None)
        if vocabulary is None:
            vocabulary = next((n for k in ("vocab_size", "vocabulary") if (n := _integer(config, k))), None)
        vocabulary = vocabulary or self._table_rows(model)
        if not vocabulary:
            raise TypeError("the number of token ids is not known: pass vocabulary=")
        if vocabulary < 2:
            raise ValueError("a vocabulary of 1 token has nothing to replace")
        names = ("max_position_embeddings", "n_positions", "block_size", "sequence_len", "max_seq_len")
        if context is None:
            context = next((n for k in names if (n := _integer(config, k))), None)
        if context is not None and context < 2:
            raise ValueError(f"context={context}: there must be room for 2 tokens")
        if ids is not None and ids.numel() == 0:
            raise ValueError("ids is empty")
        self.vocabulary, self.context = vocabulary, context
        self.windows = windows_of(config, context)
        self.factory, self.forward, self.decoder, self.documents = factory, forward, decoder, documents
        self.given = ids
        self.original = model
        self.model = self._copy(model) if isinstance(model, nn.Module) else model

    def _copy(self, model: nn.Module) -> nn.Module:
        made = self.factory() if self.factory else None
        if not isinstance(made, nn.Module) or made in (model, self.original):
            return copy.deepcopy(model)
        made.load_state_dict(model.state_dict())
        return made

    @staticmethod
    def _table_rows(model: Model) -> int | None:
        """Return the number of rows of the first embedding table."""
        modules = model.modules() if isinstance(model, nn.Module) else ()
        return next((m.num_embeddings for m in modules if isinstance(m, nn.Embedding)), None)

    @property
    def name(self) -> str:
        """The name of the model's class or function."""
        return getattr(self.model, "__name__", type(self.model).__name__)

    @property
    def module(self) -> nn.Module | None:
        """The model, if it is a module: its dtype, mode and weights can be changed."""
        return self.model if isinstance(self.model, nn.Module) else None

    @property
    def device(self) -> torch.device:
        """The device of the model's weights."""
        first = next(self.module.parameters(), None) if self.module is not None else None
        return first.device if first is not None else torch.device("cpu")

    @property
    def rounding(self) -> float:
        """The largest rounding error, relative to the largest value."""
        first = next(self.module.parameters(), None) if self.module is not None else None
        low = first is not None and first.dtype in (torch.bfloat16, torch.float16)
        return ROUNDING if self.f64 else 2.0**-4 if low else 2.0**-12

    @property
    def precision(self) -> str:
        """The dtype in which the checks run, as it is printed."""
        return "f64" if self.f64 else "its own dtype"

    def run_alone(self) -> None:
        """From now on, pass one sequence at a time."""
        for subject in (self, self.exact):
            if subject is not None:
                subject.copies = 1

    def call(self, ids: Tensor, **inputs: Any) -> Any:
        """Return what the model returns for ids [batch, time]."""
        return self.forward(self.model, ids) if self.forward else self.model(ids, **inputs)

    def logits(self, ids: Tensor, **inputs: Any) -> Tensor:
        """Return the logits for ids [batch, time]."""
        with model_errors():
            output = self.call(ids, **inputs)
        found = logits_of(output)
        if found.shape[:2] != ids.shape:
            raise ModelError(f"the model returned logits {tuple(found.shape)} for ids {tuple(ids.shape)}")
        return found

    @functools.cached_property
    def exact(self) -> Self | None:
        """The same model with f64 weights; None if it cannot run in f64."""
        if self.module is None:
            return None
        found = copy.copy(self)
        found.model = self._copy(self.module).to(torch.float64)
        found.f64 = True
        try:
            with torch.no_grad(), found.running(EVAL, 0):
                found.logits(found.sequence(min(8, self.context or 8), 0))
        except ModelError:
            return None  # the names of the checks say so
        return found

    def backends(self) -> list[Backend]:
        """Return the implementations other than the model's own that can be chosen from outside."""
        if self.module is None:
            return []
        with torch.no_grad(), self.running(EVAL, 0), _KernelSpy() as spy:
            self.logits(self.sequence(min(8, self.context or 8), 0))
        return [MATH, FLASH] if spy.called else []

    def decoders(self) -> list[Cached]:
        """Return the ways to decode with a cache."""
        return [Stepped(self.decoder, self.model, self.logits)] if self.decoder else []

    def padded(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the logits for ids of which some are padding, where mask is 0."""
        raise NotOffered("a model outside of transformers gets no mask")

    def packed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Return the logits for several documents in one sequence, whose positions begin at 0 each."""
        if self.documents is None:
            raise NotOffered("pass documents=, a function (model, ids, positions) -> logits")
        with model_errors():
            return logits_of(self.documents(self.model, ids, positions))

    def declared_shared(self) -> list[tuple[str, str]]:
        """Return pairs of names of weights that the class declares to be shared."""
        return []

    @contextlib.contextmanager
    def using(self, backend: Backend) -> Iterator[None]:
        """Compute with a backend."""
        with sdpa_kernel(backend.kernel) if backend.kernel is not None else contextlib.nullcontext():
            yield

    @contextlib.contextmanager
    def running(self, setting: Setting, seed: int) -> Iterator[None]:
        """Run the model in a setting, with random numbers that begin at seed; restore both, and buffers."""
        modules = list(self.module.modules()) if self.module is not None else []
        before = [m.training for m in modules]
        buffers = [(b, b.clone()) for b in self.module.buffers()] if self.module is not None else []
        default = torch.get_default_dtype()
        with contextlib.ExitStack() as stack:
            stack.enter_context(random_numbers(seed, self.device))
            stack.enter_context(self.using(setting.backend))
            stack.enter_context(self._scaled(setting.factor))
            if self.f64:
                torch.set_default_dtype(torch.float64)
                stack.enter_context(Double())
            for m in modules:
                m.training = setting.training
            try:
                yield
            finally:
                torch.set_default_dtype(default)
                for m, was in zip(modules, before, strict=True):
                    m.training = was
                with torch.no_grad():
                    for b, value in buffers:
                        b.copy_(value)

    @contextlib.contextmanager
    def _scaled(self, factor: float) -> Iterator[None]:
        """Multiply the matrices, but not the embedding tables, by a power of two, and divide them again."""
        matrices: list[Tensor] = []
        if factor != 1 and self.module is not None:
            tables = {id(m.weight) for m in self.module.modules() if isinstance(m, nn.Embedding)}
            matrices = [p for p in self.module.parameters() if p.dim() == 2 and id(p) not in tables]
        with torch.no_grad():
            for p in matrices:
                p.mul_(factor)
        try:
            yield
        finally:
            with torch.no_grad():
                for p in matrices:
                    p.div_(factor)

    @functools.cached_property
    def tokens(self) -> Tensor:
        """The token ids that sequences are made of."""
        return torch.tensor([i for i in range(self.vocabulary) if i not in self.special])

    def sequence(self, length: int, seed: int, batch: int = 1) -> Tensor:
        """Return sequences of tokens [batch, length]: those that the caller gave, repeated, or random ones."""
        if self.given is not None:
            flat = self.given.flatten().cpu()
            index = torch.arange(batch * length) % len(flat)
            return flat[index].view(batch, length).to(self.device)
        generator = torch.Generator().manual_seed(seed)
        index = torch.randint(len(self.tokens), (batch, length), generator=generator)
        return self.tokens[index].to(self.device)

    def different(self, ids: Tensor, where: Tensor, seed: int) -> Tensor:
        """Return ids in which every token of a mask is a different one."""
        generator = torch.Generator().manual_seed(seed)
        count = len(self.tokens)
        other = self.tokens[torch.randint(count, ids.shape, generator=generator)].to(ids.device)
        index = torch.searchsorted(self.tokens.to(ids.device), ids).clamp_max(count - 1)
        following = self.tokens.to(ids.device)[(index + 1) % count]
        return torch.where(where.to(ids.device), torch.where(other == ids, following, other), ids)

    @functools.cached_property
    def _measured(self) -> tuple[int, float, float]:
        """The tokens of a short sequence, and the bytes and the seconds of a pass with gradients for it."""
        short = min(37, self.context or 37)
        seen = {p.untyped_storage().data_ptr() for p in self.module.parameters()} if self.module is not None else set()
        total = 0

        def count(t: Tensor) -> Tensor:
            nonlocal total
            storage = t.untyped_storage()
            if storage.data_ptr() not in seen:
                seen.add(storage.data_ptr())
                total += storage.nbytes()
            return t

        with self.running(EVAL, 0), torch.autograd.graph.saved_tensors_hooks(count, lambda t: t):
            begin = time.monotonic()
            logits = self.logits(self.sequence(short, 0))
        return short, total + 4 * logits.nbytes, time.monotonic() - begin

    def room(self, length: int, limits: Limits) -> int:
        """Return how many sequences of this length one pass may have."""
        short, size, seconds = self._measured
        scale = length / short
        found = limits.memory / max(1.0, size * max(scale, scale * scale / 8))
        if self.is_large:  # the time of a pass of a small model is that of its calls, not of its sequences
            found = min(found, limits.seconds / (6 * seconds * scale))
        return max(1, min(self.copies, int(found)))

    @property
    def is_large(self) -> bool:
        """Whether the model is so large that checks take shorter sequences."""
        return self.module is not None and sum(p.numel() for p in self.module.parameters()) > LARGE

    def lengths(self, wanted: Sequence[int]) -> list[int]:
        """Return those of the wanted lengths that fit into the context, or the context."""
        return [n for n in wanted if self.context is None or n <= self.context] or [self.context or 2]


def windows_of(config: Any, context: int | None) -> tuple[int, ...]:
    """Return the sizes of attention windows and blocks in a config, those smaller than the context."""
    sizes = {n for k in WINDOWS if (n := _integer(config, k))}
    return tuple(sorted(n for n in sizes if context is None or n < context))


def _integer(config: Any, key: str) -> int | None:
    value = config.get(key) if isinstance(config, dict) else getattr(config, key, None)
    return value if isinstance(value, int) and value > 0 else None
