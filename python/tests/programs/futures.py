"""Runs random programs of collectives, futures, callbacks and waits, and checks their sums.

    futures.py SEED COUNT

A program is the same on all ranks. All threads together start its collectives in one order, but its waits and callbacks
come in any order, and are nested.
"""

from __future__ import annotations

import faulthandler
import random
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.futures import Future, collect_all

LIMIT = 30
"""Seconds that the group and a program may take."""
DEEPEST = 4

dist.init_process_group("tributary", timeout=timedelta(seconds=LIMIT))
rank, size = dist.get_rank(), dist.get_world_size()
other = dist.new_group()


class Started:
    """A collective in flight, and the expected value of all elements of its tensor."""

    def __init__(self, choice: random.Random) -> None:
        kind = choice.choice([torch.float32, torch.float32, torch.float16, torch.int32, torch.int64])
        group = choice.choice([None, None, other])
        factor, shape = choice.randint(1, 5), (choice.choice([1, 7, 3000]), 2)
        whole = torch.full(shape, rank + factor).to(kind)
        self.tensor = whole[:, 0] if choice.random() < 0.3 else whole
        what = choice.choice(["sum", "sum", "sum", "max", "broadcast", "average"])
        self.expected: float = sum(each + factor for each in range(size))
        if what == "broadcast":
            self.work = dist.broadcast(self.tensor, 0, group=group, async_op=True)
            self.expected = factor
        elif what == "max":
            self.work = dist.all_reduce(self.tensor, op=dist.ReduceOp.MAX, group=group, async_op=True)
            self.expected = size - 1 + factor
        elif what == "average":
            self.work = dist.all_reduce(self.tensor, op=dist.ReduceOp.AVG, group=group, async_op=True)
            self.expected /= size
            if not kind.is_floating_point:
                self.expected //= 1
        else:
            self.work = dist.all_reduce(self.tensor, group=group, async_op=True)

    def check(self) -> None:
        got = self.tensor.double()
        assert (got == self.expected).all(), f"{got.flatten()[:3].tolist()} in place of {self.expected}"

    def wait(self, choice: random.Random) -> None:
        """Waits in one of all possible ways."""
        ways: list[Callable[[], object]] = [
            self.work.wait,
            self.work.result,
            lambda: self.work.get_future().wait(),
            lambda: collect_all([self.work.get_future()]).wait(),
            self._poll,
            self._wait_elsewhere,
            self._wait_for_callback,
        ]
        choice.choice(ways)()
        self.check()

    def _poll(self) -> None:
        while not self.work.is_completed():
            time.sleep(0.0005)

    def _wait_elsewhere(self) -> None:
        thread = threading.Thread(target=self.work.wait)
        thread.start()
        thread.join()

    def _wait_for_callback(self) -> None:
        called = threading.Event()
        self.work.get_future().add_done_callback(lambda _: called.set())
        called.wait()


def nest(choice: random.Random, depth: int) -> None:
    """Starts a few collectives, and continues in the callback of the last one or here."""
    started = [Started(choice) for _ in range(choice.randint(1, 4))]
    futures: list[Future[None]] = []
    for index, one in enumerate(started[:-1]):
        # A callback waits for later collectives, and for their callbacks.
        later = choice.choice(started[index + 1 :])
        own = random.Random(choice.random())
        if choice.random() < 0.5:
            futures.append(one.work.get_future().then(lambda _, later=later, own=own: later.wait(own)))
    last, own = started[-1], random.Random(choice.random())

    def go_on(_: object = None) -> None:
        last.check()
        if depth:
            nest(own, depth - 1)

    if choice.random() < 0.7:
        last.work.get_future().then(go_on).wait()
    else:
        last.wait(choice)
        go_on()
    choice.shuffle(started)
    for one in started:
        one.wait(choice)
    for future in futures:
        future.wait()


seed, count = int(sys.argv[1]), int(sys.argv[2])
slowest = 0.0
for program in range(seed, seed + count):
    faulthandler.dump_traceback_later(2 * LIMIT, exit=True)
    began = time.monotonic()
    choice = random.Random(program)
    try:
        nest(choice, choice.randint(0, DEEPEST))
    except Exception as error:
        print(f"program {program}: {type(error).__name__}: {error}", flush=True)
        raise
    slowest = max(slowest, time.monotonic() - began)
faulthandler.cancel_dump_traceback_later()
assert slowest < LIMIT, f"a program took {slowest:.1f} s"
print(f"right: {count} programs; the slowest took {slowest:.1f} s", flush=True)
dist.destroy_process_group()
