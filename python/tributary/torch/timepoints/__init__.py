"""Gradients that leave at the right moment: `TimePoints(model)` in place of `DistributedDataParallel(model)`."""

from tributary.torch.timepoints.wrapper import TimePoints

__all__ = ["TimePoints"]
