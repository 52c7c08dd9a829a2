"""Sums over groups of some of the ranks, which get jobs of their own."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import count

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import tributary
from tributary.torch.backend import backend_of
from tributary.torch.group import Group
from tributary.torch.group_job import REFUSED

LARGE = 100_000
"""Elements of a sum for which a group gets a job."""


def say(*words: object) -> None:
    print(*words, flush=True)


def until_in_fabric(*groups: dist.ProcessGroup) -> int:
    """Sums over the groups until all ranks' sums go over the fabric; returns the number of rounds."""
    rounds = 0
    while True:
        rounds += 1
        before = calls("fabric")
        for group in groups:
            values = torch.full((LARGE,), 1.0 + dist.get_rank())
            dist.all_reduce(values, group=group)
            expected = sum(1.0 + rank for rank in dist.get_process_group_ranks(group))
            assert torch.equal(values, torch.full((LARGE,), expected)), (rounds, values[:3], expected)
        remaining = torch.tensor([len(groups) - (calls("fabric") - before)])
        # The maximum goes by gloo.
        dist.all_reduce(remaining, op=dist.ReduceOp.MAX)
        if remaining.item() == 0:
            return rounds


def calls(way: str) -> int:
    world = dist.group.WORLD
    assert isinstance(world, Group)
    return world.backend.counters.calls[way]


def mesh() -> None:
    """The dimension across hosts goes over the fabric, and the dimension inside each host does not."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
    replicas, shards = mesh.get_group("replicas"), mesh.get_group("shards")
    until_in_fabric(replicas)
    before = calls("gloo")
    values = torch.full((LARGE,), 1.0 + dist.get_rank())
    dist.all_reduce(values, group=shards)
    say("inside:", values[0].item(), calls("gloo") - before)
    # Each replica has its part of a sum that is scattered.
    before = calls("fabric")
    part = torch.empty(LARGE // 2)
    dist.reduce_scatter_single(part, torch.ones(LARGE), group=replicas)
    dist.barrier(group=replicas)
    say("outside:", part.unique().tolist(), calls("fabric") - before)


def interleaved() -> None:
    """Two groups with common ranks. Each rank starts their sums in an order of its own."""
    rank = dist.get_rank()
    members = {"a": [0, 1, 2], "b": [1, 2, 3]}
    groups = {name: dist.new_group(ranks) for name, ranks in members.items()}
    own = [name for name, ranks in members.items() if rank in ranks]
    order = random.Random(rank)
    rounds = int(sys.argv[2])
    for number in range(rounds):
        # The first round opens both jobs at once, while the ranks start sums in different orders.
        size = LARGE if number % 50 == 0 else 1000
        starts = own * 3
        order.shuffle(starts)
        started = []
        for name in starts:
            values = torch.full((size,), float(number + rank))
            work = dist.all_reduce(values, group=groups[name], async_op=True)
            started.append((name, values, work))
        order.shuffle(started)
        for name, values, work in started:
            work.wait()
            expected = sum(float(number + other) for other in members[name])
            assert torch.equal(values, torch.full((size,), expected)), (number, name, values[:3], expected)
    say("sums:", calls("fabric") > 3 * rounds * len(own) // 2)


def refused() -> None:
    """The switches have no slots for another job, and the group's sums go by gloo."""
    group = dist.new_group()
    if dist.get_rank() == 0:
        with suppress(tributary.TributaryError):
            for number in count():
                backend_of(None).job.open_group(f"filler {number}", [0, 1])
    dist.barrier()
    assert isinstance(group, Group)
    job = group.backend._group_job
    before = calls("fabric")
    waiting = torch.tensor([1])
    while waiting.item():
        values = torch.ones(LARGE)
        dist.all_reduce(values, group=group)
        assert values.unique().tolist() == [dist.get_world_size()]
        waiting.fill_(job.reason != REFUSED)
        dist.all_reduce(waiting, op=dist.ReduceOp.MAX)
    say("by gloo:", calls("fabric") - before)


def ends() -> None:
    """A group that ends, and another group of the same ranks after it."""
    for _ in range(2):
        group = dist.new_group()
        until_in_fabric(group)
        assert isinstance(group, Group)
        job = group.backend._group_job
        say("job:", job.name)
        dist.destroy_process_group(group)
    # A group that ends before it has a job, and one that ends while its job is being opened.
    for large in (False, True):
        group = dist.new_group()
        dist.all_reduce(torch.ones(LARGE if large else 10), group=group)
        dist.destroy_process_group(group)
    values = torch.ones(10)
    dist.all_reduce(values)
    say("after:", values[0].item())


CASES: tuple[Callable[[], None], ...] = (mesh, interleaved, refused, ends)
dist.init_process_group("tributary", timeout=timedelta(seconds=60))
{case.__name__: case for case in CASES}[sys.argv[1]]()
dist.destroy_process_group()
