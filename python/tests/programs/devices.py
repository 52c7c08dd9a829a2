"""Sums of tensors of a simulated device over the fabric.

devices.py CASE
"""

from __future__ import annotations

import hashlib
import os
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from simulated import SimulatedDevice, SimulatedEvent
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

from tributary.torch import backend as backends
from tributary.torch.backend import FABRIC_TYPES, backend_of
from tributary.torch.devices.staging import BUFFERS, PART_SIZE

TIMEOUT = timedelta(seconds=60)
COUNT = PART_SIZE // 4 + 5
"""Elements of float32 in two parts."""


def init(device: SimulatedDevice) -> None:
    """Makes a group for which tensors of the CPU are tensors of a simulated device."""
    backends.device_of = lambda _: device  # type: ignore[assignment]
    dist.init_process_group("tributary", timeout=TIMEOUT)


def pattern(count: int, dtype: torch.dtype, factor: int) -> torch.Tensor:
    return (torch.arange(count) % 5 * factor).to(dtype)


def staged() -> None:
    """Many sums in flight on two streams, whose operations run in random order."""
    rank = int(os.environ["RANK"])
    device = SimulatedDevice(rank)
    init(device)
    factors = sum(range(1, dist.get_world_size() + 1))
    streams = [device.default, device.stream()]
    expected: list[tuple[str, torch.Tensor, torch.Tensor]] = []
    for number, dtype in enumerate(sorted(FABRIC_TYPES, key=str) * 2):
        count = (1, 1000, COUNT)[number % 3]
        own, whole = pattern(count, dtype, rank + 1), device.tensor(torch.zeros(count, dtype=dtype))
        parts = device.tensor(torch.zeros(count, dtype=dtype))
        stream = streams[number % 2]
        for each in (whole, parts):
            device.keep(each, stream)
        with device.on(stream):
            device.kernel(lambda whole=whole, own=own: whole.copy_(own), [], [whole], keeps=True)
            source = device.tensor(torch.zeros(count * dist.get_world_size(), dtype=dtype))
            device.keep(source, stream)
            device.kernel(
                lambda source=source, own=own: source.copy_(own.repeat(dist.get_world_size())), [], [source], keeps=True
            )
            works: list[Any] = [
                dist.all_reduce(whole, async_op=True),
                dist.reduce_scatter_single(parts, source, async_op=True),
            ]
            if number % 5 == 0:
                # Its part of the order is the same on all ranks.
                dist.barrier()
            if number % 4 == 0:
                # The second sum needs the result of the first sum.
                works.append(dist.all_reduce(whole, async_op=True))
            for work in works:
                work.wait()
            taken = [torch.zeros(count, dtype=dtype) for _ in range(2)]
            device.kernel(lambda taken=taken, whole=whole: taken[0].copy_(whole), [whole], [], keeps=True)
            device.kernel(lambda taken=taken, parts=parts: taken[1].copy_(parts), [parts], [], keeps=True)
        twice = dist.get_world_size() if number % 4 == 0 else 1
        expected.append((f"sum {number} of {dtype}", taken[0], pattern(count, dtype, factors * twice)))
        expected.append((f"part {number} of {dtype}", taken[1], pattern(count, dtype, factors)))
    for stream in streams:
        event = SimulatedEvent(device)
        event.record(stream)
        event.synchronize()
    wrong = [what for what, taken, values in expected if not torch.equal(taken, values)]
    memory = backend_of(None).device_memory
    print("staged:", wrong, len(expected), PART_SIZE <= memory <= BUFFERS * PART_SIZE, flush=True)
    dist.destroy_process_group()


def node() -> None:
    """The ranks of a host add their tensors by gloo in NCCL's place, and each rank copies its share."""
    rank = int(os.environ["RANK"])
    device = SimulatedDevice(None, has_backend=True)
    init(device)
    size = dist.get_world_size()
    wrong = []
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int32):
        for count in (1, 1000, COUNT):
            before = device.copied
            whole = pattern(count, dtype, rank + 1)
            dist.all_reduce(whole)
            if not torch.equal(whole, pattern(count, dtype, sum(range(1, size + 1)))):
                wrong.append(f"all-reduce of {count} {dtype}")
            # Only these types are divided. A part has up to one element that every rank copies.
            shares = 2 if dtype in (torch.float32, torch.bfloat16) and count > 1 else 1
            copied = (device.copied - before) / (2 * whole.nbytes)
            if not 1 / shares <= copied <= 1 / shares + 0.001:
                wrong.append(f"{copied} of {count} {dtype} copied")
        # These are two parts of float32, too.
        count = COUNT // size + 1
        part = torch.zeros(count, dtype=dtype)
        dist.reduce_scatter_single(part, pattern(count, dtype, rank + 1).repeat(size))
        if not torch.equal(part, pattern(count, dtype, sum(range(1, size + 1)))):
            wrong.append(f"reduce-scatter of {count} {dtype}")
    arbitrary = torch.randn(COUNT, generator=torch.Generator().manual_seed(rank))
    dist.all_reduce(arbitrary, op=dist.ReduceOp.AVG)
    digest = hashlib.sha256(arbitrary.numpy().tobytes()).hexdigest()
    print("node:", wrong, digest, flush=True)
    dist.destroy_process_group()


def trained(hook: Any, rank: int) -> str:
    """Trains a small model with a comm hook; returns a digest of its parameters."""
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)), bucket_cap_mb=0.02
    )
    if isinstance(hook, dist.BuiltinCommHookType):
        model._register_builtin_comm_hook(hook)
    elif hook is not None:
        model.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(16, 64, generator=generator)).square().mean().backward()
        optimizer.step()
    flat = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest()


def trains() -> None:
    """DistributedDataParallel over the device's path has the parameters of the host's path."""
    rank = int(os.environ["RANK"])
    device = SimulatedDevice(None)
    own_device_of = backends.device_of
    init(device)
    for hook in (None, fp16_compress_hook, dist.BuiltinCommHookType.FP16_COMPRESS):
        before, digests = device.copied, []
        for chosen in (lambda _: device, own_device_of):
            backends.device_of = chosen
            digests.append(trained(hook, rank))
        print("trains:", device.copied > before, digests[0] == digests[1], flush=True)
    dist.destroy_process_group()


def fails() -> None:
    """A rank ends, and the other rank gets the error at `wait` and at the next call."""
    rank = int(os.environ["RANK"])
    init(SimulatedDevice(None))
    values = torch.ones(COUNT)
    dist.all_reduce(values)
    if rank == 1:
        os._exit(0)
    work = dist.all_reduce(values, async_op=True)
    try:
        work.wait()
    except Exception as error:
        print("wait:", type(error).__name__, error, flush=True)
    try:
        dist.all_reduce(values, async_op=True)
    except Exception as error:
        print("next:", type(error).__name__, error, flush=True)
    os._exit(0)


def named() -> None:
    """The backend is named for each device, on a machine that may have only one of them."""
    dist.init_process_group("cpu:tributary,cuda:tributary", timeout=TIMEOUT)
    values = torch.full((1000,), float(dist.get_rank() + 1))
    dist.all_reduce(values)
    print("named:", values[0].item(), backend_of(None).counters.calls["fabric"], flush=True)
    dist.destroy_process_group()


{"named": named, "staged": staged, "node": node, "trains": trains, "fails": fails}[sys.argv[1]]()
