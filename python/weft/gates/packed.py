"""The gate *packed*: documents that share a sequence do not see each other."""

from collections.abc import Iterator

import torch

from weft.gates.decoders import NotOffered
from weft.gates.limits import relative
from weft.gates.report import Check, Outcome
from weft.gates.subject import EVAL, Subject

GATE = "packed"
DOCUMENTS = (41, 53, 37)  # their sum is a prime


def check(subject: Subject, seed: int = 0, promised: bool = False) -> Iterator[Check]:
    """Yield the checks of the gate *packed*. A model that never promised to separate documents gets a warning."""
    model = subject.exact or subject
    bound = model.rounding
    documents = DOCUMENTS if subject.context is None or sum(DOCUMENTS) <= subject.context else (3, 5, 3)
    ids = model.sequence(sum(documents), seed)
    positions = torch.cat([torch.arange(n) for n in documents])[None].to(ids.device)
    ends = [sum(documents[: i + 1]) for i in range(len(documents))]
    fault = Outcome.FAIL if promised or subject.documents is not None else Outcome.WARNING
    name = f"documents of {', '.join(map(str, documents))} tokens, eval, {model.precision}"
    try:
        with torch.no_grad(), model.running(EVAL, seed):
            whole = model.packed(ids, positions)
            worst, where = 0.0, 0
            for i, end in enumerate(ends[:-1]):
                outside = torch.ones_like(ids, dtype=torch.bool)
                outside[:, end : ends[i + 1]] = False
                other = model.packed(model.different(ids, outside, seed + 1), positions)
                difference = (other - whole)[:, end : ends[i + 1]].abs()
                if relative(difference, whole) > worst:
                    worst, where = relative(difference, whole), end + int(difference.amax((0, 2)).argmax())
            if worst < bound:
                yield Check(GATE, f"other documents, {name}", Outcome.PASS, value=worst)
            else:
                message = f"row {where} depends on another document, by {worst:.1e}"
                yield Check(GATE, f"other documents, {name}", fault, message, worst, position=where)
                return
            alone = model.logits(ids[:, ends[0] : ends[1]])
            size = relative((alone - whole[:, ends[0] : ends[1]]).abs(), whole)
            if size < bound:
                yield Check(GATE, f"a document alone, {name}", Outcome.PASS, value=size)
            else:
                yield Check(GATE, f"a document alone, {name}", fault, f"its logits differ by {size:.1e}", size)
    except NotOffered as reason:
        yield Check(GATE, name, Outcome.NOT_RUN, str(reason), optional=not promised)
