"""Batches for whoever is in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader, Dataset

from tributary.torch.elastic.plan import ElasticSampler, Plan

if TYPE_CHECKING:
    from tributary.torch.elastic.training import Elastic


class ElasticLoader:
    """This rank's batches of what is left of the epoch that is under way: each loop over it is of one epoch.

    Where ranks have come or gone it begins a new `DataLoader` loop at the step that is to be made, so that what workers
    have loaded in advance is thrown away then.
    """

    def __init__(self, training: Elastic, dataset: Dataset[Any], plan: Plan, options: dict[str, Any]) -> None:
        self._training = training
        self._sampler = ElasticSampler(plan)
        self._loader: DataLoader[Any] = DataLoader(dataset, batch_sampler=self._sampler, **options)

    def __len__(self) -> int:
        """Steps that are left of the epoch."""
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
