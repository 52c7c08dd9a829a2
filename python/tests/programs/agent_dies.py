"""The last rank's agent is killed during an all-reduce: the errors on every rank."""

import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist


def agent() -> int:
    """The process that has the socket of this host's agent open."""
    socket = os.environ["TRIBUTARY_SOCKET"]
    for folder in Path("/proc").iterdir():
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"agent" in command and socket.encode() in command:
            return int(folder.name)
    raise RuntimeError(f"no agent has {socket}")


dist.init_process_group("tributary")
dist.all_reduce(torch.ones(1000))
dies = dist.get_rank() == dist.get_world_size() - 1
if dies:
    # Far more than passes through the network before the signal has arrived.
    works = [dist.all_reduce(torch.ones(1 << 24), async_op=True) for _ in range(3)]
    os.kill(agent(), signal.SIGKILL)
else:
    works = [dist.all_reduce(torch.ones(1 << 24), async_op=True) for _ in range(3)]
for work in works:
    try:
        work.get_future().wait()
    except Exception as error:
        print("told:", type(error).__name__, error, flush=True)
os._exit(0)
