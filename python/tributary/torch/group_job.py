"""The job of a group of some of the ranks, which the group gets when it has a sum that is worth it."""

from __future__ import annotations

import time
from datetime import timedelta
from threading import Condition, Thread
from typing import Any
from uuid import uuid4

from torch._C._distributed_c10d import Store

from tributary.errors import DeadlineError, TributaryError
from tributary.job import Job, logger
from tributary.torch.joining import Hosts, join_together, report_refusal, wait_for_number

LARGE = 64 << 10
"""Bytes of the smallest sum for which a group gets a job. Smaller sums take about as long by gloo."""
TOO_SMALL = f"the group has had no sum of {LARGE >> 10} KiB"
OPENING = "the group's job is being opened"
REFUSED = "the group has no job"


END_TIMEOUT = 5.0
"""Seconds that the end of a group waits for the end of its thread, which uses the store."""


class EndableStore:
    """A store whose calls raise an error after its end. A thread that polls it then ends."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._has_ended = False

    def __getattr__(self, name: str) -> Any:
        """Returns a method of the store.

        Raises:
            TributaryError: the store has ended.
        """
        if self._has_ended:
            raise TributaryError("the group has ended")
        return getattr(self._store, name)

    def end(self) -> None:
        """Ends the store."""
        self._has_ended = True


class GroupJob:
    """The job of a group.

    The group's first large sum opens the job in the background. Until all ranks are in the job, the group's sums use
    gloo. Then the ranks agree on the first sum over the fabric: each rank stops before its next sum and sends the
    number of that sum, and the largest number counts. A rank waits for the others' numbers only, not for their sums, so
    groups with common ranks may start their sums in any order.
    """

    def __init__(
        self, parent: Job, store: Store, rank: int, hosts: Hosts, parent_ranks: list[int], timeout: timedelta
    ) -> None:
        """Prepares the job.

        Args:
            parent: the job with all ranks of the group.
            store: a store that only the group's ranks use.
            rank: this process's rank in the group.
            hosts: the hosts of the group's ranks.
            parent_ranks: for each rank of the group, its rank in the parent.
            timeout: the longest wait for the other ranks.
        """
        self._parent = parent
        self._store: Any = EndableStore(store)
        self._rank = rank
        self._hosts = hosts
        self._parent_ranks = parent_ranks
        self._timeout = timeout
        self._changed = Condition()
        self._sums = 0
        """The number of sums that the group has started."""
        self._thread: Thread | None = None
        self._job: Job | None = None
        self._promise: int | None = None
        """The number of the sum that this rank does not start before the ranks have agreed."""
        self._first: int | None = None
        """The number of the first sum over the fabric."""
        self._is_over = False
        self._error: TributaryError | None = None
        self.reason = TOO_SMALL
        """The reason why sums use gloo."""
        self.name = ""
        """The name of the job, when its ranks have joined it."""
        self.job_ranks: list[int] = []
        """For each rank of the group, its rank in the job."""

    def next_sum(self, nbytes: int) -> Job | None:
        """Returns the job for the group's next sum; `None` if the sum uses gloo.

        All ranks call this for the same sums in the same order, before each sum.

        Raises:
            TributaryError: the ranks did not agree on the first sum over the fabric.
        """
        with self._changed:
            number = self._sums
            self._sums += 1
            if self._thread is None and nbytes >= LARGE and not self._is_over:
                self.reason = OPENING
                self._thread = Thread(target=self._open, name="tributary-group", daemon=True)
                self._thread.start()
            if self._promise is not None and number >= self._promise:
                self._changed.wait_for(lambda: self._first is not None or self._is_over)
            if self._error is not None:
                raise self._error
            return self._job if self._first is not None and number >= self._first else None

    def _open(self) -> None:
        try:
            self._agree()
        except Exception as error:
            with self._changed:
                if not self._is_over:
                    logger.warning("rank %s of a group: its sums use gloo, because %s", self._rank, error)
                self._end()

    def _agree(self) -> None:
        until = time.monotonic() + self._timeout.total_seconds()
        try:
            # The first rank's id counts.
            group = self._store.compare_set("group", "", uuid4().hex).decode()
            name = self._parent.open_group(group, self._parent_ranks)
        except TributaryError as error:
            report_refusal(self._store, f"rank {self._rank}: {error}", len(self._parent_ranks))
            raise
        job, ranks = join_together(self._store, self._rank, self._hosts, self._timeout, name)
        with self._changed:
            if self._is_over:
                job.leave()
                return
            self._job, self.name, self.job_ranks = job, name, ranks
            self._promise = self._sums
        self._store.set(f"promise {self._rank}", str(self._promise))
        try:
            first = max(self._promise_of(other, until) for other in range(len(ranks)))
        except DeadlineError as error:
            # Other ranks may have received all numbers.
            with self._changed:
                self._error = error
            raise
        with self._changed:
            self._first, self.reason = first, ""
            self._changed.notify_all()

    def _promise_of(self, rank: int, until: float) -> int:
        late = f"rank {rank} has joined the job of a group and not sent its next sum"
        return wait_for_number(self._store, f"promise {rank}", until, late)

    def _end(self) -> None:
        self._is_over, self.reason = True, REFUSED
        job, self._job = self._job, None
        self._changed.notify_all()
        if job is not None:
            job.leave()

    def finish(self) -> None:
        """Ends the job, after the last sum of the group.

        Raises:
            TributaryError: sums are in flight.
        """
        with self._changed:
            job = self._job if self._first is not None else None
            if job is not None:
                self._is_over, self._job = True, None
        if job is None:
            self.leave()
        else:
            job.finish()

    def leave(self) -> None:
        """Leaves the job at once, so that the other ranks get errors."""
        with self._changed:
            self._end()
        # The interpreter must not end while the thread is in PyTorch's code.
        self._store.end()
        if self._thread is not None:
            self._thread.join(END_TIMEOUT)
