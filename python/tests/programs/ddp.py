"""A script for PyTorch as people write them: nothing in it is Tributary's but the name that it is given."""

import hashlib
import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group(sys.argv[1])
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
parallel = DistributedDataParallel(model, bucket_cap_mb=0.005)
optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
torch.manual_seed(100 + rank)
losses = []
for _ in range(10):
    data = torch.randn(16, 32)
    loss = nn.functional.cross_entropy(parallel(data), (data[:, :4]).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    losses.append(float(mean))
content = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
digests: list[str | None] = [None] * size
dist.all_gather_object(digests, hashlib.sha256(content).hexdigest())
# Another group, another operator, another type: gloo's.
highest = torch.tensor([rank], dtype=torch.int64)
dist.all_reduce(highest, op=dist.ReduceOp.MAX)
everyone = torch.ones(3)
dist.all_reduce(everyone, group=dist.new_group(list(range(size))))
dist.barrier()
if rank == 0:
    print(json.dumps({"losses": losses, "digests": digests, "highest": int(highest), "all": everyone.tolist()}))
dist.destroy_process_group()
