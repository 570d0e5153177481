"""Runs the gates on a model."""

from collections.abc import Callable, Sequence

from weft.gates import causal
from weft.gates.report import Report
from weft.gates.subject import Model, Subject


def check(
    model: Model,
    *,
    vocabulary: int | None = None,
    context: int | None = None,
    factory: Callable[[], Model] | None = None,
    require: Sequence[str] = (causal.GATE,),
    seed: int = 0,
) -> Report:
    """Check a model with every gate.

    Args:
        model: maps token ids [batch, time] to logits [batch, time, vocabulary], or to an object that has such `logits`.
            A module is copied before it is checked, so its weights, buffers, mode and gradients stay as they are.
        vocabulary: number of token ids; by default that of the model's config or first embedding table.
        context: maximum number of tokens; by default that of the model's config, or none.
        factory: returns a new model; it is called instead of copying the model.
        require: gates that must have run: if one has not, the report has not passed.
        seed: seed of the random tokens.

    """
    unknown = sorted(set(require) - {causal.GATE})
    if unknown:
        raise ValueError(f"there is no gate {', '.join(unknown)}: the gates are {causal.GATE}")
    subject = Subject.of(model, vocabulary, context, factory)
    return Report(tuple(causal.check(subject, seed)), tuple(require))
