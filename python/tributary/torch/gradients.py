"""Callbacks for gradients that become ready in a backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Gradients:
    """A model's trained parameters, with a callback for each gradient that becomes ready."""

    def __init__(self, module: torch.nn.Module, ready: Callable[[int], None]) -> None:
        self._module = module
        self._ready = ready
        self.parameters = trained(module)
        """The parameters with their names, in the model's order."""
        self._kinds = _kinds(self.parameters)
        self._hooks: list[Any] = []
        self._addresses: list[int] = []
        self.follow()

    def follow(self) -> None:
        """Renews the hooks, which PyTorch drops when a parameter's memory is replaced.

        `model.half().float()` does that, for example.

        Raises:
            RuntimeError: the model's parameters were replaced. The other ranks cannot know this.
        """
        parameters = trained(self._module)
        if _kinds(parameters) != self._kinds:
            raise RuntimeError(
                "the model's trained parameters are others than when training began, or of another type: begin the "
                "training again on all ranks"
            )
        addresses = [parameter.data_ptr() for _, parameter in parameters]
        if addresses == self._addresses:
            return
        self._addresses = addresses
        for hook in self._hooks:
            hook.remove()
        hooked: list[Any] = [parameter for _, parameter in parameters]
        self._hooks = [one.register_post_accumulate_grad_hook(self._hook(index)) for index, one in enumerate(hooked)]

    def _hook(self, index: int) -> Any:
        return lambda _: self._ready(index)


def trained(module: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """Returns the parameters that are trained, with their names, in the model's order."""
    return [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]


def _kinds(parameters: list[tuple[str, torch.nn.Parameter]]) -> list[tuple[int, torch.Size, torch.dtype]]:
    """Returns the properties that show if a parameter was replaced."""
    return [(id(parameter), parameter.shape, parameter.dtype) for _, parameter in parameters]
