# SPDX-License-Identifier: MIT
"""torch_modules.py - what torch_speed.py and torch_compile.py share: exporting a model as a PyTorch module and loading it."""
import importlib.util
import os

from common import FOLDER, weft

# Compiled code is removed with the folder, and always compiled again.
os.environ["TORCHINDUCTOR_CACHE_DIR"] = FOLDER + "/inductor"


def module(folder):
    """The PyTorch module that a model folder is exported as, in training mode."""
    out = folder + "-torch"
    answer = weft("export", folder, "--format", "torch", "--no-check", "--out", out, "--json")
    if not isinstance(answer, dict):
        raise RuntimeError(answer)
    spec = importlib.util.spec_from_file_location("exported_" + os.path.basename(folder).replace("-", "_"), out + "/model.py")
    source = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(source)
    return source.load(out + "/model.safetensors").train()
