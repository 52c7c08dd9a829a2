"""A training whose ranks are killed and restarted.

Its parameters count the samples that it has learnt from. Each rank is a process that starts the training process, and
restarts it on request. The arguments are `RANK:STEP:WHERE:BACK` for each kill; STEP is the number of a step since the
start. From step SLOW_FROM on, rank SLOW is much slower than the others.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

from tributary.torch.elastic import Elastic

logging.basicConfig(stream=sys.stderr, level=logging.INFO)
SAMPLES, BATCH = 240, 24
STEPS = SAMPLES // BATCH
EPOCHS = int(os.environ.get("EPOCHS", "6"))
RATE = 0.5


class Model(nn.Module):
    """A small network, with a count for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 300), nn.Tanh(), nn.Linear(300, 1000), nn.Tanh(), nn.Linear(1000, 1))
        self.counts = nn.Parameter(torch.zeros(SAMPLES))
        self.in_backward: Callable[[], None] = lambda: None

    def forward(self, inputs: torch.Tensor, numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.layers[1](self.layers[0](inputs))
        if hidden.requires_grad:
            hidden.register_hook(lambda _: self.in_backward())
        return self.layers[2:](hidden).squeeze(1), self.counts[numbers]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def data() -> TensorDataset:
    chance = torch.Generator().manual_seed(5)
    inputs = torch.randn(SAMPLES, 8, generator=chance)
    return TensorDataset(inputs, inputs.sin().sum(1), torch.arange(SAMPLES))


def train(attempt: int, kills: list[list[str]]) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(int(os.environ["RANK"]) + 100 * attempt)
    model = Model()
    optimizer = torch.optim.AdamW(model.layers.parameters(), lr=3e-3)
    counting = torch.optim.SGD([model.counts], lr=RATE)
    rates = torch.optim.lr_scheduler.StepLR(optimizer, step_size=STEPS, gamma=0.9)
    training = Elastic(model, optimizer, counting, rates)
    came = [training.epoch, training.step]
    plan = {(int(step), where) for _, step, where, _ in kills} if attempt == 0 else set()
    loader = training.loader(data(), batch_size=BATCH, seed=3, num_workers=int(os.environ.get("WORKERS", "0")))
    losses: list[float] = []
    pause, slow = float(os.environ.get("PAUSE", "0")), int(os.environ.get("SLOW", "-1"))
    slow_from = int(os.environ.get("SLOW_FROM", "0"))
    for _ in training.epochs(EPOCHS):
        for inputs, targets, numbers in loader:
            number = training.epoch * STEPS + training.step
            model.in_backward = die if (number, "backward") in plan else lambda: None
            outputs, counts = model(inputs, numbers)
            loss = nn.functional.mse_loss(outputs, targets)
            optimizer.zero_grad()
            counting.zero_grad()
            (loss + counts.mean()).backward()
            if (number, "after") in plan:
                die()
            optimizer.step()
            counting.step()
            rates.step()
            losses.append(loss.item())
            time.sleep(pause * (20 if training.rank == slow and number >= slow_from else 1))
    learnt = (-model.counts.detach() * BATCH / RATE).tolist()
    digest = hashlib.sha256(b"".join(value.detach().numpy().tobytes() for value in model.parameters())).hexdigest()
    result: dict[str, Any] = {"rank": training.rank, "members": training.members, "came": came, "digest": digest}
    result |= {"least": min(learnt), "most": max(learnt), "rate": rates.get_last_lr()[0], "steps": rates.last_epoch}
    result |= {"has_state": training.has_state, "is_leader": training.is_leader}
    result |= {"first": sum(losses[:5]) / 5, "last": sum(losses[-5:]) / 5}
    print(json.dumps(result), flush=True)


def main() -> None:
    kills = [kill.split(":") for kill in sys.argv[1:] if kill.split(":")[0] == os.environ["RANK"]]
    if "ATTEMPT" in os.environ:
        return train(int(os.environ["ATTEMPT"]), kills)
    for attempt in range(100):
        code = subprocess.run([sys.executable, *sys.argv], env=os.environ | {"ATTEMPT": str(attempt)}).returncode
        if code != -signal.SIGKILL:
            sys.exit(code)
        if not any(back == "back" for *_, back in kills) and "ALWAYS_BACK" not in os.environ:
            return None
    return None


main()
