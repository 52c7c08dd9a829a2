"""The last rank is busy beyond the group's timeout; the others print the errors of two attempts."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("tributary", timeout=timedelta(seconds=20))
dist.all_reduce(torch.ones(1000))
# A maximum goes by gloo, which waits for the others without success.
is_odd = dist.get_rank() == dist.get_world_size() - 1
operator = dist.ReduceOp.MAX if is_odd else dist.ReduceOp.SUM
for _ in range(1 if is_odd else 2):
    try:
        dist.all_reduce(torch.ones(1000), op=operator)
    except Exception as error:
        print("raised:", type(error).__name__, error, flush=True)
os._exit(0)
