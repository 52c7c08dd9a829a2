"""The common code of the examples: options, and a training loop that records the loss curve."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

WARM_UP = 3
"""The number of first steps that are not timed, in which DDP arranges buckets and allocates memory."""

HOW = {
    "ddp": "DistributedDataParallel",
    "points": "TimePoints: gradients are sent at time points, not in buckets",
    "bf16": "DistributedDataParallel of a model in bfloat16",
    "hook": "DistributedDataParallel with a comm hook that sends bfloat16",
    "zero": "DistributedDataParallel and ZeroRedundancyOptimizer",
    "sharded": "fully_shard (FSDP2)",
}


def options(description: str | None) -> argparse.ArgumentParser:
    """Makes a parser with the options of all examples."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--backend", default="tributary", help="backend of torch.distributed [default: %(default)s]")
    parser.add_argument("--elastic", action="store_true", help="continue when ranks die, and let them join again")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32, help="samples of each rank in a step [default: %(default)s]")
    parser.add_argument("--bucket", type=float, default=25, help="MiB of gradients in a bucket [default: 25]")
    parser.add_argument("--how", choices=HOW, default="ddp", help="way to train [default: %(default)s]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the curve of rank 0")
    return parser


def train(
    chosen: argparse.Namespace,
    make_model: Callable[[], nn.Module],
    learn: Dataset[tuple[torch.Tensor, torch.Tensor]],
    check: Dataset[tuple[torch.Tensor, torch.Tensor]],
    rate: float,
) -> None:
    """Trains on all ranks, which torchrun or `tributary lab run` has started."""
    if chosen.elastic:
        # Only this module needs the package `tributary`.
        import elastic

        elastic.train(chosen, make_model, learn, check, rate)
        return
    torch.set_num_threads(1)
    dist.init_process_group(chosen.backend)
    rank = dist.get_rank()
    torch.manual_seed(chosen.seed)
    model, optimizer = parallel(make_model(), chosen, rate)
    kind = torch.bfloat16 if chosen.how == "bf16" else torch.float32
    sampler = DistributedSampler(learn, seed=chosen.seed, drop_last=True)
    loader = DataLoader(learn, batch_size=chosen.batch, sampler=sampler, drop_last=True)

    losses, steps, accuracies = [], [], []
    for epoch in range(chosen.epochs):
        sampler.set_epoch(epoch)
        model.train()
        own = []
        for inputs, targets in loader:
            began = time.perf_counter()
            scores = model(inputs.to(kind) if inputs.is_floating_point() else inputs).float()
            loss = nn.functional.cross_entropy(scores.flatten(0, -2), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.append(time.perf_counter() - began)
            own.append(loss.detach())
        mean = torch.stack(own)
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        losses += mean.tolist()
        accuracies.append(accuracy(model, check, chosen.batch, kind))
        if rank == 0:
            step = median(steps[WARM_UP:] or steps)
            print(f"epoch {epoch + 1}: loss {mean.mean():.4f}, accuracy {accuracies[-1]:.1%}, step {step * 1e3:.1f} ms")
    if rank == 0 and chosen.json:
        parameters = sum(parameter.numel() for parameter in model.parameters())
        curve = {"backend": chosen.backend, "how": chosen.how, "ranks": dist.get_world_size(), "parameters": parameters}
        curve |= {"losses": losses, "accuracies": accuracies, "steps": steps[WARM_UP:]}
        chosen.json.write_text(json.dumps(curve), encoding="utf-8")
    dist.destroy_process_group()
    if chosen.backend == "gloo" and chosen.how == "sharded":
        # PyTorch's caches keep the group and its threads after its end. A thread that frees a tensor while the
        # interpreter ends aborts the process (pytorch/pytorch#190489), often on a busy machine: so exit without that.
        sys.stdout.flush()
        os._exit(0)


def parallel(model: nn.Module, chosen: argparse.Namespace, rate: float) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Returns the model, with gradients that are averaged over all ranks, and its optimiser."""
    if chosen.how == "sharded":
        for part in model.modules():
            if isinstance(part, nn.TransformerEncoderLayer):
                fully_shard(part)
        fully_shard(model)
    elif chosen.how == "points":
        from tributary.torch.timepoints import TimePoints

        model = TimePoints(model)
    else:
        model = DistributedDataParallel(
            model.bfloat16() if chosen.how == "bf16" else model, bucket_cap_mb=chosen.bucket
        )
        if chosen.how == "hook":
            model.register_comm_hook(None, bf16_compress_hook)
    if chosen.how == "zero":
        return model, ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=rate)
    return model, torch.optim.AdamW(model.parameters(), lr=rate)


@torch.no_grad()
def accuracy(
    model: nn.Module, data: Dataset[tuple[torch.Tensor, torch.Tensor]], batch: int, kind: torch.dtype
) -> float:
    """Returns the share of the samples that the model predicts correctly. Each rank checks a part of them."""
    model.eval()
    sampler = DistributedSampler(data, shuffle=False)
    right = total = 0
    for inputs, targets in DataLoader(data, batch_size=batch, sampler=sampler):
        inputs = inputs.to(kind) if inputs.is_floating_point() else inputs
        right += int((model(inputs).argmax(-1) == targets).sum())
        total += targets.numel()
    counts = torch.tensor([right, total])
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])
