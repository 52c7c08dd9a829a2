"""Memory ranges of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Place:
    """The memory range from a tensor's first element to its last."""

    device: torch.device
    begin: int
    end: int

    def overlaps(self, other: Place) -> bool:
        """Whether the two have bytes in common, as far as one can tell without looking at each element."""
        return self.device == other.device and self.begin < other.end and other.begin < self.end


def places_of(tensors: list[torch.Tensor]) -> list[Place]:
    """The ranges of these tensors, if their elements are contiguous or at equal distances."""
    return [_place_of(tensor) for tensor in tensors if tensor.layout == torch.strided and tensor.numel() > 0]


def _place_of(tensor: torch.Tensor) -> Place:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    begin = tensor.data_ptr()
    return Place(tensor.device, begin, begin + (last + 1) * tensor.element_size())


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors of a collective's arguments: those in lists, and in lists of lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for each in value for tensor in tensors_of(each)]
    return []


def bytes_of(tensors: list[torch.Tensor]) -> int:
    """Bytes of their elements; for sparse tensors, bytes of the elements present and their indices."""
    return sum(_bytes_of(tensor) for tensor in tensors)


def _bytes_of(tensor: torch.Tensor) -> int:
    if tensor.layout == torch.sparse_coo:
        # Not `values()`, which only a coalesced tensor has.
        return tensor._values().nbytes + tensor._indices().nbytes
    return tensor.nbytes if tensor.layout == torch.strided else 0
