"""Data for the frameworks' programs, and a report of losses and parameters."""

import hashlib
import json
import logging
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn

FEATURES, CLASSES = 31, 5

# The backend logs the bytes over the fabric and by gloo.
logging.basicConfig(format="%(message)s")
logging.getLogger("tributary").setLevel(logging.INFO)


def network() -> nn.Module:
    """Makes a model in which no tensor's number of elements is divisible by 2 or 4."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(FEATURES, 37), nn.ReLU(), nn.Linear(37, 37), nn.ReLU(), nn.Linear(37, CLASSES))


def samples(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Makes inputs and their classes."""
    inputs = torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(seed))
    return inputs, inputs[:, :CLASSES].argmax(1)


def report(losses: list[float], parameters: Iterable[torch.Tensor], **more: object) -> None:
    """Prints on rank 0 the mean of the ranks' losses, and true if all parameters have the same bits."""
    content = b"".join(parameter.detach().float().numpy().tobytes() for parameter in parameters)
    gathered: list[tuple[list[float], str] | None] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, (losses, hashlib.sha256(content).hexdigest()))
    if dist.get_rank() == 0:
        means = torch.tensor([losses for losses, _ in gathered], dtype=torch.float64).mean(0).tolist()
        same = len({digest for _, digest in gathered}) == 1
        print(json.dumps({"losses": means, "same": same, "backend": dist.get_backend(), **more}), flush=True)
