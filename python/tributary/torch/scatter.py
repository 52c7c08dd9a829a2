"""Reduce-scatter over the fabric: all ranks' tensors are summed whole, and each rank keeps its part.

The fabric sends a sum to everyone at once, so that a part of it costs no less than the whole. gloo's own reduce-scatter
is an all-reduce, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch


@dataclass(frozen=True, slots=True)
class Scatter:
    """The tensor to sum, and the elements of the sum to keep."""

    whole: torch.Tensor
    """The inputs, concatenated; or the input itself if there is only one."""
    output: torch.Tensor
    first: int
    """The index in the sum of the output's first element."""

    @staticmethod
    def of(output: torch.Tensor, inputs: list[torch.Tensor], rank: int, size: int) -> Scatter:
        """For one rank of `size`; the inputs are one for each rank, or a single one.

        Raises:
            ValueError: their number of elements for each rank is not the output's.
        """
        counts = [tensor.numel() for tensor in inputs]
        if sum(counts) != size * output.numel() or (len(inputs) > 1 and set(counts) != {output.numel()}):
            raise ValueError(
                f"reduce-scatter of {counts} elements into {output.numel()}: each of the {size} ranks gets as many, "
                f"so that it takes {size * output.numel()} in all"
            )
        flat = [tensor.detach().reshape(-1) for tensor in inputs]
        return Scatter(flat[0] if len(flat) == 1 else torch.cat(flat), output.detach(), rank * output.numel())

    def take(self, summed: npt.NDArray[np.uint8]) -> None:
        """Takes this rank's part of the sum's bytes."""
        elements = torch.from_numpy(summed).view(self.whole.dtype)
        self.output.copy_(elements[self.first : self.first + self.output.numel()].view(self.output.shape))
