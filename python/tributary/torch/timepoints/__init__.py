"""Gradients that leave at the right moment.

`TimePoints(model)` replaces `DistributedDataParallel(model)`; `ServerTimePoints(model, training)` trains with a
parameter server.
"""

from tributary.torch.timepoints.served import ServerTimePoints
from tributary.torch.timepoints.wrapper import TimePoints

__all__ = ["ServerTimePoints", "TimePoints"]
