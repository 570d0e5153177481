# SPDX-License-Identifier: MIT
"""common.py - what tests of export and import share: results as TAP, the command, and the library's logits.

A test is called with WEFT LIBRARY FOLDER.
"""
import ctypes
import json
import os
import subprocess
import sys

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
