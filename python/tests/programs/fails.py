"""A rank whose gradient is not a number: what every rank is told, as it would be in a training."""

import torch
import torch.distributed as dist

dist.init_process_group("tributary")
gradient = torch.ones(100)
if dist.get_rank() == 1:
    gradient[17] = torch.nan
try:
    dist.all_reduce(gradient)
except Exception as error:
    print("told:", type(error).__name__, error)
work = dist.all_reduce(torch.full((10,), torch.inf), async_op=True)
try:
    work.get_future().wait()
except Exception as error:
    print("told too:", error)
after = torch.ones(5)
dist.all_reduce(after)
assert (after == dist.get_world_size()).all()
dist.destroy_process_group()
