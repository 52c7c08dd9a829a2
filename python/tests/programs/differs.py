"""The last rank makes a different call than the others; each rank prints its errors.

The argument is the kind of difference: `size`, `empty`, `type`, `operator`, `call`, `order`, or `ddp`, in which the
others use a `DistributedDataParallel`.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tributary


def differ(what: str, is_odd: bool) -> None:
    match what:
        case "size":
            dist.all_reduce(torch.ones(999 if is_odd else 1000))
        case "empty":
            dist.all_reduce(torch.ones(0 if is_odd else 1000))
        case "type":
            kind = torch.bfloat16 if is_odd else torch.float32
            dist.all_reduce(torch.ones(1000, dtype=kind), async_op=True).get_future().wait()
        case "operator":
            dist.all_reduce(torch.ones(1000), op=dist.ReduceOp.AVG if is_odd else dist.ReduceOp.SUM)
        case "call":
            # Both calls begin with the same slice.
            if is_odd:
                dist.all_reduce(torch.ones(1, dtype=torch.int32))
            else:
                dist.barrier()
        case "ddp":
            model = DistributedDataParallel(torch.nn.Linear(10, 10))
            if is_odd:
                dist.all_reduce(torch.ones(7))
            model(torch.ones(2, 10)).sum().backward()
        case "order":
            with tributary.join(deadline=60) as job:
                names = ["weight", "bias"]
                under_way = [job.start(job.empty(50), name=name) for name in (names[::-1] if is_odd else names)]
                for reduction in under_way:
                    reduction.result()


what = sys.argv[1]
if what == "order":
    is_odd = os.environ["RANK"] == "1"
else:
    dist.init_process_group("tributary")
    is_odd = dist.get_rank() == dist.get_world_size() - 1
    dist.all_reduce(torch.ones(10))
try:
    differ(what, is_odd)
except Exception as error:
    print("raised:", type(error).__name__, error, flush=True)
try:
    dist.all_reduce(torch.ones(10))
except Exception as error:
    print("raised later:", type(error).__name__, error, flush=True)
os._exit(0)
