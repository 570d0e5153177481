"""The gate *grouped*: every parameter is in exactly one group of the optimisers, with its like."""

import collections
import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from weft.gates.report import Check, Outcome
from weft.gates.subject import EVAL, Subject

GATE = "grouped"
SETTINGS = ("lr", "weight_decay", "betas", "eps", "momentum")


class _Uses(TorchFunctionMode):
    """Notes the tables that are looked up by token id or position, and the matrix that gives the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_up: set[int] = set()
        self.results: dict[int, tuple[int, Tensor]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func in (F.embedding, torch.embedding):
            weight = kwargs.get("weight", args[1] if func is F.embedding and len(args) > 1 else args[0])
            self.looked_up.add(weight.data_ptr())
        elif func is F.linear and isinstance(out, Tensor):
            weight = kwargs.get("weight", args[1] if len(args) > 1 else None)
            if isinstance(weight, Tensor):
                self.results[out.shape[-1]] = (weight.data_ptr(), out)
        return out


def roles(subject: Subject) -> dict[str, str]:
    """Return what each parameter is used for: table, head, matrix, bias, vector or scalar."""
    module = subject.module
    assert module is not None
    with torch.no_grad(), subject.running(EVAL, 0), _Uses() as uses:
        logits = subject.logits(subject.sequence(min(8, subject.context or 8), 0))
    head = uses.results.get(logits.shape[-1], (0, None))[0]
    found = {}
    for name, p in module.named_parameters():
        parts = [r for r, yes in (("table", p.data_ptr() in uses.looked_up), ("head", p.data_ptr() == head)) if yes]
        vector = "bias" if name.endswith("bias") else "vector"
        shape = "scalar" if p.numel() == 1 else vector if p.numel() == max(p.shape) else "matrix"
        found[name] = " and ".join(parts) or shape
    return found


def _pattern(name: str) -> str:
    """Return the name without the numbers of layers."""
    return re.sub(r"\d+", "*", name)


def _described(group: dict[str, Any]) -> str:
    return ", ".join(f"{k}={group[k]}" for k in SETTINGS if k in group)


def check(subject: Subject, optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer]) -> Iterator[Check]:
    """Yield the checks of the gate *grouped*."""
    original = subject.original
    if not isinstance(original, nn.Module):
        yield Check(GATE, "parameters", Outcome.NOT_RUN, "the model is a function: pass the module")
        return
    optimizers = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else list(optimizer)
    groups = [(type(o).__name__, g) for o in optimizers for g in o.param_groups]
    where: dict[int, list[int]] = collections.defaultdict(list)
    for i, (_, group) in enumerate(groups):
        for p in group["params"]:
            where[id(p)].append(i)
    named = dict(original.named_parameters())
    role = roles(subject)
    yield from _membership(named, where)
    yield from _alike(named, role, groups, where)
    for i, (optimiser, group) in enumerate(groups):
        count = collections.Counter(role[n] for n, p in named.items() if i in where[id(p)])
        what = ", ".join(f"{n} {r}" for r, n in count.items()) or "none of the model's parameters"
        yield Check(GATE, f"group {i}, {optimiser}, {_described(group)}", Outcome.PASS, what)


def _membership(named: dict[str, nn.Parameter], where: dict[int, list[int]]) -> Iterator[Check]:
    """Yield the checks that every parameter is in one group, and that groups have no other parameters."""
    faults = 0
    for name, p in named.items():
        its = where[id(p)]
        module = name.rpartition(".")[0] or None
        if not its and p.requires_grad:
            faults += 1
            yield Check(GATE, name, Outcome.FAIL, f"{name} is in no group: it is not trained", module=module)
        elif len(its) > 1:
            faults += 1
            message = f"{name} is in groups {', '.join(map(str, its))}: it is stepped more than once"
            yield Check(GATE, name, Outcome.FAIL, message, module=module)
    own = {id(p) for p in named.values()}
    foreign = sum(bool(its) and key not in own for key, its in where.items())
    if foreign:
        faults += 1
        message = f"{foreign} tensors are not parameters of this model: was it copied after the optimiser was made?"
        yield Check(GATE, "foreign tensors", Outcome.FAIL, message)
    if not faults:
        yield Check(GATE, f"{len(named)} parameters, each in one group", Outcome.PASS)


def _alike(
    named: dict[str, nn.Parameter],
    role: dict[str, str],
    groups: list[tuple[str, dict[str, Any]]],
    where: dict[int, list[int]],
) -> Iterator[Check]:
    """Yield the checks that like parameters have like weight decay."""
    decay = {n: float(groups[where[id(p)][0]][1].get("weight_decay") or 0) for n, p in named.items() if where[id(p)]}
    optimiser = {n: groups[where[id(p)][0]][0] for n, p in named.items() if where[id(p)]}
    alike: dict[str, list[str]] = collections.defaultdict(list)
    for name in decay:
        alike[_pattern(name)].append(name)
    odd = 0
    for names in alike.values():
        kinds = collections.Counter((optimiser[n], decay[n]) for n in names)
        usual = kinds.most_common(1)[0][0]
        for name in names:
            if (optimiser[name], decay[name]) != usual:
                odd += 1
                message = f"{name}: {optimiser[name]} with weight decay {decay[name]:g}, others of its name have "
                message += f"{usual[0]} with {usual[1]:g}"
                yield Check(GATE, name, Outcome.FAIL, message, module=name.rpartition(".")[0] or None)
    by_role: dict[str, set[float]] = collections.defaultdict(set)
    for name, value in decay.items():
        by_role[role[name]].add(value)
    small = by_role["bias"] | by_role["vector"] | by_role["scalar"]
    mixed = [kind for kind in ("vector", "bias") if len(by_role[kind]) > 1]
    if max(small, default=0) > 0 and by_role["matrix"] == {0.0}:
        yield Check(GATE, "weight decay", Outcome.FAIL, "vectors are decayed and matrices are not: are groups swapped?")
        odd += 1
    elif mixed:
        for kind in mixed:
            its = [n for n in decay if role[n] == kind]
            usual_decay = collections.Counter(decay[n] for n in its).most_common(1)[0][0]
            rare = list(dict.fromkeys(_pattern(n) for n in its if decay[n] != usual_decay))
            message = f"{', '.join(rare)}: weight decay differs from the {usual_decay:g} of the other parameters of its kind"
            module = next(n for n in its if decay[n] != usual_decay).rpartition(".")[0] or None
            yield Check(GATE, f"weight decay of each {kind}", Outcome.FAIL, message, module=module)
        odd += 1
    elif max(small, default=0) > 0:
        yield Check(GATE, "weight decay", Outcome.WARNING, "norms and biases are decayed like matrices")
        odd += 1
    if not odd:
        yield Check(GATE, "like parameters have like weight decay", Outcome.PASS)
