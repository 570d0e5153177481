"""The gate *live*: every parameter gets a gradient, from the model's own weights and from weights with noise."""

import collections
import copy
import dataclasses
import re
import statistics
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from weft.gates.decoders import model_errors
from weft.gates.limits import GROWTH
from weft.gates.report import Check, Outcome
from weft.gates.subject import Setting, Subject

GATE = "live"
STEPS, BATCH, LENGTH = 3, 4, 61
SATURATED = 2.0**-40  # gradients below this part of the median one do not train a parameter
SMALL = 1e-3  # gradients below this part of the median one are looked at in f64
EXPERT = re.compile(r"(^|\.)experts?(\.|$)")


@dataclasses.dataclass
class Moves:
    """The largest gradient of every parameter over some steps, and where the parameters ended."""

    gradient: dict[str, float]
    weights: dict[str, Tensor]
    last: dict[str, Tensor]
    called: set[str]


def _loss(subject: Subject, ids: Tensor) -> Tensor:
    logits = subject.logits(ids)[:, :-1]
    return nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def _steps(subject: Subject, steps: int, seed: int) -> Moves:
    """Train for some steps with gradients of length 1, and restore the weights."""
    module = subject.module
    assert module is not None
    named = dict(module.named_parameters())
    before = {n: p.detach().clone() for n, p in named.items()}
    largest = dict.fromkeys(named, 0.0)
    called: set[str] = set()
    handles = [m.register_forward_pre_hook(lambda _m, _a, name=n: called.add(name)) for n, m in module.named_modules()]
    last: dict[str, Tensor] = {}
    try:
        for step in range(steps):
            ids = subject.sequence(min(LENGTH, subject.context or LENGTH), seed + step, BATCH)
            wanted = [p for p in named.values() if p.requires_grad]
            with subject.running(Setting(training=True), seed + step), model_errors():
                gradients = torch.autograd.grad(_loss(subject, ids), wanted, allow_unused=True)
            found = {id(p): g for p, g in zip(wanted, gradients, strict=True)}
            for name, p in named.items():
                g = found.get(id(p))
                if g is None:
                    continue
                size = float(g.abs().max())
                largest[name] = max(largest[name], size) if size == size else float("nan")
                last[name] = g
                if 0 < size < float("inf"):
                    with torch.no_grad():
                        p.sub_(g * (1e-3 / size))
        weights = {n: p.detach().clone() for n, p in named.items()}
    finally:
        for handle in handles:
            handle.remove()
        with torch.no_grad():
            for n, p in named.items():
                p.copy_(before[n])
    return Moves(largest, weights, last, called)


def _noisy(subject: Subject, seed: int) -> Subject:
    """Return a copy of the subject with noise on every parameter."""
    assert subject.module is not None
    found = copy.copy(subject)
    found.model = copy.deepcopy(subject.module)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in found.model.parameters():
            scale = 0.02 + 0.1 * float(p.double().square().mean().sqrt())
            p.add_((torch.randn(p.shape, generator=generator) * scale).to(p))
    return found


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


def _dead(subject: Subject, own: Moves, noisy: Moves, exact: Moves | None, median: float) -> Iterator[Check]:
    """Yield the checks that every parameter moves."""
    assert subject.module is not None
    frozen = [n for n, p in subject.module.named_parameters() if not p.requires_grad]
    fine = 0
    for name, size in own.gradient.items():
        if name in frozen:
            continue
        module = _owner(name) or None
        if size != size or size == float("inf"):
            message = f"the gradient of {name} is not finite"
            yield Check(GATE, name, Outcome.FAIL, message, size, module)
        elif size == 0:
            if EXPERT.search(name) and _owner(name) not in own.called:
                yield Check(GATE, name, Outcome.NOT_RUN, "the expert got no token", optional=True)
                continue
            used = module is None or module in own.called
            message = f"{name} has no gradient in {STEPS} steps"
            if not used:
                message += f": {module} was not called"
            elif noisy.gradient[name] > 0:
                message += " from these weights, but with noise it has one: a factor of 0 does not open"
            yield Check(GATE, name, Outcome.FAIL, message, 0.0, module)
        elif exact is not None and exact.gradient[name] * GROWTH < size:
            message = f"{name} has no effect beyond rounding ({exact.gradient[name]:.1e} in f64, {size:.1e} in f32)"
            yield Check(GATE, name, Outcome.WARNING, message, size, module)
        elif size < SATURATED * median:
            message = f"{name} is saturated: its largest gradient is {size / median:.1e} of the median parameter's"
            yield Check(GATE, name, Outcome.FAIL, message, size, module)
        else:
            fine += 1
    note = f"{len(frozen)} frozen ones were left out" if frozen else ""
    if fine:
        name = f"{fine} of {len(own.gradient)} parameters move, {STEPS} steps of {BATCH} x {LENGTH} tokens"
        yield Check(GATE, name, Outcome.PASS, note)


