"""Ways in which gradients leave, which take turns in the same processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tributary.torch.backend import backend_of
from tributary.torch.timepoints import TimePoints

MIB = 1 << 20
PROFILE = 10
"""Number of passes in a profile."""
POINTS = "points"

Turn = Callable[[int], float]
"""Trains for a number of steps; returns the median time, in seconds."""


def ways(model: Callable[[], nn.Module], buckets: str) -> tuple[TimePoints, dict[str, nn.Module]]:
    """A model for each way: time points, a collective for each tensor, one for all, and each size of bucket in MiB."""
    points = TimePoints(model(), iterations=PROFILE)
    caps = {"tensor": 1 / MIB, "one": 1 << 20, **{f"{mib} MiB": float(mib) for mib in buckets.split(",")}}
    others = {name: DistributedDataParallel(model(), bucket_cap_mb=cap) for name, cap in caps.items()}
    return points, {POINTS: points, **others}


class Settled(NamedTuple):
    """The profiling that led to the schedule of time points."""

    profiles: int
    """Number of profiles until a schedule existed."""
    profiled_sets: int
    """Number of the schedule's sets, before the trial."""


def settle(points: TimePoints, step: Callable[[], object]) -> Settled:
    """Trains until time points have had their profiles and their trial."""
    profiles = 0
    while points.schedule.version == 0:
        for _ in range(PROFILE):
            step()
        profiles += 1
    settled = Settled(profiles, len(points.schedule.sets))
    while not points.is_settled:
        step()
    return settled


def take(turns: dict[str, Turn], points: TimePoints, settled: Settled, rounds: int, steps: int) -> None:
    """Prints a JSON object with the seconds of each way after each round, and one about the schedule at the end."""
    counters = backend_of(None).counters
    other_messages = 0
    for _ in range(rounds):
        times = {}
        for name, turn in turns.items():
            before = counters.calls["gloo"]
            times[name] = turn(steps)
            if name == POINTS:
                other_messages += counters.calls["gloo"] - before
        print(json.dumps(times), flush=True)
    said = {
        **settled._asdict(),
        "sets": len(points.schedule.sets),
        "late_sets": points.late_sets,
        "other_messages": other_messages,
    }
    print(json.dumps(said), flush=True)
