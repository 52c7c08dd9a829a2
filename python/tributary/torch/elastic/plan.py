"""Which rank processes which samples in each step, while ranks come and go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.utils.data import Sampler


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of each epoch, and their samples.

    Each epoch is an order of all samples, cut into steps, and each step is split among the present members. So whoever
    the members are, each sample is processed once an epoch, in the same step: members agree on all of this without a
    message.

    Args:
        samples: the number of samples.
        batch_size: the most samples of a step, over all ranks; steps are as equal as possible.
        shuffle: whether each epoch has a different order.
        seed: determines the order.

    Raises:
        ValueError: there are no samples, or a step has none.
    """

    samples: int
    batch_size: int
    shuffle: bool
    seed: int

    def __post_init__(self) -> None:
        if self.samples < 1 or self.batch_size < 1:
            raise ValueError(
                f"{self.samples} samples in steps of {self.batch_size}: there is to be one at least of each"
            )

    @property
    def steps(self) -> int:
        """Number of steps in an epoch."""
        return -(-self.samples // self.batch_size)

    def order(self, epoch: int) -> list[int]:
        """The order of all samples in an epoch."""
        if not self.shuffle:
            return list(range(self.samples))
        chance = torch.Generator().manual_seed((self.seed << 20) + epoch)
        return torch.randperm(self.samples, generator=chance).tolist()

    def share(self, step: int, place: int, members: int) -> range:
        """The range in an epoch's order of one member's samples in a step; `place` is its index among the members."""
        begin, end = self._begin(step), self._begin(step + 1)
        total = end - begin
        return range(begin + total * place // members, begin + total * (place + 1) // members)

    def total(self, step: int) -> int:
        """Samples of a step, over all members."""
        return self._begin(step + 1) - self._begin(step)

    def describe(self, epoch: int, step: int) -> str:
        """Describes a step, for names that members compare: other data or settings give a different description."""
        shuffled = f"shuffled by {self.seed}" if self.shuffle else "in their order"
        return f"epoch {epoch}, step {step} of {self.steps} ({self.samples} samples, {shuffled})"

    def _begin(self, step: int) -> int:
        return self.samples * step // self.steps


class ElasticSampler(Sampler[list[int]]):
    """Batches of one rank for a `DataLoader` (as `batch_sampler`): the rest of an epoch, while membership is stable.

    `Elastic.loader` uses it, and starts a new one when it has to.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.set_place(epoch=0, step=0, place=0, members=1)

    def set_place(self, *, epoch: int, step: int, place: int, members: int) -> None:
        """Sets where the next iteration begins: epoch, step, and this rank's index among the members."""
        self._epoch, self._step, self._place, self._members = epoch, step, place, members

    def __iter__(self) -> Iterator[list[int]]:
        order = self.plan.order(self._epoch)
        place, members = self._place, self._members
        for step in range(self._step, self.plan.steps):
            yield [order[sample] for sample in self.plan.share(step, place, members)]

    def __len__(self) -> int:
        return self.plan.steps - self._step
