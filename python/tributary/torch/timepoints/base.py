"""The common part of models with time points, for any destination of their gradients."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch

from tributary.schedule import Profile, Schedule
from tributary.torch import gradients
from tributary.torch.outbox import OutgoingSet
from tributary.torch.timepoints.recorder import Recorder

RECENT_SETS = 100
"""The number of last sets in which late sets are counted."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The user's settings."""

    iterations: int
    late_share: float
    deadline: float | timedelta | None = None


class Scheduled(torch.nn.Module):
    """A model that sends its gradients in sets.

    A set is sent as soon as it is full and the previous sets were sent.
    """

    _has_begun = False
    """True if this model takes part in the training; false for a copy."""
    _synchronises = True
    _start_up: int
    """The cost of sending a set, in nanoseconds."""

    def __init__(self, module: torch.nn.Module, settings: Settings) -> None:
        super().__init__()
        if not isinstance(settings.iterations, int) or settings.iterations < 1:
            raise ValueError(
                f"{settings.iterations} iterations: a profile needs a whole number of iterations, at least 1"
            )
        if not 0 <= settings.late_share <= 1:
            raise ValueError(f"a late share of {settings.late_share}: give a number from 0 to 1")
        if not gradients.trained(module):
            raise ValueError("no parameter of the model requires a gradient: there is nothing to train")
        for name, parameter in gradients.trained(module):
            if not parameter.is_floating_point():
                raise ValueError(
                    f"parameter {name} is of {parameter.dtype}: TimePoints averages floating-point numbers"
                )
        self.module = module
        self._settings = settings

    def _begin(self) -> None:
        """Begins profiling."""
        self._gradients = gradients.Gradients(self.module, self._ready)
        self._trained = self._gradients.parameters
        self._recorder = Recorder(len(self._trained))
        self._profiling = True
        self._in_pass = False
        self._lateness: deque[bool] = deque(maxlen=RECENT_SETS)

    def __getstate__(self) -> dict[str, Any]:
        """Returns the model and its settings. Copies by `deepcopy` or `pickle` do not take part yet."""
        kept = {*torch.nn.Module().__dict__, "_settings"}
        return {name: value for name, value in self.__dict__.items() if name in kept}

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Makes backward passes keep their gradients, to which later passes add."""
        before, self._synchronises = self._synchronises, False
        try:
            yield
        finally:
            self._synchronises = before

    @property
    def schedule(self) -> Schedule:
        """The present schedule."""
        return self._schedule

    @property
    def late_sets(self) -> int:
        """The number of late sets among the last 100 sets of this rank. A new schedule resets it."""
        return sum(self._lateness)

    def describe(self) -> str:
        """Describes the schedule for users."""
        lines = [f"schedule {self._schedule.version}: {len(self._schedule.sets)} sets"]
        for number, leaving in enumerate(self._schedule.sets, 1):
            names = [self._trained[index][0] for index in leaving.indices]
            size = sum(self._trained[index][1].nbytes for index in leaving.indices)
            lines.append(
                f"  {number}: {leaving.at / 1e6:.1f} ms, {size / 1e6:.2f} MB, {len(names)} gradients, "
                f"{names[0]} to {names[-1]}"
            )
        return "\n".join(lines)

    def _follow(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._use(self._make_sets(schedule))
        self._lateness.clear()

    def _use(self, sets: list[OutgoingSet]) -> None:
        """Sends gradients in these sets from the next pass on."""
        self._sets = sets
        self._set_of = {index: number for number, one in enumerate(sets) for index in one.indices}
        self._next = 0

    def _make_sets(self, schedule: Schedule) -> list[OutgoingSet]:
        """Makes the sets of a schedule."""
        raise NotImplementedError

    def _send(self, one: OutgoingSet) -> None:
        """Sends a set that is not the last one."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Called at the end of the pass: sends the remaining sets, which are full."""
        raise NotImplementedError

    def _ready(self, index: int) -> None:
        """Called when a gradient is ready."""
        if not self._synchronises:
            return
        if not self._in_pass:
            self._in_pass = True
            self._recorder.begin()
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(self._end_of_pass)
        now = self._recorder.ready(index)
        own = self._sets[self._set_of[index]]
        own.put(index)
        if own.is_full:
            self._lateness.append(now > own.late)
            # The last set is sent at the end of the pass, because no set follows it.
            while self._next < len(self._sets) - 1 and self._sets[self._next].is_full:
                self._send(self._sets[self._next])
                self._next += 1

    def _end_of_pass(self) -> None:
        """Called when all gradients are ready."""
        self._in_pass = False
        if self._profiling:
            self._recorder.keep()
        for one in self._sets[self._next :]:
            one.fill_up()
        self._finish()

    @property
    def _has_profile(self) -> bool:
        """True if the profile has enough passes."""
        return self._profiling and self._recorder.passes == self._settings.iterations

    @property
    def _is_late(self) -> bool:
        """True if too many sets are late."""
        return not self._profiling and self.late_sets > self._settings.late_share * RECENT_SETS

    def _take_profile(self) -> Profile:
        sizes = [parameter.nbytes for _, parameter in self._trained]
        return Profile(sizes, self._recorder.take_medians(), self._start_up)
