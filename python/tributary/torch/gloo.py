"""Gloo's group, by which goes what the fabric does not do, and its end."""

from __future__ import annotations

from datetime import timedelta
from threading import Event
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import Store

from tributary._native import call_within
from tributary.errors import TributaryError


class Gloo:
    """Gloo's process group beside the fabric's."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        # Typed as Any: the collectives are not in its stub.
        self._group: Any = dist.ProcessGroupGloo(store, rank, size, timeout)
        self._given_up: Any = None
        self._ended = Event()

    @property
    def group(self) -> Any:
        """The group itself. Nobody may keep it: it ends with the last reference.

        Raises:
            TributaryError: it has ended.
        """
        if self._group is None:
            raise TributaryError("this process group has ended: make another one")
        return self._group

    def abort(self) -> None:
        """Gives the group up. Its threads stay: they may have to wait for ranks that are stuck."""
        if self._group is not None:
            self._group.abort()
            self._given_up, self._group = self._group, None
            self._ended.set()

    def end(self, patience: float) -> bool:
        """Ends the group with its threads, and waits for that for so many seconds; returns whether they have ended.

        Called once more, it goes on waiting: threads end with their collectives in flight, for which other ranks may be
        needed, and with the callbacks of these.

        A thread lets go of a collective's tensors after those who wait for it have gone on. If the interpreter is about
        to end just then, the thread aborts the process (pytorch/pytorch#190489).
        """
        if self._group is None:
            return self._ended.wait(patience)
        self._group.shutdown()
        last, self._group = [self._group], None

        def let_go() -> None:
            # Where the group goes, its threads are waited for, without a limit of time.
            last.clear()
            self._ended.set()

        return call_within(let_go, patience)
