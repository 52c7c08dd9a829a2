"""Trains with time points whose trial uses a simulated clock, and prints the result of each trial."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from layers import Model

from tributary.torch.timepoints import TimePoints

ITERATIONS = 3


@dataclass
class Clock:
    """Advances by a fixed time for each step, independent of its real time."""

    points: float
    together: float
    now: float = 0.0

    def __call__(self) -> int:
        return int(self.now * 1e9)


class Training:
    def __init__(self, clock: Clock) -> None:
        model, self.alone = Model(), Model()
        model.seconds = self.alone.seconds = 0.0
        self.model = TimePoints(model, iterations=ITERATIONS, deadline=60)
        # With this start-up cost each gradient is a separate set, on a machine of any speed.
        self.model._start_up = 1
        self.model._clock = self.clock = clock
        self.ways: set[int] = set()
        self.right = True

    def step(self) -> None:
        sets = len(self.model._sets)
        self.ways.add(sets)
        self.clock.now += self.clock.points if sets > 1 else self.clock.together
        self.model.zero_grad()
        generator = torch.Generator().manual_seed(dist.get_rank())
        inputs = torch.randn(8, 16, generator=generator)
        (self.model(inputs) ** 2).mean().backward()
        ours = self.model.module.layers[0].weight.grad
        self.alone.zero_grad()
        (self.alone(inputs) ** 2).mean().backward()
        alone = self.alone.layers[0].weight.grad
        dist.all_reduce(alone, op=dist.ReduceOp.AVG)
        self.right = self.right and torch.allclose(ours, alone, rtol=1e-3, atol=1e-6)

    def settle(self) -> dict[str, Any]:
        """Trains until the trial is over."""
        steps = 0
        while not self.model.is_settled:
            self.step()
            steps += 1
        chosen = self.model.schedule
        return {
            "version": chosen.version,
            "sets": len(chosen.sets),
            "ways": sorted(self.ways),
            "steps": steps,
            "text": self.model.describe().splitlines()[-1].strip(),
            "right": self.right,
        }


def main() -> None:
    dist.init_process_group("tributary")
    odd = dist.get_rank() % 2 == 1
    result = {}
    # The ranks' clocks differ, and the mean of their times decides on all ranks.
    result["slower"] = Training(Clock(points=0.9 if odd else 1.5, together=1.0)).settle()
    result["noise"] = Training(Clock(points=1.01, together=1.0)).settle()
    faster = Training(Clock(points=0.8, together=1.0))
    result["faster"] = faster.settle()
    # The sets of one rank become late, so all ranks make another profile and trial.
    faster.clock.points = 1.2
    if odd:
        faster.model._lateness.extend([True] * 100)
    faster.step()
    result["again"] = not faster.model.is_settled
    result["then"] = faster.settle()
    print(json.dumps(result), flush=True)
    dist.destroy_process_group()


main()
