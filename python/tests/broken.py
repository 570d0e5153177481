"""Broken models: for each, the gate that must find it and the module that it must name."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from models import (
    CONTEXT,
    VOCABULARY,
    WIDTH,
    Attention,
    Convolution,
    Experts,
    Frame,
    Fused,
    Rope,
    Shift,
    Unmasked,
    causal_mask,
)
from models import made as made_of
from torch import Tensor, nn


@dataclasses.dataclass(frozen=True)
class Broken:
    """A broken model, and what must be found."""

    name: str
    build: Callable[[], Any]
    gate: str = "causal"
    module: str | None = "blocks.1"
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    also: tuple[str, ...] = ()  # gates that may fail, too


# ---- masks


class UnmaskedInTraining(Attention):
    def seen(self, t: int) -> Tensor:
        return torch.ones(t, t, dtype=torch.bool) if self.training else causal_mask(t)


class WeakMask(Attention):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.masked_fill(~self.seen(scores.shape[-1]), -20.0).softmax(-1)


class OneAhead(Attention):
    def seen(self, t: int) -> Tensor:
        return torch.ones(t, t, dtype=torch.bool).tril(1)


class Long(Attention):
    def seen(self, t: int) -> Tensor:
        return causal_mask(t) if t <= 256 else torch.ones(t, t, dtype=torch.bool)


class Border(Attention):
    """The first row of each block of 64 sees the next token."""

    def seen(self, t: int) -> Tensor:
        mask = causal_mask(t)
        for row in range(64, t - 1, 64):
            mask[row, row + 1] = True
        return mask


class Begin(Attention):
    """The first eight tokens see each other."""

    def seen(self, t: int) -> Tensor:
        mask = causal_mask(t)
        mask[:8, :8] = True
        return mask


class Blocks(Attention):
    """Tokens of a block of 16 see each other."""

    def seen(self, t: int) -> Tensor:
        block = torch.arange(t) // 16
        return block[:, None] >= block[None]


class Transposed(Attention):
    def seen(self, t: int) -> Tensor:
        return causal_mask(t).T


class OverQueries(Attention):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.masked_fill(~self.seen(scores.shape[-1]), -torch.inf).softmax(-2).nan_to_num()


class OneBackend(Fused):
    """One kernel of scaled_dot_product_attention gets no mask."""

    def is_causal(self) -> bool:
        return torch.backends.cuda.flash_sdp_enabled()


# ---- statistics over the sequence


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(1, keepdim=True)


class SequenceNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[1:])


class BatchNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class DetachedScale(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / x.detach().abs().amax((1, 2), keepdim=True)


class RightAverage(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flip(1).cumsum(1).flip(1) / x.shape[1]


class Squeeze(nn.Module):
    """A gate from the mean of all tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x.mean(1, keepdim=True)).sigmoid()


class ChunkMean(nn.Module):
    """Each token gets the mean of its block of 8, as in the changes that nanochat #844 reports."""

    size = 8

    def forward(self, x: Tensor) -> Tensor:
        n = -x.shape[1] % self.size
        blocks = F.pad(x, (0, 0, 0, n)).unflatten(1, (-1, self.size))
        return blocks.mean(2, keepdim=True).expand_as(blocks).flatten(1, 2)[:, : x.shape[1]]


class ChunkMean64(ChunkMean):
    size = 64


