"""Kills the last rank's agent during all-reduces; each rank prints its errors."""

import os
import signal
from datetime import timedelta

import torch
import torch.distributed as dist
from own_agent import own_agent

dist.init_process_group("tributary")
dist.all_reduce(torch.ones(1000))
store = dist.PrefixStore("agent dies", dist.distributed_c10d._get_default_store())
rank, last = dist.get_rank(), dist.get_world_size() - 1
if rank == last - 1:
    # No all-reduce can end before this rank starts it.
    store.wait(["killed"], timedelta(seconds=60))
works = [dist.all_reduce(torch.ones(1 << 20), async_op=True) for _ in range(3)]
if rank < last - 1:
    store.set(f"started by {rank}", "")
elif rank == last:
    store.wait([f"started by {rank}" for rank in range(last - 1)], timedelta(seconds=60))
    os.kill(own_agent(), signal.SIGKILL)
    store.set("killed", "")
for work in works:
    try:
        work.get_future().wait()
    except Exception as error:
        print("raised:", type(error).__name__, error, flush=True)
os._exit(0)
