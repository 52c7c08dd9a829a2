"""The gradients of a model, as they become ready."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Gradients:
    """A model's trained parameters, whose gradients are told when they are ready."""

    def __init__(self, module: torch.nn.Module, ready: Callable[[int], None]) -> None:
        self._module = module
        self._ready = ready
        self.parameters = trained(module)
        """With their names, in the model's order."""
        self._kinds = _kinds(self.parameters)
        self._hooks: list[Any] = []
        self._places: list[int] = []
        self.follow()

    def follow(self) -> None:
        """Where a parameter's memory is another one (after `model.half().float()`), PyTorch has forgotten its hook.

        Raises:
            RuntimeError: the model has other parameters, of which the other ranks know nothing.
        """
        parameters = trained(self._module)
        if _kinds(parameters) != self._kinds:
            raise RuntimeError(
                "the model's trained parameters are others than when training began, or of another type: begin anew, "
                "on all ranks"
            )
        places = [parameter.data_ptr() for _, parameter in parameters]
        if places == self._places:
            return
        self._places = places
        for hook in self._hooks:
            hook.remove()
        hooked: list[Any] = [parameter for _, parameter in parameters]
        self._hooks = [one.register_post_accumulate_grad_hook(self._hook(place)) for place, one in enumerate(hooked)]

    def _hook(self, place: int) -> Any:
        return lambda _: self._ready(place)


def trained(module: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """The parameters that are trained, with their names, in the model's order."""
    return [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]


def _kinds(parameters: list[tuple[str, torch.nn.Parameter]]) -> list[tuple[int, torch.Size, torch.dtype]]:
    """What tells parameters from others in their places."""
    return [(id(parameter), parameter.shape, parameter.dtype) for _, parameter in parameters]
