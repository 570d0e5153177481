#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# study.py FOLDER ARMS [SEEDS [LRS [UNFINISHED]]] - writes the folder of a study as `weft ablate` leaves it, with losses
# drawn from a fixed generator, so that reports can be tested without training. The last of three or more arms repeats
# the first with the same seeds.
import hashlib
import json
import math
import os
import random
import sys

folder, arms = sys.argv[1], int(sys.argv[2])
seeds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
lrs = [3e-4, 1e-3, 3e-3][: int(sys.argv[4]) if len(sys.argv) > 4 else 1]
unfinished = int(sys.argv[5]) if len(sys.argv) > 5 else 0
steps = 1000
effects = [0, -0.06, 0.004, 0.09, -0.02, 0.0, 0.03, -0.1, 0.001, 0.05, -0.03]
names = ["dot", "w2-full", "overlap", "latent-128", "m1-gate", "m1-m2", "m1-m2-m3", "output_gate", "alibi", "relative", "ws"]
aparts = ["", "geom=w2 spread=full", "geom=overlap", "attn=latent latent=128", "m1=yes", "m1=yes m2=yes",
          "m1=yes m2=yes m3=yes", "output_gate=yes", "pos=alibi", "pos=relative", "ffn=ws"]
program = hashlib.sha256(b"program").hexdigest()
gates = ["live", "causal", "cached", "exact", "gradient", "accounted"]


def config_of(arm, lr, seed):
    config = {"preset": "gpt2", "geom": "dot", "m1": False, "m2": False, "m3": False, "layers": 2, "width": 128}
    for setting in aparts[arm].split():
        key, value = setting.split("=")
        config[key] = {"yes": True}.get(value, int(value) if value.isdigit() else value)
    return {**config, "seed": seed, "steps": steps, "lr": lr}


def arm_entry(name, arm, repeats):
    params = 420000 + 12345 * arm
    return {"name": name, "settings": aparts[arm], "repeats": repeats, "first_seed": 1, "params": params, "flops": 6.0 * params,
            "peak_bytes": 16 * params + 9000000, "activation_bytes": 9000000, "state_bytes": 16 * params,
            "cache_bytes": 1024 if arm != 3 else 512, "matched": 0,
            "gates": [{"gate": g, "checks": 12, "failed": 0, "message": ""} for g in gates],
            "config": config_of(arm, lrs[0], 1)}


def losses(arm, lr, seed, final):
    noise = random.Random(f"log {arm} {lr} {seed}")
    curve = lambda step: final + 3.2 * math.exp(-step / 180)
    for step in range(10, steps + 1, 10):
        yield {"step": step, "total": 0.0, "main": curve(step) + noise.gauss(0, 0.03), "lr": lr, "grad_norm": 1.0,
               "tokens": step * 512, "tokens_per_s": 1.0, "seconds": 1.0}
        if step % 50 == 0:
            yield {"step": step, "val_loss": curve(step) + noise.gauss(0, 0.003), "val_accuracy": 0.5, "seconds": 1.0}


# All arms share wte; each has a different output projection.
def initial_weights(arm, seed):
    digest = lambda *of: hashlib.sha256(repr(of).encode()).hexdigest()
    return {"wte": f"64x128 normal 0.02 key 0: {digest('wte', seed)}",
            "blocks.0.attn.out": f"128x{128 + arm} normal 0.01 key 0: {digest('out', arm, seed)}"}


def write_run(name, arm, lr, seed):
    draw = random.Random(f"run {arm} {lr} {seed}")
    base = 0.9 + random.Random(f"seed {seed}").gauss(0, 0.03)
    final = base + effects[arm] + draw.gauss(0, 0.012) + 0.1 * abs(math.log10(lr / (lrs[len(lrs) // 2])))
    run = f"{folder}/runs/{name}/lr-{lr:.6g}-seed-{seed}"
    os.makedirs(run)
    config = json.dumps(config_of(arm, lr, seed), indent=2) + "\n"
    open(f"{run}/config.json", "w").write(config)
    head = {"step": 0, "weft": "0.1.0", "isa": "v4", "preset": "gpt2", "task": "recall", "params": 420000 + 12345 * arm,
            "gates_checks": 72, "gates_failed": 0}
    weights = hashlib.sha256(f"weights {arm} {lr} {seed}".encode()).hexdigest()
    stream = hashlib.sha256(f"stream {seed}".encode()).hexdigest()
    json.dump(initial_weights(arm, seed), open(f"{run}/initial.json", "w"))
    scores = {"val_loss": final + 0.002, "val_accuracy": 0.8, "test_loss": final, "test_accuracy": 0.8}
    with open(f"{run}/log.jsonl", "w") as log:
        end = [{"step": steps, **scores}, {"step": steps, "weights_sha256": weights, "stream_sha256": stream, "seconds": 1.0}]
        for record in [head, *losses(arm, lr, seed, final), *end]:
            log.write(json.dumps(record) + "\n")
    return {"arm": name, "lr": lr, "seed": seed, "config_sha256": hashlib.sha256(config.encode()).hexdigest(),
            "program_sha256": program, "weights_sha256": weights, "stream_sha256": stream, "isa": "v4", "steps": steps,
            "params": head["params"], "threads": 1,
            "train_loss": final, **scores, "tokens_per_s": 20000.0 + draw.random() * 1000, "seconds": 25.0}


plan = [(names[i], i, None) for i in range(min(arms, len(names)))]
if arms > 2:
    plan = plan[: arms - 1] + [("again", 0, names[0])]
os.makedirs(folder)
study = {"name": os.path.basename(folder), "preset": "gpt2", "task": "recall",
         "command": f"weft ablate --config configs/{os.path.basename(folder)} --seeds {seeds}", "weft": "0.1.0",
         "program_sha256": program, "machine": "a processor, 2 cores, instruction set v4", "match": "none",
         "match_by": "ffn_width", "steps": steps, "seeds": list(range(1, seeds + 1)), "lrs": lrs,
         "arms": [arm_entry(*arm) for arm in plan]}
json.dump(study, open(f"{folder}/study.json", "w"), indent=1)
runs = [write_run(name, arm, lr, seed) for name, arm, _ in plan for lr in lrs for seed in range(1, seeds + 1)]
with open(f"{folder}/runs.jsonl", "w") as ledger:
    for run in runs[: len(runs) - unfinished]:
        ledger.write(json.dumps(run) + "\n")
