"""Limits of time and memory, and the bounds that separate rounding from faults."""

import dataclasses
import math
import time

from torch import Tensor

ROUNDING = 2.0**-30  # largest rounding error in f64, relative to the largest value
AMPLIFIED = 2.0**-20  # larger differences in f64 are faults; between both a warning, since rounding can be amplified
UNIT = 2.0**-46  # changes of logits below this part of the largest one are rounding in f64: 64 units in the last place
GROWTH = 1e4  # factor by which a rounding error is at least larger in f32 than in f64


def relative(difference: Tensor, scale: Tensor) -> float:
    """Return the largest difference, relative to the largest value; infinite if a value is not finite."""
    size = float(difference.max() / scale.abs().max().clamp_min(1e-300))
    return size if math.isfinite(size) else math.inf


@dataclasses.dataclass
class Limits:
    """What the checks may use: seconds in total, and bytes for the tensors of one pass."""

    seconds: float = 120.0
    memory: float = 2.0**31
    started: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def used(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self.started

    def part(self, fraction: float) -> "Limits":
        """Return limits with a fraction of the remaining time, which starts now."""
        return Limits(max(0.0, self.seconds - self.used) * fraction, self.memory)

    @property
    def over(self) -> bool:
        """Whether the time is used up."""
        return self.used >= self.seconds
