"""Trains with Hugging Face Accelerate, in the group that the script has made.

accelerated.py BACKEND
"""

import sys

import torch
import torch.distributed as dist
from accelerate import Accelerator
from reporting import network, report, samples
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH, EPOCHS, ACCUMULATED = 16, 5, 2

dist.init_process_group(sys.argv[1])
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATED)
rank, size = dist.get_rank(), dist.get_world_size()
assert (accelerator.num_processes, accelerator.process_index) == (size, rank)
model = network()
model, optimizer, loader = accelerator.prepare(
    model,
    torch.optim.Adam(model.parameters(), lr=0.01),
    DataLoader(TensorDataset(*samples(40 * BATCH, 1)), batch_size=BATCH),
)
losses = []
for _ in range(EPOCHS):
    for inputs, classes in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(inputs), classes)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(accelerator.reduce(loss.detach(), "mean").item())
assert accelerator.gather_for_metrics(torch.tensor([rank])).tolist() == list(range(size))
report(losses, model.parameters())
accelerator.end_training()
