"""The process group that scripts get. Its works support all methods of `torch.distributed`.

If a backend in Python returns a work, PyTorch gives the script another object, which has only the work's `wait` and
`get_future`. The `is_completed` of this object is never true, and it lacks results and sources. A process group in
Python can return the work itself. Its collectives call a group of the base class, which calls the backend.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import timedelta
from threading import local
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, Work

from tributary.torch.layouts import Plain
from tributary.torch.memory_ranges import tensors_of
from tributary.torch.work import FinishingWork, PythonWork


class _Made(local):
    """The works that backends have made in a thread."""

    def __init__(self) -> None:
        self.work: Work | None = None
        """The last work, until the group that has called the backend takes it."""
        self.kept: deque[PythonWork] = deque(maxlen=KEPT)
        """The works that are kept alive.

        C++ code may hold a work that a script has passed to it, such as the reducer of `DistributedDataParallel` for
        uneven inputs. This does not keep the Python part alive. Without it, the work's `wait` never returns.
        """


KEPT = 64
"""The largest number of works that a thread keeps although no caller has waited for them."""

_made = _Made()

NAME = "tributary"


def made(work: PythonWork) -> PythonWork:
    """Keeps a work that a backend has made, for the group that has called the backend, and for C++ code.

    For C++ code, it stays until a caller has waited for it and this thread makes another work.
    """
    while _made.kept and _made.kept[0].is_observed:
        _made.kept.popleft()
    _made.kept.append(work)
    _made.work = work
    return work


class Group(dist.ProcessGroup):
    """A process group with one backend for all devices."""

    def __init__(self, store: Store, backend: Any, used: Any, split: Callable[..., Group]) -> None:
        """Makes a group.

        Args:
            store: the store that its ranks share.
            backend: the fabric's backend.
            used: the backend that the group calls: `backend`, or a wrapper that checks calls first.
            split: makes a group of some of the ranks, from a store, a rank, the number of ranks and a timeout.
        """
        rank_and_size = backend.rank(), backend.size()
        super().__init__(store, *rank_and_size)
        # The base class's methods hold the interpreter's lock if they are called on a subclass, which can deadlock:
        # gloo's threads destroy works under a lock of gloo, and while a mode of PyTorch is active a work refers to
        # Python. So the collectives are called on an object of the base class.
        self._base = dist.ProcessGroup(store, *rank_and_size)
        self.backend = backend
        self._store = store
        self._split = split
        custom = dist.ProcessGroup.BackendType.CUSTOM
        accelerator = torch.accelerator.current_accelerator()
        for group in (self, self._base):
            group._set_default_backend(custom)
            for device in {"cpu", accelerator.type if accelerator else "cpu"}:
                group._register_backend(torch.device(device), custom, used)

    def getBackendName(self) -> str:  # noqa: N802
        """The backend's name in `torch.distributed`."""
        return NAME

    def split_group(
        self,
        new_ranks: list[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: Any = None,
        group_desc: str | None = None,
        device_types: Any = None,  # noqa: ARG002
    ) -> Group | None:
        """Makes a group of some of the ranks; returns `None` on all other ranks."""
        ranks = sorted(new_ranks)
        if self.rank() not in ranks:
            return None
        name: Any = group_name or f"{self.group_name}:split:{'-'.join(map(str, ranks))}"
        limit = timeout or getattr(opts, "_timeout", None) or self.backend.options._timeout
        group = self._split(PrefixStore(f"{name}/", self._store), ranks.index(self.rank()), len(ranks), limit)
        group._set_group_name(name)
        group._set_group_desc(group_desc or f"{self.group_desc}:split")
        return group


def _collective(name: str, *, writes: bool = True) -> Callable[..., Any]:
    base = getattr(dist.ProcessGroup, name)

    def call(self: Group, *args: Any, **options: Any) -> Any:
        plain = Plain(contiguous=False)
        if any(tensor.is_neg() or tensor.is_conj() for tensor in tensors_of(args)):
            # All collectives have their results in the first argument.
            args = tuple(plain.of(each, is_written=writes and index == 0) for index, each in enumerate(args))
        _made.work = None
        work = base(self._base, *args, **options)
        made, _made.work = _made.work, None
        work = made or work
        if work is None or not plain.copies:
            return work
        tensors = [tensor for tensor, _ in plain.copies]
        return FinishingWork(work, tensors, plain.copy_back, is_point_to_point=name.startswith("recv"))

    call.__name__ = name
    call.__doc__ = base.__doc__
    return call


COLLECTIVES = (
    "_end_coalescing",
    "allgather",
    "allgather_coalesced",
    "allreduce",
    "allreduce_coalesced",
    "alltoall",
    "barrier",
    "broadcast",
    "gather",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
)
"""The collectives of a process group."""
RENAMED = {
    "all_gather_single": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
    "gather_single": "gather_into_tensor",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
}
"""Collectives with their names in earlier versions of PyTorch, which lack the new names.

A group must not define both, because PyTorch's base class treats one name as an override of the other.
"""

OVERRIDDEN = [
    name
    for name in (*COLLECTIVES, *(new if hasattr(dist.ProcessGroup, new) else old for new, old in RENAMED.items()))
    if hasattr(dist.ProcessGroup, name)
]
"""The collectives that return the backend's own work."""

for _name in OVERRIDDEN:
    setattr(Group, _name, _collective(_name, writes=_name != "send"))