def _experts(subject: Subject, own: Moves) -> Iterator[Check]:
    """Yield a check for each tensor of experts of which some got no token."""
    for name, g in own.last.items():
        if EXPERT.search(name) and g.dim() == 3:
            idle = int((g.flatten(1).abs().amax(1) == 0).sum())
            if idle:
                message = f"{idle} of {len(g)} experts got no token in the last step"
                yield Check(GATE, name, Outcome.NOT_RUN, message, optional=True)


def _twins(own: Moves) -> Iterator[Check]:
    """Yield a warning for parameters that stay equal."""
    groups: dict[tuple[object, ...], list[str]] = collections.defaultdict(list)
    for name, w in own.weights.items():
        if name in own.last and w.numel() > 1 and own.gradient[name] > 0:
            groups[tuple(w.shape), float(w.double().sum()), float(own.last[name].double().sum())].append(name)
    for names in groups.values():
        first = names[0]
        equal = [
            n
            for n in names[1:]
            if torch.equal(own.weights[n], own.weights[first]) and torch.equal(own.last[n], own.last[first])
        ]
        if equal:
            message = f"equal to {', '.join(equal)} in value and gradient after {STEPS} steps"
            yield Check(GATE, first, Outcome.WARNING, message, module=_owner(first) or None)


def _shared(subject: Subject) -> Iterator[Check]:
    """Yield the checks that weights are shared as declared."""
    assert subject.module is not None
    names: dict[int, list[str]] = collections.defaultdict(list)
    every = dict(subject.module.named_parameters(remove_duplicate=False))
    for name, p in every.items():
        names[id(p)].append(name)
    shared = [" = ".join(n) for n in names.values() if len(n) > 1]
    separate = []
    for first, second in subject.declared_shared():
        a, b = every.get(first), every.get(second)
        if a is not None and b is not None and a is not b:
            separate.append(f"{first} and {second}")
    title = "shared weights"
    if separate:
        yield Check(GATE, title, Outcome.FAIL, f"declared shared, but separate: {', '.join(separate)}")
    else:
        yield Check(GATE, title, Outcome.PASS, "; ".join(shared) or "none")


def check(subject: Subject, seed: int = 0) -> Iterator[Check]:
    """Yield the checks of the gate *live*."""
    if subject.module is None:
        yield Check(GATE, "parameters", Outcome.NOT_RUN, "the model is a function: pass the module", optional=True)
        return
    if not any(p.requires_grad for p in subject.module.parameters()):
        yield Check(GATE, "parameters", Outcome.NOT_RUN, "no parameter requires a gradient", optional=True)
        return
    own = _steps(subject, STEPS, seed)
    noisy = _steps(_noisy(subject, seed), STEPS, seed)
    median = statistics.median([s for s in own.gradient.values() if s > 0] or [0.0])
    small = any(0 < s < SMALL * median for s in own.gradient.values())
    exact = _steps(subject.exact, STEPS, seed) if small and subject.exact is not None else None
    yield from _dead(subject, own, noisy, exact, median)
    yield from _experts(subject, own)
    yield from _twins(own)
    yield from _shared(subject)
