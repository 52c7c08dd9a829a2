"""Sets of gradients that are sent together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch

from tributary.memory import SharesMemory

MAX_SHARED = 128
"""The largest number of bundles in memory shared with the agent, which keeps a file for each of them.

The gradients of further bundles are copied.
"""

Parameters = Sequence[tuple[str, torch.nn.Parameter]]
"""Trained parameters with their names, in the model's order."""


class Bundle:
    """Gradients of one type that are sent together, as views of one flat tensor."""

    def __init__(
        self, memory: SharesMemory | None, parameters: Parameters, places: Sequence[int], extra: int = 0
    ) -> None:
        first = parameters[places[0]][1]
        count = sum(parameters[place][1].numel() for place in places)
        if memory is not None and first.device.type == "cpu":
            self.flat = memory.empty_tensor(count + extra, dtype=first.dtype)
        else:
            self.flat = torch.empty(count + extra, dtype=first.dtype, device=first.device)
        self.places = tuple(places)
        self.views: dict[int, torch.Tensor] = {}
        begin = 0
        for place in places:
            parameter = parameters[place][1]
            end = begin + parameter.numel()
            self.views[place] = self.flat[begin:end].view(parameter.shape)
            begin = end
        self.extra = self.flat[count:]
        """The elements after the gradients."""


class OutgoingSet:
    """A set of gradients, which is filled in each backward pass and sent in bundles."""

    def __init__(self, parameters: Parameters, bundles: list[Bundle], late: int = 0) -> None:
        self.places = tuple(place for bundle in bundles for place in bundle.places)
        self.late = late
        self._parameters = parameters
        self._bundles = bundles
        self._views = {place: view for bundle in bundles for place, view in bundle.views.items()}
        self._missing = set(self._views)

    @property
    def is_full(self) -> bool:
        """True if the set has all of its gradients."""
        return not self._missing

    @torch.no_grad()
    def put(self, place: int) -> None:
        """Moves a gradient that is ready into the set's memory.

        Raises:
            RuntimeError: the set already has this gradient.
            TypeError: the gradient is sparse.
        """
        (name, parameter), view = self._parameters[place], self._views[place]
        if place not in self._missing:
            raise RuntimeError(
                f"parameter {name} got a gradient twice in one backward pass: make one backward pass for each "
                "forward pass outside of `no_sync`, without checkpoints that repeat a part of the forward pass"
            )
        if parameter.grad is not None and parameter.grad.layout != torch.strided:
            raise TypeError(f"parameter {name} has a sparse gradient: give its layer sparse=False")
        self._missing.remove(place)
        if parameter.grad is not None and parameter.grad.data_ptr() != view.data_ptr():
            view.copy_(parameter.grad)
        parameter.grad = view

    @torch.no_grad()
    def fill_up(self) -> None:
        """Fills missing gradients with zeros at the end of a pass, so that the set is always the same."""
        for place in list(self._missing):
            if self._parameters[place][1].grad is None:
                self._views[place].zero_()
            self.put(place)

    @torch.no_grad()
    def raise_flag(self, flag: bool) -> None:
        """Adds a flag, true or false, to the last gradients. All ranks receive the average of the flags.

        The value of a true flag is the largest of these gradients, because a value that differs much from its
        neighbours would need more bytes in the fabric.
        """
        bundle = self._bundles[-1]
        gradients = bundle.flat[: -len(bundle.extra)]
        largest = gradients.abs().max() if flag else 0.0
        bundle.extra.fill_(largest or float(flag))

    @property
    def flag(self) -> bool:
        """True if any rank has raised the flag. It is valid after the set's all-reduce."""
        return bool(self._bundles[-1].extra.item() > 0)

    def leave(self) -> list[Bundle]:
        """Returns the bundles to send. The set can be filled again after they were sent."""
        self.empty()
        return self._bundles

    def empty(self) -> None:
        """Empties the set for another pass."""
        self._missing = set(self._views)


def by_type(parameters: Parameters, places: Sequence[int]) -> list[list[int]]:
    """Groups parameters that can be in one tensor, in the order of `places`, their indices in the model."""
    kinds: defaultdict[tuple[torch.dtype, torch.device], list[int]] = defaultdict(list)
    for place in places:
        parameter = parameters[place][1]
        kinds[parameter.dtype, parameter.device].append(place)
    return list(kinds.values())


def in_a_row(parameters: Parameters, places: Sequence[int]) -> list[list[int]]:
    """Groups parameters that can be in one tensor and are neighbours in the model."""
    rows: list[list[int]] = []
    for kind in by_type(parameters, sorted(places)):
        for place in kind:
            if rows and rows[-1][-1] == place - 1 and place != kind[0]:
                rows[-1].append(place)
            else:
                rows.append([place])
    return rows
