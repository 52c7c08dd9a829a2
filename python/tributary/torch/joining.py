"""Waits for all ranks of a process group, and joins the job.

Either all ranks join, or each rank gets an error with the reason.
"""

from __future__ import annotations

import os
import time
from collections import deque
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Thread

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

from tributary.errors import DeadlineError, TributaryError
from tributary.job import Job, join, logger, socket_of
from tributary.torch.gloo import unreachable

POLL_INTERVAL = 0.05
"""Seconds between two polls of the other ranks' messages."""
REFUSAL_TIMEOUT = 2.0
"""Seconds that a refused rank waits until the others have read the reason from its store."""
LEAVE_TIMEOUT = 10.0
"""Seconds that a rank waits for the other ranks, which will raise the same error."""
REFUSED = "refused"
WARNING_DELAY = 5.0
"""Seconds that ranks wait for each other before they log a warning."""


def group_store(store: Store, rank: int) -> Store:
    """Returns a part of a store that only this group of ranks uses.

    A store may outlive its group and serve the next one. The ranks of the next group must not read the messages of the
    last group, which include the addresses of processes that have ended.
    """
    return PrefixStore(f"{store.add(f'groups of rank {rank}', 1)}/", store)


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of a group's ranks."""

    of_ranks: tuple[str, ...]
    """An id of the host of each rank."""
    in_parent: tuple[int | None, ...] = ()
    """The rank of each rank in the job of this process's first group; `None` if it is in no job."""

    @property
    def is_one(self) -> bool:
        """True if all ranks are on one host."""
        return len(set(self.of_ranks)) == 1

    def process(self, rank: int) -> tuple[int, int]:
        """Returns the number of a rank among the ranks of its host, and the number of those ranks."""
        host = self.of_ranks[rank]
        return self.of_ranks[:rank].count(host), self.of_ranks.count(host)


def rendezvous(store: Store, rank: int, size: int, timeout: timedelta, in_parent: int | None = None) -> Hosts:
    """Waits for all ranks, and checks that gloo can connect them.

    Args:
        store: a store that only these ranks use.
        rank: the rank of this process.
        size: the number of ranks.
        timeout: the longest wait.
        in_parent: this process's rank in the job of its first group; `None` if it is in no job.

    Raises:
        DeadlineError: some ranks have not arrived; the message names them.
        TributaryError: ranks are on several hosts, and gloo would connect them by a loopback interface.
    """
    own = "" if in_parent is None else in_parent
    store.set(f"here {rank}", f"{_host()}\n{own}\n{unreachable(size) or ''}")
    began = time.monotonic()
    until, warn_at = began + timeout.total_seconds(), began + WARNING_DELAY
    missing = list(range(size))
    while missing := [other for other in missing if not store.check([f"here {other}"])]:
        now = time.monotonic()
        if now > until:
            raise DeadlineError(
                f"{_ranks(missing)} of {size} have not called init_process_group in the group's timeout: check "
                "their processes"
            )
        if now > warn_at:
            logger.warning("rank %s: init_process_group waits for %s of %s", rank, _ranks(missing), size)
            warn_at = now + WARNING_DELAY
        time.sleep(POLL_INTERVAL)
    here = [store.get(f"here {other}").decode().split("\n", 2) for other in range(size)]
    hosts = Hosts(tuple(one[0] for one in here), tuple(int(one[1]) if one[1] else None for one in here))
    problem = next((f"rank {other}: {one[2]}" for other, one in enumerate(here) if one[2]), None)
    if problem is None or hosts.is_one:
        return hosts
    # All ranks raise the same error, and the store ends with the process of rank 0.
    _leave_after_others(store, size)
    raise TributaryError(problem)


def _leave_after_others(store: Store, size: int) -> None:
    """Waits until all ranks call this, up to `LEAVE_TIMEOUT` seconds."""
    with suppress(dist.DistError):
        store.add("leaving", 1)
        until = time.monotonic() + LEAVE_TIMEOUT
        while store.add("leaving", 0) < size and time.monotonic() < until:
            time.sleep(POLL_INTERVAL)


