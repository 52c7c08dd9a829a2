"""Who processes which samples in which step, while ranks come and go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.utils.data import Sampler


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of each epoch, and their samples.

    Each epoch is an order of all samples, cut into steps, and each step is split among those who are in. So whoever
    is in, each sample is processed once an epoch, in the same step: members agree on all of it without a message.

    Args:
        samples: how many there are.
        batch_size: samples of a step, over all ranks. Steps have so many at most, and as equal numbers as can be.
        shuffle: whether each epoch has another order.
        seed: what chooses it.

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
        """Steps of an epoch."""
        return -(-self.samples // self.batch_size)

    def order(self, epoch: int) -> list[int]:
        """All samples, as an epoch has them."""
        if not self.shuffle:
            return list(range(self.samples))
        chance = torch.Generator().manual_seed((self.seed << 20) + epoch)
        return torch.randperm(self.samples, generator=chance).tolist()

    def share(self, step: int, place: int, members: int) -> range:
        """Where in an epoch's order the samples are that one of so many members processes in a step."""
        begin, end = self._begin(step), self._begin(step + 1)
        total = end - begin
        return range(begin + total * place // members, begin + total * (place + 1) // members)

    def total(self, step: int) -> int:
        """Samples of a step, over all members."""
        return self._begin(step + 1) - self._begin(step)

    def describe(self, epoch: int, step: int) -> str:
        """A step, for names that members compare: other data or settings make it another one."""
        shuffled = f"shuffled by {self.seed}" if self.shuffle else "in their order"
        return f"epoch {epoch}, step {step} of {self.steps} ({self.samples} samples, {shuffled})"

    def _begin(self, step: int) -> int:
        return self.samples * step // self.steps


class ElasticSampler(Sampler[list[int]]):
    """Batches of one rank for a `DataLoader` (as `batch_sampler`): of the rest of an epoch, while nobody comes or goes.

    `Elastic.loader` uses it, and begins anew where it has to.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.set_place(epoch=0, step=0, place=0, members=1)

    def set_place(self, *, epoch: int, step: int, place: int, members: int) -> None:
        """Where the next iteration begins: step and epoch, and which of so many members this is."""
        self._epoch, self._step, self._place, self._members = epoch, step, place, members

    def __iter__(self) -> Iterator[list[int]]:
        order = self.plan.order(self._epoch)
        place, members = self._place, self._members
        for step in range(self._step, self.plan.steps):
            yield [order[sample] for sample in self.plan.share(step, place, members)]

    def __len__(self) -> int:
        return self.plan.steps - self._step