class Circular(nn.Module):
    """A mixture with the token four places before, around the end."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.5 * x.roll(4, 1)


# ---- convolutions and shifts


class Centred(Convolution):
    left, right = 2, 1


class FftCircular(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.taps = nn.Parameter(torch.randn(CONTEXT, WIDTH) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        return torch.fft.irfft(torch.fft.rfft(x, n, 1) * torch.fft.rfft(self.taps[:n], n, 0), n, 1)


class ShiftWrong(Shift):
    def shifted(self, x: Tensor) -> Tensor:
        return F.pad(x[:, 1:], (0, 0, 0, 1))


class ShiftAround(Shift):
    def shifted(self, x: Tensor) -> Tensor:
        return x.roll(1, 1)


# ---- routing


class ExpertChoice(nn.Module):
    """An expert that takes the best half of the tokens: the choice depends on later tokens, without a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.expert = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        score = self.router(x)[..., 0]
        chosen = score.topk(max(1, x.shape[1] // 2), -1).indices
        taken = torch.zeros_like(x).scatter(1, chosen[..., None].expand(-1, -1, WIDTH), 1.0)
        return taken * self.expert(x) * score.sigmoid()[..., None]


class Balanced(nn.Module):
    """Experts whose scores are balanced over the tokens of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.experts = nn.Linear(WIDTH, 4), nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        p = self.router(x).softmax(-1)
        p = p / p.sum(1, keepdim=True)
        p = p / p.sum(-1, keepdim=True)
        return (self.experts(x).unflatten(-1, (4, WIDTH)) * p[..., None]).sum(-2)


class BatchCapacity(Experts):
    """An expert takes at most a few tokens of the batch, the first ones."""

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(0, 1)
        best = self.router(flat).argmax(-1)
        rank = F.one_hot(best, 4).cumsum(0).gather(1, best[:, None])[:, 0]
        out = torch.stack([e(flat) for e in self.experts], 1).gather(1, best[:, None, None].expand(-1, 1, WIDTH))[:, 0]
        # In each sequence the tokens before a row decide, so the model is causal.
        return (out * self.router(flat).amax(-1, keepdim=True) * (rank <= 90)[:, None]).view_as(x)


# ---- lookups


class NextToken(Frame):
    def embedded(self, ids: Tensor) -> Tensor:
        return super().embedded(ids.roll(-1, 1))


class Bigram(Frame):
    """Adds a table of pairs: of a token and the next one."""

    def __init__(self, mixer: nn.Module) -> None:
        super().__init__(mixer)
        self.pairs = nn.Embedding(VOCABULARY**2, WIDTH)

    def embedded(self, ids: Tensor) -> Tensor:
        return super().embedded(ids) + self.pairs(ids * VOCABULARY + ids.roll(-1, 1))


class PositionsOfLater(Frame):
    """Positions are counted from the end, from the last token 0 of the sequence."""

    def embedded(self, ids: Tensor) -> Tensor:
        return self.table(ids) + self.positions((ids == 0).flip(1).cumsum(1).flip(1))


# ---- batch


class BatchMean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - 0.5 * x[:, :1].mean(0, keepdim=True)


class Neighbour(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 0.5 * x.roll(1, 0)


# ---- caches: the model decodes with its own list of keys and values


class Decoding(Frame):
    """A model of two layers of rotated attention that can decode; a subclass does something wrong."""

    def __init__(self, _mixer: nn.Module) -> None:
        super().__init__(Rope())
        self.blocks = nn.ModuleList([Rope(), Rope()])
        del self.positions

    def embedded(self, ids: Tensor) -> Tensor:
        return self.table(ids)

    def position(self, layer: int, past: int) -> int:
        return past

    def mask(self, layer: int, past: int, n: int) -> Tensor:
        return causal_mask(past + n)[past:]

    def kept(self, layer: int, t: Tensor) -> Tensor:
        return t

    def decode(self, ids: Tensor, cache: list[tuple[Tensor, Tensor]] | None) -> tuple[Tensor, Any]:
        x, new = self.table(ids), []
        for i, block in enumerate(self.blocks):
            q, k, v = block.qkv(F.layer_norm(x, (WIDTH,))).chunk(3, -1)
            past = cache[i][0].shape[1] if cache else 0
            at = self.position(i, past)
            q, k = block.rotated(q, at), block.rotated(k, at)
            if cache:
                k, v = torch.cat([cache[i][0], k], 1), torch.cat([cache[i][1], v], 1)
            scores = q @ k.transpose(-1, -2) * WIDTH**-0.5
            p = scores.masked_fill(~self.mask(i, past, ids.shape[1]), -torch.inf).softmax(-1)
            x = x + block.proj(p @ v)
            new.append((self.kept(i, k), self.kept(i, v)))
        return self.head(self.norm(x)), new


def decode(model: Decoding, ids: Tensor, cache: Any) -> tuple[Tensor, Any]:
    return model.decode(ids, cache)


class OffByOne(Decoding):
    def position(self, layer: int, past: int) -> int:
        return past + 1 if past and layer == 1 else past


class SecondChunk(Decoding):
    """A filled cache that gets several tokens has no mask among them."""

    def mask(self, layer: int, past: int, n: int) -> Tensor:
        return torch.ones(n, past + n, dtype=torch.bool) if past else causal_mask(n)


class Dropped(Decoding):
    """The cache loses the oldest token at 32, though attention has no window."""

    def kept(self, layer: int, t: Tensor) -> Tensor:
        return t[:, -31:]


class StateDropped(Decoding):
    """A filled cache that gets several tokens starts anew, as in transformers #45513."""

    def decode(self, ids: Tensor, cache: Any) -> tuple[Tensor, Any]:
        return super().decode(ids, cache if ids.shape[1] == 1 else None)


class InPlace(Decoding):
    """Decoding leaves out the second layer's part of the first token."""

    def mask(self, layer: int, past: int, n: int) -> Tensor:
        mask = super().mask(layer, past, n)
        if past and layer == 1:
            mask = mask.clone()
            mask[:, 0] = False
        return mask


# ---- dead parts


class Unused(Attention):
    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Linear(WIDTH, WIDTH)


class Saturated(Attention):
    """A gate whose argument is always so large that its derivative is 0."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, WIDTH)
        nn.init.constant_(self.gate.bias, 40.0)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.gate(x).sigmoid()


class BothZero(Attention):
    """Two factors that are both 0: neither moves."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.zeros(WIDTH, 4)), nn.Parameter(torch.zeros(4, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x @ self.a @ self.b


class Detached(Attention):
    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.extra(x).detach()


class NeverChosen(Attention):
    """The difference of a gate's two halves, both the same."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        g = self.gate(x).clamp(10, 20)
        return super().forward(x) * (g / 10)


# ---- documents


def documents(model: Frame, ids: Tensor, positions: Tensor) -> Tensor:
    """Run documents: positions begin anew, but attention sees the other documents."""
    x = model.table(ids) + model.positions(positions)
    for block in model.blocks:
        x = x + block(F.layer_norm(x, (WIDTH,)))
    return model.head(model.norm(x))


def model(name: str, mixer: Callable[[], nn.Module], **kwargs: Any) -> Broken:
    return Broken(name, lambda: made_of(mixer), **kwargs)


def frame(name: str, kind: type[Frame], **kwargs: Any) -> Broken:
    return Broken(name, lambda: made_of(Attention, kind), **kwargs)


def cache(name: str, kind: type[Decoding], module: str | None) -> Broken:
    return frame(name, kind, gate="cached", module=module, options={"decoder": decode})


BROKEN = [
    model("no mask", Unmasked),
    model("no mask in training", UnmaskedInTraining),
    model("a mask of -20", WeakMask),
    model("the next token", OneAhead),
    model("beyond 256 tokens", Long, options={"context": 257}),
    model("borders of blocks", Border),
    model("the first eight tokens", Begin),
    model("blocks of 16", Blocks),
    model("a transposed mask", Transposed, also=("live",)),
    model("softmax over queries", OverQueries),
    model("one backend", OneBackend),
    model("mean", Mean),
    model("norm over the sequence", SequenceNorm),
    model("batch norm", BatchNorm, module="blocks.1.norm", also=("isolated",)),
    model("detached maximum", DetachedScale),
    model("average of the rest", RightAverage),
    model("gate of the mean", Squeeze),
    model("blocks of 8 (nanochat #844)", ChunkMean),
    model("chunks of 64 (nanochat #844)", ChunkMean64),
    model("circular mixing (nanochat #844)", Circular),
    model("centred convolution", Centred, module="blocks.1"),
    model("circular FFT", FftCircular),
    model("shift to the left", ShiftWrong),
    model("shift around the end", ShiftAround),
    model("expert choice", ExpertChoice),
    model("experts balanced over the sequence", Balanced),
    model("experts' capacity of the batch", BatchCapacity, gate="isolated", module=None),
    frame("embedding of the next token", NextToken, module="NextToken"),
    frame("pairs with the next token", Bigram, module="Bigram"),
    frame("positions from later tokens", PositionsOfLater, module="PositionsOfLater"),
    model("mean over the batch", BatchMean, gate="isolated"),
    model("a neighbour in the batch", Neighbour, gate="isolated"),
    cache("positions off by one in the cache", OffByOne, None),
    cache("no mask in the second chunk", SecondChunk, None),
    cache("the oldest token lost", Dropped, None),
    cache("state dropped by several tokens", StateDropped, None),
    cache("first token hidden", InPlace, None),
    model("a module that is not used", Unused, gate="live", module="blocks.1.extra"),
    model("a saturated gate", Saturated, gate="live", module="blocks.1.gate"),
    model("two factors of 0", BothZero, gate="live"),
    model("detached branch", Detached, gate="live", module="blocks.1.extra"),
    model("clamped gate", NeverChosen, gate="live", module="blocks.1.gate"),
    Broken(
        "documents see each other",
        lambda: made_of(Attention),
        gate="packed",
        module=None,
        options={"documents": documents},
    ),
]


# ---- training steps


def right(model: nn.Module, batch: Tensor) -> Tensor:
    return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


def not_shifted(model: nn.Module, batch: Tensor) -> Tensor:
    return F.cross_entropy(model(batch).flatten(0, 1), batch.flatten())


def shifted_twice(model: nn.Module, batch: Tensor) -> Tensor:
    return F.cross_entropy(model(batch)[:, :-2].flatten(0, 1), batch[:, 2:].flatten())


def _micro(model: nn.Module, batch: Tensor, divide: float) -> Tensor:
    total = torch.zeros(())
    for part in batch.chunk(2):
        loss = F.cross_entropy(model(part)[:, :-1].flatten(0, 1), part[:, 1:].flatten()) / divide
        loss.backward()
        total = total + loss.detach()
    return total


def accumulated(model: nn.Module, batch: Tensor) -> Tensor:
    return _micro(model, batch, 2)


def accumulated_sum(model: nn.Module, batch: Tensor) -> Tensor:
    return _micro(model, batch, 1)


def averaged_twice(model: nn.Module, batch: Tensor) -> Tensor:
    return _micro(model, batch, 4)


def unequal(model: nn.Module, batch: Tensor) -> Tensor:
    """Micro-batches of different numbers of targets count the same."""
    total = torch.zeros(())
    for part in (batch[:1], batch[1:]):
        loss = F.cross_entropy(model(part)[:, :-1].flatten(0, 1), part[:, 1:].flatten()) / 2
        loss.backward()
        total = total + loss.detach()
    return total


def unmasked(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Rows whose label is -100 are scored."""
    return F.cross_entropy(model(batch["input_ids"])[:, :-1].flatten(0, 1), batch["input_ids"][:, 1:].flatten())


def of_labels(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch["input_ids"])[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())


def unnormalised(model: nn.Module, batch: Tensor) -> Tensor:
    return F.nll_loss(model(batch)[:, :-1].flatten(0, 1), batch[:, 1:].flatten())


def softmax_twice(model: nn.Module, batch: Tensor) -> Tensor:
    return F.cross_entropy(model(batch)[:, :-1].softmax(-1).flatten(0, 1), batch[:, 1:].flatten())


def misreported(model: nn.Module, batch: Tensor) -> Tensor:
    """The step reports the loss of its last micro-batch."""
    for part in batch.chunk(2):
        loss = F.cross_entropy(model(part)[:, :-1].flatten(0, 1), part[:, 1:].flatten()) / 2
        loss.backward()
    return loss.detach()


def in_pairs(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


SOUND_STEPS = [accumulated]
BROKEN_STEPS = [
    (not_shifted, "loss"),
    (shifted_twice, "loss"),
    (accumulated_sum, "loss"),
    (averaged_twice, "loss"),
    (unequal, "loss"),
    (unmasked, "loss"),
    (unnormalised, "normalised"),
    (softmax_twice, "normalised"),
    (misreported, "normalised"),
]


# ---- optimisers


def _groups(model: Frame) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    matrices = [p for p in model.parameters() if p.dim() > 1]
    return matrices, [p for p in model.parameters() if p.dim() < 2]


def grouped(model: Frame) -> torch.optim.Optimizer:
    matrices, vectors = _groups(model)
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}])


