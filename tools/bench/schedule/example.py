"""Trains the model of an example by several ways in turns, and prints the time of a step with each.

There is one process for each rank. The example runs unchanged, except that this script replaces its training loop.
Each way trains a model of its own with the same data, and all have to learn the same.
"""

from __future__ import annotations

import argparse
import logging
import runpy
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist
import turns
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

Samples = Dataset[tuple[torch.Tensor, torch.Tensor]]

APART = 0.01
"""The greatest difference of the ways' losses, relative to the largest: sums of floats depend on their order."""


class Turn:
    """One way to train."""

    def __init__(self, model: nn.Module, data: Samples, batch: int, rate: float) -> None:
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
        self.batches = _batches(data, batch)
        self.losses: list[float] = []

    def steps(self, count: int) -> float:
        """Runs some steps; returns their median time, in seconds."""
        took = []
        for _ in range(count):
            inputs, targets = next(self.batches)
            dist.barrier()
            began = time.perf_counter()
            loss = nn.functional.cross_entropy(self.model(inputs).flatten(0, -2), targets.flatten())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            took.append(time.perf_counter() - began)
            self.losses.append(loss.item())
        return statistics.median(took)


def _batches(data: Samples, batch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields the batches of one epoch after another."""
    sampler = DistributedSampler(data, drop_last=True)
    loader = DataLoader(data, batch_size=batch, sampler=sampler, drop_last=True)
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def main() -> None:
    """Runs the example with another loop."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("example", type=Path)
    arguments.add_argument("--rounds", type=int, required=True)
    arguments.add_argument("--steps", type=int, required=True)
    arguments.add_argument("--buckets", required=True, help="MiB")
    options = arguments.parse_args()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    sys.path.insert(0, str(options.example.parent))
    import loop

    def train(
        chosen: argparse.Namespace, make_model: Callable[[], nn.Module], learn: Samples, _: Samples, rate: float
    ) -> None:
        measure(options, chosen, make_model, learn, rate)

    loop.train = train
    sys.argv = [str(options.example)]
    runpy.run_path(str(options.example), run_name="__main__")


def measure(
    options: argparse.Namespace,
    chosen: argparse.Namespace,
    make_model: Callable[[], nn.Module],
    learn: Samples,
    rate: float,
) -> None:
    """Takes the place of the example's loop."""
    torch.set_num_threads(1)
    dist.init_process_group("tributary")

    def model() -> nn.Module:
        torch.manual_seed(chosen.seed)
        return make_model()

    points, models = turns.ways(model, options.buckets)
    trainings = {name: Turn(way, learn, chosen.batch, rate) for name, way in models.items()}
    by_points = trainings[turns.POINTS]
    settled = turns.settle(points, lambda: by_points.steps(1))
    # Until all have done the same steps, and DistributedDataParallel has rearranged its buckets.
    count = len(by_points.losses) + 2
    for training in trainings.values():
        training.steps(count - len(training.losses))
    turns.take({name: way.steps for name, way in trainings.items()}, points, settled, options.rounds, options.steps)
    for name, training in trainings.items():
        pairs = zip(training.losses, by_points.losses, strict=True)
        apart = max(abs(a - b) for a, b in pairs) / max(training.losses)
        if not apart < APART:
            sys.exit(f"with {name} the losses are {apart:.1%} apart from those with time points")
    dist.destroy_process_group()


main()
