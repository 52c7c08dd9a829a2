"""When gradients are ready, and when they leave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tributary import _native

NEVER = (1 << 64) - 1
"""A time that never comes, in nanoseconds."""


@dataclass(frozen=True)
class Profile:
    """When the gradients of this process's model were ready, as medians of some backward passes."""

    sizes: list[int]
    """Bytes of each gradient, in the order of the model's parameters: the same on all ranks."""
    ready: list[int]
    """When each was ready, in nanoseconds after the first one of a pass."""
    start_up: int
    """The time of a small all-reduce, in nanoseconds."""


@dataclass(frozen=True)
class SetOfGradients:
    """Gradients that leave together."""

    places: tuple[int, ...]
    """Their indices in the model."""
    at: int
    """The time point: when all of them were ready in the profile, in nanoseconds after the first gradient of a pass."""
    late: int
    """The time from which they are late: in the profile the next set was about to follow."""


@dataclass(frozen=True)
class Schedule:
    """Which gradients leave together, and when; the same on all ranks."""

    version: int
    """The number of the profile behind it; 0 if there is none."""
    sets: tuple[SetOfGradients, ...]
    """The sets, in the order in which they leave; each gradient is in one of them."""

    @staticmethod
    def of_one_set(gradients: int) -> Schedule:
        """The schedule without a profile: all gradients leave at the end of the pass."""
        return Schedule(0, (SetOfGradients(tuple(range(gradients)), 0, NEVER),))

    @staticmethod
    def of_sets(version: int, sets: Iterable[tuple[list[int], int, int]]) -> Schedule:
        """Makes a schedule from native sets: indices, time point, and the time from which a set is late."""
        return Schedule(version, tuple(SetOfGradients(tuple(places), at, late) for places, at, late in sets))


@dataclass(frozen=True)
class ThrownOut:
    """Something has stalled a rank while it profiled: all ranks profile again, on other data."""

    reason: str
    """The reason in words."""


class Scheduler:
    """Decides by one process's own profiles, as the controller does by those of all processes."""

    def __init__(self) -> None:
        self._native = _native.Scheduler()
        self._profiles = 0

    def decide(self, profile: Profile) -> Schedule | ThrownOut:
        """Decides on a profile; the schedule's version is the profile's number."""
        self._profiles += 1
        sets, thrown_out = self._native.decide(profile.sizes, profile.ready, profile.start_up)
        return ThrownOut(thrown_out) if thrown_out else Schedule.of_sets(self._profiles, sets)
