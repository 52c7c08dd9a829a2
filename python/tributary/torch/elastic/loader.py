"""Batches for the present members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader, Dataset

from tributary.torch.elastic.plan import ElasticSampler, Plan

if TYPE_CHECKING:
    from tributary.torch.elastic.training import Elastic


class ElasticLoader:
    """This rank's batches of the rest of the current epoch. Each loop over it covers one epoch.

    When ranks have left or joined, it starts a new loop over the `DataLoader` at the next step. The batches that the
    loader's workers have prefetched are discarded.
    """

    def __init__(self, training: Elastic, dataset: Dataset[Any], plan: Plan, options: dict[str, Any]) -> None:
        self._training = training
        self._sampler = ElasticSampler(plan)
        self._loader: DataLoader[Any] = DataLoader(dataset, batch_sampler=self._sampler, **options)

    def __len__(self) -> int:
        """Number of steps left in the epoch."""
        return self._sampler.plan.steps - self._training.step

    def __iter__(self) -> Iterator[Any]:
        training, plan = self._training, self._sampler.plan
        epoch = training.epoch
        while training.settle() and training.epoch == epoch:
            place, members = training.members.index(training.rank), len(training.members)
            first = training.step
            self._sampler.set_place(epoch=epoch, step=first, place=place, members=members)
            for step, batch in enumerate(self._loader, first):
                training.begin_step(plan, step, len(plan.share(step, place, members)))
                yield batch
                if not training.end_step(plan):
                    break
