"""A rank's gradient contains NaN, which is an error on all ranks with TRIBUTARY_NONFINITE=error."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist

os.environ["TRIBUTARY_NONFINITE"] = "error"
dist.init_process_group("tributary")
gradient = torch.ones(100)
if dist.get_rank() == 1:
    gradient[17] = torch.nan
try:
    dist.all_reduce(gradient)
except Exception as error:
    print("raised:", type(error).__name__, error)
work = dist.all_reduce(torch.full((10,), torch.inf), async_op=True)
try:
    work.get_future().wait()
except Exception as error:
    print("raised too:", error)
after = torch.ones(5)
dist.all_reduce(after)
assert (after == dist.get_world_size()).all()
# Rank 0 starts early, and the others start after its wait has timed out.
over_gloo = dist.new_group()
if dist.get_rank() > 0:
    dist.barrier(group=over_gloo)
early = dist.all_reduce(after, async_op=True)
if dist.get_rank() == 0:
    try:
        early.wait(timedelta(milliseconds=50))
    except Exception as error:
        print("raised timeout:", type(error).__name__, error)
    dist.barrier(group=over_gloo)
early.wait()
assert (after == dist.get_world_size() ** 2).all()
dist.destroy_process_group()
