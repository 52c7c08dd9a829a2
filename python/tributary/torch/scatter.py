"""Reduce-scatter over the fabric: all ranks' tensors are summed whole, and each rank keeps its part.

The fabric sends a sum to everyone at once, so that a part of it costs no less than the whole. gloo's own reduce-scatter
is an all-reduce, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from tributary.errors import TributaryError
from tributary.values import meeting_error, tensor_elements_meet


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
            ValueError: the number of elements for this rank is not the output's.
            TributaryError: elements of the output share memory.
        """
        counts = [tensor.numel() for tensor in inputs] if len(inputs) > 1 else [output.numel()] * size
        if len(counts) != size or counts[rank] != output.numel() or sum(counts) != sum(map(torch.numel, inputs)):
            raise ValueError(
                f"reduce-scatter of {[tensor.numel() for tensor in inputs]} elements into {output.numel()} on rank "
                f"{rank} of {size}: give one tensor for each rank, of the size of its output; or one tensor of "
                f"{size} times the output's size"
            )
        if tensor_elements_meet(output):
            raise TributaryError(str(meeting_error("tensor", output.shape)))
        flat = [tensor.detach().reshape(-1) for tensor in inputs]
        return Scatter(flat[0] if len(flat) == 1 else torch.cat(flat), output.detach(), sum(counts[:rank]))

    def take(self, summed: npt.NDArray[np.uint8]) -> None:
        """Takes this rank's part of the sum's bytes."""
        elements = torch.from_numpy(summed).view(self.whole.dtype)
        # A tensor made in inference mode can be written to only there.
        with torch.inference_mode():
            self.output.copy_(elements[self.first : self.first + self.output.numel()].view(self.output.shape))
