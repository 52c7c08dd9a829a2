"""Cases of groups that are made again, forked processes, and copies of a model."""

from __future__ import annotations

import copy
import os
import pickle
import socket
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from threading import Event, Thread

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

import tributary
from tributary.torch.backend import backend_of
from tributary.torch.joining import Hosts, join_together, rendezvous
from tributary.torch.timepoints import TimePoints

TIMEOUT = timedelta(seconds=60)


def again() -> None:
    """A group that ends with all-reduces in flight, and another group after it."""
    dist.init_process_group("tributary", timeout=TIMEOUT)
    for _ in range(60):
        dist.all_reduce(torch.ones(100_000), async_op=True)
    dist.destroy_process_group()
    # Each rank is late once, and must not read messages of the last group.
    for late in range(2):
        if int(os.environ["RANK"]) == late:
            time.sleep(1)
        dist.init_process_group("tributary", timeout=TIMEOUT)
        values = torch.ones(10)
        dist.all_reduce(values)
        broadcast = torch.full((10,), 1.0 + int(os.environ["RANK"]))
        dist.broadcast(broadcast, 0)
        print("again:", values[0].item(), broadcast[0].item(), flush=True)
        dist.destroy_process_group()


def refused() -> None:
    """One rank has no token, and all ranks get an error."""
    if os.environ["RANK"] == "1":
        os.environ["TRIBUTARY_TOKEN_FILE"] = os.devnull
    try:
        dist.init_process_group("tributary", timeout=TIMEOUT)
    except Exception as error:
        print("raised:", type(error).__name__, error, flush=True)
    # Exit at once, because PyTorch's clean-up does not matter here.
    os._exit(0)


def missing() -> None:
    """A rank does not come, or does not join, and the other rank's error names it."""
    waits = [
        lambda: join_together(dist.HashStore(), 0, Hosts(("first", "second")), timedelta(seconds=4)),
        lambda: rendezvous(dist.HashStore(), 1, 2, timedelta(seconds=7)),
    ]
    try:
        waits[int(os.environ["RANK"])]()
    except tributary.TributaryError as error:
        print("raised:", type(error).__name__, error, flush=True)
    os._exit(0)


def fork() -> None:
    dist.init_process_group("tributary", timeout=TIMEOUT)
    values = torch.ones(1000)
    under_way = [dist.all_reduce(torch.ones(100_000), async_op=True) for _ in range(20)]
    child = os.fork()
    if child == 0:
        calls: list[Callable[[], object]] = [
            lambda: dist.all_reduce(values),
            lambda: dist.broadcast(values, 0),
            tributary.join,
        ]
        for call in calls:
            try:
                call()
            except tributary.TributaryError as error:
                print("child raised:", error, flush=True)
        del under_way
        sys.exit(0)
    print("child ended:", os.waitpid(child, 0)[1], flush=True)
    for work in under_way:
        work.wait()
    for batch in DataLoader(torch.arange(100.0), batch_size=50, num_workers=2):
        dist.all_reduce(batch)
    print("loaded:", batch[-1].item(), flush=True)
    # The interpreter ends with callbacks in flight.
    for _ in range(1000):
        dist.all_reduce(torch.ones(10), async_op=True).get_future().then(lambda _: sum(range(10_000)))


def copies() -> None:
    dist.init_process_group("tributary", timeout=TIMEOUT)
    model = TimePoints(torch.nn.Linear(4, 4), iterations=2)
    for _ in range(3):
        model(torch.ones(1, 4)).sum().backward()
    both = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    if dist.get_rank() == 0:
        with torch.no_grad():
            expected = model(torch.ones(1, 4))
            print("alone:", all(torch.equal(one(torch.ones(1, 4)), expected) for one in both), flush=True)
    for one in [*both, model]:
        one.zero_grad()
        one(torch.full((1, 4), 1.0 + dist.get_rank())).sum().backward()
        print("averaged:", one.module.weight.grad[0, 0].item(), flush=True)
    dist.destroy_process_group()


def twice() -> None:
    """Collectives on the same memory, each started without waiting for the previous one."""
    dist.init_process_group("tributary", timeout=TIMEOUT)
    values = torch.ones(300_000)
    works = [dist.all_reduce(part, async_op=True) for part in (values, values, values[1000:])]
    for work in works:
        work.wait()
    broadcast = torch.full((300_000,), float(dist.get_rank()))
    work = dist.all_reduce(broadcast, async_op=True)
    dist.broadcast(broadcast, 0)
    work.wait()
    sparse = torch.eye(3).to_sparse()
    dist.all_reduce(sparse)
    sums = [values[0], values[-1], broadcast[0], sparse.to_dense().sum()]
    print("twice:", *(one.item() for one in sums), flush=True)
    dist.destroy_process_group()


