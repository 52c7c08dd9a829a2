"""Checks the contract of `torch.distributed` for a backend and its works.

Each rank prints a line for each check.

contract.py CHECK...    runs these checks [default: all]
"""

from __future__ import annotations

import gc
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.parallel import DistributedDataParallel

from tributary.torch.backend import backend_of

dist.init_process_group("tributary", timeout=timedelta(seconds=20))
rank, size = dist.get_rank(), dist.get_world_size()
ALL = size * (size + 1) / 2
"""The sum of 1, 2, … over the ranks."""
MARK = -99.0
SOURCES = 1
"""The tag of messages that are received from any rank."""


def own(kind: torch.dtype = torch.float32, count: int = 3) -> torch.Tensor:
    return torch.full((count,), rank + 1).to(kind)


def column(value: float, rows: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Makes a matrix that has marks except in one column; returns the matrix and that column."""
    matrix = torch.full((rows, 2), MARK)
    matrix[:, 0] = torch.arange(rows) + 10.0 * value
    return matrix, matrix[:, 0]


def expect(got: object, expected: object) -> None:
    same = torch.equal(got, expected) if isinstance(got, torch.Tensor) else got == expected
    assert same, f"{got} in place of {expected}"


def expect_column(matrix: torch.Tensor, expected: torch.Tensor) -> None:
    expect(matrix[:, 0], expected)
    expect(matrix[:, 1], torch.full((len(matrix),), MARK))


def polled(work: dist.Work) -> None:
    until = time.monotonic() + 30
    while not work.is_completed():
        assert time.monotonic() < until, "is_completed() does not become true"
        time.sleep(0.001)


def works() -> None:
    other = dist.new_group()
    for group in (None, other):
        values = own()
        work = dist.all_reduce(values, group=group, async_op=True)
        polled(work)
        expect(values, torch.full((3,), ALL))
        assert work.wait()
        assert work.is_completed()
        assert work.is_success()
        assert work.exception() is None
        expect(work.result()[0], values)
        expect(work.get_future().wait()[0], values)
        assert dist.barrier(group=group, async_op=True).wait()
    gathered = [torch.zeros(3) for _ in range(size)]
    work = dist.all_gather(gathered, own(), async_op=True)
    polled(work)
    expect(gathered[-1], torch.full((3,), float(size)))
    expect(work.get_future().wait()[0], gathered[0])
    sent, got = own(), torch.zeros(3)
    receive = dist.irecv(got, (rank - 1) % size)
    send = dist.isend(sent, (rank + 1) % size)
    for one in (send, receive):
        one.wait()
        assert one.is_completed()
    expect(got, torch.full((3,), (rank - 1) % size + 1.0))
    got = torch.zeros(3, 2)[:, 0]
    both = [dist.irecv(got, (rank - 1) % size), dist.isend(sent, (rank + 1) % size)]
    for one in both:
        polled(one)
        assert one.wait()
    expect(got, torch.full((3,), (rank - 1) % size + 1.0))
    both = [dist.irecv(got, (rank - 1) % size), dist.isend(2 * sent, (rank + 1) % size)]
    expect(both[0].get_future().then(lambda ended: ended.value()[0][0].item()).wait(), ((rank - 1) % size + 1.0) * 2)
    both[1].wait()


def released() -> None:
    whole, output = torch.ones(3 * size), torch.zeros(3)
    work = dist.reduce_scatter_tensor(output, whole, async_op=True)
    storage = StorageWeakRef(whole.untyped_storage())
    del whole
    work.wait()
    expect(output, torch.full((3,), float(size)))
    assert storage.expired(), "the ended work keeps its input"


def memory() -> None:
    """No collective reads or writes memory that its tensor does not have, or has given back."""
    freed = torch.empty(1 << 16)
    freed.untyped_storage().resize_(0)
    starts: list[Callable[[], object]] = [
        lambda: dist.all_reduce(freed),
        lambda: dist.broadcast(freed, 0),
        lambda: dist.reduce_scatter_tensor(freed, torch.ones(size << 16)),
    ]
    for start in starts:
        try:
            start()
        except TypeError as error:
            assert "has no memory" in str(error), error
        else:
            raise AssertionError("a tensor without memory was accepted")
    resized, replaced, other = own(count=3000), own(count=3000), torch.zeros(3000)
    works = [dist.all_reduce(one, async_op=True) for one in (resized, replaced)]
    try:
        resized.untyped_storage().resize_(0)
    except RuntimeError as error:
        assert "not resizable" in str(error), error
    replaced.data = other
    guards = [torch.full((3000,), MARK) for _ in range(8)]
    for work in works:
        work.wait()
    expect(resized, torch.full((3000,), ALL))
    for one, value in ((other, 0.0), *((guard, MARK) for guard in guards)):
        expect(one, torch.full((3000,), value))


def held() -> None:
    model = DistributedDataParallel(nn.Linear(3, 1))
    with model.join(divide_by_initial_world_size=False):
        loss = model(own()).sum()
        # The reducer holds a work until the backward pass, and no object of Python does.
        dist.barrier()
        gc.collect()
        loss.backward()


def sources() -> None:
    if rank:
        # Rank 0 receives from any rank, and others may already send for the next check: so this check has its own tag.
        dist.send(own(), 0, tag=SOURCES)
    else:
        got = []
        for _ in range(size - 1):
            values = torch.zeros(3, 2)[:, 0] if got else torch.zeros(3)
            source = dist.recv(values, tag=SOURCES)
            got.append((source, values[0].item()))
        expect(sorted(got), [(other, other + 1.0) for other in range(1, size)])


def batches() -> None:
    assert not dist.group.WORLD._get_backend(torch.device("cpu")).supports_coalescing
    got = torch.zeros(3)
    operations = [dist.P2POp(dist.isend, own(), (rank + 1) % size), dist.P2POp(dist.irecv, got, (rank - 1) % size)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    expect(got, torch.full((3,), (rank - 1) % size + 1.0))
    device, values = torch.device("cpu"), [own(), own(torch.float64)]
    dist.group.WORLD._start_coalescing(device)
    for one in values:
        dist.all_reduce(one, async_op=True)
    work = dist.group.WORLD._end_coalescing(device)
    polled(work)
    work.wait()
    expect([one[0].item() for one in values], [ALL, ALL])
    expect(len(work.result()), 2)


def attributes() -> None:
    for backend in (dist.group.WORLD._get_backend(torch.device("cpu")), backend_of(None)):
        assert backend.supports_splitting
        for name in ("supports_shrinking", "_supports_time_estimate", "supports_reconfigure", "supports_window"):
            assert not getattr(backend, name, False), name
        expect(backend.options._timeout, timedelta(seconds=20))
    expect(dist.get_backend(), "tributary")


def split() -> None:
    half = size // 2
    group = dist.split_group(split_ranks=[list(range(half)), list(range(half, size))])
    values = own()
    work = dist.all_reduce(values, group=group, async_op=True)
    polled(work)
    expect(values, torch.full((3,), sum(other + 1.0 for other in range(size) if (other < half) == (rank < half))))
    expect(dist.get_world_size(group), half)
    dist.destroy_process_group(group)


def layouts() -> None:
    base, ranks = torch.arange(3.0), range(size)
    total = sum(base + 10.0 * other for other in ranks)
    matrix, values = column(rank)
    dist.all_reduce(values)
    expect_column(matrix, total)
    wide = torch.full((3, 2), MARK, dtype=torch.float64)
    wide[:, 0] = rank
    dist.all_reduce(wide[:, 0])
    expect_column(wide.float(), torch.full((3,), ALL - size))
    matrix, values = column(rank)
    dist.broadcast(values, src=1)
    expect_column(matrix, base + 10.0)
    matrix, values = column(rank)
    dist.reduce(values, dst=0)
    expect_column(matrix, base + 10.0 * rank if rank else total)
    matrix, values = column(0)
    dist.scatter(values, [column(other + 5)[1] for other in ranks] if rank == 0 else None, src=0)
    expect_column(matrix, base + 10.0 * (rank + 5))
    parts = [column(0) for _ in ranks]
    dist.gather(column(rank)[1], [part for _, part in parts] if rank == 0 else None, dst=0)
    for other, (matrix, _) in enumerate(parts):
        expect_column(matrix, base if rank else base + 10.0 * other)
    parts = [column(0) for _ in ranks]
    work = dist.all_gather([part for _, part in parts], column(rank)[1], async_op=True)
    polled(work)
    for other, (matrix, _) in enumerate(parts):
        expect_column(matrix, base + 10.0 * other)
    whole = torch.full((3 * size, 2), MARK)
    dist.all_gather_into_tensor(whole[:, 0], column(rank)[1])
    expect_column(whole, torch.cat([base + 10.0 * other for other in ranks]))
    matrix, values = column(0)
    dist.reduce_scatter(values, [column(rank + 7 * other)[1] for other in ranks])
    expect_column(matrix, sum(base + 10.0 * (other + 7 * rank) for other in ranks))
    matrix, values = column(0)
    dist.reduce_scatter_tensor(values, column(rank, 3 * size)[1])
    expect_column(matrix, size * torch.arange(3.0 * size)[3 * rank : 3 * rank + 3] + 10.0 * (ALL - size))
    parts = [column(0) for _ in ranks]
    inputs = [column(rank * size + other)[1] for other in ranks]
    dist.all_to_all([part for _, part in parts], inputs)
    for other, (matrix, _) in enumerate(parts):
        expect_column(matrix, base + 10.0 * (other * size + rank))
    matrix, values = column(0, size)
    dist.all_to_all_single(values, column(rank, size)[1])
    expect_column(matrix, rank + 10.0 * torch.arange(size))
    matrix, values = column(rank)
    if rank == 0:
        dist.send(values, 1)
    elif rank == 1:
        dist.recv(values, 0)
        expect_column(matrix, base)
    for one in (
        torch.full((5, 4), rank + 1.0)[:1, 2],
        torch.full((7,), rank + 1.0)[::8],
        torch.full((1, 4), rank + 1.0)[:, 2],
    ):
        dist.all_reduce(one)
        expect(one.item(), ALL)
    for kind in (torch.float32, torch.float64):
        try:
            dist.all_reduce(torch.ones(1, dtype=kind).expand(4))
        except RuntimeError as error:
            assert "share memory" in str(error)
        else:
            raise AssertionError("an expanded tensor was accepted for a result")


def negative() -> None:
    for kind in (torch.float32, torch.float64):
        base = own(kind)
        dist.all_reduce(torch._neg_view(base))
        expect(base, torch.full((3,), ALL, dtype=kind))
        base = own(kind)
        dist.broadcast(torch._neg_view(base), 1)
        expect(base, torch.full((3,), 2, dtype=kind))
        base = torch.zeros(1, dtype=kind)
        dist.reduce_scatter_tensor(torch._neg_view(base), own(kind, size))
        expect(base.item(), -ALL)
        output = torch.zeros(1, dtype=kind)
        dist.reduce_scatter_tensor(output, torch._neg_view(own(kind, size)))
        expect(output.item(), -ALL)
        gathered = [torch._neg_view(torch.zeros(3, dtype=kind)) for _ in range(size)]
        dist.all_gather(gathered, torch._neg_view(own(kind)))
        expect(gathered[1], torch.full((3,), -2, dtype=kind))
    imaginary = torch.complex(own(), 2 * own()).conj().imag
    dist.all_reduce(imaginary)
    expect(imaginary.tolist(), [-2 * ALL] * 3)
    try:
        dist.broadcast(torch.complex(own(), own()).conj(), 1)
    except RuntimeError as error:
        assert "conj" in str(error)
    else:
        raise AssertionError("a conjugate tensor was accepted, which PyTorch itself refuses")
    base = own()
    backend_of(None).job.all_reduce(torch._neg_view(base), name="negative")
    expect(base, torch.full((3,), ALL))


def devices() -> None:
    """Collectives work with another default device, and with tensors without elements."""
    tensor, nothing, part = own(), torch.ones(0), torch.ones(0)
    with torch.device("meta"):
        dist.barrier()
        dist.all_reduce(tensor)
    expect(tensor, torch.full((3,), ALL))
    dist.all_reduce(nothing)
    dist.reduce_scatter_tensor(part, nothing)
    expect(part.tolist() + nothing.tolist(), [])


def offsets() -> None:
    job = backend_of(None).job
    for kind in (np.float32, np.float16, np.int32):
        unit = np.dtype(kind).itemsize
        for offset in range(1, 2 * unit):
            memory = job.empty(16 * unit, kind).view(np.uint8)
            values = np.ndarray((5,), kind, memory.data, offset)
            values[:] = rank + 1
            job.all_reduce(values, name=f"offset {offset}")
            expect(values.tolist(), [ALL] * 5)
            expect((memory[:offset].sum(), memory[offset + 5 * unit :].sum()), (0, 0))


def averages() -> None:
    mean, total = (size + 1) / 2, sum(3 + other for other in range(size))
    other_group = dist.new_group()
    for group in (None, other_group):
        for kind in (torch.int64, torch.int32, torch.int16, torch.uint8):
            values = (torch.full((3, 2), 3 + rank).to(kind))[:, 1]
            dist.all_reduce(values, op=dist.ReduceOp.AVG, group=group)
            expect(values, torch.full((3,), total // size, dtype=kind))
            values = torch.full((3,), -3 - rank, dtype=torch.int64)
            dist.all_reduce(values, op=dist.ReduceOp.AVG, group=group)
            expect(values, torch.full((3,), -(total // size)))
        for kind in (torch.float32, torch.float64):
            leaf = own(kind).requires_grad_()
            with torch.no_grad():
                dist.all_reduce(leaf, op=dist.ReduceOp.AVG, group=group)
            expect(leaf.detach(), torch.full((3,), mean, dtype=kind))
            assert leaf.is_leaf
            with torch.inference_mode():
                for values in (own(kind), own(kind)[0], own(kind, 6)[::2]):
                    work = dist.all_reduce(values, op=dist.ReduceOp.AVG, group=group, async_op=True)
                    polled(work)
                    expect(values, torch.full_like(values, mean))
                output = torch.zeros(3, dtype=kind)
                dist.reduce_scatter_tensor(output, own(kind, 3 * size), op=dist.ReduceOp.AVG, group=group)
                expect(output, torch.full((3,), mean, dtype=kind))
            values = own(kind)
            dist.reduce(values, 1, op=dist.ReduceOp.AVG, group=group)
            assert rank != 1 or values[0].item() == mean
    try:
        dist.all_reduce(own(torch.bool), op=dist.ReduceOp.AVG)
    except TypeError as error:
        assert "bool" in str(error)
    else:
        raise AssertionError("an average of bool was accepted")


def integers() -> None:
    """Sums and averages of integers over the fabric have the same bits as over gloo, also where they wrap.

    The second group of a process uses gloo.
    """
    by_gloo, counters = dist.new_group(), backend_of(None).counters
    generator = torch.Generator().manual_seed(rank)
    for kind in (torch.int8, torch.uint8, torch.int32, torch.int64):
        limits = torch.iinfo(kind)
        wrapping = torch.randint(limits.min, limits.max, (4 * size,), generator=generator, dtype=torch.int64).to(kind)
        small = torch.arange(4 * size).to(kind) * rank
        for values in (wrapping, small):
            for operator in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
                ours, theirs, part, their_part = values.clone(), values.clone(), values[:4].clone(), values[:4].clone()
                before = counters.calls["fabric"]
                dist.all_reduce(ours, op=operator)
                dist.reduce_scatter_tensor(part, values, op=operator)
                expect(counters.calls["fabric"] - before, 2)
                dist.all_reduce(theirs, op=operator, group=by_gloo)
                dist.reduce_scatter_tensor(their_part, values, op=operator, group=by_gloo)
                expect(ours, theirs)
                expect(part, their_part)
    flags = torch.tensor([False, True, rank == 1])
    dist.all_reduce(flags)
    expect(flags.tolist(), [False, True, True])
    column = torch.full((3, 2), rank, dtype=torch.int64)
    dist.all_reduce(column[:, 0])
    expect(column.tolist(), [[ALL - size, rank]] * 3)


def doubles() -> None:
    values = torch.tensor([rank + 2.0**-40, -1.0 * rank, 1e300], dtype=torch.float64)
    before = backend_of(None).counters.calls["fabric"]
    dist.all_reduce(values)
    expect(backend_of(None).counters.calls["fabric"] - before, 1)
    expect(values.tolist(), [ALL - size + size * 2.0**-40, size - ALL, size * 1e300])


def uneven() -> None:
    for kind in (torch.float32, torch.float64):
        output = torch.zeros(rank + 1, dtype=kind)
        parts = [torch.full((other + 1,), rank + other, dtype=kind) for other in range(size)]
        dist.reduce_scatter(output, parts)
        expect(output, torch.full((rank + 1,), ALL - size + size * rank, dtype=kind))


def order() -> None:
    """Collectives on one tensor over the fabric and gloo, without waiting: each uses the previous result."""
    values, works = torch.ones(50_000), []
    for _ in range(4):
        works += [dist.all_reduce(values, async_op=True), dist.broadcast(values, 0, async_op=True)]
        works.append(dist.all_reduce(values, op=dist.ReduceOp.MAX, async_op=True))
    for work in works:
        work.wait()
    expect(values[:2].tolist(), [float(size) ** 4] * 2)


def callbacks() -> None:
    """Callbacks start collectives and wait for their callbacks, nested deeper than gloo has threads."""
    other = dist.new_group()

    def nested(depth: int, group: dist.ProcessGroup | None) -> float:
        values = torch.ones(4)
        future = dist.all_reduce(values, group=group, async_op=True).get_future()
        if depth:
            future = future.then(lambda ended: [ended.value()[0] * nested(depth - 1, group)])
        return future.wait()[0][0].item()

    for group in (None, other):
        expect(nested(5, group), float(size) ** 6)


def hooks() -> None:
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 1)))
    state = powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2, min_compression_rate=0.5)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    for step in range(5):
        model(torch.ones(2, 16) * (rank + step)).sum().backward()
    other = dist.new_group()
    for group in (None, other):
        model = DistributedDataParallel(nn.Linear(8, 8), process_group=group)
        model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
        model(torch.ones(2, 8) * (rank + 1)).sum().backward()
        expect(model.module.weight.grad, torch.full((8, 8), ALL / size * 2))
        expect(model._get_ddp_logging_data()["backend_name"], "tributary")


def profiler() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        dist.all_reduce(own())
        dist.all_reduce(own(), async_op=True).wait()
        dist.reduce_scatter_tensor(torch.zeros(1), own(count=size))
        dist.broadcast(own(), 0)
        dist.barrier()
    names = [event.name for event in profile.events()]
    expect([names.count(f"tributary:{one}") for one in ("all_reduce", "reduce_scatter", "barrier")], [2, 1, 1])
    expect([names.count(f"{backend}:broadcast") for backend in ("tributary", "gloo")], [1, 1])
    # The event of this collective ends after its profiler.
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        work = dist.all_reduce(own(), async_op=True)
    work.wait()


def pipeline() -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    schedule = ScheduleGPipe(
        PipelineStage(model, rank, size, torch.device("cpu")),
        n_microbatches=2,
        loss_fn=lambda output, target: (output - target).square().mean(),
    )
    if rank == 0:
        schedule.step(torch.ones(4, 8))
    elif rank == size - 1:
        schedule.step(target=torch.zeros(4, 8), losses=[])
    else:
        schedule.step()
    assert model.weight.grad is not None


CHECKS: list[Callable[[], Any]] = [
    works,
    released,
    memory,
    held,
    sources,
    batches,
    attributes,
    split,
    layouts,
    negative,
    devices,
    offsets,
    averages,
    integers,
    doubles,
    uneven,
    order,
    callbacks,
    hooks,
    profiler,
    pipeline,
]
chosen = sys.argv[1:] or [check.__name__ for check in CHECKS]
for check in CHECKS:
    if check.__name__ in chosen:
        try:
            check()
            outcome = "ok"
        except BaseException as error:
            outcome = f"{type(error).__name__}: {str(error)[:600]}\n{traceback.format_exc()[-3000:]}"
        print(f"{check.__name__}: {outcome}", flush=True)
dist.destroy_process_group()
