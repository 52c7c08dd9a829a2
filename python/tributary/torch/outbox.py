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
        self, memory: SharesMemory | None, parameters: Parameters, indices: Sequence[int], extra: int = 0
    ) -> None:
        first = parameters[indices[0]][1]
        count = sum(parameters[index][1].numel() for index in indices)
        if memory is not None and first.device.type == "cpu":
            self.flat = memory.empty_tensor(count + extra, dtype=first.dtype)
        else:
            self.flat = torch.empty(count + extra, dtype=first.dtype, device=first.device)
        self.indices = tuple(indices)
        self.views: dict[int, torch.Tensor] = {}
        begin = 0
        for index in indices:
            parameter = parameters[index][1]
            end = begin + parameter.numel()
            self.views[index] = self.flat[begin:end].view(parameter.shape)
            begin = end
        self.extra = self.flat[count:]
        """The elements after the gradients."""


class OutgoingSet:
    """A set of gradients, which is filled in each backward pass and sent in bundles."""

    def __init__(self, parameters: Parameters, bundles: list[Bundle], late: int = 0) -> None:
        self.indices = tuple(index for bundle in bundles for index in bundle.indices)
        self.late = late
        self._parameters = parameters
        self._bundles = bundles
        self._views = {index: view for bundle in bundles for index, view in bundle.views.items()}
        self._missing = set(self._views)

    @property
    def is_full(self) -> bool:
        """True if the set has all of its gradients."""
        return not self._missing

    @torch.no_grad()
    def put(self, index: int) -> None:
        """Moves a gradient that is ready into the set's memory.

        Raises:
            RuntimeError: the set already has this gradient.
            TypeError: the gradient is sparse.
        """
        (name, parameter), view = self._parameters[index], self._views[index]
        if index not in self._missing:
            raise RuntimeError(
                f"parameter {name} got a gradient twice in one backward pass: make one backward pass for each "
                "forward pass outside of `no_sync`, without checkpoints that repeat a part of the forward pass"
            )
        if parameter.grad is not None and parameter.grad.layout != torch.strided:
            raise TypeError(f"parameter {name} has a sparse gradient: give its layer sparse=False")
        self._missing.remove(index)
        if parameter.grad is not None and parameter.grad.data_ptr() != view.data_ptr():
            view.copy_(parameter.grad)
        parameter.grad = view

    @torch.no_grad()
    def fill_up(self) -> None:
        """Fills missing gradients with zeros at the end of a pass, so that the set is always the same."""
        for index in list(self._missing):
            if self._parameters[index][1].grad is None:
                self._views[index].zero_()
            self.put(index)

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


def by_type(parameters: Parameters, indices: Sequence[int]) -> list[list[int]]:
    """Groups parameters that can be in one tensor. A group keeps the order of `indices`."""
    kinds: defaultdict[tuple[torch.dtype, torch.device], list[int]] = defaultdict(list)
    for index in indices:
        parameter = parameters[index][1]
        kinds[parameter.dtype, parameter.device].append(index)
    return list(kinds.values())


def in_a_row(parameters: Parameters, indices: Sequence[int]) -> list[list[int]]:
    """Groups parameters that can be in one tensor and are neighbours in the model."""
    rows: list[list[int]] = []
    for kind in by_type(parameters, sorted(indices)):
        for index in kind:
            if rows and rows[-1][-1] == index - 1 and index != kind[0]:
                rows[-1].append(index)
            else:
                rows.append([index])
    return rows