def _host() -> str:
    """Returns an id of this host, made of its agent's socket, because the hosts of a lab share a kernel.

    Without an agent, the network namespace takes the socket's place.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    try:
        socket = os.stat(socket_of(None))
    except OSError:
        socket = os.stat("/proc/self/ns/net")
    return f"{boot} {socket.st_dev} {socket.st_ino}"


def _ranks(ranks: list[int]) -> str:
    """Returns text such as `rank 2` or `ranks 2, 3`."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def join_together(
    store: Store, rank: int, hosts: Hosts, timeout: timedelta, of_group: str | None = None
) -> tuple[Job, list[int]]:
    """Joins a job, and returns when all ranks have joined.

    Args:
        store: a store that only these ranks use.
        rank: the rank of this process.
        hosts: the hosts of the ranks.
        timeout: the longest wait.
        of_group: the name of the job of a group [default: the job in the environment].

    Returns:
        The job, and for each rank of the group its rank in the job. They differ if a launcher has numbered the hosts in
        another order than the job.

    Raises:
        DeadlineError: some rank has not joined in time.
        TributaryError: this rank or another rank was refused.
    """
    until, size = time.monotonic() + timeout.total_seconds(), len(hosts.of_ranks)
    joining: Future[Job] = Future()
    waits: deque[str] = deque(maxlen=1)
    # A separate thread joins, because joining waits for all members, even if one was refused.
    args = (joining, rank, hosts, timeout, waits, of_group)
    Thread(target=_join, args=args, name="tributary-join", daemon=True).start()
    try:
        job = _wait_for_own(joining, store, until, waits)
        store.set(_key(rank), str(job.rank))
        ranks = [_wait_for(other, store, until) for other in range(size)]
    except BaseException as error:
        # The thread may still join the job, and must then leave it.
        joining.add_done_callback(_leave)
        if isinstance(error, TributaryError) and not isinstance(error, RefusedError):
            report_refusal(store, f"rank {rank}: {error}", size)
        raise
    return job, ranks


class RefusedError(TributaryError):
    """Another rank cannot join the job."""


def _leave(joining: Future[Job]) -> None:
    if joining.exception() is None:
        joining.result().leave()


def _join(
    joining: Future[Job], rank: int, hosts: Hosts, timeout: timedelta, waits: deque[str], of_group: str | None
) -> None:
    try:
        process, processes = hosts.process(rank)
        job = join(
            of_group,
            new_run=of_group is None,
            process=process,
            processes=processes,
            deadline=timeout,
            waits=waits.append,
        )
        problem = _difference(job, len(hosts.of_ranks))
        if problem is not None:
            job.leave()
            raise TributaryError(problem)
        joining.set_result(job)
    except BaseException as error:
        joining.set_exception(error)


def _difference(job: Job, size: int) -> str | None:
    """Returns the difference between the job's ranks and those of a group of `size` ranks; `None` if there is none."""
    missing = [other for other in range(size) if other not in job.ranks]
    if job.rank < size and missing:
        return f"{_ranks(missing)} of {size} have left or never joined this run of the job: start all ranks again"
    if job.ranks != list(range(size)):
        return (
            f"PyTorch has {size} ranks, and the job has ranks {job.ranks}: start processes on all hosts of the job, "
            "and an equal number in each run"
        )
    return None


def _wait_for_own(joining: Future[Job], store: Store, until: float, waits: deque[str]) -> Job:
    while True:
        try:
            return joining.result(POLL_INTERVAL)
        except FutureTimeout:
            if joining.done():
                raise
        _check_refusal(store)
        if time.monotonic() > until:
            what = f"waiting for {waits[-1]}" if waits else "check which of its members are missing"
            raise DeadlineError(f"the job has not begun in the group's timeout: {what}")


def _wait_for(rank: int, store: Store, until: float) -> int:
    """Waits until a rank has joined; returns its rank in the job."""
    late = f"rank {rank} has not joined the job in the group's timeout: check its process"
    return wait_for_number(store, _key(rank), until, late)


def wait_for_number(store: Store, key: str, until: float, late: str) -> int:
    """Waits for a number that another rank writes to the store, until a moment of `time.monotonic`.

    Raises:
        DeadlineError: the number is late; the text is `late`.
        RefusedError: another rank has reported an error.
    """
    while not store.check([key]):
        _check_refusal(store)
        if time.monotonic() > until:
            raise DeadlineError(late)
        time.sleep(POLL_INTERVAL)
    return int(store.get(key))


def _check_refusal(store: Store) -> None:
    """Checks that no other rank has reported an error.

    Raises:
        RefusedError: another rank has reported an error.
    """
    if store.check([REFUSED]):
        reason = store.get(REFUSED).decode()
        store.add("refusal read", 1)
        raise RefusedError(f"another rank cannot take part in the job: {reason}")


def report_refusal(store: Store, why: str, size: int) -> None:
    """Sends an error to the other ranks, and waits up to `REFUSAL_TIMEOUT` seconds until they have read it."""
    # A rank that has read the reason may have exited, and its store with it.
    with suppress(dist.DistError):
        store.set(REFUSED, why)
        until = time.monotonic() + REFUSAL_TIMEOUT
        while store.add("refusal read", 0) < size - 1 and time.monotonic() < until:
            time.sleep(POLL_INTERVAL)


def _key(rank: int) -> str:
    return f"joined {rank}"
