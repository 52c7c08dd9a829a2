"""Records the times at which gradients are ready in backward passes."""

from __future__ import annotations

import statistics
import time


class Recorder:
    """Records the times of gradients in backward passes, for a profile."""

    def __init__(self, gradients: int) -> None:
        self._gradients = gradients
        self._began = 0
        self._ready: list[int | None] = []
        self._passes: list[list[int]] = []

    def begin(self) -> None:
        """Begins a pass. Times count from this call, at the first gradient."""
        self._began = time.perf_counter_ns()
        self._ready = [None] * self._gradients

    def ready(self, index: int) -> int:
        """Records the time at which a gradient is ready, and returns it in nanoseconds."""
        now = self.now()
        self._ready[index] = now
        return now

    def now(self) -> int:
        """Returns the nanoseconds since the pass began."""
        return time.perf_counter_ns() - self._began

    def keep(self) -> None:
        """Keeps a pass that has ended. Parameters without a gradient count as ready now."""
        now = self.now()
        self._passes.append([now if ready is None else ready for ready in self._ready])

    @property
    def passes(self) -> int:
        """The number of passes that were kept."""
        return len(self._passes)

    def take_medians(self) -> list[int]:
        """Returns the median time of each gradient over the passes that were kept, and drops the passes."""
        passes, self._passes = self._passes, []
        return [int(statistics.median(ready)) for ready in zip(*passes, strict=True)]
