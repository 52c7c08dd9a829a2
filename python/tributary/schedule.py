"""When gradients are ready, and when they leave."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class ThrownOut:
    """Something has held up a rank while it profiled: all profile again, on other data."""

    reason: str
    """In words."""