def given_up() -> None:
    """An all-reduce that times out on one rank and never starts on the other, and then another group."""
    dist.init_process_group("tributary", timeout=TIMEOUT)
    over_gloo = dist.new_group()
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=2), dist.group.WORLD)
    if dist.get_rank() == 1:
        try:
            dist.all_reduce(torch.full((4,), 1000.0))
        except tributary.DeadlineError as error:
            print("raised:", error, flush=True)
    dist.barrier(group=over_gloo)
    dist.destroy_process_group()
    try:
        dist.init_process_group("tributary", timeout=timedelta(seconds=20))
        values = torch.ones(4)
        dist.all_reduce(values)
        print("summed:", values[0].item(), flush=True)
    except Exception as error:
        print("refused:", error, flush=True)
    os._exit(0)


def aborted() -> None:
    """One rank aborts the group, and its process continues; the other ranks get errors."""
    dist.init_process_group("tributary", timeout=TIMEOUT)
    dist.all_reduce(torch.ones(4))
    if dist.get_rank() == 1:
        dist.distributed_c10d._abort_process_group()
        time.sleep(10)
        os._exit(0)
    began = time.monotonic()
    try:
        dist.all_reduce(torch.ones(4))
    except tributary.SumError as error:
        print("raised:", time.monotonic() - began < 8, error, flush=True)
    os._exit(0)


def in_callback() -> None:
    """A callback in the thread that completes results calls a blocking all-reduce, which is refused."""
    dist.init_process_group("tributary", timeout=TIMEOUT)
    job, over_gloo = backend_of(None).job, dist.new_group(backend="gloo")
    called = Event()

    def chained(_: object) -> None:
        try:
            job.all_reduce(torch.ones(5), name="second")
        except tributary.TributaryError as error:
            print("raised:", error, flush=True)
        called.set()

    for last in range(2):
        if dist.get_rank() == last:
            # Wait until the other rank has added its callback: after the result, it would run in the main thread.
            dist.barrier(group=over_gloo)
            job.start(torch.ones(3), name=f"first {last}").result()
        else:
            job.start(torch.ones(3), name=f"first {last}").add_done_callback(chained)
            dist.barrier(group=over_gloo)
            called.wait()
    values = torch.ones(5)
    dist.all_reduce(values)
    print("summed:", values[0].item(), flush=True)
    dist.destroy_process_group()


def checked() -> None:
    """PyTorch's check of a collective waits for a rank that waits for another thread of the checking rank."""
    dist.init_process_group("tributary", timeout=TIMEOUT)
    store, values = dist.distributed_c10d._get_default_store(), torch.ones(5)

    def call_other() -> None:
        # The main thread begins to wait long before the last of these calls.
        for _ in range(100):
            store.add("called", 1)
        store.set("come", "")

    if dist.get_rank() == 0:
        store.wait(["come"])
    else:
        Thread(target=call_other).start()
    dist.all_reduce(values)
    print("summed:", values[0].item(), flush=True)
    dist.destroy_process_group()


def late() -> None:
    """A barrier with its own timeout, which the other rank does not call."""
    dist.init_process_group("tributary", timeout=TIMEOUT)
    over_gloo = dist.new_group()
    if dist.get_rank() == 0:
        began = time.monotonic()
        try:
            dist.barrier(timeout=timedelta(seconds=1))
        except tributary.DeadlineError as error:
            print("raised:", time.monotonic() - began < TIMEOUT.total_seconds() / 2, error, flush=True)
    dist.barrier(group=over_gloo)
    os._exit(0)


def say(text: str) -> None:
    """Prints a line in one piece, because processes of one host share the output."""
    os.write(1, f"{text}\n".encode())


def fork_ranks(first: int, *others: int) -> list[int]:
    """Forks a process for each of the other ranks, and sets each process's rank; returns the children."""
    os.environ["RANK"] = str(first)
    children = []
    for rank in others:
        child = os.fork()
        if child == 0:
            os.environ["RANK"] = str(rank)
            return []
        children.append(child)
    return children


def end_rank(children: list[int]) -> None:
    """Ends this process after its children."""
    for child in children:
        os.waitpid(child, 0)
    os._exit(0)


def one_host() -> None:
    """All ranks are on one host, and need no job."""
    if os.environ["RANK"] == "1":
        os._exit(0)
    for name in ("TRIBUTARY_JOB", "TRIBUTARY_TOKEN_FILE"):
        os.environ.pop(name)
    children = fork_ranks(0, 1)
    dist.init_process_group("tributary", timeout=TIMEOUT)
    values = torch.full((1000,), 1.0 + dist.get_rank())
    dist.all_reduce(values)
    say(f"sum: {values.unique().tolist()}")
    dist.destroy_process_group()
    end_rank(children)


def several() -> None:
    """The first host has three ranks, and the second host has one."""
    children = fork_ranks(0, 1, 2) if os.environ["RANK"] == "0" else fork_ranks(3)
    os.environ["WORLD_SIZE"] = "4"
    dist.init_process_group("tributary", timeout=TIMEOUT)
    rank = dist.get_rank()
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool):
        for elements in (1, 1000, 300_000):
            values = torch.full((elements,), rank + 1).to(dtype)
            dist.all_reduce(values)
            expected = torch.tensor(10).to(dtype)
            if not torch.equal(values, expected.expand(elements)):
                say(f"wrong: {dtype} {elements} {values[:3].tolist()}")
    # Many at once, and averages and parts of sums.
    works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(30)]
    for work in works:
        work.wait()
    part = torch.empty(5)
    dist.reduce_scatter_single(part, torch.arange(20.0), op=dist.ReduceOp.AVG)
    parts = [torch.empty(5) for _ in range(4)]
    dist.all_gather(parts, part)
    dist.barrier()
    calls = backend_of(None).counters.calls
    say(f"rank {rank}: {torch.cat(parts).tolist() == list(range(20))} {calls['fabric']}")
    dist.destroy_process_group()
    end_rank(children)


