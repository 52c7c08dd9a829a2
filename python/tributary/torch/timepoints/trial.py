"""The trial of time points: compares their steps with steps that send all gradients together."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

SLOWER = 1.02
"""The limit of a step's time with time points, relative to a step without them. Above it, they are dropped.

`tributary-bench schedule` has the same limit for noise. If time points are clearly faster, they are dropped only if
noise makes them slower by this factor in half of the pairs of steps.
"""

WARM_UP = 2
"""The number of first passes that do not count, one for each way. They use new memory, which takes longer."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Median times of a step, in seconds."""

    points: float
    """The time with gradients at time points: `together` times the median ratio over the pairs of steps."""
    together: float
    """The time with all gradients at the end of the backward pass."""

    @property
    def keeps_points(self) -> bool:
        """True if time points are not slower, apart from noise."""
        return self.points <= self.together * SLOWER

    def __str__(self) -> str:
        points, together = self.points * 1e3, self.together * 1e3
        taken = "time points stay" if self.keeps_points else "all gradients are sent together"
        return f"a step took {points:.1f} ms at time points, {together:.1f} ms with all gradients together: {taken}"


class Trial:
    """Measures steps of both ways, which alternate, so that disturbances on the machine affect both.

    The order is the Thue-Morse sequence, 01 10 10 01, on all ranks. Each way comes once in a pair of passes, and work
    that a training does in every second or fourth step affects both ways.
    """

    def __init__(self, steps: int, clock: Callable[[], int]) -> None:
        """Measures `steps` steps of each way, with a clock in nanoseconds."""
        self._passes = WARM_UP + 2 * steps
        self._clock = clock
        self._took: list[dict[bool, int]] = [{} for _ in range(self._passes // 2)]
        self._pass = 0
        self._ended = clock()

    @property
    def at_points(self) -> bool:
        """True if gradients are sent at time points in this pass."""
        return self._pass.bit_count() % 2 == 1

    @property
    def left(self) -> int:
        """The number of passes until the end of the trial."""
        return self._passes - self._pass

    def end_pass(self) -> None:
        """Called when all gradients are averaged: a step ends, and the next one begins."""
        now = self._clock()
        self._took[self._pass // 2][self.at_points] = now - self._ended
        self._ended = now
        self._pass += 1

    @property
    def steps(self) -> Steps:
        """The times of steps. They are valid after the end of the trial."""
        pairs = [(pair[True], max(1, pair[False])) for pair in self._took[WARM_UP // 2 :]]
        together = statistics.median(together for _, together in pairs) / 1e9
        # This is not the ratio of two medians. If the machine became slower during the trial, one median could be
        # from before that time and the other from after it.
        return Steps(together * statistics.median(points / together for points, together in pairs), together)
