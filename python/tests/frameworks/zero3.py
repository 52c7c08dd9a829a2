"""Trains with DeepSpeed's ZeRO stage 3 and Adam.

zero3.py BACKEND
"""

import sys

import deepspeed
import torch
import torch.distributed as dist
from reporting import network, report, samples
from torch import nn

STEPS = 200

deepspeed.init_distributed(dist_backend=sys.argv[1])
rank, size = dist.get_rank(), dist.get_world_size()
model = network()
engine, *_ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.Adam(model.parameters(), lr=0.001),
    config={
        "train_micro_batch_size_per_gpu": 16,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        # No parameter is kept whole: biases are padded and scattered, too.
        "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
    },
)
losses = []
for step in range(STEPS):
    inputs, classes = samples(16, size * step + rank)
    loss = nn.functional.cross_entropy(engine(inputs), classes)
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
with deepspeed.zero.GatheredParameters(list(model.parameters())):
    report(losses, model.parameters())
dist.destroy_process_group()