def order() -> None:
    """The ranks are not in the order of the job's hosts."""
    host = int(os.environ["RANK"])
    children = fork_ranks(host, host + 2)
    os.environ["WORLD_SIZE"] = "4"
    dist.init_process_group("tributary", timeout=TIMEOUT)
    values = torch.full((1000,), 1.0 + dist.get_rank())
    dist.all_reduce(values)
    say(f"rank {dist.get_rank()}: {values.unique().tolist()}")
    dist.destroy_process_group()
    end_rank(children)


def broadcasts() -> None:
    """Broadcasts of every type and layout from each rank. The ranks are not in the order of the job's hosts."""
    host = int(os.environ["RANK"])
    children = fork_ranks(host, host + 2)
    os.environ["WORLD_SIZE"] = "4"
    dist.init_process_group("tributary", timeout=TIMEOUT)
    rank = dist.get_rank()

    def check(what: str, tensor: torch.Tensor, root: int, expected: torch.Tensor) -> None:
        dist.broadcast(tensor, root)
        if not torch.equal(tensor.cpu().contiguous().view(torch.uint8), expected.contiguous().view(torch.uint8)):
            say(f"wrong: {what} from {root}")

    def bits(root: int, count: int) -> torch.Tensor:
        return torch.randint(256, (count,), generator=torch.Generator().manual_seed(root), dtype=torch.uint8)

    for root in range(4):
        # The bits of the floats include NaN of all kinds.
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8):
            check(str(dtype), bits(rank, 80_000).view(dtype), root, bits(root, 80_000).view(dtype))
        check("a size that is no multiple of 4", bits(rank, 70_003), root, bits(root, 70_003))
    strided = bits(rank, 160_000).view(torch.float32).reshape(200, 200).t()
    check("a transposed matrix", strided, 1, bits(1, 160_000).view(torch.float32).reshape(200, 200).t())
    with torch.inference_mode():
        inference = torch.full((30_000, 2), float(rank))[:, 0]
    check("a view that was made in inference mode", inference, 2, torch.full((30_000,), 2.0))
    check("a small tensor", torch.full((10,), float(rank)), 3, torch.full((10,), 3.0))
    calls = backend_of(None).counters.calls
    say(f"rank {rank}: {calls['fabric']}")
    dist.destroy_process_group()
    end_rank(children)


def interface() -> None:
    """A host whose name resolves to a loopback address, and an interface that does not exist."""
    socket.sethostname("localhost")
    for index, named in enumerate(("", "nosuch0")):
        os.environ["GLOO_SOCKET_IFNAME"] = named
        # With the same port, a rank that is faster than rank 0 would connect to the store that rank 0 will close.
        os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + index)
        try:
            dist.init_process_group("tributary", timeout=TIMEOUT)
        except tributary.TributaryError as error:
            print("raised:", error, flush=True)
    os._exit(0)


class Threads:
    """Prints the number of gloo's threads, also at the end of the interpreter.

    It keeps the functions that it needs, because the interpreter removes modules at its end.
    """

    def __init__(self) -> None:
        self.list, self.open, self.write = os.listdir, open, os.write

    def print_count(self, when: str) -> None:
        running = 0
        for thread in self.list("/proc/self/task"):
            try:
                with self.open(f"/proc/self/task/{thread}/comm") as name:
                    running += "gloo_run" in name.read()
            except OSError:
                pass
        self.write(1, f"{when}: {running}\n".encode())

    def __del__(self) -> None:
        self.print_count("at the end")


def ends() -> None:
    """Counts gloo's threads during a group, after its end, and after a group that is not destroyed."""
    # Modules are removed last.
    sys.modules["tributary"].threads = threads = Threads()
    for destroys in (True, False):
        dist.init_process_group("tributary", timeout=TIMEOUT)
        for _ in range(8):
            dist.broadcast(torch.ones(4), 0)
        threads.print_count("beside")
        # The end of the group must wait for this collective.
        dist.broadcast(torch.ones(4), 0, async_op=True).get_future().then(lambda _: time.sleep(1))
        if destroys:
            dist.monitored_barrier()
            dist.destroy_process_group()
            threads.print_count("after")


CASES = (
    again,
    refused,
    missing,
    fork,
    copies,
    twice,
    given_up,
    aborted,
    in_callback,
    checked,
    late,
    one_host,
    several,
    order,
    broadcasts,
    interface,
    ends,
)
{case.__name__: case for case in CASES}[sys.argv[1]]()
