# SPDX-License-Identifier: MIT
"""shakespeare_torch.py TOKENS - the rival of shakespeare-small.sh: the same GPT, of nanoGPT's architecture, in PyTorch.

First tells how many weights it has. Then, for every line "f32" or "bf16" that it reads, the model of that precision takes
its next 40 of 200 steps, and "MILLISECONDS LOSS" is told: of a step on average, and of the last one.
"""
import contextlib
import math
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, CONTEXT, BATCH, VOCAB = 4, 4, 128, 64, 12, 65
LR, WARMUP, STEPS, LEG = 1e-3, 100, 200, 40


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


class Trainer:
    def __init__(self, text, dtype):
        torch.manual_seed(1)
        self.text, self.dtype, self.step = text, dtype, 0
        self.model = GPT()
        weights = list(self.model.parameters())
        groups = [
            {"params": [w for w in weights if w.dim() == 2], "weight_decay": 0.1},
            {"params": [w for w in weights if w.dim() == 1], "weight_decay": 0},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.99), eps=1e-8)

    def rate(self):
        if self.step <= WARMUP:
            return LR * self.step / WARMUP
        done = (self.step - WARMUP) / (STEPS - WARMUP)
        return LR * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))

    def loss(self):
        starts = torch.randint(len(self.text) - CONTEXT, (BATCH,)).tolist()
        x = torch.stack([self.text[i : i + CONTEXT] for i in starts])
        targets = torch.stack([self.text[i + 1 : i + 1 + CONTEXT] for i in starts])
        with torch.autocast("cpu", dtype=self.dtype) if self.dtype else contextlib.nullcontext():
            return self.model(x, targets)

    def take_step(self):
        self.step += 1
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate()
        loss = self.loss()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return loss.item()


def main():
    torch.set_num_threads(2)
    # llm.c's format: 256 int32, then the tokens.
    text = torch.from_numpy(np.fromfile(sys.argv[1], dtype=np.uint16, offset=1024).astype(np.int64))
    trainers = {"f32": Trainer(text, None), "bf16": Trainer(text, torch.bfloat16)}
    for trainer in trainers.values():
        trainer.loss().backward()  # what is made once is not timed
        trainer.optimiser.zero_grad(set_to_none=True)
    print(sum(w.numel() for w in trainers["f32"].model.parameters()), flush=True)
    for line in sys.stdin:
        trainer, start = trainers[line.strip()], time.perf_counter()
        for _ in range(LEG):
            loss = trainer.take_step()
        print((time.perf_counter() - start) / LEG * 1000, loss, flush=True)


main()
