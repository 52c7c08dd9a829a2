"""Joins the ranks of a process group to their job: either all of them join, or each gets an error with the reason."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from datetime import timedelta
from threading import Thread

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

from tributary.errors import DeadlineError, TributaryError
from tributary.job import Job, join

LOOK = 0.05
"""Seconds between two looks at the other ranks' messages."""
LAST_WORDS = 2.0
"""Seconds for which a refused rank stays, so that the others can read why before their store may go with it."""
REFUSED = "refused"


def own_part(store: Store, rank: int) -> Store:
    """The part of a store that is only for this group of ranks.

    A store may outlive a group and serve the next one, whose ranks would mistake the last group's messages for each
    other's, including addresses at which nobody answers any more.
    """
    return PrefixStore(f"{store.add(f'groups of rank {rank}', 1)}/", store)


def join_together(store: Store, rank: int, size: int, timeout: timedelta) -> Job:
    """Joins the job, and returns once all ranks have joined.

    Raises:
        DeadlineError: it took too long.
        TributaryError: this rank or another one is refused.
    """
    until = time.monotonic() + timeout.total_seconds()
    joining: Future[Job] = Future()
    waits: deque[str] = deque(maxlen=1)
    # A separate thread, since joining waits for all members, even if one is refused.
    Thread(target=_join, args=(joining, rank, size, timeout, waits), name="tributary-join", daemon=True).start()
    try:
        job = _wait_for_own(joining, store, until, waits)
    except RefusedError:
        raise
    except TributaryError as error:
        _tell(store, f"rank {rank}: {error}", size)
        raise
    store.set(_key(rank), "")
    for other in range(size):
        _wait_for(other, store, until)
    return job


class RefusedError(TributaryError):
    """Another rank cannot join."""


def _join(joining: Future[Job], rank: int, size: int, timeout: timedelta, waits: deque[str]) -> None:
    try:
        job = join(deadline=timeout, waits=waits.append)
        if job.rank != rank or job.ranks != list(range(size)):
            raise TributaryError(
                f"this process is rank {rank} of {size} for PyTorch, and rank {job.rank} of {job.ranks} in the job: "
                "start each process on the host of its rank, as `tributary lab run` does"
            )
        joining.set_result(job)
    except BaseException as error:
        joining.set_exception(error)


def _wait_for_own(joining: Future[Job], store: Store, until: float, waits: deque[str]) -> Job:
    while True:
        try:
            return joining.result(LOOK)
        except NotYet:
            if joining.done():
                raise
        _listen(store)
        if time.monotonic() > until:
            what = f"waiting for {waits[-1]}" if waits else "look which of its members are missing"
            raise DeadlineError(f"the job has not begun in the group's timeout: {what}")


def _wait_for(rank: int, store: Store, until: float) -> None:
    while not store.check([_key(rank)]):
        _listen(store)
        if time.monotonic() > until:
            raise DeadlineError(f"rank {rank} has not joined the job in the group's timeout: look at its process")
        time.sleep(LOOK)


def _listen(store: Store) -> None:
    """Raises the error that another rank has reported."""
    if store.check([REFUSED]):
        said = store.get(REFUSED).decode()
        store.add("heard", 1)
        raise RefusedError(f"another rank cannot take part in the job: {said}")


def _tell(store: Store, why: str, size: int) -> None:
    # A rank that has read it may have exited, and the store with it.
    with suppress(dist.DistError):
        store.set(REFUSED, why)
        until = time.monotonic() + LAST_WORDS
        while store.add("heard", 0) < size - 1 and time.monotonic() < until:
            time.sleep(LOOK)


def _key(rank: int) -> str:
    return f"joined {rank}"
