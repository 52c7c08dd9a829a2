"""Ways in which gradients leave, which take their turns in the same processes."""

from __future__ import annotations

import json
from collections.abc import Callable

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tributary.torch.backend import backend_of
from tributary.torch.timepoints import TimePoints

MIB = 1 << 20
PROFILE = 10
"""Passes that a profile is made of."""
POINTS = "points"

Turn = Callable[[int], float]
"""Trains for so many steps: the median time, in seconds."""


def ways(model: Callable[[], nn.Module], buckets: str) -> tuple[TimePoints, dict[str, nn.Module]]:
    """A model for each way: time points, a collective for each tensor, one for all, and buckets of so many MiB."""
    points = TimePoints(model(), iterations=PROFILE)
    caps = {"tensor": 1 / MIB, "one": 1 << 20, **{f"{mib} MiB": float(mib) for mib in buckets.split(",")}}
    others = {name: DistributedDataParallel(model(), bucket_cap_mb=cap) for name, cap in caps.items()}
    return points, {POINTS: points, **others}


def settle(points: TimePoints, step: Callable[[], object]) -> int:
    """Trains until time points have had their profiles, so many as are returned, and their trial."""
    profiles = 0
    while points.schedule.version == 0:
        for _ in range(PROFILE):
            step()
        profiles += 1
    while not points.is_settled:
        step()
    return profiles


def take(turns: dict[str, Turn], points: TimePoints, profiles: int, rounds: int, steps: int) -> None:
    """Prints a JSON object for each round, the seconds of each way, and one about the schedule in the end."""
    tally = backend_of(None).tally
    other_messages = 0
    for _ in range(rounds):
        times = {}
        for name, turn in turns.items():
            before = tally.calls["gloo"]
            times[name] = turn(steps)
            if name == POINTS:
                other_messages += tally.calls["gloo"] - before
        print(json.dumps(times), flush=True)
    said = {
        "profiles": profiles,
        "sets": len(points.schedule.sets),
        "late_sets": points.late_sets,
        "other_messages": other_messages,
    }
    print(json.dumps(said), flush=True)
