"""Whether time points pay off: compares a step with them to one in which all gradients leave together."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

SLOWER = 1.02
"""The greatest relative time of a step with time points; `tributary-bench schedule` has the same limit for noise.

Keeping time points costs no more than that. Time points that are clearly faster are given up only if noise makes them
slower by that much in half of the pairs of steps.
"""

WARM_UP = 2
"""The number of first passes that do not count, one of each way: they touch the sets' memory for the first time."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Median times of a step, in seconds."""

    points: float
    """With gradients that leave at time points: `together` times the median of the ratios, pair by pair."""
    together: float
    """With all gradients at the end of the backward pass."""

    @property
    def keeps_points(self) -> bool:
        """Whether time points are no slower, apart from noise."""
        return self.points <= self.together * SLOWER

    def __str__(self) -> str:
        points, together = self.points * 1e3, self.together * 1e3
        taken = "time points stay" if self.keeps_points else "all leave together"
        return f"a step took {points:.1f} ms at time points, {together:.1f} ms with all gradients together: {taken}"


class Trial:
    """Times steps of both ways, which take turns, so that disturbances on the machine affect both.

    The turns follow the Thue-Morse sequence, as 01 10 10 01: each way comes once in a pair of passes, and whatever a
    training does in every second or fourth step affects both ways. They are the same on all ranks.
    """

    def __init__(self, steps: int, clock: Callable[[], int]) -> None:
        """Times this number of steps of each way, by a clock in nanoseconds."""
        self._passes = WARM_UP + 2 * steps
        self._clock = clock
        self._took: list[dict[bool, int]] = [{} for _ in range(self._passes // 2)]
        self._pass = 0
        self._ended = clock()

    @property
    def at_points(self) -> bool:
        """Whether gradients leave at time points in this pass."""
        return self._pass.bit_count() % 2 == 1

    @property
    def left(self) -> int:
        """The number of passes until it is over."""
        return self._passes - self._pass

    def end_pass(self) -> None:
        """Called when all gradients are back: a step has ended, and the next begins."""
        now = self._clock()
        self._took[self._pass // 2][self.at_points] = now - self._ended
        self._ended = now
        self._pass += 1

    @property
    def steps(self) -> Steps:
        """The times of steps; valid once the trial is over."""
        pairs = [(pair[True], max(1, pair[False])) for pair in self._took[WARM_UP // 2 :]]
        together = statistics.median(together for _, together in pairs) / 1e9
        # If the machine becomes slower in the middle, the medians of the two ways may be from before and after that.
        return Steps(together * statistics.median(points / together for points, together in pairs), together)
