"""Whether time points are worth it: a step with them beside one in which all gradients leave together."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

SLOWER = 1.02
"""So many times as long a step at time points may take: what `tributary bench schedule` takes for noise, too.

To stay costs no more than that. Time points that are clearly faster are given up only if noise makes them the slower
ones, by that much, in half of the pairs of steps.
"""

WARM_UP = 2
"""Passes that do not count, one of each way: memory of the sets is touched for the first time in them."""


@dataclass(frozen=True, slots=True)
class Steps:
    """What a step takes, in the median, in seconds."""

    points: float
    """With gradients that leave at time points: by the median of what they take beside the others, pair by pair."""
    together: float
    """With all of them at the end of the backward pass."""

    @property
    def keeps_points(self) -> bool:
        """Whether time points are no slower, noise apart."""
        return self.points <= self.together * SLOWER

    def __str__(self) -> str:
        points, together = self.points * 1e3, self.together * 1e3
        taken = "time points stay" if self.keeps_points else "all leave together"
        return f"a step took {points:.1f} ms at time points, {together:.1f} ms with all gradients together: {taken}"


class Trial:
    """Times steps of both ways, which take turns, so that whatever else slows the machine down slows down both.

    The turns follow the Thue-Morse sequence, as 01 10 10 01: each way once in a pair of passes, and what a training
    does in every second or fourth step falls to both ways. They are the same on all ranks.
    """

    def __init__(self, steps: int, clock: Callable[[], int]) -> None:
        """Takes so many steps of each way, by a clock in nanoseconds."""
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
        """Passes until it is over."""
        return self._passes - self._pass

    def end_pass(self) -> None:
        """All gradients are back: a step ends, which began where the last one ended, as its user sees it."""
        now = self._clock()
        self._took[self._pass // 2][self.at_points] = now - self._ended
        self._ended = now
        self._pass += 1

    @property
    def steps(self) -> Steps:
        """What steps took; of a trial that is over."""
        pairs = [(pair[True], max(1, pair[False])) for pair in self._took[WARM_UP // 2 :]]
        together = statistics.median(together for _, together in pairs) / 1e9
        # When the machine becomes slower in the middle, medians of each way can be from before and from behind that.
        return Steps(together * statistics.median(points / together for points, together in pairs), together)
