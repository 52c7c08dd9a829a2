"""Forks a process for each rank of a lab, so that only the server imports PyTorch, which takes seconds.

server.py LISTENER    the descriptor of a listening socket

The server prints "ready" after the imports, and ends when its standard input is closed.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import selectors
import socket
import struct
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

IMPORTED = (
    "numpy",
    "torch",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "tributary",
)
"""The modules that programs use and that take long to import. PyTorch imports some of them at the first use."""
NAMESPACES = 0x0002_0000 | 0x0400_0000 | 0x4000_0000
"""Mounts, the host name and the network: CLONE_NEWNS, CLONE_NEWUTS and CLONE_NEWNET of <linux/sched.h>."""


def receive(client: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Returns a client's request and its standard streams."""
    text, streams = b"", []
    while True:
        data, descriptors, _, _ = socket.recv_fds(client, 1 << 16, 3)
        streams += descriptors
        if not data:
            return json.loads(text), streams
        text += data


def move_to(client: socket.socket) -> None:
    """Moves this process into the process group and the namespaces of a client."""
    pid, _, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    os.setpgid(0, os.getpgid(pid))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(os.pidfd_open(pid), NAMESPACES) != 0:
        raise OSError(ctypes.get_errno(), "cannot enter the namespaces of a rank")


def run(request: dict[str, Any], streams: list[int]) -> None:
    """Runs the program of a request as the main module of this process."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    program, *_ = sys.argv = request["command"]
    sys.path[0] = str(Path(program).parent)
    sys.modules["__main__"] = main = ModuleType("__main__")
    main.__file__ = program
    exec(compile(Path(program).read_bytes(), program, "exec", dont_inherit=True), main.__dict__)


def serve(listener: socket.socket) -> None:
    """Forks a process for each client, and sends its wait status to the client. Forked processes return."""
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        running: dict[int, tuple[int, socket.socket]] = {}
        while True:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is not listener:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    pid, client = running.pop(key.fd)
                    _, status = os.waitpid(pid, 0)
                    # The signal that has ended a rank may have ended its client, too.
                    with client, suppress(ConnectionError):
                        client.sendall(struct.pack("i", status))
                    continue
                client, _ = listener.accept()
                pid = os.fork()
                if pid == 0:
                    request, streams = receive(client)
                    move_to(client)
                    for one in (listener, client, *(other for _, other in running.values())):
                        one.close()
                    run(request, streams)
                    return
                ended = os.pidfd_open(pid)
                running[ended] = pid, client
                selector.register(ended, selectors.EVENT_READ)


if __name__ == "__main__":
    # Triton is for GPUs. At the end of a forked process, it would print a long report of frozen objects.
    sys.modules["triton"] = None  # type: ignore[assignment]
    for name in IMPORTED:
        with suppress(ImportError):
            import_module(name)
    # Forked processes share these objects, and end sooner because they need not collect them.
    gc.freeze()
    print("ready", flush=True)
    serve(socket.socket(fileno=int(sys.argv[1])))
