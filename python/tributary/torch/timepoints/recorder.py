"""Records when gradients are ready in backward passes."""

from __future__ import annotations

import statistics
import time


class Recorder:
    """Times the gradients of backward passes, and keeps the passes for a profile."""

    def __init__(self, gradients: int) -> None:
        self._gradients = gradients
        self._began = 0
        self._ready: list[int | None] = []
        self._passes: list[list[int]] = []

    def begin(self) -> None:
        """Begins a pass with its first gradient, from which times count."""
        self._began = time.perf_counter_ns()
        self._ready = [None] * self._gradients

    def ready(self, place: int) -> int:
        """Records that a gradient is ready; returns the time, in nanoseconds."""
        now = self.now()
        self._ready[place] = now
        return now

    def now(self) -> int:
        """Nanoseconds since the pass began."""
        return time.perf_counter_ns() - self._began

    def keep(self) -> None:
        """Keeps the pass, which has ended: parameters without a gradient count as ready now."""
        now = self.now()
        self._passes.append([now if ready is None else ready for ready in self._ready])

    @property
    def passes(self) -> int:
        """The number of passes that were kept."""
        return len(self._passes)

    def take_medians(self) -> list[int]:
        """The median time of each gradient over the passes that were kept, which are then dropped."""
        passes, self._passes = self._passes, []
        return [int(statistics.median(ready)) for ready in zip(*passes, strict=True)]
