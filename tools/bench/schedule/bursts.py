"""Trains a model whose gradients come in bursts, by several ways in turns, and prints the backward pass's time of each.

There is one process for each rank; every gradient is checked.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import turns


class Compute(torch.autograd.Function):
    """Does nothing in the forward pass, and takes time in the backward pass."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, seconds: Callable[[], float]) -> torch.Tensor:
        """Passes the values on."""
        ctx.seconds = seconds
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[torch.Tensor, None]:
        """Sleeps for the time of the computation, and passes the gradient on."""
        time.sleep(ctx.seconds())
        (gradient,) = gradients
        return gradient, None


class Bursts(torch.nn.Module):
    """Layers of several tensors; all gradients of a layer come at once, after some computing."""

    def __init__(self, bursts: int, sizes: list[int], compute: Callable[[int], float]) -> None:
        super().__init__()
        self.sizes = sizes
        self.weights = torch.nn.ParameterList(torch.zeros(size) for _ in range(bursts) for size in sizes)
        self.compute = compute

    def forward(self, scale: torch.Tensor) -> torch.Tensor:
        """The gradient of every element is `scale`."""
        total = torch.zeros(())
        for place, weight in enumerate(self.weights):
            if place % len(self.sizes) == 0:
                burst = place // len(self.sizes)
                total = Compute.apply(total, lambda burst=burst: self.compute(burst))
            # The backward pass computes the last weights first.
            total = total + (weight * scale).sum()
        return total


class Turn:
    """One way to train."""

    def __init__(self, model: torch.nn.Module, expected: float) -> None:
        self.model, self.expected = model, expected
        self.scale = torch.tensor(float(dist.get_rank() + 1))

    def steps(self, count: int) -> float:
        """Runs some steps; returns the median time of the backward pass, in seconds."""
        took = []
        for _ in range(count):
            loss = self.model(self.scale)
            dist.barrier()
            began = time.perf_counter()
            loss.backward()
            took.append(time.perf_counter() - began)
            for parameter in self.model.parameters():
                if not torch.allclose(parameter.grad, torch.full_like(parameter.grad, self.expected)):
                    sys.exit(f"a gradient is {parameter.grad} and not {self.expected}")
            self.model.zero_grad()
        return statistics.median(took)


def main() -> None:
    """Runs the measurement."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--bursts", type=int, required=True)
    arguments.add_argument("--sizes", required=True, help="bytes of each tensor of a burst")
    arguments.add_argument("--compute", type=float, required=True, help="seconds before each burst")
    arguments.add_argument("--stall", type=float, required=True, help="seconds that the first profile is spoilt by")
    arguments.add_argument("--rounds", type=int, required=True)
    arguments.add_argument("--steps", type=int, required=True)
    arguments.add_argument("--buckets", required=True, help="MiB")
    options = arguments.parse_args()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    dist.init_process_group("tributary")
    rank, world = dist.get_rank(), dist.get_world_size()
    stall = [options.stall if rank == 0 else 0.0]

    def compute(burst: int) -> float:
        return options.compute + (stall[0] if burst == options.bursts // 2 else 0.0)

    def model(compute: Callable[[int], float]) -> Bursts:
        return Bursts(options.bursts, [int(size) // 4 for size in options.sizes.split(",")], compute)

    expected = sum(range(1, world + 1)) / world
    points, models = turns.ways(lambda: model(compute), options.buckets)
    trainings = {name: Turn(way, expected) for name, way in models.items()}
    passes = 0

    def step() -> None:
        nonlocal passes
        trainings[turns.POINTS].steps(1)
        passes += 1
        if passes == turns.PROFILE:
            stall[0] = 0.0

    settled = turns.settle(points, step)
    # DistributedDataParallel rearranges its buckets after the first pass.
    for training in trainings.values():
        training.steps(2)
    turns.take({name: way.steps for name, way in trainings.items()}, points, settled, options.rounds, options.steps)
    dist.destroy_process_group()


main()
