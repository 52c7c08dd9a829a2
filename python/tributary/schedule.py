"""Profiles of backward passes, and the schedules that follow from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tributary import _native

NEVER = (1 << 64) - 1
"""A time that never comes, in nanoseconds."""


@dataclass(frozen=True)
class Profile:
    """The times at which this process's gradients were ready, as medians of several backward passes."""

    sizes: list[int]
    """Bytes of each gradient, in the order of the model's parameters. They are equal on all ranks."""
    ready: list[int]
    """The time at which each gradient was ready, in nanoseconds after the first gradient of a pass."""
    start_up: int
    """The time of a small all-reduce, in nanoseconds."""


@dataclass(frozen=True)
class SetOfGradients:
    """Gradients that are sent together."""

    indices: tuple[int, ...]
    """The indices of the gradients in the model."""
    at: int
    """The time point, in nanoseconds after the first gradient of a pass. In the profile, the set was full then."""
    late: int
    """The time from which the set is late. In the profile, the next set was ready soon after it."""


@dataclass(frozen=True)
class Schedule:
    """The sets in which gradients are sent, the same on all ranks."""

    version: int
    """The number of the profile from which the schedule follows; 0 if there is none."""
    sets: tuple[SetOfGradients, ...]
    """The sets in the order in which they are sent; each gradient is in one of them."""

    @staticmethod
    def of_one_set(gradients: int) -> Schedule:
        """Makes the schedule without a profile: all gradients are sent at the end of the pass."""
        return Schedule(0, (SetOfGradients(tuple(range(gradients)), 0, NEVER),))

    @staticmethod
    def of_sets(version: int, sets: Iterable[tuple[list[int], int, int]]) -> Schedule:
        """Makes a schedule from native sets: indices, time point, and the time from which a set is late."""
        return Schedule(version, tuple(SetOfGradients(tuple(indices), at, late) for indices, at, late in sets))


@dataclass(frozen=True)
class ThrownOut:
    """The rejection of a profile during which a rank stalled. All ranks profile again, on other data."""

    reason: str
    """The reason, as text."""


class Scheduler:
    """Decides on the profiles of one process, as the controller does on the profiles of all processes.

    >>> from tributary.schedule import Profile, Scheduler
    >>> profile = Profile(sizes=[4096, 4 << 20], ready=[0, 30_000_000], start_up=200_000)
    >>> schedule = Scheduler().decide(profile)
    >>> schedule.version, sorted(index for part in schedule.sets for index in part.indices)
    (1, [0, 1])
    """

    def __init__(self) -> None:
        self._native = _native.Scheduler()
        self._profiles = 0

    def decide(self, profile: Profile) -> Schedule | ThrownOut:
        """Returns the schedule for a profile, with the profile's number as version, or a rejection."""
        self._profiles += 1
        sets, thrown_out = self._native.decide(profile.sizes, profile.ready, profile.start_up)
        return ThrownOut(thrown_out) if thrown_out else Schedule.of_sets(self._profiles, sets)
