"""A model whose gradients become ready in bursts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch


class Compute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, seconds: Callable[[], float]) -> torch.Tensor:
        ctx.seconds = seconds
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[torch.Tensor, None]:
        time.sleep(ctx.seconds())
        return gradients[0], None


class Model(torch.nn.Module):
    """Three layers with a delay before the gradients of each layer. The first layer's gradients come last."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(3))
        self.seldom = torch.nn.Parameter(torch.ones(16))
        self.seconds = 0.05
        self.fails = False

    def forward(self, values: torch.Tensor, *, seldom: bool = False) -> torch.Tensor:
        for layer in self.layers:
            values = torch.tanh(layer(Compute.apply(values, self.takes)))
        return values * self.seldom if seldom else values

    def takes(self) -> float:
        """Returns the delay of a layer in seconds, or makes the backward pass break off."""
        if self.fails:
            raise ArithmeticError("the test makes the pass break off")
        return self.seconds
