"""Finds the model that a command names."""

import functools
import importlib
import os
import sys
from collections.abc import Callable

from weft.gates import huggingface
from weft.gates.subject import Model


def factory_of(text: str, trust_remote_code: bool = False) -> Callable[[], Model]:
    """Return the function that PACKAGE:FACTORY or hf:NAME names."""
    package, colon, name = text.partition(":")
    if not colon or not package or not name:
        raise ValueError(f"{text} is neither PACKAGE:FACTORY, for example mymodel:build, nor hf:NAME")
    if package == "hf":
        return functools.partial(huggingface.load, name, trust_remote_code)
    sys.path.insert(0, os.getcwd())
    factory = getattr(importlib.import_module(package), name, None)
    if not callable(factory):
        raise ValueError(f"{package} has no function {name}")
    found: Callable[[], Model] = factory
    return found
