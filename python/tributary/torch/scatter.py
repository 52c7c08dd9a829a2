"""Reduce-scatter over the fabric: the ranks sum whole tensors, and each host receives the parts of its ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from tributary.errors import TributaryError
from tributary.memory import Part
from tributary.torch.integers import INTEGERS, store_sums, wide_of
from tributary.values import keeper_of, overlap_error, tensor_elements_overlap


@dataclass(frozen=True, slots=True)
class Scatter:
    """The tensor to sum, and the elements of the sum to keep."""

    whole: torch.Tensor
    """The input, or the concatenated inputs; integers in their wide form, if requested."""
    output: torch.Tensor
    first: int
    """The index in the sum of the output's first element."""
    nbytes: int
    """Bytes of the inputs."""
    divisor: int
    """The divisor of the sums: 1, or the number of ranks for an average."""
    counts: list[int]
    """The number of elements of each rank's output."""
    _taken: torch.Tensor
    """The memory for this rank's part of the sum: the output, or a contiguous tensor of its shape."""

    @staticmethod
    def of(
        output: torch.Tensor,
        inputs: list[torch.Tensor],
        rank: int,
        size: int,
        *,
        is_average: bool = False,
        widens: bool = True,
    ) -> Scatter:
        """Prepares the reduce-scatter of one rank of `size`, with one input for each rank or a single input.

        Integers of a device are widened later, in host memory, so that their copies are small: `widens` is false.

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
        if tensor_elements_overlap(output):
            raise TributaryError(str(overlap_error("tensor", output.shape)))
        flat = [tensor.detach().reshape(-1) for tensor in inputs]
        whole = flat[0] if len(flat) == 1 else torch.cat(flat)
        nbytes = whole.nbytes
        if whole.dtype in INTEGERS and widens:
            whole = wide_of(whole)
        output = output.detach()
        is_plain = output.is_contiguous() and not output.is_neg()
        taken = output if is_plain else torch.empty_like(output, memory_format=torch.contiguous_format)
        return Scatter(whole, output, sum(counts[:rank]), nbytes, size if is_average else 1, counts, taken)

    def parts(self, job_ranks: list[int]) -> list[tuple[int, int]]:
        """Returns the parts of `whole`: each with its elements, and the rank in the job that receives their sums."""
        parts = list(zip(self.counts, job_ranks, strict=True))
        # Integers of 64 bits are two numbers: all lower halves, and then all upper halves.
        return parts * (self.whole.numel() // max(sum(self.counts), 1))

    @property
    def part(self) -> Part | None:
        """The part of the sum for the output; `None` if the whole sum replaces `whole`, which is a copy."""
        if self.output.dtype in INTEGERS:
            return None
        taken = self._taken
        skipped = self.first * taken.element_size()
        return Part(skipped, taken.data_ptr(), taken.nbytes, keeper_of(taken))

    @property
    def finish(self) -> Callable[[], None] | None:
        """The function that completes the output when the sum is stored; `None` if nothing is left to do."""
        if self.output.dtype in INTEGERS:
            return partial(store_sums, self.whole, self.output, self.first, self.divisor)
        if self._taken is self.output and self.divisor == 1:
            return None
        return self._finish

    def _finish(self) -> None:
        if self._taken is not self.output:
            self.output.copy_(self._taken)
        if self.divisor != 1:
            self.output.div_(self.divisor)
