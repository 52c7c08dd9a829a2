"""The examples' elastic training (`--elastic`), which continues when ranks are killed or join again."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from tributary.torch.elastic import Elastic

Data = Dataset[tuple[torch.Tensor, torch.Tensor]]


def train(
    chosen: argparse.Namespace, make_model: Callable[[], nn.Module], learn: Data, check: Data, rate: float
) -> None:
    """Trains on all present ranks of the job."""
    torch.set_num_threads(1)
    torch.manual_seed(chosen.seed)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    training = Elastic(model, optimizer)
    # The size of a step's batch does not depend on the number of ranks, so the learning rate need not change.
    batch = chosen.batch * int(os.environ.get("WORLD_SIZE", "1"))
    loader = training.loader(learn, batch_size=batch, seed=chosen.seed)
    for epoch in training.epochs(chosen.epochs):
        model.train()
        losses, steps = [], []
        for inputs, targets in loader:
            began = time.perf_counter()
            loss = nn.functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.append(time.perf_counter() - began)
            losses.append(loss.item())
        if training.is_leader and losses:
            print(
                f"epoch {epoch + 1}: rank {training.rank}'s loss {sum(losses) / len(losses):.4f}, "
                f"accuracy {accuracy(model, check, chosen.batch):.1%}, step {median(steps) * 1e3:.1f} ms, "
                f"ranks {', '.join(map(str, training.members))}",
                flush=True,
            )


@torch.no_grad()
def accuracy(model: nn.Module, data: Data, batch: int) -> float:
    """Returns the share of the samples that the model predicts correctly."""
    model.eval()
    right = total = 0
    for inputs, targets in DataLoader(data, batch_size=batch):
        right += int((model(inputs).argmax(-1) == targets).sum())
        total += targets.numel()
    return right / total
