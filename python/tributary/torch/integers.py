"""Widens integers to int64 without overflow in the fabric's sums, which then wrap as gloo's sums do.

The fabric needs fewer bytes for small int64 (`docs/numbers.md`), so the wide form of small values costs little.
"""

from __future__ import annotations

import torch

INTEGERS = frozenset((torch.bool, torch.int8, torch.uint8, torch.int32, torch.int64))
"""Integer types that both the fabric and gloo sum."""
HALF = 32
"""Bits of the lower half of an int64."""


def wide_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the elements as int64 whose sums do not overflow with up to 2^31 ranks.

    For a tensor of int64 they are all lower halves, followed by all upper halves.
    """
    wide = tensor.detach().reshape(-1).to(torch.int64)
    if tensor.dtype != torch.int64:
        return wide
    # The lower half is signed, so that the upper half of a small number is 0.
    lower = (wide << HALF) >> HALF
    return torch.cat((lower, (wide - lower) >> HALF))


def store_sums(wide: torch.Tensor, output: torch.Tensor, first: int, divisor: int) -> None:
    """Writes sums to a tensor, whose type may drop their upper bits.

    Args:
        wide: the sums of the ranks' `wide_of`.
        output: a tensor of the ranks' type.
        first: the index of the sum for the first element of `output`.
        divisor: the number by which sums are divided. Remainders are dropped.
    """
    end = first + output.numel()
    sums = wide[first:end]
    if output.dtype == torch.int64:
        half = wide.numel() // 2
        sums = sums + (wide[half + first : half + end] << HALF)
    if divisor != 1:
        sums = sums.div(divisor, rounding_mode="trunc")
    output.copy_(sums.view(output.shape))
