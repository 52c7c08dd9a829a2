"""Memory ranges of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class MemoryRange:
    """The memory range from a tensor's first element to its last."""

    device: torch.device
    begin: int
    end: int

    def overlaps(self, other: MemoryRange) -> bool:
        """Returns true if the ranges overlap. The elements of strided tensors may still be disjoint."""
        return self.device == other.device and self.begin < other.end and other.begin < self.end


def memory_ranges_of(tensors: list[torch.Tensor]) -> list[MemoryRange]:
    """Returns the ranges of the strided tensors among these."""
    return [_memory_range_of(tensor) for tensor in tensors if tensor.layout == torch.strided and tensor.numel() > 0]


def _memory_range_of(tensor: torch.Tensor) -> MemoryRange:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    begin = tensor.data_ptr()
    return MemoryRange(tensor.device, begin, begin + (last + 1) * tensor.element_size())


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Returns the tensors in an argument of a collective, also from nested lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for each in value for tensor in tensors_of(each)]
    return []


def bytes_of(tensors: list[torch.Tensor]) -> int:
    """Returns the bytes of the tensors' elements. Sparse tensors count their stored elements and indices."""
    return sum(_bytes_of(tensor) for tensor in tensors)


def _bytes_of(tensor: torch.Tensor) -> int:
    if tensor.layout == torch.sparse_coo:
        # `values()` works only for a coalesced tensor.
        return tensor._values().nbytes + tensor._indices().nbytes
    return tensor.nbytes if tensor.layout == torch.strided else 0