def norm_decayed(model: Frame) -> torch.optim.Optimizer:
    matrices, vectors = _groups(model)
    return torch.optim.AdamW(
        [
            {"params": [*matrices, model.norm.weight], "weight_decay": 0.1},
            {"params": [p for p in vectors if p is not model.norm.weight], "weight_decay": 0.0},
        ]
    )


def forgotten(model: Frame) -> torch.optim.Optimizer:
    return torch.optim.AdamW([p for n, p in model.named_parameters() if n != "head.weight"], weight_decay=0.0)


def twice(model: Frame) -> list[torch.optim.Optimizer]:
    return [grouped(model), torch.optim.SGD([model.head.weight], lr=0.1)]


def swapped(model: Frame) -> torch.optim.Optimizer:
    matrices, vectors = _groups(model)
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.0}, {"params": vectors, "weight_decay": 0.1}])


def of_a_copy(model: Frame) -> torch.optim.Optimizer:
    return grouped(copy.deepcopy(model))


class Normed(Attention):
    """Attention with norms, so that several norms have one name."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])

    def forward(self, x: Tensor) -> Tensor:
        for norm in self.norms:
            x = norm(x)
        return super().forward(x)


BROKEN_OPTIMIZERS = [
    (norm_decayed, "norm"),
    (forgotten, "head"),
    (twice, "head"),
    (swapped, None),
    (of_a_copy, None),
]
