"""When gradients are ready, and when they leave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tributary import _native

NEVER = (1 << 64) - 1
"""A time that does not come, in nanoseconds."""


@dataclass(frozen=True)
class Profile:
    """When the gradients of this process's model were ready, in the median of some backward passes."""

    sizes: list[int]
    """Bytes of each gradient, in the order of the model's parameters: the same on all ranks."""
    ready: list[int]
    """When each was ready, nanoseconds after the first one of a pass."""
    start_up: int
    """What a small all-reduce takes, nanoseconds."""


@dataclass(frozen=True)
class SetOfGradients:
    """Gradients that leave together."""

    places: tuple[int, ...]
    """Their places in the model."""
    at: int
    """The time point: when all of them were ready in the profile, nanoseconds after the first gradient of a pass."""
    late: int
    """From when on they are late: the next set was about to come then in the profile."""


@dataclass(frozen=True)
class Schedule:
    """What leaves when, the same on all ranks."""

    version: int
    """The number of the profile that it follows from; 0: it follows from none."""
    sets: tuple[SetOfGradients, ...]
    """In the order in which they leave; each gradient is in one of them."""

    @staticmethod
    def of_one_set(gradients: int) -> Schedule:
        """All gradients at the end of the pass, as long as there is no profile."""
        return Schedule(0, (SetOfGradients(tuple(range(gradients)), 0, NEVER),))

    @staticmethod
    def of_sets(version: int, sets: Iterable[tuple[list[int], int, int]]) -> Schedule:
        """As the native module tells it: places, time point, and when it is late."""
        return Schedule(version, tuple(SetOfGradients(tuple(places), at, late) for places, at, late in sets))


@dataclass(frozen=True)
class ThrownOut:
    """Something has held up a rank while it profiled: all profile again, on other data."""

    reason: str
    """In words."""


class Scheduler:
    """Decides by one process's own profiles, as the controller does by those of all."""

    def __init__(self) -> None:
        self._native = _native.Scheduler()
        self._profiles = 0

    def decide(self, profile: Profile) -> Schedule | ThrownOut:
        """What follows from a profile; the schedule's version is the profile's number."""
        self._profiles += 1
        sets, thrown_out = self._native.decide(profile.sizes, profile.ready, profile.start_up)
        return ThrownOut(thrown_out) if thrown_out else Schedule.of_sets(self._profiles, sets)
