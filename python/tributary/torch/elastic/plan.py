"""The assignment of samples to ranks in each step, while ranks join and leave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.utils.data import Sampler


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of each epoch, and their samples.

    Each epoch has an order of all samples, which is cut into steps. Each step is split among the present members. So
    each sample is processed once per epoch, in a step that does not depend on the members. The members need no
    messages to agree on this.

    Args:
        samples: the number of samples.
        batch_size: the largest number of samples of a step, over all ranks. Steps are as equal as possible.
        shuffle: true if each epoch has a different order.
        seed: the seed of the order.

    Raises:
        ValueError: there are no samples, or a step has none.
    """

    samples: int
    batch_size: int
    shuffle: bool
    seed: int

    def __post_init__(self) -> None:
        if self.samples < 1 or self.batch_size < 1:
            raise ValueError(f"{self.samples} samples in steps of {self.batch_size}: both must be at least 1")

    @property
    def steps(self) -> int:
        """The number of steps in an epoch."""
        return -(-self.samples // self.batch_size)

    def order(self, epoch: int) -> list[int]:
        """Returns the order of all samples in an epoch."""
        if not self.shuffle:
            return list(range(self.samples))
        chance = torch.Generator().manual_seed((self.seed << 20) + epoch)
        return torch.randperm(self.samples, generator=chance).tolist()

    def share(self, step: int, place: int, members: int) -> range:
        """Returns the range of one member's samples in a step, as indices in the epoch's order.

        `place` is the index of the member among all members.
        """
        begin, end = self._begin(step), self._begin(step + 1)
        total = end - begin
        return range(begin + total * place // members, begin + total * (place + 1) // members)

    def total(self, step: int) -> int:
        """Returns the number of samples of a step, over all members."""
        return self._begin(step + 1) - self._begin(step)

    def describe(self, epoch: int, step: int) -> str:
        """Describes a step for the names of its all-reduces, which differ if data or settings differ."""
        shuffled = f"shuffled by {self.seed}" if self.shuffle else "in their order"
        return f"epoch {epoch}, step {step} of {self.steps} ({self.samples} samples, {shuffled})"

    def _begin(self, step: int) -> int:
        return self.samples * step // self.steps


class ElasticSampler(Sampler[list[int]]):
    """A `batch_sampler` for a `DataLoader`: one rank's batches of the rest of an epoch.

    It is valid until the members change. `Elastic.loader` then sets the new place.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.set_place(epoch=0, step=0, place=0, members=1)

    def set_place(self, *, epoch: int, step: int, place: int, members: int) -> None:
        """Sets the start of the next iteration: epoch, step, and this rank's index among the members."""
        self._epoch, self._step, self._place, self._members = epoch, step, place, members

    def __iter__(self) -> Iterator[list[int]]:
        order = self.plan.order(self._epoch)
        place, members = self._place, self._members
        for step in range(self._step, self.plan.steps):
            yield [order[sample] for sample in self.plan.share(step, place, members)]

    def __len__(self) -> int:
        return self.plan.steps - self._step
