"""What leaves together, on its way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch

from tributary.job import Job

MAX_SHARED = 128
"""Sets whose gradients are in memory that is shared with the agent: it keeps a file for each. Others are copied."""

Parameters = Sequence[tuple[str, torch.nn.Parameter]]
"""Those that are trained, with their names, in the model's order."""


class Bundle:
    """Gradients of one type that leave together: views of one flat tensor, which is averaged over all ranks."""

    def __init__(self, job: Job | None, parameters: Parameters, places: Sequence[int], extra: int) -> None:
        first = parameters[places[0]][1]
        count = sum(parameters[place][1].numel() for place in places)
        if job is not None and first.device.type == "cpu":
            self.flat = job.empty_tensor(count + extra, dtype=first.dtype)
        else:
            self.flat = torch.empty(count + extra, dtype=first.dtype, device=first.device)
        self.views: dict[int, torch.Tensor] = {}
        begin = 0
        for place in places:
            parameter = parameters[place][1]
            end = begin + parameter.numel()
            self.views[place] = self.flat[begin:end].view(parameter.shape)
            begin = end
        self.extra = self.flat[count:]
        """What is behind the gradients."""


class OutgoingSet:
    """A set of gradients in each pass: filled, sent, and waited for."""

    def __init__(
        self,
        job: Job | None,
        parameters: Parameters,
        places: Sequence[int],
        late: int = 0,
        has_flag: bool = False,
    ) -> None:
        self.places = tuple(places)
        self.late = late
        self._parameters = parameters
        by_type: defaultdict[tuple[torch.dtype, torch.device], list[int]] = defaultdict(list)
        for place in places:
            parameter = parameters[place][1]
            by_type[parameter.dtype, parameter.device].append(place)
        kinds = list(by_type.values())
        self._bundles = [Bundle(job, parameters, kind, extra=int(has_flag and kind is kinds[-1])) for kind in kinds]
        self._views = {place: view for bundle in self._bundles for place, view in bundle.views.items()}
        self._missing = set(self._views)

    @property
    def is_full(self) -> bool:
        """All of its gradients are there."""
        return not self._missing

    @torch.no_grad()
    def put(self, place: int) -> None:
        """A parameter's gradient is ready: from now on it is where the sum comes.

        Raises:
            RuntimeError: it was there already.
            TypeError: it is sparse.
        """
        (name, parameter), view = self._parameters[place], self._views[place]
        if place not in self._missing:
            raise RuntimeError(
                f"parameter {name} got a gradient twice in one backward pass: there is to be one pass for each "
                "forward call outside of `no_sync`, and no checkpoints that run a part of it again"
            )
        if parameter.grad is not None and parameter.grad.layout != torch.strided:
            raise TypeError(f"parameter {name} has a sparse gradient: give its layer sparse=False")
        self._missing.remove(place)
        if parameter.grad is not None and parameter.grad.data_ptr() != view.data_ptr():
            view.copy_(parameter.grad)
        parameter.grad = view

    @torch.no_grad()
    def fill_up(self) -> None:
        """The pass is over: whatever got no gradient in it contributes zeros, so that all ranks send the same."""
        for place in list(self._missing):
            if self._parameters[place][1].grad is None:
                self._views[place].zero_()
            self.put(place)

    @torch.no_grad()
    def raise_flag(self, flag: bool) -> None:
        """Tells all ranks something, or not, along with the last gradients.

        It is as large as the largest one of these: a larger one would cost the others' precision, since the fabric's
        numbers share their scale with their neighbours.
        """
        bundle = self._bundles[-1]
        gradients = bundle.flat[: -len(bundle.extra)]
        largest = gradients.abs().max() if flag else 0.0
        bundle.extra.fill_(largest or float(flag))

    @property
    def flag(self) -> bool:
        """Whether a rank has raised it, once the set has come back."""
        return bool(self._bundles[-1].extra.item() > 0)

    def leave(self) -> list[torch.Tensor]:
        """What is to be summed over all ranks, in place; it can be filled again once that is done."""
        self._missing = set(self._views)
        return [bundle.flat for bundle in self._bundles]
