"""Small language models, sound and broken, that the gates are tested with."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, VOCABULARY = 16, 29


class Attention(nn.Module):
    """Causal attention. `leak` says in which mode the mask is missing: never, train or always."""

    def __init__(self, leak: str = "never", mask: float = float("-inf")) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.leak, self.mask = leak, mask

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-1, -2) * WIDTH**-0.5
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        if self.leak != "always" and not (self.leak == "train" and self.training):
            scores = scores.masked_fill(later, self.mask)
        return self.proj(F.dropout(scores.softmax(-1), 0.1, self.training) @ v)


class Fused(Attention):
    """Attention by scaled_dot_product_attention."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)[:, None].chunk(3, -1)
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, 0])


class Convolution(nn.Module):
    """A convolution over the whole past, computed by FFT: sound, but not exactly 0 for later tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.taps = nn.Parameter(torch.randn(512, WIDTH) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        return torch.fft.irfft(torch.fft.rfft(x, 2 * n, 1) * torch.fft.rfft(self.taps[:n], 2 * n, 0), 2 * n, 1)[:, :n]


class Prefix(nn.Module):
    """The mean of the past, computed as the total minus the rest: sound, but not exactly 0 for later tokens."""

    def forward(self, x: Tensor) -> Tensor:
        later = x.flip(1).cumsum(1).flip(1) - x
        return (x.sum(1, keepdim=True) - later) / torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]


class Mean(nn.Module):
    """Subtracts the mean over all tokens."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(1, keepdim=True)


class ExpertChoice(nn.Module):
    """An expert that takes the best half of the tokens: the choice depends on later tokens, without a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.expert = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        score = self.router(x)[..., 0]
        chosen = score.topk(max(1, x.shape[1] // 2), -1).indices
        return torch.zeros_like(x).scatter(1, chosen[..., None].expand(-1, -1, WIDTH), 1.0) * self.expert(x)


class Model(nn.Module):
    """A language model of two blocks; the second one has the given mixer."""

    def __init__(self, mixer: nn.Module) -> None:
        super().__init__()
        self.table, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(512, WIDTH)
        self.blocks = nn.ModuleList([Attention(), mixer])
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        x += self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = x + block(F.layer_norm(x, (WIDTH,)))
        return self.head(F.layer_norm(x, (WIDTH,)))


def build(name: str) -> Model:
    """Return the model of this name, with the same weights every time."""
    torch.manual_seed(0)
    mixers = {
        "sound": Attention,
        "fused": Fused,
        "fft": Convolution,
        "prefix": Prefix,
        "no mask": lambda: Attention("always"),
        "no mask in training": lambda: Attention("train"),
        "weak mask": lambda: Attention(mask=-20.0),
        "mean": Mean,
        "expert choice": ExpertChoice,
    }
    return Model(mixers[name]())


def sound() -> Model:
    """Return a sound model."""
    return build("sound")


def broken() -> Model:
    """Return a model whose second block sees all tokens."""
    return build("no mask")
