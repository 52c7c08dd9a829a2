"""The group of gloo, for the collectives that the fabric does not support."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import socket
import struct
from contextlib import suppress
from datetime import timedelta
from threading import Event
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import Store

from tributary._native import call_within
from tributary.errors import TributaryError

INTERFACE = "GLOO_SOCKET_IFNAME"
"""The environment variable with the names of the interfaces that gloo uses."""


def unreachable(size: int) -> str | None:
    """Returns the reason why gloo cannot connect this host to the hosts of `size` ranks; `None` if it can.

    gloo listens on the address of the interface in the variable, or else on the address of this host's name.
    """
    if size == 1:
        return None
    named = [name for name in os.environ.get(INTERFACE, "").split(",") if name]
    there = [name for _, name in socket.if_nameindex()]
    missing = [name for name in named if name not in there]
    if missing:
        return f"{INTERFACE} names {', '.join(missing)}, and this host has {', '.join(there)}: set it to one of them"
    if named:
        return None
    host = socket.gethostname()
    address = next(filter(_is_own, _addresses(host)), "127.0.0.1")
    if not ipaddress.ip_address(address).is_loopback:
        return None
    others = [name for name in there if name != "lo"]
    return (
        f"this host's name, {host}, resolves to {address} on the interface lo, which other hosts cannot reach: set "
        f"{INTERFACE} to the interface of the hosts' network ({_way_to_first() or ', '.join(others)}), or correct the "
        "name's address in /etc/hosts"
    )


def _addresses(host: str) -> list[str]:
    try:
        return [str(info[4][0]) for info in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)]
    except OSError:
        return []


def _is_own(address: str) -> bool:
    """Returns true if a socket can be bound to the address."""
    kind = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(kind, socket.SOCK_STREAM) as one:
        try:
            one.bind((address, 0))
        except OSError:
            return False
    return True


def _way_to_first() -> str | None:
    """Returns the interface by which this host reaches rank 0's host; `None` if it is not known."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            # This sends nothing, and only selects the source address.
            way.connect((os.environ["MASTER_ADDR"], 9))
            source = way.getsockname()[0]
            for _, name in socket.if_nameindex():
                with suppress(OSError):
                    request = struct.pack("256s", name.encode())
                    own = fcntl.ioctl(way.fileno(), GET_ADDRESS, request)[20:24]
                    if name != "lo" and socket.inet_ntoa(own) == source:
                        return name
    except (OSError, KeyError):
        return None
    return None


GET_ADDRESS = 0x8915
"""The request SIOCGIFADDR, which returns an interface's IPv4 address at byte 20."""


class Gloo:
    """The process group of gloo that belongs to a group of the fabric's backend."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        # The type is Any, because its stub lacks the collectives.
        self._group: Any = dist.ProcessGroupGloo(store, rank, size, timeout)
        self._aborted: Any = None
        self._ended = Event()

    @property
    def group(self) -> Any:
        """The group itself. Callers must not keep it, because it ends with the last reference.

        Raises:
            TributaryError: the group has ended.
        """
        if self._group is None:
            raise TributaryError("this process group has ended: make another one")
        return self._group

    def abort(self) -> None:
        """Aborts the group. Its threads stay, because they may wait for ranks that are stuck."""
        if self._group is not None:
            self._group.abort()
            self._aborted, self._group = self._group, None
            self._ended.set()

    def end(self, patience: float) -> bool:
        """Ends the group, and waits up to `patience` seconds for its threads; returns true if they have ended.

        A second call continues to wait. A thread ends after its collectives in flight, which may need other ranks, and
        after their callbacks.

        A thread releases the tensors of a collective after the callers that wait for it continue. If the interpreter
        ends at that moment, the thread aborts the process (pytorch/pytorch#190489).
        """
        if self._group is None:
            return self._ended.wait(patience)
        self._group.shutdown()
        last, self._group = [self._group], None

        def let_go() -> None:
            # The destructor of the group waits for its threads, without a time limit.
            last.clear()
            self._ended.set()

        return call_within(let_go, patience)
