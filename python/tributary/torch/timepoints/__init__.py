"""Gradients that are sent at time points of the backward pass.

`TimePoints(model)` replaces `DistributedDataParallel(model)`; `ServerTimePoints(model, training)` trains with a
parameter server.
"""

from tributary.torch.timepoints.served import ServerTimePoints
from tributary.torch.timepoints.wrapper import TimePoints

__all__ = ["ServerTimePoints", "TimePoints"]
