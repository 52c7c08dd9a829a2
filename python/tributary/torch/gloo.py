"""Gloo's group, by which goes what the fabric does not do, and its end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import Store

from tributary._native import call_within
from tributary.errors import TributaryError

PATIENCE = 5.0
"""Seconds for which an end waits for collectives in flight, whose other ranks may never take part."""


class Gloo:
    """Gloo's process group beside the fabric's."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        # Typed as Any: the collectives are not in its stub.
        self._group: Any = dist.ProcessGroupGloo(store, rank, size, timeout)
        self._given_up: Any = None

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

    def end(self) -> bool:
        """Ends the group and its threads; returns whether they have ended.

        A thread lets go of a collective's tensors after those who wait for it have gone on. If the interpreter is about
        to end just then, the thread aborts the process (pytorch/pytorch#190489).
        """
        if self._group is None:
            return True
        self._group.shutdown()
        last, self._group = [self._group], None
        # Where the group goes, its threads are waited for, without a limit of time.
        return call_within(last.clear, PATIENCE)
