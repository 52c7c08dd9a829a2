"""Predicts the time of a step with several workers, for each way to send gradients."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from tributary import _native
from tributary.profile.watch import Watched

FIRST_BUCKET = 1 << 20
"""Bytes of the first bucket of `DistributedDataParallel`."""
BUCKET = 25 << 20
"""Bytes of each further bucket."""
MIN_GAIN = 0.05
"""The share of a step that the fabric must save to pay off."""


class PlanError(RuntimeError):
    """`tributary plan` has failed."""


@dataclass(frozen=True)
class Network:
    """The cost of an all-reduce on a topology."""

    workers: int
    fabric: float
    """Seconds per byte with aggregation in the network."""
    ring: float
    """Seconds per byte of a ring all-reduce of the hosts."""
    start_up: float
    """Seconds of a small all-reduce."""


@dataclass(frozen=True)
class Prediction:
    """Predicted seconds of a step."""

    alone: float
    """Time on one machine."""
    gloo: float
    """Time with `DistributedDataParallel` over gloo, if gloo is as fast as a ring without overhead."""
    fabric: float
    """Time with `DistributedDataParallel` over the fabric."""
    points: float
    """Time with `TimePoints` over the fabric."""
    sets: int
    """The number of sets in which `TimePoints` would send the gradients."""

    @property
    def gain(self) -> float:
        """The speed of the faster way over the fabric, relative to gloo."""
        return self.gloo / min(self.fabric, self.points)

    @property
    def pays(self) -> bool:
        """True if the fabric pays off."""
        return self.gain > 1 + MIN_GAIN


def plan(binary: str, topology: str | None, size: int, start_up: float) -> Network:
    """Runs `tributary plan` for the cost of an all-reduce.

    Args:
        binary: the program `tributary`.
        topology: the topology file; `None` for the built-in topology.
        size: the bytes of the all-reduce.
        start_up: the seconds of a small all-reduce.

    Raises:
        PlanError: the command fails; the exception has its error message.
    """
    command = [binary, "plan", "--json", "--size", str(size)]
    if topology is not None:
        command += ["--topology", topology]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        planned = json.loads(output)
        comparison = planned["comparison"]
        return Network(
            workers=len(planned["workers"]),
            fabric=comparison["tree_seconds"] / size,
            ring=comparison["ring_seconds"] / size,
            start_up=start_up,
        )
    except FileNotFoundError as error:
        raise PlanError(f"there is no program {binary!r}: install it, or give its path with --tributary") from error
    except subprocess.CalledProcessError as error:
        raise PlanError(error.stderr.strip().removeprefix("error: ")) from error
    except (ValueError, KeyError) as error:
        raise PlanError(
            f"cannot read the output of {binary}: check that the program and this package have the same version"
        ) from error


def predict(watched: Watched, network: Network) -> Prediction:
    """Predicts a step's time: the computation, and the communication after the last gradient is ready."""
    buckets = _buckets(watched)
    ready = [round(seconds * 1e9) for seconds in watched.ready]
    decided = _native.time_points(watched.sizes, ready, round(network.start_up * 1e9))
    sets = [indices for indices, _, _ in decided]

    def step(bundles: Sequence[Sequence[int]], seconds_a_byte: float) -> float:
        free = 0.0
        for indices in bundles:
            begin = max(free, max(watched.ready[index] for index in indices))
            free = begin + network.start_up + seconds_a_byte * sum(watched.sizes[index] for index in indices)
        return watched.step + max(0.0, free - watched.span)

    return Prediction(
        alone=watched.step,
        gloo=step(buckets, network.ring),
        fabric=step(buckets, network.fabric),
        points=step(sets, network.fabric),
        sets=len(sets),
    )


def _buckets(watched: Watched) -> list[list[int]]:
    """Returns the buckets of `DistributedDataParallel`, in the order in which gradients are ready."""
    buckets: list[list[int]] = [[]]
    size = 0
    for index in sorted(range(len(watched.ready)), key=lambda index: watched.ready[index]):
        buckets[-1].append(index)
        size += watched.sizes[index]
        if size >= (FIRST_BUCKET if len(buckets) == 1 else BUCKET):
            buckets.append([])
            size = 0
    return [bucket for bucket in buckets if bucket]
