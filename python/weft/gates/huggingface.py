"""Causal language models of Hugging Face transformers: their backends, masks, caches and documents."""

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from weft.gates.decoders import Cached, NotOffered, model_errors
from weft.gates.subject import FLASH, MATH, Backend, Model, Subject, windows_of


def is_causal_model(model: Model) -> bool:
    """Return whether the model is one of transformers, which is imported already if it is."""
    transformers = sys.modules.get("transformers")
    return transformers is not None and isinstance(model, transformers.PreTrainedModel)


def load(name: str, trust_remote_code: bool) -> Model:
    """Return the causal model of a folder, or of a name on the hub."""
    import transformers

    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    found: Model = transformers.AutoModelForCausalLM.from_pretrained(name, trust_remote_code=trust_remote_code)
    return found


class HuggingFaceSubject(Subject):
    """A causal model of transformers."""

    model: Any

    def __init__(self, model: Model, *args: Any, **kwargs: Any) -> None:
        """Copy the model, and read its config."""
        super().__init__(model, *args, **kwargs)
        self.config: Any = self.model.config.get_text_config(decoder=True)
        ids = {getattr(c, k) for c in (self.config, self.model.config) for k in vars(c) if k.endswith("_token_id")}
        special = frozenset(i for i in ids if isinstance(i, int))
        if len(special) < self.vocabulary - 1:
            self.special = special
        self.windows = windows_of(self.config, self.context)
        self.accepts = set(inspect.signature(type(self.model).forward).parameters)

    def call(self, ids: Tensor, **inputs: Any) -> Any:
        """Return what the model returns for ids, without a cache unless the caller passes one."""
        if self.forward:
            return super().call(ids)
        if "use_cache" in self.accepts:
            inputs.setdefault("use_cache", False)
        if self._masked and "attention_mask" in self.accepts:
            inputs.setdefault("attention_mask", torch.ones_like(ids))
        return self.model(input_ids=ids, **inputs)

    _masked = False

    def backends(self) -> list[Backend]:
        """Return the implementations of attention and experts that the model's class offers."""
        model, found = self.model, []
        own = model.config._attn_implementation
        if model._can_set_attn_implementation():
            if own != "eager":
                found.append(Backend("eager", attention="eager"))
            if model._supports_sdpa:
                found += [Backend(b.name, "sdpa", b.kernel, dropout=b.dropout) for b in (MATH, FLASH)]
            if model._supports_flex_attn and self.flex:
                found.append(Backend("flex_attention", "flex_attention", f64=False, backward=False, dropout=False))
        if "attention_mask" in self.accepts:
            found.append(Backend("mask of ones", masked=True))
        if model._can_set_experts_implementation():
            found.append(Backend("experts batched_mm", experts="batched_mm"))
            found.append(Backend("experts grouped_mm", experts="grouped_mm", f64=False))
        return found

    @contextlib.contextmanager
    def using(self, backend: Backend) -> Iterator[None]:
        """Compute with a backend."""
        attention, experts = self.model.config._attn_implementation, None
        self._masked = backend.masked
        chosen = backend.experts or ("eager" if self.f64 else None)
        with contextlib.ExitStack() as stack:
            stack.enter_context(super().using(backend))
            if backend.attention:
                self.model.set_attn_implementation(backend.attention)
            if chosen and self.model._can_set_experts_implementation():
                experts = self.model.get_experts_implementation()
                self.model.set_experts_implementation(chosen)
            try:
                yield
            finally:
                self._masked = False
                if backend.attention:
                    self.model.set_attn_implementation(attention)
                if experts is not None:
                    self.model.set_experts_implementation(experts)

    def decoders(self) -> list[Cached]:
        """Return the ways to decode that the class offers."""
        found = super().decoders()
        if "past_key_values" in self.accepts or "cache_params" in self.accepts:
            found += [_Dynamic(self), _Bare(self)]
        if getattr(self.model, "_can_compile_fullgraph", False) and "past_key_values" in self.accepts:
            found.append(_Static(self))
        return found

    def padded(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the logits for ids of which some are padding, where mask is 0."""
        if "attention_mask" not in self.accepts:
            raise NotOffered(f"{self.name}.forward takes no attention_mask")
        inputs = {"attention_mask": mask}
        if "position_ids" in self.accepts:
            inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp_min(0)
        return self.logits(ids, **inputs)

    def packed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Return the logits for several documents in one sequence, whose positions begin at 0 each."""
        if self.documents is not None:
            return super().packed(ids, positions)
        if "position_ids" not in self.accepts:
            raise NotOffered(f"{self.name}.forward takes no position_ids")
        return self.logits(ids, position_ids=positions)  # with a mask or a cache, transformers does not separate them

    def declared_shared(self) -> list[tuple[str, str]]:
        """Return pairs of names of weights that the class declares to be shared."""
        if not getattr(self.config, "tie_word_embeddings", False):
            return []
        keys = getattr(self.model, "_tied_weights_keys", None)
        return list(keys.items()) if isinstance(keys, dict) else []


def _layers(cache: Any) -> list[Any]:
    """Return the layers of a cache, or of the part of it that keeps the past."""
    found: list[Any] = getattr(getattr(cache, "self_attention_cache", cache), "layers", [])
    return found


class _Dynamic(Cached):
    """The cache that the model makes when it gets none: a DynamicCache, or one of its own.

    A state is the cache and the tokens in it. A step passes what generate would.
    """

    name = "its own cache"

    def __init__(self, subject: HuggingFaceSubject) -> None:
        self._subject = subject
        self._key = "past_key_values" if "past_key_values" in subject.accepts else "cache_params"

    def start(self, batch: int, length: int) -> Any:
        return None, torch.zeros(batch, 0, dtype=torch.int64, device=self._subject.device)

    def whole(self, ids: Tensor) -> Tensor:
        return self._subject.padded(ids, torch.ones_like(ids))

    def _inputs(self, cache: Any, tokens: Tensor, count: int) -> dict[str, Any]:
        inputs: dict[str, Any] = {"attention_mask": torch.ones_like(tokens), self._key: cache, "use_cache": True}
        inputs["position_ids"] = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        inputs = {k: v for k, v in inputs.items() if k in self._subject.accepts}
        prepared: dict[str, Any] = self._subject.model.prepare_inputs_for_generation(
            tokens, next_sequence_length=count, is_first_iteration=count == tokens.shape[1], **inputs
        )
        return {"use_cache": True} | prepared

    def step(self, ids: Tensor, cache: Any) -> tuple[Tensor, Any]:
        past, tokens = cache
        tokens = torch.cat([tokens, ids], 1)
        with model_errors():
            output = self._subject.model(**self._inputs(past, tokens, ids.shape[1]))
        found = getattr(output, self._key, None)
        if found is None:
            raise NotOffered(f"{self._subject.name} returned no {self._key}")
        return output.logits, (found, tokens)

    def _apply(self, cache: Any, operation: str, *args: Any) -> None:
        function: Callable[..., Any] | None = getattr(cache, operation, None)
        if function is None:
            raise NotOffered(f"{type(cache).__name__} has no {operation}")
        for layer in _layers(cache):
            if not hasattr(layer, operation):
                raise NotOffered(f"{type(layer).__name__} has no {operation}")
        with model_errors():
            function(*args)

    def reorder(self, cache: Any, index: Tensor) -> Any:
        self._apply(cache[0], "reorder_cache", index)
        return cache[0], cache[1][index]

    def select(self, cache: Any, index: Tensor) -> Any:
        self._apply(cache[0], "batch_select_indices", index)
        return cache[0], cache[1][index]

    def repeat(self, cache: Any, times: int) -> Any:
        self._apply(cache[0], "batch_repeat_interleave", times)
        return cache[0], cache[1].repeat_interleave(times, 0)

    def prepare_crop(self, cache: Any) -> None:
        if hasattr(cache[0], "activate_past_recording"):
            cache[0].activate_past_recording()

    def crop(self, cache: Any, count: int) -> Any:
        if not getattr(cache[0], "is_croppable", True):
            kinds = {type(layer).__name__ for layer in _layers(cache[0]) if not getattr(layer, "is_croppable", False)}
            raise NotOffered(f"{', '.join(sorted(kinds))} cannot be cropped")
        self._apply(cache[0], "crop", -count)
        return cache[0], cache[1][:, :-count]


class _Bare(_Dynamic):
    """The same with ids and the cache only: some models then count positions from 0 again."""

    name = "its own cache, ids only"
    optional = True

    def whole(self, ids: Tensor) -> Tensor:
        return self._subject.logits(ids)

    def _inputs(self, cache: Any, tokens: Tensor, count: int) -> dict[str, Any]:
        return {"input_ids": tokens[:, -count:], self._key: cache, "use_cache": True}


class _Static(_Dynamic):
    """A cache of a fixed size."""

    name = "StaticCache"

    def start(self, batch: int, length: int) -> Any:
        transformers = sys.modules["transformers"]
        with model_errors():
            cache = transformers.StaticCache(config=self._subject.config, max_cache_len=length)
        return cache, super().start(batch, length)[1]


def subject_of(model: Model, *args: Any, **kwargs: Any) -> Subject:
    """Return the subject for a model of any kind."""
    kind = HuggingFaceSubject if is_causal_model(model) else Subject
    return kind(model, *args, **kwargs)
