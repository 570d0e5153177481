"""Models of transformers: their backends, masks and caches."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import weft.gates
from weft.gates import Outcome, Report
from weft.gates.huggingface import subject_of

transformers = pytest.importorskip("transformers")

SOUND = ("gpt2", "mistral", "mixtral", "mamba2", "qwen3_next")


def build(model_type: str = "llama") -> Any:
    from sweep.configs import tiny, types

    torch.manual_seed(0)
    return getattr(transformers, types()[model_type])(tiny(model_type))


def check(model: Any, **options: Any) -> Report:
    return weft.gates.check(model, context=131, **options)


def failed(report: Report) -> dict[str, str]:
    return {c.name: c.gate for c in report.failed}


@pytest.mark.parametrize("model_type", SOUND)
def test_sound(model_type: str) -> None:
    report = check(build(model_type))
    assert report.exit_status == 0, report.details()
    ran = [c for c in report.checks if c.outcome is not Outcome.NOT_RUN]
    assert {"causal", "isolated", "cached", "live"} <= {c.gate for c in ran}, report.details()
    if model_type == "mistral":
        names = " ".join(c.name for c in ran)
        for text in ("eager", "sdpa MATH", "sdpa FLASH_ATTENTION", "mask of ones", "past the window of 24", "StaticCache",
                     "reordered", "selected", "repeated", "cropped", "left padding", "other documents"):  # fmt: skip
            assert text in names, report.details()
    if model_type == "mixtral":
        assert any("grouped_mm" in c.name for c in ran), report.details()


def test_one_backend_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.llama import modeling_llama

    eager = modeling_llama.eager_attention_forward

    def unmasked(module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any, *args: Any, **kwargs: Any) -> Any:
        return eager(module, q, k, v, None, *args, **kwargs)

    monkeypatch.setattr(modeling_llama, "eager_attention_forward", unmasked)
    report = check(build(), gates=["causal"])
    assert report.failed and all("eager" in c.name for c in report.failed), report.details()
    assert all(c.module and c.module.endswith("self_attn") for c in report.failed), report.details()


def test_padding_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build()
    forward = type(model).forward

    def without_mask(self: Any, input_ids: Tensor, attention_mask: Any = None, use_cache: bool = False) -> Any:
        return forward(self, input_ids=input_ids, use_cache=use_cache)

    monkeypatch.setattr(type(model), "forward", without_mask)
    report = check(model, gates=["isolated"], require=[])
    assert [c.name.split(",")[0] for c in report.failed] == ["left padding"], report.details()


def _skewed(cache_utils: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = cache_utils.DynamicLayer
    update = kind.update

    def late(self: Any, k: Tensor, v: Tensor, *args: Any, **kwargs: Any) -> Any:
        k, v = update(self, k, v, *args, **kwargs)
        self.keys = self.keys.roll(1, -2) if k.shape[-2] > 30 else self.keys
        return k, v

    monkeypatch.setattr(kind, "update", late)


def _short_window(cache_utils: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = cache_utils.DynamicSlidingWindowLayer
    update = kind.update

    def forgetful(self: Any, k: Tensor, v: Tensor, *args: Any, **kwargs: Any) -> Any:
        k, v = update(self, k, v, *args, **kwargs)
        if self.keys.shape[-2] == self.sliding_window - 1:
            self.keys = torch.cat([torch.zeros_like(self.keys[..., :1, :]), self.keys[..., 1:, :]], -2)
        return k, v

    monkeypatch.setattr(kind, "update", forgetful)


def _method(name: str) -> Callable[[Any, pytest.MonkeyPatch], None]:
    def change(cache_utils: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cache_utils.DynamicLayer, name, lambda *_args: None)

    return change


def _not_cropped(cache_utils: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    crop = cache_utils.DynamicLayer.crop
    monkeypatch.setattr(cache_utils.DynamicLayer, "crop", lambda self, n: crop(self, n + 1))


@pytest.mark.parametrize(
    ("change", "model_type", "text"),
    [
        (_skewed, "llama", "single tokens"),
        (_short_window, "mistral", "past the window"),
        (_method("reorder_cache"), "llama", "reordered"),
        (_not_cropped, "llama", "cropped"),
    ],
    ids=["a cache that turns keys", "a window that forgets", "not reordered", "cropped by too little"],
)
def test_broken_cache(change: Any, model_type: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import cache_utils

    change(cache_utils, monkeypatch)
    report = check(build(model_type), gates=["cached"], require=[])
    assert report.failed and any(text in c.name for c in report.failed), report.details()
    assert text in ("single tokens", "past the window") or all(text in c.name for c in report.failed), report.details()


def test_declared_sharing() -> None:
    model = build("gpt2")
    assert model.config.tie_word_embeddings
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    report = check(model, gates=["live"], require=[])
    assert ["declared shared, but separate" in c.message for c in report.failed] == [True], report.details()


def test_special_tokens_are_not_used() -> None:
    subject = subject_of(build(), None, None, None, None, None, None, None)
    assert subject.special and not subject.special & set(subject.sequence(400, 0).flatten().tolist())


def test_what_the_user_chose_is_kept() -> None:
    model = build("mixtral")
    model.set_attn_implementation("eager")
    before = model.config._attn_implementation, model.config._experts_implementation
    check(model, gates=["causal"])
    assert (model.config._attn_implementation, model.config._experts_implementation) == before
