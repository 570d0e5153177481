# SPDX-License-Identifier: MIT
"""shakespeare_torch.py FOLDER f32|bf16 STEPS - the rival of shakespeare-small.sh: the same GPT, of nanoGPT's
architecture and recipe, in PyTorch. Trains on a folder of token files and prints as JSON how many weights it has, the
loss of the last step and of all the validation text, and milliseconds per step."""
import contextlib
import json
import math
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, CONTEXT, BATCH, VOCAB = 4, 4, 128, 64, 12, 65
LR, WARMUP = 1e-3, 100


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.fc = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.proj = nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.register_buffer("future", torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1))

    def attend(self, x):
        heads = lambda y: y.view(BATCH, CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2)
        q, k, v = map(heads, self.qkv(x).split(WIDTH, dim=2))
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS)
        mixed = F.softmax(scores.masked_fill(self.future, -math.inf), dim=3) @ v
        return self.out(mixed.transpose(1, 2).reshape(BATCH, CONTEXT, WIDTH))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.proj(F.gelu(self.fc(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                into_stream = name.endswith(("out.weight", "proj.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * LAYERS) if into_stream else 0.02)

    def forward(self, x, targets):
        h = self.norm(self.blocks(self.tokens(x) + self.positions.weight))
        logits = F.linear(h, self.tokens.weight)
        return F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))


def read(folder, split):
    # llm.c's format: 256 int32, then the tokens.
    tokens = np.fromfile(f"{folder}/{split}_000000.bin", dtype=np.uint16, offset=1024)
    return torch.from_numpy(tokens.astype(np.int64))


def batch(text, starts):
    return [torch.stack([text[i + shift : i + shift + CONTEXT] for i in starts]) for shift in (0, 1)]


class Trainer:
    def __init__(self, dtype, steps):
        torch.manual_seed(1)
        self.dtype, self.steps, self.step = dtype, steps, 0
        self.model = GPT()
        weights = list(self.model.parameters())
        groups = [
            {"params": [w for w in weights if w.dim() == 2], "weight_decay": 0.1},
            {"params": [w for w in weights if w.dim() == 1], "weight_decay": 0},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.99), eps=1e-8)

    def rate(self):
        if self.step < WARMUP:
            return LR * (self.step + 1) / WARMUP
        done = (self.step - WARMUP) / (self.steps - WARMUP)
        return LR * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done)))

    def loss(self, x, targets):
        with torch.autocast("cpu", dtype=self.dtype) if self.dtype else contextlib.nullcontext():
            return self.model(x, targets)

    def take_step(self, text):
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate()
        loss = self.loss(*batch(text, torch.randint(len(text) - CONTEXT, (BATCH,)).tolist()))
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step += 1
        return loss.item()

    @torch.no_grad()
    def score(self, text):
        starts = range(0, len(text) - BATCH * CONTEXT, BATCH * CONTEXT)
        return sum(self.loss(*batch(text, range(i, i + BATCH * CONTEXT, CONTEXT))).item() for i in starts) / len(starts)


def main():
    torch.set_num_threads(2)
    folder, dtype, steps = sys.argv[1], {"f32": None, "bf16": torch.bfloat16}[sys.argv[2]], int(sys.argv[3])
    train, val = read(folder, "train"), read(folder, "val")
    trainer = Trainer(dtype, steps)
    trainer.loss(*batch(train, [0] * BATCH)).backward()  # one-time initialisation is not timed
    trainer.optimiser.zero_grad(set_to_none=True)
    start = time.perf_counter()
    for _ in range(steps):
        loss = trainer.take_step(train)
    ms = (time.perf_counter() - start) / steps * 1000
    params = sum(w.numel() for w in trainer.model.parameters())
    print(json.dumps({"params": params, "loss": loss, "val_loss": trainer.score(val), "ms": ms}))


main()
