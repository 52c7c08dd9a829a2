"""Trains with time points, whose sets change when the backward pass changes, and prints the results."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import torch
import torch.distributed as dist
from layers import Model
from torch.nn.parallel import DistributedDataParallel

from tributary.torch.timepoints import TimePoints

logging.basicConfig(stream=sys.stderr, level=logging.INFO)
ITERATIONS = 5


def inputs(step: int) -> torch.Tensor:
    return torch.randn(8, 16, generator=torch.Generator().manual_seed(100 * step + dist.get_rank()))


def losses(model: torch.nn.Module, steps: int) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    results = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = (model(inputs(step)) ** 2).mean()
        loss.backward()
        optimizer.step()
        results.append(loss.item())
    return results


def main() -> None:
    dist.init_process_group("tributary")
    ours = TimePoints(Model(), iterations=ITERATIONS, deadline=60)
    # With this clock neither way is faster, so the trial keeps the time points on a machine of any speed.
    ours._clock = lambda: 0
    result: dict[str, Any] = {"points": losses(ours, 12), "sets": len(ours.schedule.sets)}
    plain = Model()
    plain.seconds = 0.0
    result["ddp"] = losses(DistributedDataParallel(plain, find_unused_parameters=True), 12)

    # A pass whose gradients are not sent, and a gradient that one rank does not have.
    ours.zero_grad()
    with ours.no_sync():
        ours(torch.ones(1, 16), seldom=True).sum().backward()
    kept = ours.module.seldom.grad.clone()
    ours(torch.ones(1, 16), seldom=dist.get_rank() == 0).sum().backward()
    result["seldom"] = (ours.module.seldom.grad / kept).mean().item()

    # The backward pass of one rank changes, and all ranks profile again.
    if dist.get_rank() == 1:
        ours.module.seconds = 0.2
    versions = []
    for step in range(60):
        losses(ours, 1)
        versions.append(ours.schedule.version)
        if versions[-1] > versions[0] and ours.late_sets == 0 and step > ITERATIONS:
            break
    result["versions"] = sorted(set(versions))
    result["gap"] = (ours.schedule.sets[1].at - ours.schedule.sets[0].at) / 1e9

    # Replaced memory is accepted, and replaced parameters are refused.
    ours.module.seconds = 0.0
    ours.zero_grad()
    ours.module.half().float()
    ours(torch.full((1, 16), 1.0 + dist.get_rank()), seldom=True).sum().backward()
    gradient = ours.module.seldom.grad.clone()
    dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
    result["same"] = torch.equal(gradient, ours.module.seldom.grad)
    refused = []
    for change in (lambda: ours.module.seldom.requires_grad_(False), lambda: ours.module.double()):
        change()
        try:
            ours(torch.ones(1, 16))
        except RuntimeError as error:
            refused.append(str(error))
    for model in (torch.nn.Linear(2, 2, dtype=torch.complex64), torch.nn.Linear(2, 2 + dist.get_rank())):
        try:
            TimePoints(model)
        except ValueError as error:
            refused.append(str(error))
    result["refused"] = refused
    print(json.dumps(result), flush=True)
    dist.destroy_process_group()


main()
