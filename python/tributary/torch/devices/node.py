"""Adds tensors of the ranks of one host by the accelerator's own backend, such as NCCL.

Each rank then copies only its share of a sum between its device and the host.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import PrefixStore, Store

from tributary.torch.devices.device import Device

NODE_TYPES = frozenset((torch.float32, torch.float16, torch.bfloat16))
"""Element types that the ranks of a host add among themselves. Only the fabric adds the other types exactly."""


class NodeGroup:
    """The ranks of a host. The collectives run in the current stream."""

    def __init__(self, backend: Any) -> None:
        # The type is Any, because the stubs lack the collectives.
        self._backend = backend
        self.rank: int = backend.rank()
        """The number of this rank among the ranks of the host."""
        self.size: int = backend.size()
        """The number of ranks of the host."""

    def reduce_scatter(self, share: torch.Tensor, whole: torch.Tensor) -> None:
        """Adds tensors, and gives each rank its share of the result."""
        self._backend._reduce_scatter_base(share, whole).wait()

    def all_gather(self, whole: torch.Tensor, share: torch.Tensor) -> None:
        """Collects the shares of all ranks."""
        self._backend._allgather_base(whole, share).wait()

    def end(self) -> None:
        """Ends the backend."""
        self._backend.shutdown()


def node_group(store: Store, rank: int, hosts: Sequence[str], timeout: timedelta, device: Device) -> NodeGroup | None:
    """Connects the ranks of this host, each with a device of its own.

    Returns `None` if this is the only rank of the host, if ranks share a device, or if the device has no backend. Then
    each rank copies whole tensors, and the host's agent adds them. With TRIBUTARY_PRECISION=float32 it returns `None`
    because the accelerator's backend rounds each addition.

    Args:
        store: a store that only the ranks of one group use.
        rank: the rank of this process.
        hosts: an id of the host of each rank.
        timeout: the longest wait for another rank.
        device: the device of this rank.
    """
    mates = [other for other, host in enumerate(hosts) if host == hosts[rank]]
    if len(mates) == 1:
        return None
    is_exact = os.environ.get("TRIBUTARY_PRECISION") == "float32"
    store.set(f"device of rank {rank}", "" if is_exact or not device.has_backend else device.unit)
    store.wait([f"device of rank {mate}" for mate in mates], timeout)
    units = {store.get(f"device of rank {mate}") for mate in mates}
    if len(units) < len(mates) or b"" in units:
        return None
    own = PrefixStore(f"ranks {mates[0]} to {mates[-1]}/", store)
    return NodeGroup(device.backend(own, mates.index(rank), len(mates), timeout))
