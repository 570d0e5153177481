# SPDX-License-Identifier: MIT
"""common.py - what tests of export and import share: results as TAP, the command, and the library's logits.

A test is called with WEFT LIBRARY FOLDER.
"""
import ctypes
import json
import os
import subprocess
import sys

import numpy as np

WEFT, LIBRARY, FOLDER = sys.argv[1:4]
count = {"tests": 0, "failed": 0}


def result(good, text):
    count["tests"] += 1
    count["failed"] += not good
    print("ok" if good else "not ok", count["tests"], "-", text, flush=True)


def sample(rows, every):
    """Every n-th row, starting from the middle of the first n; WEFT_EVERY sets n, 1 takes all (make long-whole)."""
    every = int(os.environ.get("WEFT_EVERY", every))
    return rows[every // 2::every] or rows[:1]


def everything():
    """Whether all cases are wanted, not just a sample."""
    return os.environ.get("WEFT_EVERY") == "1"


def skip(text):
    count["tests"] += 1
    print("ok %d - %s # SKIP" % (count["tests"], text))


def finish():
    print("1..%d" % count["tests"])
    sys.exit(count["failed"] > 0)


def weft(*words, cwd=None):
    """The answer of a command, or its error."""
    done = subprocess.run([os.path.abspath(WEFT), *words], capture_output=True, text=True, cwd=cwd)
    return json.loads(done.stdout) if done.returncode == 0 and done.stdout else done.stderr.strip().split("\n")[-1]


def sets(settings):
    """--set NAME=VALUE for each."""
    return [word for setting in settings for word in ("--set", setting)]


library = ctypes.CDLL(LIBRARY)
library.weft_error.restype = ctypes.c_char_p


def call(name, *args):
    if getattr(library, name)(*args):
        raise RuntimeError(library.weft_error().decode())


def weft_model(preset, settings, folder):
    """A new model folder."""
    config, model = ctypes.c_void_p(), ctypes.c_void_p()
    call("weft_config_create", ctypes.byref(config), preset.encode())
    for setting in settings:
        call("weft_config_set", config, setting.encode())
    call("weft_model_create", ctypes.byref(model), config, 0)
    call("weft_model_init", model)
    call("weft_model_save", model, folder.encode())
    library.weft_model_free(model)
    library.weft_config_free(config)


def weft_logits(folder, tokens, vocab):
    import torch

    model, forward = ctypes.c_void_p(), ctypes.c_void_p()
    length = len(tokens)
    call("weft_model_open", ctypes.byref(model), folder.encode(), 0)
    call("weft_forward_create", ctypes.byref(forward), model, ctypes.c_int64(1), ctypes.c_int64(length))
    logits = (ctypes.c_float * (length * vocab))()
    call("weft_forward_tokens", forward, ctypes.c_int64(1), ctypes.c_int64(length), (ctypes.c_int32 * length)(*tokens), logits)
    library.weft_forward_free(forward)
    library.weft_model_free(model)
    return torch.frombuffer(logits, dtype=torch.float32).reshape(length, vocab).clone()


# ---- small models of every variant, with large random weights

CONTEXT, VOCAB = 80, 97
SMALL = "layers=3 width=32 heads=4 ffn_width=24 batch=2 vocab=%d context=%d dtype=f32" % (VOCAB, CONTEXT)


class View(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dims", ctypes.c_int), ("dim", ctypes.c_int64 * 4), ("count", ctypes.c_int64),
                ("values", ctypes.POINTER(ctypes.c_float))]


# Where weights lie, by the end of their names: temperatures that leave attention soft, gains about 1; others about 0.
CENTRES = {"gain": 1.0, "q_gain": 1.0, "k_gain": 1.0, "gamma": 1.0, "beta": 1.0, "theta": 1.5, "alpha": 0.5}


# Weights that compute queries and keys. Distances are squared, so under w2, and more so under overlap, they are smaller: else
# changing the weights by a unit in the last place moves Weft's own logits by up to 1e-3.
MEANS = ("wq", "wk", "wq_bias", "wk_bias", "wqr", "wkr", "wdk", "wa", "wu")


# Weights that only some models have, in other places: an embedding so small that what norms add counts, and spreads that
# almost vanish.
TINY = {"wte": 1e-3, "wpe": 1e-3}
NARROW = {"wq_spread_bias": -11.0, "wk_spread_bias": -11.0}


def draw_weights(model, seed, geometry, special):
    view = View()
    generator = np.random.default_rng(seed)
    for i in range(library.weft_model_weights(model)):
        call("weft_model_weight", model, i, ctypes.byref(view))
        values = np.ctypeslib.as_array(view.values, (view.count,))
        name = view.name.decode().split(".")[-1]
        if special == "large":
            values *= 2 if name in ("wte", "wq", "wk", "wa") else 1
            continue
        wide = {"w2": 0.25, "overlap": 0.1}.get(geometry, 0.5) if name in MEANS else 0.5
        wide *= TINY.get(name, 1.0) if special == "tiny" else 0.05 if special == "narrow" and name in MEANS else 1.0
        centre = {**CENTRES, **(NARROW if special == "narrow" else {})}.get(name, 0.0)
        values[:] = generator.uniform(-wide, wide, view.count).astype(np.float32) + np.float32(centre)


def make(preset, settings, folder, seed, special=""):
    """A model folder with large random weights."""
    config, model = ctypes.c_void_p(), ctypes.c_void_p()
    call("weft_config_create", ctypes.byref(config), preset.encode())
    for setting in settings.split():
        call("weft_config_set", config, setting.encode())
    call("weft_model_create", ctypes.byref(model), config, 0)
    call("weft_model_init", model)
    value = ctypes.create_string_buffer(64)
    call("weft_config_value", config, b"geom", value, ctypes.c_size_t(64))
    draw_weights(model, seed, value.value.decode(), special)
    call("weft_model_save", model, folder.encode())
    library.weft_model_free(model)
    library.weft_config_free(config)


def option(folder, name):
    config, value = ctypes.c_void_p(), ctypes.create_string_buffer(64)
    call("weft_config_create", ctypes.byref(config), folder.encode())
    call("weft_config_value", config, name.encode(), value, ctypes.c_size_t(64))
    library.weft_config_free(config)
    return value.value.decode()


def pairs():
    """Settings in which all pairs of choices occur."""
    return subprocess.run([WEFT, "help", "pairs"], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]


def variants():
    """Presets, combinations in which all pairs of choices occur, and what those leave out, as (preset, settings, special)."""
    rest = ["tie=no", "head_width=12", "norm_eps=1e-2", "pos=rope rope_base=50", "pos=rope rope_scaling=llama3 rope_original=40", "pos=rope rope_scaling=linear rope_factor=3", "scaling=mup mup_width=16 mup_head=4",
            "scaling=mup mup_width=16 mup_head=4 geom=w2 m1=yes m2=yes m3=yes learn_tau=no",
            "scaling=mup mup_width=16 mup_head=4 geom=overlap attn=latent m3=yes latent_scale=latent learn_tau=no",
            "attn=latent latent_scale=latent geom=w2 ra_alpha=0.7", "m3=yes m3_tying=per_head_scalar attn=latent latent_width=7",
            "ra_alpha=0.5 ra_window=64 pos=alibi heads=3 width=24", "layers=1 m2=yes m2_topk=100", "layers=1 heads=1"]
    rows = [(preset, "", "") for preset in ("gpt2", "gpt2-124m", "gpt2-mini", "llama", "w2", "ra-mla", "ws")]
    rows += [("gpt2", "tie=no", "tiny"), ("llama", "", "tiny"), ("gpt2", "geom=overlap", "narrow")]
    rows += [("gpt2", settings, "") for settings in rest + pairs()]
    return rows


def small(preset, settings):
    """All settings of a small model."""
    set_here = {s.split("=")[0] for s in settings.split()}
    sizes = [s for s in SMALL.split() if s.split("=")[0] not in set_here]
    if preset == "ra-mla":
        sizes += ["latent_width=12", "m1_width=6", "m2_rank=6", "m2_topk=3"]
    return " ".join(sizes) + " " + settings
