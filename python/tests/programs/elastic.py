"""A training whose ranks are killed and restarted.

Its parameters count the samples that it has learnt from. Each rank is a process that forks the training process, and
forks it again on request.

elastic.py SETTINGS KILL...

SETTINGS    a JSON object with fields of `Settings`
KILL        RANK:STEP:WHERE:BACK, in which STEP is the number of a step since the start
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

from tributary.torch.elastic import Elastic

logging.basicConfig(stream=sys.stderr, level=logging.INFO)
SAMPLES, BATCH = 240, 24
STEPS = SAMPLES // BATCH
RATE = 0.5


@dataclass(frozen=True)
class Settings:
    epochs: int
    workers: int = 0
    """The number of processes that load data."""
    pause: float = 0.0
    """Seconds that a rank sleeps after each step."""
    slow: int | None = None
    """The rank that sleeps much longer."""
    slow_from: int = 0
    """The first step in which that rank sleeps longer."""


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


def train(attempt: int, settings: Settings, kills: list[list[str]]) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(int(os.environ["RANK"]) + 100 * attempt)
    model = Model()
    optimizer = torch.optim.AdamW(model.layers.parameters(), lr=3e-3)
    counting = torch.optim.SGD([model.counts], lr=RATE)
    rates = torch.optim.lr_scheduler.StepLR(optimizer, step_size=STEPS, gamma=0.9)
    training = Elastic(model, optimizer, counting, rates)
    came = [training.epoch, training.step]
    plan = {(int(step), where) for _, step, where, _ in kills} if attempt == 0 else set()
    loader = training.loader(data(), batch_size=BATCH, seed=3, num_workers=settings.workers)
    losses: list[float] = []
    for _ in training.epochs(settings.epochs):
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
            is_slow = training.rank == settings.slow and number >= settings.slow_from
            time.sleep(settings.pause * (20 if is_slow else 1))
    learnt = (-model.counts.detach() * BATCH / RATE).tolist()
    digest = hashlib.sha256(b"".join(value.detach().numpy().tobytes() for value in model.parameters())).hexdigest()
    result: dict[str, Any] = {"rank": training.rank, "members": training.members, "came": came, "digest": digest}
    result |= {"least": min(learnt), "most": max(learnt), "rate": rates.get_last_lr()[0], "steps": rates.last_epoch}
    result |= {"has_state": training.has_state, "is_leader": training.is_leader}
    result |= {"first": sum(losses[:5]) / 5, "last": sum(losses[-5:]) / 5}
    print(json.dumps(result), flush=True)


def main() -> None:
    settings = Settings(**json.loads(sys.argv[1]))
    kills = [kill.split(":") for kill in sys.argv[2:] if kill.split(":")[0] == os.environ["RANK"]]
    for attempt in range(100):
        child = os.fork()
        if child == 0:
            return train(attempt, settings, kills)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != -signal.SIGKILL:
            sys.exit(code)
        if not any(back == "back" for *_, back in kills):
            return None
    return None


main()
