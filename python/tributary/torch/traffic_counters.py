"""Counts the collectives and bytes over the fabric and by gloo, with the reasons."""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from threading import Lock
from time import monotonic

from tributary.errors import TributaryError
from tributary.job import Job

logger = logging.getLogger("tributary")

REPORT_INTERVAL = 1.0
"""Seconds between two reports to the agent."""

QUIET = "TRIBUTARY_QUIET"
"""The environment variable that suppresses reports without problems on standard error."""

TRANSPORTS = ("fabric", "gloo")

Kind = tuple[str, str, str]
"""The transport ("fabric" or "gloo"), the collective, and the reason for gloo."""


def announce(rank: int, text: str) -> None:
    """Reports the progress of a run: to the log if its level is INFO, or else to rank 0's standard error."""
    if logger.isEnabledFor(logging.INFO):
        logger.info("rank %s: %s", rank, text)
    elif rank == 0 and not os.environ.get(QUIET):
        print(f"tributary: {text}", file=sys.stderr, flush=True)


class TrafficCounters:
    """Counts a process's collectives and bytes by transport. The host's agent exports them as metrics."""

    def __init__(self, job: Job | None) -> None:
        self.calls: Counter[str] = Counter()
        """The number of collectives by transport."""
        self._job = job
        self._bytes: Counter[Kind] = Counter()
        self._lock = Lock()
        self._unreported: dict[Kind, tuple[int, int]] = {}
        self._reported_at = -REPORT_INTERVAL

    def count_fabric(self, collective: str, size: int) -> None:
        """Counts a collective of `size` bytes over the fabric."""
        self._count(("fabric", collective, ""), size)

    def count_gloo(self, collective: str, size: int, reason: str) -> None:
        """Counts a collective of `size` bytes by gloo, with the reason why it does not go over the fabric."""
        kind = ("gloo", collective, reason)
        if kind not in self._bytes:
            logger.debug("%s goes by gloo: %s", collective, reason)
        self._count(kind, size)

    def _count(self, kind: Kind, size: int) -> None:
        now = monotonic()
        with self._lock:
            self.calls[kind[0]] += 1
            self._bytes[kind] += size
            calls, before = self._unreported.get(kind, (0, 0))
            self._unreported[kind] = (calls + 1, before + size)
            is_time = now - self._reported_at >= REPORT_INTERVAL
            if is_time:
                self._reported_at = now
        if is_time:
            self.report(waits=False)

    def report(self, *, waits: bool) -> None:
        """Reports new counts to the agent; with `waits`, waits for its answer. Errors are only logged."""
        if self._job is None:
            return
        with self._lock:
            unreported, self._unreported = self._unreported, {}
        counts = [
            (transport == "fabric", collective, reason, calls, size)
            for (transport, collective, reason), (calls, size) in unreported.items()
        ]
        try:
            self._job.count_collectives(counts, waits=waits)
        except (TributaryError, TimeoutError) as error:
            logger.debug("the agent has not counted collectives: %s", error)

    def summary(self) -> str:
        """Returns all counts as text for users."""
        sizes = {
            transport: sum(size for kind, size in self._bytes.items() if kind[0] == transport) / 1e6
            for transport in TRANSPORTS
        }
        lines = [
            f"{self.calls['fabric']} collectives over the fabric ({sizes['fabric']:.1f} MB), "
            f"{self.calls['gloo']} by gloo ({sizes['gloo']:.1f} MB)"
        ]
        for (transport, collective, reason), size in sorted(self._bytes.items()):
            lines.append(f"  {transport}: {collective}, {size / 1e6:.1f} MB" + (f": {reason}" if reason else ""))
        return "\n".join(lines)
