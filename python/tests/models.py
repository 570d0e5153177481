"""Small language models that the gates are tested with: a frame of two blocks, and sound mixers for it."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, VOCABULARY, CONTEXT = 16, 29, 512

Mixer = Callable[[], nn.Module]


def causal_mask(t: int) -> Tensor:
    """True where a row may look."""
    return torch.ones(t, t, dtype=torch.bool).tril()


class Attention(nn.Module):
    """Attention with one head; a subclass says what a row may see, and which scores it adds."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def seen(self, t: int) -> Tensor:
        return causal_mask(t)

    def bias(self, t: int) -> Tensor | float:
        return 0.0

    def weights(self, scores: Tensor) -> Tensor:
        scores = scores + self.bias(scores.shape[-1])
        return scores.masked_fill(~self.seen(scores.shape[-1]), -torch.inf).softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-1, -2) * WIDTH**-0.5
        return self.proj(F.dropout(self.weights(scores), 0.1, self.training) @ v)


class Fused(Attention):
    """Attention by scaled_dot_product_attention."""

    def is_causal(self) -> bool:
        return True

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)[:, None].chunk(3, -1)
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal())[:, 0])


class FusedWithMask(Attention):
    """The same, with a mask."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)[:, None].chunk(3, -1)
        mask = self.seen(x.shape[1])
        return self.proj(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)[:, 0])


class Window(Attention):
    """Attention to the last 24 tokens."""

    def seen(self, t: int) -> Tensor:
        return causal_mask(t).triu(-23)


class Alibi(Attention):
    """Attention with scores that fall with distance."""

    def bias(self, t: int) -> Tensor:
        i = torch.arange(t)
        return -0.1 * (i[:, None] - i).clamp_min(0)


class Sink(Attention):
    """Attention that may look at nothing."""

    def weights(self, scores: Tensor) -> Tensor:
        scores = scores.masked_fill(~self.seen(scores.shape[-1]), -torch.inf)
        return F.pad(scores, (1, 0)).softmax(-1)[..., 1:]


class Rope(Attention):
    """Attention with rotated queries and keys."""

    def rotated(self, x: Tensor, begin: int = 0) -> Tensor:
        angle = torch.arange(begin, begin + x.shape[1])[:, None] * 0.1 ** torch.arange(WIDTH // 2)
        sin, cos = angle.sin().to(x), angle.cos().to(x)
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = self.rotated(q) @ self.rotated(k).transpose(-1, -2) * WIDTH**-0.5
        return self.proj(self.weights(scores) @ v)


class Softcap(Attention):
    """Attention with bounded scores."""

    def weights(self, scores: Tensor) -> Tensor:
        return super().weights(5 * (scores / 5).tanh())


class Fft(nn.Module):
    """A convolution over the whole past, computed by FFT: sound, but not exactly 0 for later tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.taps = nn.Parameter(torch.randn(CONTEXT, WIDTH) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        return torch.fft.irfft(torch.fft.rfft(x, 2 * n, 1) * torch.fft.rfft(self.taps[:n], 2 * n, 0), 2 * n, 1)[:, :n]


class Prefix(nn.Module):
    """The mean of the past, computed as the total minus the rest: sound, but not exactly 0 for later tokens."""

    def forward(self, x: Tensor) -> Tensor:
        later = x.flip(1).cumsum(1).flip(1) - x
        return (x.sum(1, keepdim=True) - later) / torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]


class Convolution(nn.Module):
    """A causal convolution of 4 tokens."""

    left, right = 3, 0

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(WIDTH, WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.pad(x.transpose(1, 2), (self.left, self.right))).transpose(1, 2)


class Shift(nn.Module):
    """Half of the channels are those of the token before."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(WIDTH, WIDTH)

    def shifted(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :-1], (0, 0, 1, 0))

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(torch.cat([x[..., : WIDTH // 2], self.shifted(x)[..., WIDTH // 2 :]], -1))


class LinearAttention(Attention):
    """Attention without softmax, as a prefix sum of outer products."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state = (k[..., :, None] * v[..., None, :]).cumsum(1)
        return self.proj((q[..., None, :] @ state)[..., 0, :] / (q * k.cumsum(1)).sum(-1, keepdim=True))


class Recurrence(nn.Module):
    """A gated recurrence, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        keep, value = self.gate(x).sigmoid(), self.value(x)
        state, out = torch.zeros_like(value[:, 0]), []
        for t in range(x.shape[1]):
            state = keep[:, t] * state + (1 - keep[:, t]) * value[:, t]
            out.append(state)
        return torch.stack(out, 1)


class Experts(nn.Module):
    """Each token goes to its best expert."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        p = self.router(x).softmax(-1)
        best = p.argmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            taken = best == i
            if taken.any():
                out[taken] = expert(x[taken]) * p[taken][:, i : i + 1]
        return out


class Frame(nn.Module):
    """A language model of two blocks; the second one has the given mixer."""

    def __init__(self, mixer: nn.Module) -> None:
        super().__init__()
        self.table, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList([Attention(), mixer])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def embedded(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        x += self.positions(torch.arange(ids.shape[1], device=ids.device))
        return x

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedded(ids)
        for block in self.blocks:
            x = x + block(F.layer_norm(x, (WIDTH,)))
        return self.head(self.norm(x))


def made(mixer: Mixer, frame: type[Frame] = Frame) -> Frame:
    """Return the model with this mixer, with the same weights every time."""
    torch.manual_seed(0)
    return frame(mixer())


def sound() -> Frame:
    """Return a sound model."""
    return made(Attention)


class Unmasked(Attention):
    """Attention without a mask."""

    def seen(self, t: int) -> Tensor:
        return torch.ones(t, t, dtype=torch.bool)


def broken() -> Frame:
    """Return a model whose second block sees all tokens."""
    return made(Unmasked)
