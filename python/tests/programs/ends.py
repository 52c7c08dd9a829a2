"""The first rank ends its group in an all-reduce that the others never start, and prints the error.

With the argument "handled" it ends the group while it handles another exception.
"""

import logging
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

logging.basicConfig(stream=sys.stdout, format="%(levelname)s: %(message)s")
dist.init_process_group("tributary")
dist.all_reduce(torch.ones(10))
dist.distributed_c10d._set_pg_timeout(timedelta(seconds=5))
store = dist.PrefixStore("ends", dist.distributed_c10d._get_default_store())


def end() -> None:
    try:
        dist.destroy_process_group()
    except Exception as error:
        print("raised:", type(error).__name__, error, flush=True)
        dist.destroy_process_group()
    print("destroyed:", not dist.is_initialized(), flush=True)


common = torch.ones(1000)
dist.all_reduce(common, async_op=True)
if dist.get_rank() > 0:
    # While the first rank waits, its host is a member that could start the next all-reduce.
    store.wait(["over"], timedelta(seconds=60))
    end()
    store.set("all over", "")
else:
    dist.all_reduce(torch.ones(2000), async_op=True)
    if "handled" in sys.argv:
        try:
            raise KeyError("the script's own")
        except KeyError:
            end()
    else:
        end()
    print("summed to:", common[0].item(), flush=True)
    store.set("over", "")
    store.wait(["all over"], timedelta(seconds=60))
